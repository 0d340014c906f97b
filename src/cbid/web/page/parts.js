// What several views show: a picture with its caption, a strip of bits.

import { picture } from "./api.js";
import { figure, h, roving } from "./dom.js";
import { state } from "./state.js";

const UNLABELLED = "no label";

/** The picture of a stored image, or its name where there is none. */
export function frame(image) {
  const words = () => h("span", { class: "text" }, image.name);
  if (!state.project.has_pictures) return words();
  const shown = h("img", { src: picture(image.id), alt: "", loading: "lazy", decoding: "async" });
  shown.addEventListener("error", () => shown.replaceWith(words()));
  return shown;
}

/** A stored image as a button. options: rank, distance, share of the furthest distance, other (not the query's class). */
export function card(image, onclick, options = {}) {
  const label = image.label ?? UNLABELLED;
  const said = [
    options.rank ? `${options.rank}.` : "",
    `${label}, ${image.name}`,
    options.distance === undefined ? "" : `distance ${figure(options.distance)}`,
    options.other ? "not of the query’s class" : "",
  ];
  return h(
    "li",
    {},
    h(
      "button",
      {
        type: "button",
        class: options.other ? "card other" : "card",
        "aria-label": said.filter(Boolean).join(", "),
        title: image.name,
        "data-id": image.id,
        onclick,
      },
      h("span", { class: "frame" }, frame(image)),
      options.rank ? h("span", { class: "rank" }, String(options.rank)) : null,
      h(
        "span",
        { class: "caption" },
        h("span", { class: "name" }, label),
        options.distance === undefined ? null : h("span", { class: "distance" }, figure(options.distance)),
        options.share === undefined ? null : h("span", { class: "meter" }, h("i", { style: { "--share": options.share } })),
      ),
    ),
  );
}

/** One bar for each weight. options: kind(s) a class, said(s) its words, pressed, onclick(s), onfocus(s). */
export function strip(container, weights, options) {
  const most = Math.max(...weights, 1e-12);
  container.classList.toggle("many", weights.length > 256);
  container.replaceChildren(
    ...weights.map((weight, s) =>
      h("button", {
        type: "button",
        class: options.kind?.(s),
        tabindex: s === (options.pressed ?? 0) ? 0 : -1,
        "aria-label": options.said(s),
        "aria-pressed": options.pressed === undefined ? undefined : String(s === options.pressed),
        title: options.said(s),
        style: { "--share": weight / most },
        onclick: () => options.onclick(s),
        onfocus: () => options.onfocus?.(s),
        onmouseenter: () => options.onfocus?.(s),
      }),
    ),
  );
  if (!container.dataset.roving) {
    container.dataset.roving = "yes";
    roving(container);
  }
}

export const skeletons = (n) => Array.from({ length: n }, () => h("li", { class: "skeleton", "aria-hidden": "true" }));
