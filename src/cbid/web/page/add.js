// The view that adds images, in several requests if there are many.

import * as api from "./api.js";
import { $, h, plural, showError } from "./dom.js";
import { frame } from "./parts.js";
import { changed, state, unfit } from "./state.js";

const MAX_BATCH = 8;

export function start() {
  const { writable, descriptor } = state.project;
  $("adding").hidden = !writable;
  if (!writable) {
    $("add-lead").textContent = descriptor
      ? "This service is read-only: images cannot be added here."
      : "This project holds vectors without a descriptor: images cannot be added.";
  }
  const showClasses = () => $("known-classes").replaceChildren(...state.project.classes.map((name) => h("option", { value: name })));
  showClasses();
  state.changed.add(showClasses);
  $("add-pick").addEventListener("change", (event) => {
    add([...event.target.files]);
    event.target.value = "";
  });
}

export async function add(files) {
  if (!files.length) return;
  if (!state.project.writable) {
    showError($("add-error"), "Images cannot be added here.");
    return;
  }
  showError($("add-error"));
  const label = $("add-label").value.trim();
  const fit = files.filter((file) => !unfit(file));
  $("added").prepend(...files.filter(unfit).map((file) => failure(file, unfit(file))));
  let good = 0;
  for (const batch of batches(fit)) {
    $("add-status").textContent = `Adding ${batch.length} of ${plural(fit.length, "image")}…`;
    good += await send(batch, label);
  }
  const failed = files.length - good;
  $("add-status").textContent =
    `${plural(good, "image")} added` + (failed ? `, ${failed} failed.` : `; the project now holds ${plural(state.project.total, "image")}.`);
}

/** Split the files into batches within the limits of the service on number and size. */
function* batches(files) {
  let batch = [];
  let size = 0;
  for (const file of files) {
    const most = Math.min(MAX_BATCH, state.project.max_files);
    if (batch.length && (batch.length >= most || size + file.size > 0.9 * state.project.max_upload)) {
      yield batch;
      batch = [];
      size = 0;
    }
    batch.push(file);
    size += file.size;
  }
  if (batch.length) yield batch;
}

/** Add a batch and return the number of added images. If it is too large, or one file is not an image, send its halves. */
async function send(batch, label) {
  try {
    const done = await api.add(batch, label);
    $("added").prepend(...done.images.map(row));
    await changed();
    return done.images.length;
  } catch (error) {
    if (batch.length > 1 && [413, 415].includes(error.status)) {
      const half = batch.length >> 1;
      return (await send(batch.slice(0, half), label)) + (await send(batch.slice(half), label));
    }
    $("added").prepend(...batch.map((file) => failure(file, withoutName(error.message, file))));
    return 0;
  }
}

/** The message without the name of the file, which is shown above it. */
function withoutName(message, file) {
  const text = message.startsWith(`${file.name}: `) ? message.slice(file.name.length + 2) : message;
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function row(image) {
  return h(
    "li",
    {},
    frame(image),
    h("p", { class: "caption-text" }, image.name, h("span", {}, `${image.label ?? "no label"}, image ${image.id}`)),
    h("a", { class: "button", href: `#search/${image.id}`, "aria-label": `Find images similar to ${image.name}` }, "Find similar"),
  );
}

function failure(file, message) {
  return h(
    "li",
    { class: "failed" },
    h("span", { class: "blank" }),
    h("p", { class: "caption-text" }, file.name || "pasted image", h("span", {}, message)),
  );
}
