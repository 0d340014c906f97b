// A grid of stored images that grows while it is scrolled, and the bar for the images selected in it.

import * as api from "./api.js";
import { $, plural, showError, whenNear } from "./dom.js";
import { card, skeletons } from "./parts.js";
import { hasQuery, searchUnlike } from "./search.js";
import { changed, state } from "./state.js";

const COUNT = 60;
const MOST = 100; // examples of one query
const selected = new Map(); // images by id

/** A grid. list, more: its elements; load(first, count) returns {total, images}; note(image) a line below the label. */
export function gallery(list, more, { load, note, onload, onerror }) {
  let shown = 0;
  let total = 0;
  let turn = 0; // of the query; answers to an older one are dropped
  let busy = false;
  const next = async () => {
    if (busy || more.hidden) return;
    busy = true;
    const own = turn;
    try {
      const part = await load(shown, COUNT);
      if (own !== turn) return;
      if (!shown) list.replaceChildren();
      list.append(...part.images.map((image) => selectable(image, note?.(image))));
      shown += part.images.length;
      total = part.total;
      more.hidden = shown >= total || !part.images.length;
      onload(total);
    } catch (error) {
      if (own !== turn) return;
      more.hidden = true;
      if (!shown) list.replaceChildren();
      onerror(error);
    } finally {
      if (own === turn) busy = false;
    }
  };
  whenNear(more, next);
  return {
    open() {
      turn += 1;
      shown = 0;
      busy = false;
      list.replaceChildren(...skeletons(10));
      more.hidden = false;
      return next();
    },
  };
}

/** The card of an image that can be selected; a click on the picture searches with it. */
export function selectable(image, note) {
  const element = card(image, () => (location.hash = `#search/${image.id}`), {
    note,
    acts: [{ sign: "✓", text: "Select", pressed: selected.has(image.id), onclick: () => toggle(image) }],
  });
  element.dataset.selectable = image.id;
  element.classList.toggle("selected", selected.has(image.id));
  return element;
}

function toggle(image) {
  if (selected.has(image.id)) selected.delete(image.id);
  else selected.set(image.id, image);
  show();
}

export function select(images) {
  for (const image of images) selected.set(image.id, image);
  show();
}

export function clear() {
  selected.clear();
  show();
}

function show() {
  for (const element of document.querySelectorAll("[data-selectable]")) {
    const on = selected.has(Number(element.dataset.selectable));
    element.classList.toggle("selected", on);
    element.querySelector(".act").setAttribute("aria-pressed", String(on));
  }
  $("selection").hidden = !selected.size;
  $("selection-text").textContent = `${plural(selected.size, "image")} selected${selected.size > MOST ? `; a search takes the first ${MOST}` : ""}`;
  $("selection-unlike").hidden = !hasQuery();
  $("selection-relabel").hidden = !state.project.relabels;
  $("selection-remove").hidden = !state.project.relabels;
  $("selection-remove").textContent = "Remove";
  delete $("selection-remove").dataset.sure;
  showError($("selection-error"));
}

export function start() {
  $("selection-clear").addEventListener("click", clear);
  $("selection-search").addEventListener("click", () => {
    const ids = [...selected.keys()].slice(0, MOST);
    clear();
    location.hash = `#search/${ids.join("+")}`;
  });
  $("selection-unlike").addEventListener("click", () => {
    const images = [...selected.values()].slice(0, MOST);
    clear();
    searchUnlike(images);
  });
  $("selection-relabel").addEventListener("submit", async (event) => {
    event.preventDefault();
    await change(async () => {
      const ids = [...selected.keys()];
      for (let i = 0; i < ids.length; i += 1000) await api.relabel(ids.slice(i, i + 1000), $("selection-label").value.trim() || null);
      return [];
    });
    $("selection-label").value = "";
  });
  $("selection-remove").addEventListener("click", async (event) => {
    const button = event.currentTarget;
    if (!button.dataset.sure) {
      button.dataset.sure = "yes";
      button.textContent = `Confirm: remove ${selected.size}`;
      return;
    }
    await change(async () => {
      const gone = [...selected.keys()];
      for (const id of gone) {
        await api.remove(id);
        selected.delete(id);
      }
      return gone;
    });
  });
}

/** Do the work, which returns the ids that are gone, and show the new state. */
async function change(work) {
  try {
    const gone = await work();
    clear();
    await changed(gone);
  } catch (error) {
    show();
    showError($("selection-error"), "The images cannot be changed.", error.message);
  }
}
