// State shared by all views.

import * as api from "./api.js";

export const state = {
  project: null, // the response of api/project
  changed: new Set(), // functions to call after images or labels have changed, with the ids that were removed
};

/** Load the project again, and tell all views that images or labels have changed, and which images are gone. */
export async function changed(gone = []) {
  state.project = await api.project();
  for (const call of state.changed) call(gone);
}

/** The reason why the service would reject a file, or "". The service checks the bytes itself. */
export function unfit(file) {
  if (file.type && !file.type.startsWith("image/")) return `Expected an image, not ${file.type}.`;
  const limit = state.project.max_upload;
  if (file.size > 0.99 * limit) return `The file is larger than ${Math.floor(limit / 2 ** 20)} MiB.`;
  return "";
}
