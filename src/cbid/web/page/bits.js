// The view of one bit: images where it is 0 and where it is 1, furthest from its threshold first.

import * as api from "./api.js";
import { $, figure, h, showError } from "./dom.js";
import { card, skeletons, strip } from "./parts.js";
import { state } from "./state.js";

const COUNT = 15;
const CLEAR = 0.8; // share of a class from which a bit is clear about it
const MOST_NAMES = 6; // classes named in a sentence
let weights = null;
let shown = -1;

export function start() {
  const last = state.project.n_bits - 1;
  const number = $("bit-number");
  number.max = last;
  const go = (s) => (location.hash = `#bits/${Math.min(last, Math.max(0, s))}`);
  number.addEventListener("change", () => go(Math.round(Number(number.value) || 0)));
  $("bit-before").addEventListener("click", () => go(shown - 1));
  $("bit-after").addEventListener("click", () => go(shown + 1));
  state.changed.add(() => {
    if (!$("view-bits").hidden && shown >= 0) {
      const s = shown;
      shown = -1;
      open(s);
    } else shown = -1;
  });
}

export async function open(s) {
  if (s === shown) return;
  if (s >= state.project.n_bits) {
    shown = -1;
    $("bit-groups").classList.add("stale");
    showError($("bits-error"), `Bit ${s} does not exist.`, `The codes have bits 0 to ${state.project.n_bits - 1}.`);
    return;
  }
  showError($("bits-error"));
  $("bit-groups").classList.remove("stale");
  $("bit-number").value = s;
  $("bit-before").disabled = s === 0;
  $("bit-after").disabled = s === state.project.n_bits - 1;
  if (shown < 0) $("bit-groups").replaceChildren(group("0", skeletons(COUNT)), group("1", skeletons(COUNT)));
  shown = s;
  try {
    weights ??= (await api.weights()).weights;
    const even = Math.max(...weights) - Math.min(...weights) <= 1e-9 * Math.max(...weights);
    $("bits-lead").textContent = `Each bit splits the images in two groups. The images furthest from its threshold come first.${even ? "" : " The bars show the weights of the bits."}`;
    $("bit-weights").hidden = even; // bars of one height say nothing
    const hadFocus = document.activeElement?.parentElement === $("bit-weights");
    strip($("bit-weights"), weights, {
      text: (i) => `Bit ${i}, weight ${figure(weights[i])}`,
      pressed: s,
      onclick: (i) => (location.hash = `#bits/${i}`),
    });
    if (hadFocus) $("bit-weights").children[s].focus();
    const examples = await api.bit(s, COUNT);
    if (s !== shown) return; // another bit was opened meanwhile
    const heavier = weights.filter((weight) => weight > examples.weight).length;
    const equal = weights.filter((weight) => weight === examples.weight).length;
    const largest = equal > 1 ? `the largest, shared by ${equal} bits` : "the largest of all bits";
    const rank = even ? "all bits have the same weight" : heavier ? `${heavier} of ${weights.length} bits have a larger weight` : largest;
    $("bit-status").textContent = `Bit ${s} has weight ${figure(examples.weight)}: ${rank}.`;
    $("bit-words").textContent = words(examples.classes);
    $("bit-shares-part").hidden = !examples.classes.length;
    $("bit-shares").replaceChildren(...examples.classes.map(share));
    const cards = (images) => images.map((image) => card(image, () => (location.hash = `#search/${image.id}`)));
    $("bit-groups").replaceChildren(
      group("0", cards(examples.negative), summary(examples.negative)),
      group("1", cards(examples.positive), summary(examples.positive)),
    );
  } catch (error) {
    shown = -1;
    $("bit-groups").replaceChildren();
    showError($("bits-error"), "The bit cannot be shown.", error.message);
  }
}

/** What a bit separates, in words: the classes whose images nearly all have 1, nearly all 0, and the others. */
export function words(classes) {
  const names = (list) => {
    const shown = list.slice(0, MOST_NAMES).map(({ label }) => label);
    const more = list.length - shown.length;
    return shown.join(", ") + (more > 0 ? ` and ${more} more` : "");
  };
  const of = (entry) => entry.ones / Math.max(1, entry.images);
  const parts = [
    ["1 for", classes.filter((entry) => of(entry) >= CLEAR).sort((a, b) => of(b) - of(a))],
    ["0 for", classes.filter((entry) => of(entry) <= 1 - CLEAR).sort((a, b) => of(a) - of(b))],
    ["mixed for", classes.filter((entry) => of(entry) > 1 - CLEAR && of(entry) < CLEAR)],
  ];
  const text = parts.filter(([, list]) => list.length).map(([value, list]) => `${value} ${names(list)}`);
  return text.length ? `It is ${text.join("; ")}.` : "";
}

/** One class and the share of its images whose bit is 1. */
function share({ label, images, ones }) {
  return h(
    "li",
    { title: `${label}: ${ones} of ${images}` },
    h("span", { class: "name" }, label),
    h("span", { class: "meter" }, h("i", { style: { "--share": ones / Math.max(1, images) } })),
    h("span", { class: "value" }, `${Math.round((100 * ones) / Math.max(1, images))}%`),
  );
}

function group(digit, cards, text = "") {
  return h(
    "section",
    { class: "group", "aria-label": `Images where the bit is ${digit}` },
    h("h2", {}, h("span", { class: "digit" }, digit), digit === "1" ? "The bit is 1" : "The bit is 0"),
    h("p", { class: "share" }, cards.length ? text : "No images"),
    h("ul", { class: "cards small" }, ...cards),
  );
}

/** The three most frequent classes of these images. */
function summary(images) {
  const counts = new Map();
  for (const { label } of images) if (label !== null) counts.set(label, (counts.get(label) ?? 0) + 1);
  const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 3);
  return most.map(([label, n]) => `${n} × ${label}`).join(" · ");
}
