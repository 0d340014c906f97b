// Start of the page, and the switch between its views.

import * as add from "./add.js";
import * as api from "./api.js";
import * as bits from "./bits.js";
import * as browse from "./browse.js";
import * as classes from "./classes.js";
import { $, count, plural, showError } from "./dom.js";
import * as drag from "./drag.js";
import * as explain from "./explain.js";
import * as gallery from "./gallery.js";
import * as refit from "./refit.js";
import * as search from "./search.js";
import { state } from "./state.js";

const TITLES = { search: "Search", browse: "Browse", bits: "Bits", classes: "Classes", add: "Add images" };
const LISTS = { mistakes: "classes", duplicates: "browse" }; // shown by the view that browses, under another entry

function view(name, part = name) {
  for (const section of document.querySelectorAll(".view")) section.hidden = section.id !== `view-${part}`;
  for (const link of document.querySelectorAll(".views a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${TITLES[name]} – ${state.project.name} – cbid`;
}

/** #search, #search/12+15-20, #browse/cat, #bits/3, #classes, #mistakes/cat/dog, #duplicates, #add */
function route() {
  const [name, ...parts] = location.hash.slice(1).split("/");
  const rest = parts.join("/");
  if (name === "main") return; // the skip link
  gallery.clear();
  $("why").close();
  if (name in LISTS) {
    view(LISTS[name], "browse");
    browse.open(name, rest);
    return;
  }
  const known = name in TITLES ? name : "search";
  view(known);
  if (known === "search" && /^\d{1,15}([+-]\d{1,15}){0,200}$/.test(rest)) search.byIds(rest);
  else if (known === "search") search.keepFile();
  if (known === "browse") browse.open("browse", rest);
  if (known === "bits") bits.open(/^\d{1,6}$/.test(rest) ? Number(rest) : 0);
  if (known === "classes") classes.open();
}

function about() {
  const { name, total, classes: known, n_bits: n } = state.project;
  const parts = [name.replace(/\.cbid$/, ""), plural(total, "image"), known.length ? plural(known.length, "class", "classes") : "", `${count(n)} bits each`];
  $("about").textContent = parts.filter(Boolean).join(" · ");
}

function askForKey() {
  const dialog = $("key");
  dialog.showModal();
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  $("key-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await api.session($("key-value").value);
      location.reload();
    } catch (error) {
      showError($("key-error"), "The key is wrong.", error.message);
    }
  });
}

async function logOut() {
  await api.endSession();
  location.reload();
}

async function start() {
  try {
    state.project = await api.project();
  } catch (error) {
    if (error.status === 401) return askForKey();
    $("view-search").hidden = false;
    $("drop").hidden = true;
    showError($("search-error"), "The project cannot be opened.", error.message);
    return;
  }
  about();
  state.changed.add(about);
  $("log-out").hidden = !state.project.needs_key;
  $("log-out").addEventListener("click", logOut);
  for (const part of [search, explain, bits, browse, gallery, classes, refit, add, drag]) part.start();
  window.addEventListener("view", (event) => view(event.detail));
  window.addEventListener("hashchange", route);
  for (const link of document.querySelectorAll(".brand, [data-view=search]")) {
    link.addEventListener("click", () => {
      if (link.matches(".brand") || link.hasAttribute("aria-current")) search.byNothing();
    });
  }
  route();
}

start();
