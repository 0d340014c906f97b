// Drag and drop: search with dropped files or add them. Pasted files start a search.

import { add } from "./add.js";
import { $ } from "./dom.js";
import { byFiles } from "./search.js";
import { state } from "./state.js";

export function start() {
  const overlay = $("overlay");
  const halves = { search: $("overlay-search"), add: $("overlay-add") };
  let depth = 0; // number of nested elements that the pointer has entered
  const carries = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const hide = () => {
    depth = 0;
    overlay.hidden = true;
    for (const half of Object.values(halves)) half.classList.remove("over");
  };
  document.addEventListener("dragenter", (event) => {
    if (!carries(event)) return;
    depth += 1;
    halves.add.hidden = !state.project.writable;
    overlay.hidden = false;
  });
  document.addEventListener("dragleave", (event) => {
    if (carries(event) && --depth <= 0) hide();
  });
  document.addEventListener("dragover", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    for (const half of Object.values(halves)) half.classList.toggle("over", half === event.target);
  });
  document.addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    const files = [...event.dataTransfer.files];
    const adding = halves.add === event.target || event.target.closest?.("#view-add");
    hide();
    if (!files.length) return;
    if (adding) {
      location.hash = "#add";
      add(files);
    } else byFiles(files);
  });
  document.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length) byFiles(files);
  });
}
