// The search view: the query, what is compared, and the most similar images.

import * as api from "./api.js";
import { $, bytes, count, duration, h, later, measured, percent, plural, showError, whenNear } from "./dom.js";
import { explain } from "./explain.js";
import { card, chip, frame, skeletons } from "./parts.js";
import { state, unfit } from "./state.js";

const FIRST = 20; // results at first
const MORE = 40; // and when the end comes near
const MOST = 10000; // results that can be scrolled to
const SAMPLES = 18;
const NOT_KNOWN = "";
const SEVERAL = " several"; // no class begins with a space here: labels are values of options

let query = null; // {ask: {id} or {vector}, name, labels, source: image or file}
let also = []; // more examples, as the query
let unlike = []; // counter-examples, as the query
let labels = []; // classes to search in; empty: all
let latest = null; // the result on the page
let asking = false; // whether more results are on their way
let running = null; // AbortController of the latest request
const emptyPicture = [...$("query-picture").children];
const phone = matchMedia("(max-width: 760px)");

const how = () => document.querySelector("input[name=how]:checked").value;
const length = () => state.project.lengths[Number($("bits-slider").value)];
const likeness = () => (state.project.likeness === null || how() !== "weighted" ? undefined : Number($("dial-slider").value) / 100);
const options = () => ({ how: how(), n_bits: how() === "raw" ? undefined : length(), likeness: likeness() });
const soon = later(() => query && again(), 60);

export function start() {
  const { lengths, has_pictures: pictures, descriptor, likeness: learned, weighted } = state.project;
  const slider = $("bits-slider");
  slider.max = lengths.length - 1;
  slider.value = lengths.length - 1;
  slider.hidden = $("ticks").hidden = lengths.length < 2;
  $("ticks").replaceChildren(...lengths.map((n) => h("span", {}, String(n))));
  slider.addEventListener("input", () => {
    showOptions();
    soon();
  });
  const dial = learned !== null;
  $("dial").hidden = !dial;
  const twofold = !dial && weighted; // else plain bits would be the same as weighted ones
  $("way-plain").hidden = !twofold;
  if (!twofold) $("name-weighted").textContent = "Codes";
  if (dial) $("dial-slider").value = Math.round(100 * learned);
  $("dial-slider").addEventListener("input", () => {
    showOptions();
    soon();
  });
  for (const radio of document.querySelectorAll("input[name=how]")) {
    radio.addEventListener("change", () => {
      showOptions();
      if (query) again();
    });
  }
  $("own-label").addEventListener("change", () => latest && show());
  $("filter-class").addEventListener("change", (event) => {
    labels = [...new Set([...labels, event.target.value])];
    showFilter();
    if (query) again();
  });
  $("pick").addEventListener("change", (event) => {
    if (event.target.files.length) byFiles([...event.target.files]);
    event.target.value = "";
  });
  whenNear($("more"), more);
  const fold = () => ($("controls").open = !phone.matches);
  phone.addEventListener("change", fold);
  fold();
  $("drop").hidden = !descriptor || !pictures;
  showOptions();
  showClasses();
  state.changed.add((gone) => {
    showClasses();
    const left = (list) => list.filter((example) => !gone.includes(example.ask.id));
    [also, unlike] = [left(also), left(unlike)];
    if (query && gone.includes(query.ask?.id)) byNothing();
    if (query) showExamples();
    if (query) again();
    else showSamples();
  });
  showSamples();
}

/** Show sample images, evenly taken from the held-out ones. */
async function showSamples() {
  if (!state.project.total) {
    $("drop-hint").textContent = "after you have added images to the project";
    $("samples").hidden = true;
    return;
  }
  $("samples").hidden = Boolean(query);
  $("sample-list").replaceChildren(...skeletons(SAMPLES));
  try {
    let part = "held-out";
    let { total } = await api.images({ count: 0, part });
    if (!total) {
      part = undefined;
      total = state.project.total;
    }
    $("samples-title").textContent = part ? "Or start with one of these held-out images" : "Or start with one of these";
    const some = await api.images({ count: SAMPLES, every: Math.max(1, Math.floor(total / SAMPLES)), part });
    $("sample-list").replaceChildren(...some.images.map((image) => card(image, () => (location.hash = `#search/${image.id}`))));
  } catch (error) {
    $("sample-list").replaceChildren();
    showError($("search-error"), "The images cannot be loaded.", error.message);
  }
}

/** Offer the classes for the query; one with several labels has an entry of its own. */
function showOwnLabel(chosen) {
  const { classes } = state.project;
  const several = query?.labels.length > 1 ? [h("option", { value: SEVERAL }, query.labels.join(", "))] : [];
  $("own-label").replaceChildren(h("option", { value: NOT_KNOWN }, "not known"), ...several, ...classes.map((name) => h("option", { value: name }, name)));
  $("own-label").value = classes.includes(chosen) || (several.length && chosen === SEVERAL) ? chosen : NOT_KNOWN;
}

/** The labels of the query, none if they are not known. */
function ownLabels() {
  const chosen = $("own-label").value;
  if (chosen === SEVERAL) return query.labels;
  return chosen === NOT_KNOWN ? [] : [chosen];
}

function showClasses() {
  const { classes } = state.project;
  showOwnLabel($("own-label").value);
  $("own-label-field").hidden = !classes.length;
  $("filter").hidden = !classes.length;
  labels = labels.filter((name) => classes.includes(name));
  showFilter();
}

function showFilter() {
  const left = state.project.classes.filter((name) => !labels.includes(name));
  const first = labels.length ? "add a class" : "all classes";
  $("filter-class").replaceChildren(h("option", { value: "", disabled: true, selected: true }, first), ...left.map((name) => h("option", { value: name }, name)));
  $("filter-chips").replaceChildren(
    ...labels.map((name) =>
      chip(name, name, () => {
        labels = labels.filter((other) => other !== name);
        showFilter();
        $("filter-class").focus();
        if (query) again();
      }),
    ),
  );
  showOptions();
}

/** Return to #search: keep an uploaded image, which has no address, but not a stored one. */
export function keepFile() {
  if (query && !(query.source instanceof Blob)) byNothing();
}

/** Show the empty state. */
export function byNothing() {
  running?.abort();
  query = latest = null;
  also = unlike = [];
  document.querySelector("[data-view=search]").href = "#search";
  $("query-picture").replaceChildren(...emptyPicture);
  $("search").dataset.state = "empty";
  for (const id of ["asked", "examples", "controls", "found"]) $(id).hidden = true;
  showError($("search-error"));
  $("samples").hidden = !state.project.total;
}

const stored = (image) => ({ ask: { id: image.id }, name: image.name, labels: image.labels, source: image });
const address = () => `#search/${query.ask.id}${also.map((e) => `+${e.ask.id}`).join("")}${unlike.map((e) => `-${e.ask.id}`).join("")}`;
const hasAddress = () => [query, ...also, ...unlike].every((example) => example.ask && "id" in example.ask);

/** Search with stored images: "12", or with more examples and counter-examples "12+15-20". */
export async function byIds(text) {
  if (query && query.ask && hasAddress() && address() === `#search/${text}`) return;
  const parts = [...text.matchAll(/([+-]?)(\d{1,15})/g)].map(([, sign, id]) => [sign, Number(id)]);
  const signal = supersede();
  try {
    const images = await Promise.all(parts.map(([, id]) => api.image(id, signal)));
    const examples = images.map(stored);
    also = examples.filter((_, i) => i && parts[i][0] === "+");
    unlike = examples.filter((_, i) => parts[i][0] === "-");
    begin(examples[0]);
    await again();
  } catch (error) {
    if (error.name === "AbortError") return;
    outdate();
    showError($("search-error"), `The search with image ${text} failed.`, error.message);
  }
}

/** Search with dropped, pasted or picked files: all together are one query. */
export async function byFiles(files) {
  if (location.hash !== "#search") history.pushState(null, "", "#search");
  window.dispatchEvent(new CustomEvent("view", { detail: "search" }));
  const before = query;
  const extra = [also, unlike];
  const bad = files.find(unfit);
  const failed = (name, message) => showError($("search-error"), `The search with ${name} failed.`, message.charAt(0).toUpperCase() + message.slice(1));
  if (bad) {
    if (!query) byNothing();
    failed(bad.name || "pasted image", unfit(bad));
    return;
  }
  const signal = supersede();
  const examples = files.map((file) => ({ ask: null, name: file.name || "pasted image", labels: [], source: file }));
  [also, unlike] = [[], []];
  begin(examples[0]);
  let current = examples[0];
  try {
    for (current of examples) {
      const { vector } = await api.searchImage(current.source, { k: 1 }, signal);
      current.ask = { vector };
    }
    also = examples.slice(1);
    showExamples();
    await again();
  } catch (error) {
    if (error.name === "AbortError") return;
    [also, unlike] = extra;
    if (before?.ask) {
      begin(before);
      await again();
    } else byNothing();
    failed(current.name, error.message);
  }
}

export const hasQuery = () => query !== null;

/** Add stored images to the query, or as counter-examples (kind "unlike"). */
export function addExamples(images, kind) {
  const ids = images.map((image) => image.id);
  const others = (list) => list.filter((example) => !ids.includes(example.ask.id));
  [also, unlike] = [others(also), others(unlike)];
  (kind === "unlike" ? unlike : also).push(...images.map(stored));
  examplesChanged();
}

/** Show the search again, with these images as counter-examples. */
export function searchUnlike(images) {
  history.pushState(null, "", hasAddress() ? address() : "#search");
  window.dispatchEvent(new CustomEvent("view", { detail: "search" }));
  addExamples(images, "unlike");
}

const addExample = (image, kind) => addExamples([image], kind);

function examplesChanged() {
  if (hasAddress()) history.replaceState(null, "", address());
  if (hasAddress()) document.querySelector("[data-view=search]").href = address();
  showExamples();
  again();
}

function showExamples() {
  const part = (list, box, id, without) => {
    $(box).hidden = !list.length;
    $(id).replaceChildren(
      ...list.map((example) => {
        const file = example.source instanceof Blob;
        const picture = file ? h("img", { src: URL.createObjectURL(example.source), alt: example.name }) : frame(example.source);
        return chip(picture, example.name, () => without(example));
      }),
    );
  };
  const drop = (example) => {
    also = also.filter((other) => other !== example);
    unlike = unlike.filter((other) => other !== example);
    examplesChanged();
  };
  part(also, "like-part", "like", drop);
  part(unlike, "unlike-part", "unlike", drop);
  $("examples").hidden = !also.length && !unlike.length;
}

/** Show a new query while its search runs. */
function begin(next) {
  query = next;
  latest = null;
  showError($("search-error"));
  $("search").dataset.state = "asked";
  document.querySelector("[data-view=search]").href = next.source instanceof Blob ? "#search" : address();
  $("samples").hidden = true;
  for (const id of ["asked", "controls", "found"]) $(id).hidden = false;
  $("query-picture").replaceChildren(queryPicture());
  $("query-name").textContent = query.name;
  $("guess").textContent = "";
  showOwnLabel(query.labels.length > 1 ? SEVERAL : query.labels[0]);
  showExamples();
  $("results").classList.remove("stale");
  $("results").replaceChildren(...skeletons(FIRST));
  $("legend").hidden = $("more").hidden = true;
  $("search-status").textContent = "Searching…";
  window.scrollTo(0, 0);
}

function queryPicture() {
  const file = query.source instanceof Blob;
  if (!file && !state.project.has_pictures) return frame(query.source);
  const url = file ? URL.createObjectURL(query.source) : api.picture(query.source.id);
  const picture = h("img", { src: url, alt: `The query: ${query.name}` });
  picture.addEventListener("error", () => picture.replaceWith(h("span", { class: "text muted" }, "no preview")));
  if (file) picture.addEventListener("load", () => URL.revokeObjectURL(url));
  return picture;
}

const ask = (first, k, signal) =>
  api.search(query.ask, { ...options(), first, k, labels, also: also.map((e) => e.ask), unlike: unlike.map((e) => e.ask) }, signal);

/** Stop the requests of the search that runs, so that a late answer cannot replace the next one; return a new signal. */
function supersede() {
  running?.abort();
  running = new AbortController();
  return running.signal;
}

/** Search again with the same query. Until the answer comes, and after an error, the old results are dim. */
async function again() {
  if (!query?.ask) return;
  const signal = supersede();
  asking = false;
  $("results").classList.add("stale");
  try {
    const fresh = latest === null;
    const answer = await ask(0, FIRST, signal);
    latest = { ...answer, options: options(), end: answer.matches.length < FIRST };
    if (fresh) await guess(signal);
    show();
    showError($("search-error"));
  } catch (error) {
    if (error.name === "AbortError") return;
    outdate();
    showError($("search-error"), "The search failed.", error.message);
  }
}

/** After an error: dim the results of the previous search, if there are any. */
function outdate() {
  const old = $("results").querySelector(".card");
  if (!old) $("results").replaceChildren();
  $("results").classList.add("stale");
  $("search-status").textContent = old ? "These are the results of the previous search." : "";
  $("more").hidden = true;
}

/** Fetch the next results. */
async function more() {
  if (!latest || latest.end || asking || $("more").hidden || $("results").classList.contains("stale")) return;
  asking = true;
  const { signal } = running;
  const from = latest;
  try {
    const next = await ask(from.matches.length, MORE, signal);
    if (latest !== from) return;
    const first = from.matches.length;
    from.matches.push(...next.matches);
    from.end = next.matches.length < MORE || from.matches.length >= MOST;
    show(first);
  } catch (error) {
    if (error.name !== "AbortError") showError($("search-error"), "More results cannot be loaded.", error.message);
  } finally {
    asking = false;
  }
}

/** Show the predicted class of the query: nearer images have more of the vote. */
async function guess(signal) {
  if (!state.project.classes.length || also.length || unlike.length) return;
  const voted = await api.classify(query.ask, { k: 5, weights: "distance" }, signal);
  // Each neighbour votes for all of its labels: a share says little then.
  const share = voted.labels.length > 1 ? "" : ` (${Math.round(100 * voted.votes[0].share)}% of the vote)`;
  $("guess").replaceChildren("Looks like ", h("strong", {}, voted.label), share);
}

/** Show the results from this place on; the others are on the page already. */
function show(from = 0) {
  const answer = latest;
  const wanted = ownLabels(); // frames are red only if the class of the query is known
  const shown = answer.matches.slice(from).map((match, i) => {
    const other = wanted.length > 0 && match.labels.length > 0 && !match.labels.some((name) => wanted.includes(name));
    const open = (event) => explain(query, match, answer.options, event.currentTarget, addExample);
    const agreeing = match.agree === null ? undefined : `${match.agree} of ${plural(answer.n_bits, "bit")} agree`;
    const acts = [
      { sign: "+", text: "Add to the query", onclick: () => addExample(match, "also") },
      { sign: "−", text: "Not like this", onclick: () => addExample(match, "unlike") },
    ];
    return card(match, open, { rank: from + i + 1, distance: match.distance, similarity: match.similarity, agreeing, other, acts });
  });
  const results = $("results");
  results.classList.remove("stale");
  if (from) results.append(...shown);
  else results.replaceChildren(...shown);
  results.dataset.how = answer.how;
  results.dataset.likeness = answer.options.likeness ?? "";
  $("legend").hidden = !results.querySelector(".other");
  $("more").hidden = answer.end;
  const by = answer.how === "raw" ? "raw vectors" : `${answer.n_bits} bits`;
  $("search-status").textContent = answer.matches.length
    ? `${count(answer.searched)} images searched by ${by} in ${duration(answer.seconds)}`
    : "No results: there are no other images here.";
}

function showOptions() {
  const n = length();
  const raw = how() === "raw";
  $("bits-slider").disabled = raw;
  $("bits-value").textContent = `${plural(n, "bit")}, ${plural(Math.ceil(n / 8), "byte")}`;
  $("bits-slider").setAttribute("aria-valuetext", `${n} bits`);
  const point = Number($("dial-slider").value);
  const words = point === 0 ? "same class only" : point === 100 ? "looks alike only" : `${point}% looks alike`;
  $("dial-slider").disabled = raw;
  $("dial-value").textContent = words;
  $("dial-slider").setAttribute("aria-valuetext", words);
  for (const way of ["weighted", "plain"]) $(`cost-${way}`).textContent = bytes(Math.ceil(n / 8));
  $("cost-raw").textContent = bytes(4 * state.project.n_values);
  const dial = state.project.likeness !== null && !raw ? `${words}, ` : "";
  const only = labels.length ? `, ${plural(labels.length, "class", "classes")}` : "";
  $("controls-sum").textContent = raw ? `raw vectors${only}` : `${dial}${n} bits${only}`;
  const { codes = [], raw: vectors, n_queries: queries } = state.project.evaluation;
  const accuracy = codes.find((code) => code.n_bits === n)?.weighted?.accuracy;
  $("measured").replaceChildren();
  if (accuracy === null || accuracy === undefined) return;
  $("measured").append(h("strong", {}, measured(accuracy, queries)), ` accuracy on held-out images (raw vectors: ${percent(vectors.accuracy)})`);
}
