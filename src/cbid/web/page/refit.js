// Learning the codes again from the page, with its progress.

import * as api from "./api.js";
import { $, plural, showError } from "./dom.js";
import { state } from "./state.js";

const PAUSE = 700; // milliseconds between two looks
const WORDS = { starting: "Starting…", learning: "Learning", encoding: "Encoding all images…", measuring: "Measuring…" };
let watching = false;
let again = false; // something has started since the last look
let ran = false;

export function start() {
  $("refit-start").addEventListener("click", begin);
  $("refit-cancel").addEventListener("click", async () => {
    try {
      await api.cancelRefit();
    } catch (error) {
      showError($("refit-error"), "It cannot be stopped.", error.message);
    }
  });
}

/** Show the panel, and the progress of a run that somebody has started. */
export async function open() {
  const { relabels, unlearned, total } = state.project;
  $("refit").hidden = !relabels;
  if (!relabels) return;
  const labels = unlearned ? `${plural(unlearned, "label")} changed since the codes were learned. ` : "";
  $("refit-lead").textContent = `${labels}This learns new codes from all ${plural(total, "image")}, including added ones, with their current labels. Search keeps working meanwhile.`;
  watch();
}

async function begin() {
  showError($("refit-error"));
  try {
    await api.startRefit();
    ran = true;
  } catch (error) {
    showError($("refit-error"), "Learning cannot start.", error.message);
  }
  watch();
}

async function watch() {
  again = true;
  if (watching) return;
  watching = true;
  try {
    while (again) {
      again = false;
      const now = await api.refit();
      const runs = now.phase in WORDS;
      $("refit-start").disabled = runs;
      $("refit-cancel").hidden = $("refit-bar").hidden = !runs;
      if (runs) {
        ran = again = true;
        const known = now.phase === "learning" && now.total > 0;
        if (known) $("refit-bar").value = now.done / now.total;
        $("refit-status").textContent = known ? `Learning: bit ${now.done} of ${now.total}, ${Math.round(now.seconds)} s` : WORDS[now.phase];
        await new Promise((wake) => setTimeout(wake, PAUSE));
        continue;
      }
      if (again) continue;
      if (ran && now.phase === "done") location.reload(); // codes, weights and figures are all new
      if (ran && now.phase === "failed") showError($("refit-error"), "Learning failed.", now.error ?? "");
      $("refit-status").textContent = now.phase === "cancelled" ? "Stopped. The codes are as before." : now.phase === "done" ? `Learned in ${Math.round(now.seconds)} s.` : "";
      ran = false;
    }
  } catch (error) {
    showError($("refit-error"), "The progress cannot be shown.", error.message);
  } finally {
    watching = false;
  }
}
