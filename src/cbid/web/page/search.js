// The search view: the query, the distance, the number of bits, and the most similar images.

import * as api from "./api.js";
import { $, bytes, count, duration, h, percent, plural, showError } from "./dom.js";
import { explain } from "./explain.js";
import { card, frame, skeletons } from "./parts.js";
import { state, unfit } from "./state.js";

const K = 10;
const SAMPLES = 18;
const WAYS = ["weighted", "plain", "raw"];
const AS_PREDICTED = " predicted";

let query = null; // {ask: {id} or {vector}, name, label, source: image or file}
let predicted = null;
let latest = null; // the result on the page
let running = null; // AbortController of the latest request
const emptyPicture = [...$("query-picture").children];

const how = () => document.querySelector("input[name=how]:checked").value;
const length = () => state.project.lengths[Number($("bits-slider").value)];
const options = (way) => (way === "raw" ? { k: K, how: way } : { k: K, how: way, n_bits: length() });

export function start() {
  const { lengths, classes, has_pictures: pictures, descriptor } = state.project;
  const slider = $("bits-slider");
  slider.max = lengths.length - 1;
  slider.value = lengths.length - 1;
  slider.disabled = lengths.length < 2;
  $("ticks").replaceChildren(...lengths.map((n) => h("span", {}, String(n))));
  showLength();
  slider.addEventListener("input", () => {
    showLength();
    if (query) again();
  });
  for (const radio of document.querySelectorAll("input[name=how]")) radio.addEventListener("change", changeWay);
  $("own-label").replaceChildren(
    h("option", { value: AS_PREDICTED }, "as predicted"),
    ...classes.map((name) => h("option", { value: name }, name)),
  );
  $("own-label").addEventListener("change", () => latest && show(latest));
  $("own-label-field").hidden = !classes.length;
  $("pick").addEventListener("change", (event) => {
    if (event.target.files[0]) byFile(event.target.files[0]);
    event.target.value = "";
  });
  $("drop").hidden = !descriptor || !pictures;
  state.changed.add(() => (query ? again() : showSamples()));
  showSamples();
}

/** A raw search compares whole vectors, so it has no code length. */
function changeWay() {
  $("bits-slider").disabled = state.project.lengths.length < 2 || how() === "raw";
  if (query) again();
}

/** Show sample images, evenly taken from the project. */
async function showSamples() {
  const total = state.project.total;
  if (!total) {
    $("drop-hint").textContent = "after you have added images to the project";
    $("samples").hidden = true;
    return;
  }
  $("samples").hidden = Boolean(query);
  $("sample-list").replaceChildren(...skeletons(SAMPLES));
  try {
    const some = await api.images({ count: SAMPLES, every: Math.max(1, Math.ceil(total / SAMPLES)) });
    $("sample-list").replaceChildren(...some.images.map((image) => card(image, () => (location.hash = `#search/${image.id}`))));
  } catch (error) {
    $("sample-list").replaceChildren();
    showError($("search-error"), "The images cannot be loaded.", error.message);
  }
}

/** Return to #search: keep an uploaded image, which has no address, but not a stored one. */
export function keepFile() {
  if (query && !(query.source instanceof Blob)) byNothing();
}

/** Show the empty state. */
export function byNothing() {
  running?.abort();
  query = latest = predicted = null;
  document.querySelector("[data-view=search]").href = "#search";
  $("query-picture").replaceChildren(...emptyPicture);
  $("search").dataset.state = "empty";
  for (const id of ["asked", "ways", "length", "found"]) $(id).hidden = true;
  showError($("search-error"));
  $("samples").hidden = !state.project.total;
}

/** Search with a stored image. */
export async function byId(id) {
  if (query?.ask?.id === id) return;
  try {
    const image = await api.image(id);
    begin({ ask: { id }, name: image.name, label: image.label, source: image });
    await again();
  } catch (error) {
    showError($("search-error"), `The search with image ${id} failed.`, error.message);
  }
}

/** Search with a dropped, pasted or picked file. */
export async function byFile(file) {
  if (location.hash !== "#search") history.pushState(null, "", "#search");
  window.dispatchEvent(new CustomEvent("view", { detail: "search" }));
  const name = file.name || "pasted image";
  const reason = unfit(file);
  if (reason) {
    if (!query) byNothing();
    showError($("search-error"), `The search with ${name} failed.`, reason);
    return;
  }
  const before = query;
  const waiting = { ask: null, name, label: null, source: file };
  begin(waiting);
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  try {
    const answer = await api.searchImage(file, options(how()), signal);
    waiting.ask = { vector: answer.vector };
    await guess(signal);
    show(answer);
    await costs(signal, answer);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (before?.ask) {
      begin(before);
      await again();
    } else byNothing();
    showError($("search-error"), `The search with ${name} failed.`, error.message);
  }
}

/** Show a new query while its search runs. */
function begin(next) {
  query = next;
  predicted = null;
  showError($("search-error"));
  $("search").dataset.state = "asked";
  document.querySelector("[data-view=search]").href = next.source instanceof Blob ? "#search" : `#search/${next.source.id}`;
  $("samples").hidden = true;
  for (const id of ["asked", "ways", "length", "found"]) $(id).hidden = false;
  const file = query.source instanceof Blob;
  const url = file ? URL.createObjectURL(query.source) : api.picture(query.source.id);
  const picture = h("img", { src: url, alt: `The query: ${query.name}` });
  picture.addEventListener("error", () => picture.replaceWith(h("span", { class: "text muted" }, "no preview")));
  if (file) picture.addEventListener("load", () => URL.revokeObjectURL(url));
  $("query-picture").replaceChildren(file || state.project.has_pictures ? picture : frame(query.source));
  $("query-name").textContent = query.name;
  $("guess").textContent = "";
  $("own-label").value = query.label ?? AS_PREDICTED;
  for (const way of WAYS) $(`cost-${way}`).textContent = "";
  $("results").replaceChildren(...skeletons(K));
  $("legend").hidden = true;
  $("search-status").textContent = "Searching…";
}

/** Search again with the same query. */
async function again() {
  if (!query?.ask) return;
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  $("results").classList.add("stale");
  try {
    const answer = await api.search(query.ask, options(how()), signal);
    if (!predicted) await guess(signal);
    show(answer);
    showError($("search-error"));
    await costs(signal, answer);
  } catch (error) {
    if (error.name === "AbortError") return;
    $("results").classList.remove("stale");
    $("search-status").textContent = "";
    showError($("search-error"), "The search failed.", error.message);
  }
}

/** Show the predicted class of the query. */
async function guess(signal) {
  if (!state.project.classes.length) return;
  const voted = await api.classify(query.ask, { k: 5 }, signal);
  predicted = voted.label;
  const votes = voted.votes.reduce((sum, vote) => sum + vote.votes, 0);
  const line = h("strong", {}, voted.label);
  $("guess").replaceChildren("Looks like ", line, ` (${voted.votes[0].votes} of ${votes} votes)`);
  $("own-label").options[0].textContent = `as predicted: ${voted.label}`;
}

/** Show time and bytes of each distance. This also searches with the two that are not selected. */
async function costs(signal, answer) {
  for (const way of WAYS) {
    const result = way === answer.how ? answer : await api.search(query.ask, options(way), signal);
    $(`cost-${way}`).replaceChildren(bytes(result.bytes_per_image), h("br"), duration(result.seconds));
  }
}

function show(answer) {
  latest = answer;
  const chosen = $("own-label").value;
  const wanted = chosen === AS_PREDICTED ? predicted : chosen;
  let others = 0;
  const shown = answer.matches.map((match, i) => {
    const other = wanted !== null && match.label !== null && match.label !== wanted;
    others += other;
    const open = (event) => explain(query, match, { length: length(), how: answer.how }, event.currentTarget);
    const agreeing = match.agree === null ? undefined : `${match.agree} of ${plural(answer.n_bits, "bit")} agree`;
    return card(match, open, { rank: i + 1, distance: match.distance, similarity: match.similarity, agreeing, other });
  });
  $("results").classList.remove("stale");
  $("results").replaceChildren(...shown);
  $("results").dataset.how = answer.how;
  $("legend").hidden = !others;
  const with_what = answer.how === "raw" ? "raw vectors" : `${answer.n_bits} bits`;
  $("search-status").textContent = answer.matches.length
    ? `${answer.matches.length} of ${count(answer.searched)} images, by ${with_what}, in ${duration(answer.seconds)}`
    : "No results: the project holds no other images.";
}

function showLength() {
  const n = length();
  $("bits-value").textContent = `${plural(n, "bit")}, ${plural(Math.ceil(n / 8), "byte")}`;
  $("bits-slider").setAttribute("aria-valuetext", `${n} bits`);
  const { codes = [], raw } = state.project.evaluation;
  const entry = codes.find((code) => code.n_bits === n);
  const accuracy = entry?.weighted?.accuracy;
  $("measured").replaceChildren();
  if (accuracy === null || accuracy === undefined) return;
  $("measured").append(h("strong", {}, percent(accuracy)), ` accuracy on held-out images (raw vectors: ${percent(raw.accuracy)})`);
}
