// All images by class and part, the images behind a cell of the confusion matrix, and near-duplicates.

import * as api from "./api.js";
import { $, count, h, later, plural, showError } from "./dom.js";
import { clear, gallery, select, selectable } from "./gallery.js";
import { state } from "./state.js";

const UNLABELLED = " unlabelled"; // no class begins with a space here: labels are values of options
let grid = null;
let shown = null; // what is listed: {kind: "browse", label} or {kind: "mistakes", label, predicted}
let twins = []; // groups of near-duplicates on the page

export function start() {
  grid = gallery($("browse-list"), $("browse-more"), {
    load: (first, n) => (shown.kind === "mistakes" ? api.predictions({ ...cell(), first, count: n }) : api.images({ ...part(), first, count: n })),
    note: (image) => (shown.kind === "mistakes" && image.predicted !== image.label ? `predicted: ${image.predicted ?? "nothing"}` : undefined),
    onload: (total) => ($("browse-status").textContent = total ? plural(total, "image") : "No images."),
    onerror: (error) => {
      $("browse-status").textContent = "";
      showError($("browse-error"), "The images cannot be loaded.", error.message);
    },
  });
  $("browse-class").addEventListener("change", (event) => {
    const name = event.target.value;
    location.hash = name ? `#browse/${encodeURIComponent(name)}` : "#browse";
  });
  $("browse-part").addEventListener("change", () => open(shown.kind, shown.path));
  const find = later(findTwins, 250);
  $("twins-slider").addEventListener("input", () => {
    showSlider();
    find();
  });
  $("twins-select").addEventListener("click", () => {
    clear();
    select(twins.flatMap((group) => group.images.slice(1)));
  });
  state.changed.add(() => shown && !$("view-browse").hidden && open(shown.kind, shown.path));
}

/** A part of the address as it was written; one that is not encoded well stands for itself. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const cell = () => (shown.label ? { label: shown.label, predicted: shown.predicted } : { wrong: true });
const part = () => ({
  label: shown.label === UNLABELLED ? undefined : shown.label,
  unlabelled: shown.label === UNLABELLED ? true : undefined,
  part: $("browse-part").value,
});

/** Open a list. kind: browse, mistakes or duplicates; path: the rest of the address. */
export async function open(kind, path = "") {
  const [label, predicted] = path.split("/").map(decoded);
  shown = { kind, path, label: label || "", predicted };
  showError($("browse-error"));
  $("browse-tools").hidden = kind !== "browse";
  $("twins-tools").hidden = kind !== "duplicates";
  $("browse-groups").replaceChildren();
  twins = [];
  $("browse-lead").replaceChildren();
  if (kind === "duplicates") {
    $("browse-title").textContent = "Near-duplicates";
    $("browse-lead").textContent = "Images with nearly the same code and nearly the same vector. Removing an image from the project does not delete its file.";
    $("browse-list").replaceChildren();
    $("browse-more").hidden = true;
    showSlider();
    return findTwins();
  }
  if (kind === "mistakes") {
    const right = shown.label === shown.predicted;
    $("browse-title").textContent = !shown.label ? "Mistakes" : right ? `${shown.label}, classified correctly` : `${shown.label}, classified as ${shown.predicted}`;
    $("browse-lead").append("Held-out images. If a label is wrong, select the image and set its class. ", h("a", { href: "#classes" }, "Back to the matrix"));
  } else {
    $("browse-title").textContent = shown.label === UNLABELLED ? "Images without a label" : shown.label || "All images";
    $("browse-lead").textContent = "Open one to search with it, or select several.";
    await showClasses();
  }
  return grid.open();
}

async function showClasses() {
  try {
    const all = await api.classes();
    const option = ({ label: name, images }) => h("option", { value: name ?? UNLABELLED }, `${name ?? "no label"} (${count(images)})`);
    $("browse-class").replaceChildren(h("option", { value: "" }, `all (${count(state.project.total)})`), ...all.map(option));
    $("browse-class").value = shown.label;
    $("browse-class").parentElement.hidden = !state.project.classes.length;
  } catch (error) {
    showError($("browse-error"), "The classes cannot be loaded.", error.message);
  }
}

const showSlider = () => ($("twins-value").textContent = `${$("twins-slider").value}%`);

async function findTwins() {
  $("browse-status").textContent = "Comparing all images…";
  $("browse-groups").classList.add("stale");
  const asked = $("twins-slider").value;
  try {
    const found = await api.duplicates({ similarity: Number(asked) / 100, count: 100 });
    if (asked !== $("twins-slider").value || shown.kind !== "duplicates") return;
    twins = found.groups;
    const more = found.total > twins.length ? `, the ${twins.length} most alike are shown` : "";
    $("browse-status").textContent = found.total ? `${plural(found.total, "group")}${more}` : "No near-duplicates.";
    $("twins-select").disabled = !found.total;
    $("browse-groups").classList.remove("stale");
    showError($("browse-error"));
    $("browse-groups").replaceChildren(
      ...twins.map((group, i) =>
        h(
          "section",
          { class: "panel twins", "aria-label": `Group ${i + 1}` },
          h("h2", {}, `${plural(group.images.length, "image")}, ${(100 * group.similarity).toFixed(1)}% alike`),
          h("ul", { class: "cards small" }, ...group.images.map((image) => selectable(image, image.name.split("/").at(-1)))),
        ),
      ),
    );
  } catch (error) {
    if (asked !== $("twins-slider").value || shown.kind !== "duplicates") return;
    $("browse-status").textContent = twins.length ? "These are the groups of the previous comparison." : "";
    showError($("browse-error"), "The near-duplicates cannot be found.", error.message);
  }
}
