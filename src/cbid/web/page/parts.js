// Elements of several views: a picture with its caption, a strip of bits.

import { picture } from "./api.js";
import { figure, h, roving } from "./dom.js";
import { state } from "./state.js";

/** The words for an image's class; in a project without classes the name of its file. */
const title = (image) => image.label ?? (state.project.classes.length ? "no label" : image.name.split("/").at(-1));
const described = (image) => (image.label === null && !state.project.classes.length ? image.name : `${title(image)}, ${image.name}`);

/** The picture of a stored image, or its name if there is no picture. */
export function frame(image) {
  const text = () => h("span", { class: "text" }, image.name);
  if (!state.project.has_pictures) return text();
  const shown = h("img", { src: picture(image.id), alt: "", loading: "lazy", decoding: "async" });
  shown.addEventListener("error", () => shown.replaceWith(text()));
  return shown;
}

/** A stored image as a button.
 * options: rank, distance, similarity (0 to 1), agreeing (bits, as text), other (not in the class of the query),
 * note (a line below the label), acts (small buttons on the picture: sign, text, onclick, pressed). */
export function card(image, onclick, options = {}) {
  const description = [
    options.rank ? `${options.rank}.` : "",
    described(image),
    options.distance === undefined ? "" : (options.agreeing ?? `distance ${figure(options.distance)}`),
    options.other ? "not in the class of the query" : "",
  ];
  return h(
    "li",
    {},
    h(
      "button",
      {
        type: "button",
        class: options.other ? "card other" : "card",
        "aria-label": description.filter(Boolean).join(", "),
        title: image.name,
        "data-id": image.id,
        onclick,
      },
      h("span", { class: "frame" }, frame(image)),
      options.rank ? h("span", { class: "rank" }, String(options.rank)) : null,
      h(
        "span",
        { class: "caption" },
        h("span", { class: "name" }, title(image)),
        options.distance === undefined ? null : h("span", { class: "distance" }, options.agreeing ?? `distance ${figure(options.distance)}`),
        options.note ? h("span", { class: "distance" }, options.note) : null,
        options.similarity === undefined ? null : h("span", { class: "meter" }, h("i", { style: { "--share": options.similarity } })),
      ),
    ),
    options.acts ? h("span", { class: "acts" }, ...options.acts.map((act) => actButton(act, image))) : null,
  );
}

function actButton(act, image) {
  const name = `${act.text}: ${described(image)}`;
  const pressed = act.pressed === undefined ? undefined : String(act.pressed);
  return h("button", { type: "button", class: "act", "aria-label": name, "aria-pressed": pressed, title: act.text, onclick: act.onclick }, act.sign);
}

/** A label that can be removed. */
export function chip(content, text, onclick) {
  return h("li", { class: "chip" }, content, h("button", { type: "button", "aria-label": `Remove ${text}`, title: `Remove ${text}`, onclick }, "✕"));
}

/** Show one bar per weight. options: kind(s) its CSS class, text(s) its description, pressed, onclick(s), onfocus(s). */
export function strip(container, weights, options) {
  const most = Math.max(...weights, 1e-12);
  container.classList.toggle("many", weights.length > 256);
  container.replaceChildren(
    ...weights.map((weight, s) =>
      h("button", {
        type: "button",
        class: options.kind?.(s),
        tabindex: s === (options.pressed ?? 0) ? 0 : -1,
        "aria-label": options.text(s),
        "aria-pressed": options.pressed === undefined ? undefined : String(s === options.pressed),
        title: options.text(s),
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
