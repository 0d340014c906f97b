// The dialog that explains a match: bit by bit, with the weight of each bit.

import * as api from "./api.js";
import { $, figure, h, plural, showError } from "./dom.js";
import { frame, strip } from "./parts.js";
import { changed, state } from "./state.js";

let match = null;
let opener = null;

export function start() {
  const dialog = $("why");
  $("why-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => document.contains(opener) && opener.focus());
  $("why-search").addEventListener("click", () => {
    dialog.close();
    location.hash = `#search/${match.id}`;
  });
  $("why-bit").addEventListener("click", () => dialog.close());
  $("why-remove").addEventListener("click", remove);
}

/** Explain a match. options: length and how of the search; from: the element that gets the focus back. */
export async function explain(query, found, options, from) {
  match = found;
  opener = from;
  showError($("why-error"));
  $("why-title").textContent = `Why ${found.label ?? "it"} is similar`;
  const own = document.querySelector("#query-picture img, #query-picture .text").cloneNode(true);
  own.setAttribute("alt", "");
  if (query.source instanceof Blob) {
    const url = URL.createObjectURL(query.source);
    own.src = url;
    own.addEventListener("load", () => URL.revokeObjectURL(url));
  }
  $("why-query").replaceChildren(own, h("figcaption", {}, "Query", h("span", {}, query.name)));
  $("why-match").replaceChildren(frame(found), h("figcaption", {}, found.label ?? "no label", h("span", {}, found.name)));
  $("why-sum").textContent = "Comparing bits…";
  $("why-bits").replaceChildren();
  $("why-bit-text").textContent = "";
  $("why-bit").hidden = true;
  const remover = $("why-remove");
  remover.hidden = !state.project.writable;
  remover.textContent = "Remove from project";
  delete remover.dataset.sure;
  $("why").showModal();
  try {
    show(await api.explain(query.ask, { id: found.id }, { n_bits: options.length }), options);
  } catch (error) {
    $("why-sum").textContent = "";
    showError($("why-error"), "The bits cannot be compared.", error.message);
  }
}

function show(compared, options) {
  const all = compared.weights.reduce((sum, weight) => sum + weight, 0);
  $("why-sum").replaceChildren(
    h("strong", {}, `${compared.agree.length - compared.differing} of ${plural(compared.agree.length, "bit")} agree. `),
    `The bits that differ have ${figure(compared.distance)} of a total weight of ${figure(all)}`,
    options.how === "weighted" ? ": this is the distance." : `. The results now show the ${options.how === "raw" ? "distance of raw vectors" : "number of bits that differ"}.`,
  );
  const text = (s) => `Bit ${s}: ${compared.agree[s] ? "agrees" : "differs"}, weight ${figure(compared.weights[s])}`;
  const see = (s) => {
    $("why-bit-text").textContent = text(s);
    $("why-bit").hidden = false;
    $("why-bit").href = `#bits/${s}`;
    $("why-bit").textContent = `See bit ${s}`;
  };
  strip($("why-bits"), compared.weights, {
    kind: (s) => (compared.agree[s] ? "agree" : "differ"),
    text,
    onclick: see,
    onfocus: see,
  });
}

/** The first click asks for confirmation, the second removes the image. */
async function remove() {
  const button = $("why-remove");
  if (!button.dataset.sure) {
    button.dataset.sure = "yes";
    button.textContent = "Confirm removal";
    return;
  }
  try {
    const done = await api.remove(match.id);
    $("why").close();
    changed(done.total);
  } catch (error) {
    showError($("why-error"), "The image cannot be removed.", error.message);
  }
}
