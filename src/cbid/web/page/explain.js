// The dialog that explains a match: bit by bit in words, and where in the pictures.

import * as api from "./api.js";
import { words } from "./bits.js";
import { $, figure, h, plural, showError } from "./dom.js";
import { frame, strip } from "./parts.js";
import { changed, state } from "./state.js";

const GRIDS = [4, 8]; // parts along each side of a picture: a first look, then the result

let asked = null; // the query
let match = null;
let settings = null; // of the search
let opener = null;
let add = null; // makes an image a part of the query
let looked = -1; // the bit whose words are shown or on their way

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
  for (const [id, kind] of [["why-like", "also"], ["why-unlike", "unlike"]]) {
    $(id).addEventListener("click", () => {
      dialog.close();
      add(match, kind);
    });
  }
  $("why-where").addEventListener("click", where);
  $("why-relabel").addEventListener("submit", relabel);
  $("why-remove").addEventListener("click", remove);
}

/** Explain a match. options: those of the search; from: the element that gets the focus back; addExample(image, kind). */
export async function explain(query, found, options, from, addExample) {
  [asked, match, settings, opener, add, looked] = [query, found, options, from, addExample, -1];
  showError($("why-error"));
  $("why-title").textContent = "Why this image is similar";
  const own = document.querySelector("#query-picture img, #query-picture .text").cloneNode(true);
  own.setAttribute("alt", "");
  if (query.source instanceof Blob) {
    const url = URL.createObjectURL(query.source);
    own.src = url;
    own.addEventListener("load", () => URL.revokeObjectURL(url));
  }
  $("why-query").replaceChildren(h("div", { class: "picture" }, own), h("figcaption", {}, "Query", h("span", {}, query.name)));
  $("why-match").replaceChildren(h("div", { class: "picture" }, frame(found)), h("figcaption", {}, found.label ?? "no label", h("span", {}, found.name)));
  $("why-where").hidden = !state.project.descriptor || !state.project.has_pictures;
  $("why-where").disabled = false;
  $("why-where-text").textContent = "";
  $("why-file").hidden = !found.has_file;
  $("why-file").href = api.original(found.id);
  $("why-label").value = found.labels.length === 1 ? found.label : "";
  $("why-label").placeholder = found.labels.length > 1 ? found.label : "class";
  $("why-change").hidden = !state.project.relabels;
  $("why-sum").textContent = "Comparing bits…";
  $("why-bits").replaceChildren();
  $("why-bit-text").textContent = "";
  $("why-bit").hidden = true;
  const remover = $("why-remove");
  remover.textContent = "Remove from project";
  delete remover.dataset.sure;
  $("why").showModal();
  try {
    show(await api.explain(query.ask, { id: found.id }, { n_bits: options.n_bits, likeness: options.likeness }), options);
  } catch (error) {
    $("why-sum").textContent = "";
    showError($("why-error"), "The bits cannot be compared.", error.message);
  }
}

function show(compared, options) {
  const all = compared.weights.reduce((sum, weight) => sum + weight, 0);
  $("why-sum").replaceChildren(
    h("strong", {}, `${compared.agree.length - compared.differing} of ${plural(compared.agree.length, "bit")} agree. `),
    compared.differing ? `Those that differ have ${figure((100 * compared.distance) / all)}% of the weight. ` : "",
    options.how === "raw" ? "The results are ranked by raw vectors." : "Choose a bit to read what it separates.",
  );
  const equal = Math.max(...compared.weights) - Math.min(...compared.weights) < 1e-9 * all;
  $("why-heights").hidden = equal;
  const text = (s) => `Bit ${s}: ${compared.agree[s] ? `both have ${Number(compared.bits[s])}` : "they differ"}${equal ? "" : `, weight ${figure(compared.weights[s])}`}`;
  const see = async (s) => {
    if (looked === s) return;
    looked = s;
    $("why-bit-text").textContent = text(s);
    $("why-bit").hidden = false;
    $("why-bit").href = `#bits/${s}`;
    $("why-bit").textContent = `See bit ${s}`;
    try {
      const { classes } = await api.bit(s, 1);
      if (looked === s && classes.length) $("why-bit-text").textContent = `${text(s)}. ${words(classes)}`;
    } catch {
      // the words are a help; without them the bit itself is still shown
    }
  };
  strip($("why-bits"), compared.weights, {
    kind: (s) => (compared.agree[s] ? "agree" : "differ"),
    text,
    onclick: see,
    onfocus: see,
  });
}

/** Show which parts of both pictures decide the bits that they share: these stay bright. Large parts first. */
async function where() {
  const [own, other] = [asked, match];
  const options = { n_bits: settings.n_bits, likeness: settings.likeness };
  $("why-where").disabled = true;
  try {
    for (const grid of GRIDS) {
      const parts = `${grid * grid} parts of each picture, one after the other…`;
      $("why-where-text").textContent = grid === GRIDS[0] ? `Hiding ${parts}` : `A first look. More precisely: hiding ${parts}`;
      const sized = { ...options, grid };
      const first = own.source instanceof Blob ? api.occlusionImage(own.source, other.id, sized) : api.occlusion(own.source.id, { id: other.id }, sized);
      const maps = await Promise.all([first, api.occlusion(other.id, own.ask, sized)]);
      if (match !== other || !$("why").open) return;
      shade($("why-query"), maps[0]);
      shade($("why-match"), maps[1]);
      const most = maps.map((map) => Math.max(...map.flipped.flat()));
      const words = maps.map((map, i) => `${most[i]} of ${plural(map.n_bits, "shared bit")}`);
      if (grid === GRIDS.at(-1)) $("why-where-text").textContent = `Bright parts decide. Hiding one changes up to ${words[0]} in the query and ${words[1]} in the match.`;
    }
  } catch (error) {
    $("why-where").disabled = false;
    $("why-where-text").textContent = "";
    showError($("why-error"), "The parts cannot be shown.", error.message);
  }
}

/** Darken a picture where hiding it changes little. */
function shade(box, map) {
  const picture = box.querySelector("img");
  if (!picture) return;
  const grid = map.heat.length;
  const most = Math.max(...map.heat.flat(), 1e-12);
  const small = h("canvas", { width: grid, height: grid });
  const pixels = new ImageData(grid, grid);
  map.heat.flat().forEach((heat, i) => pixels.data.set([10, 12, 16, 215 * (1 - heat / most)], 4 * i));
  small.getContext("2d").putImageData(pixels, 0, 0);
  const scale = Math.min(picture.clientWidth / picture.naturalWidth, picture.clientHeight / picture.naturalHeight);
  const [width, height] = [Math.round(picture.naturalWidth * scale), Math.round(picture.naturalHeight * scale)];
  const canvas = h("canvas", { class: "heat", width, height, role: "img", "aria-label": "The parts that decide are bright" });
  canvas.getContext("2d").drawImage(small, 0, 0, width, height);
  box.querySelector("canvas")?.remove();
  box.querySelector(".picture").append(canvas);
}

async function relabel(event) {
  event.preventDefault();
  try {
    await api.relabel([match.id], $("why-label").value.trim() || null);
    $("why").close();
    await changed();
  } catch (error) {
    showError($("why-error"), "The class cannot be set.", error.message);
  }
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
    await api.remove(match.id);
    $("why").close();
    await changed([match.id]);
  } catch (error) {
    showError($("why-error"), "The image cannot be removed.", error.message);
  }
}
