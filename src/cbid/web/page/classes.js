// What was measured on held-out images: accuracy by code length beside raw vectors, and which classes are confused.

import * as api from "./api.js";
import { $, bytes, count, h, percent, tell } from "./dom.js";
import { state } from "./state.js";

const HALF = 0.5; // share of a row from which a cell is dark, with light figures; shades between would hide both
let done = false;

export async function open() {
  if (done) return;
  const { evaluation } = state.project;
  const measured = evaluation.codes?.filter((code) => code.weighted?.accuracy !== null) ?? [];
  $("classes-lead").textContent = measured.length
    ? `Measured on ${count(evaluation.n_queries)} images that were not learned from: the ${evaluation.k} nearest of ${count(evaluation.n_stored)} vote.`
    : "Nothing was measured: the project has no labels, or no image was held out.";
  if (!measured.length) return;
  try {
    const { classes, matrix } = await api.confusion();
    $("classes-body").replaceChildren(lengths(measured, evaluation.raw), confusion(classes, matrix));
    done = true;
    tell($("classes-error"));
  } catch (error) {
    tell($("classes-error"), "The confusion of classes cannot be shown.", error.message);
  }
}

function lengths(codes, raw) {
  const row = (name, kind, size, weighted, plain) =>
    h(
      "tr",
      { class: kind },
      h("th", { scope: "row" }, name),
      h("td", {}, bytes(size)),
      h("td", {}, percent(weighted)),
      h("td", {}, plain === null ? "–" : percent(plain)),
      h("td", { class: "bar-cell" }, h("i", { style: { "--share": weighted } })),
    );
  const head = ["Code", "An image takes", "Weighted", "Plain", "Accuracy"].map((text) => h("th", { scope: "col" }, text));
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, "Accuracy by length"),
    h("p", {}, "How often the class that wins the vote is right."),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Accuracy by length" },
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
    const shade = !right ? share : share > HALF ? 0.7 + 0.6 * (share - HALF) : 0.9 * share;
    const kind = right ? (share > HALF ? "strong" : undefined) : "wrong";
    const title = `${n} of ${total} ${classes[i]} taken for ${classes[j]}`;
    return h("td", { class: kind, title, style: { "--share": shade } }, n ? String(n) : "");
  };
  const rows = matrix.map((line, i) => {
    const total = line.reduce((sum, n) => sum + n, 0);
    return h("tr", {}, h("th", { scope: "row" }, classes[i]), ...line.map((n, j) => cell(n, i, j, total)));
  });
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, "Confusion"),
    h("p", {}, "Rows are true classes, columns what the codes took them for. Red is wrong."),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Confusion of classes" },
      h(
        "table",
        { class: "confusion" },
        h("thead", {}, h("tr", {}, h("td", { class: "corner" }), ...classes.map((name) => h("th", { scope: "col" }, h("span", {}, name))))),
        h("tbody", {}, ...rows),
      ),
    ),
  );
}
