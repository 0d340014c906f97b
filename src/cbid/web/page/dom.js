// Helpers: elements, formatted numbers, error messages.

export const $ = (id) => document.getElementById(id);

/** Create an element: h("a", {class: "x", href: "#", onclick: f, style: {"--share": .5}}, "text", other). */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const count = (n) => n.toLocaleString("en");
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** Format with three significant digits. */
export const figure = (x) => (Number.isInteger(x) ? count(x) : x.toLocaleString("en", { maximumSignificantDigits: 3 }));

export const percent = (x) => `${(100 * x).toFixed(1)}%`;

/** The 95% interval of a share p of n (Wilson). */
export function interval(p, n) {
  const z = 1.96;
  const middle = (p + (z * z) / (2 * n)) / (1 + (z * z) / n);
  const half = (z / (1 + (z * z) / n)) * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n));
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}

/** A measured share with its interval: "74.1% (71–77)". */
export function measured(p, n) {
  const [low, high] = interval(p, n).map((share) => Math.round(100 * share));
  return `${percent(p)} (${low}–${high})`;
}

/** Call f when this has not been called for some milliseconds. */
export function later(f, milliseconds) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(f, milliseconds);
  };
}

/** Call f when the element comes near the screen, and when its button is pressed. */
export function whenNear(element, f) {
  new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && f(), { rootMargin: "600px" }).observe(element);
  element.querySelector("button").addEventListener("click", f);
}

export function duration(seconds) {
  const ms = 1000 * seconds;
  return ms < 0.095 ? `${Math.max(1, Math.round(1000 * ms))} µs` : `${ms.toLocaleString("en", { maximumSignificantDigits: 2 })} ms`;
}

export const bytes = (n) => (n < 10000 ? plural(n, "byte") : `${figure(n / 1024)} KiB`);

/** Show an error that can be dismissed in an element with role alert. Without a title, hide it. */
export function showError(box, title = "", text = "") {
  box.hidden = !title;
  box.replaceChildren();
  if (!title) return;
  box.append(
    h("div", {}, h("strong", {}, title), text),
    h("button", { type: "button", "aria-label": "Dismiss", onclick: () => showError(box) }, "✕"),
  );
}

/** Move the focus in a row of buttons with the arrow keys. Only one of them is a tab stop. */
export function roving(container) {
  const buttons = () => [...container.querySelectorAll("button")];
  container.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const all = buttons();
    const at = all.indexOf(document.activeElement);
    if (at < 0) return;
    let to = null;
    if (step) to = at + step;
    if (event.key === "Home") to = 0;
    if (event.key === "End") to = all.length - 1;
    if (to === null || !all[to]) return;
    event.preventDefault();
    all[to].focus();
  });
  container.addEventListener("focusin", (event) => {
    for (const button of buttons()) button.tabIndex = button === event.target ? 0 : -1;
  });
}
