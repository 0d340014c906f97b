// Accuracy on held-out images, by code length and for raw vectors, and the confusion matrix with its images.

import * as api from "./api.js";
import { $, bytes, count, h, measured, plural, showError } from "./dom.js";
import * as refit from "./refit.js";
import { state } from "./state.js";

const HALF = 0.5; // above this share of a row a cell is dark with light text; medium shades would be hard to read
let done = false;

export function start() {
  state.changed.add(() => {
    done = false;
    if (!$("view-classes").hidden) open();
  });
}

export async function open() {
  refit.open();
  if (done) return;
  const { evaluation } = state.project;
  const known = evaluation.codes?.filter((code) => code.weighted?.accuracy !== null) ?? [];
  $("classes-lead").textContent = known.length
    ? `Measured on ${count(evaluation.n_queries)} held-out images, by a vote of the ${evaluation.k} nearest of ${count(evaluation.n_stored)} images.`
    : "No results: the project has no labels or no held-out images.";
  if (!known.length) return;
  try {
    const { classes, matrix } = await api.confusion();
    $("classes-body").replaceChildren(lengths(known, evaluation.raw, evaluation.n_queries), confusion(classes, matrix));
    done = true;
    showError($("classes-error"));
  } catch (error) {
    showError($("classes-error"), "The confusion matrix cannot be shown.", error.message);
  }
}

function lengths(codes, raw, n) {
  const twofold = codes.some((code) => code.plain.accuracy !== code.weighted.accuracy); // else one column says it all
  const row = (name, kind, size, weighted, plain) =>
    h(
      "tr",
      { class: kind },
      h("th", { scope: "row" }, name),
      h("td", { class: "size" }, bytes(size)),
      h("td", {}, measured(weighted, n)),
      twofold ? h("td", {}, plain === null ? "–" : measured(plain, n)) : null,
      h("td", { class: "bar-cell" }, h("i", { style: { "--share": weighted } })),
    );
  const names = ["Code", "Size per image", ...(twofold ? ["Weighted", "Plain"] : ["Accuracy"]), ""];
  const head = names.map((text, i) => (text ? h("th", { scope: "col", class: i === 1 ? "size" : undefined }, text) : h("td", { class: "bar-cell" })));
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, "Accuracy by code length"),
    h("p", {}, "Share of held-out images whose predicted class is right, with its 95% interval."),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Accuracy by code length" },
      h(
        "table",
        { class: "lengths" },
        h("thead", {}, h("tr", {}, ...head)),
        h(
          "tbody",
          {},
          ...codes.map((code) => row(`${code.n_bits} bits`, "code", code.bytes, code.weighted.accuracy, code.plain.accuracy)),
          row("raw vector", "raw", raw.bytes, raw.accuracy, null),
        ),
      ),
    ),
  );
}

function confusion(classes, matrix) {
  const cell = (n, i, j, total) => {
    const share = total ? n / total : 0;
    const right = i === j;
    const shade = !right ? n && 0.3 + 0.7 * share : share > HALF ? 0.7 + 0.6 * (share - HALF) : 0.9 * share;
    const kind = right ? (share > HALF ? "strong" : undefined) : "wrong";
    const title = `${n} of ${total} ${classes[i]} classified as ${classes[j]}`;
    const address = `#mistakes/${encodeURIComponent(classes[i])}/${encodeURIComponent(classes[j])}`;
    const content = n ? h("a", { href: address, title, "aria-label": title }, String(n)) : "";
    return h("td", { class: kind, style: { "--share": shade } }, content);
  };
  const rows = matrix.map((line, i) => {
    const total = line.reduce((sum, n) => sum + n, 0);
    return h("tr", {}, h("th", { scope: "row" }, classes[i]), ...line.map((n, j) => cell(n, i, j, total)));
  });
  const wrong = matrix.reduce((sum, line, i) => sum + line.reduce((all, n, j) => all + (i === j ? 0 : n), 0), 0);
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, "Confusion matrix"),
    h("p", {}, "Rows are true classes, columns are predicted classes. Mistakes are red. Open a number to see its images and to correct labels."),
    wrong
      ? h("p", { class: "buttons" }, h("a", { class: "button", href: "#mistakes" }, `See ${plural(wrong, "mistake")}`), h("a", { class: "button", href: "api/mistakes.csv", download: "mistakes.csv" }, "Mistakes as CSV"))
      : h("p", {}, "No mistakes."),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Confusion matrix" },
      h(
        "table",
        { class: "confusion" },
        h("thead", {}, h("tr", {}, h("td", { class: "corner" }), ...classes.map((name) => h("th", { scope: "col" }, h("span", {}, name))))),
        h("tbody", {}, ...rows),
      ),
    ),
  );
}
