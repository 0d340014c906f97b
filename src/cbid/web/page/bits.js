// The view of one bit: images where it is 0 and where it is 1, furthest from its threshold first.

import * as api from "./api.js";
import { $, figure, h, showError } from "./dom.js";
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
    showError($("bits-error"), `Bit ${s} does not exist.`, `The codes have bits 0 to ${state.project.n_bits - 1}.`);
    return;
  }
  showError($("bits-error"));
  $("bit-number").value = s;
  $("bit-before").disabled = s === 0;
  $("bit-after").disabled = s === state.project.n_bits - 1;
  if (shown < 0) $("bit-groups").replaceChildren(group("0", skeletons(COUNT)), group("1", skeletons(COUNT)));
  shown = s;
  try {
    weights ??= (await api.weights()).weights;
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
    const equal = weights.every((weight) => Math.abs(weight - examples.weight) <= 1e-9 * examples.weight);
    const rank = equal ? "all bits have the same weight" : heavier ? `${heavier} of ${weights.length} bits have a larger weight` : "the largest of all bits";
    $("bit-status").textContent = `Bit ${s} has weight ${figure(examples.weight)}: ${rank}.`;
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
