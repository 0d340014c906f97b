// The dialog that tells why an image is near: bit by bit, and what each bit weighs.

import * as api from "./api.js";
import { $, figure, h, plural, tell } from "./dom.js";
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

/** query: what was asked with; found: a match; options: length, how. */
export async function explain(query, found, options, from) {
  match = found;
  opener = from;
  tell($("why-error"));
  $("why-title").textContent = `Why ${found.label ?? "it"} is near`;
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
  $("why-told").textContent = "";
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
    tell($("why-error"), "The bits cannot be compared.", error.message);
  }
}

function show(told, options) {
  const all = told.weights.reduce((sum, weight) => sum + weight, 0);
  $("why-sum").replaceChildren(
    h("strong", {}, `${told.agree.length - told.differing} of ${plural(told.agree.length, "bit")} agree. `),
    `Those that differ weigh ${figure(told.distance)} of ${figure(all)} together`,
    options.how === "weighted" ? ": that is the distance." : `; shown now: ${options.how === "raw" ? "raw distance" : "each counts 1"}.`,
  );
  const said = (s) => `Bit ${s}: ${told.agree[s] ? "agrees" : "differs"}, weight ${figure(told.weights[s])}`;
  const see = (s) => {
    $("why-told").textContent = said(s);
    $("why-bit").hidden = false;
    $("why-bit").href = `#bits/${s}`;
    $("why-bit").textContent = `See bit ${s}`;
  };
  strip($("why-bits"), told.weights, {
    kind: (s) => (told.agree[s] ? "agree" : "differ"),
    said,
    onclick: see,
    onfocus: see,
  });
}

/** The first press asks, the second removes. */
async function remove() {
  const button = $("why-remove");
  if (!button.dataset.sure) {
    button.dataset.sure = "yes";
    button.textContent = "Really remove it?";
    return;
  }
  try {
    const done = await api.remove(match.id);
    $("why").close();
    changed(done.total);
  } catch (error) {
    tell($("why-error"), "It cannot be removed.", error.message);
  }
}
