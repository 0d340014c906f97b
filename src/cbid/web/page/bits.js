// The view of one bit: the images on its two sides, most certain first.

import * as api from "./api.js";
import { $, figure, h, tell } from "./dom.js";
import { card, skeletons, strip } from "./parts.js";
import { state } from "./state.js";

const COUNT = 15;
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
  state.changed.add(() => (shown = -1));
}

export async function open(s) {
  if (s === shown) return;
  if (s >= state.project.n_bits) {
    tell($("bits-error"), `There is no bit ${s}.`, `The codes have bits 0 to ${state.project.n_bits - 1}.`);
    return;
  }
  tell($("bits-error"));
  $("bit-number").value = s;
  $("bit-before").disabled = s === 0;
  $("bit-after").disabled = s === state.project.n_bits - 1;
  if (shown < 0) $("sides").replaceChildren(side("0", skeletons(COUNT)), side("1", skeletons(COUNT)));
  shown = s;
  try {
    weights ??= (await api.weights()).weights;
    const had = document.activeElement?.parentElement === $("bit-weights");
    strip($("bit-weights"), weights, {
      said: (i) => `Bit ${i}, weight ${figure(weights[i])}`,
      pressed: s,
      onclick: (i) => (location.hash = `#bits/${i}`),
    });
    if (had) $("bit-weights").children[s].focus();
    const told = await api.bit(s, COUNT);
    if (s !== shown) return; // another was asked for meanwhile
    const heavier = weights.filter((weight) => weight > told.weight).length;
    const equal = weights.every((weight) => Math.abs(weight - told.weight) <= 1e-9 * told.weight);
    const beside = equal ? "all bits weigh the same" : heavier ? `${heavier} of ${weights.length} weigh more` : "none weighs more";
    $("bit-status").textContent = `Bit ${s} weighs ${figure(told.weight)}; ${beside}.`;
    const cards = (images) => images.map((image) => card(image, () => (location.hash = `#search/${image.id}`)));
    $("sides").replaceChildren(
      side("0", cards(told.negative), summary(told.negative)),
      side("1", cards(told.positive), summary(told.positive)),
    );
  } catch (error) {
    shown = -1;
    $("sides").replaceChildren();
    tell($("bits-error"), "The bit cannot be shown.", error.message);
  }
}

function side(digit, cards, words = "") {
  return h(
    "section",
    { class: "side", "aria-label": `Images where the bit is ${digit}` },
    h("h2", {}, h("span", { class: "digit" }, digit), digit === "1" ? "The bit is set" : "The bit is not set"),
    h("p", { class: "share" }, cards.length ? words : "No image lies on this side."),
    h("ul", { class: "cards small" }, ...cards),
  );
}

/** The classes that are shown most. */
function summary(images) {
  const counts = new Map();
  for (const { label } of images) if (label !== null) counts.set(label, (counts.get(label) ?? 0) + 1);
  const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 3);
  return most.map(([label, n]) => `${n} × ${label}`).join(" · ");
}
