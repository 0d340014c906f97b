// State shared by all views.

export const state = {
  project: null, // the response of api/project
  changed: new Set(), // functions to call after images were added or removed
};

export function changed(total) {
  state.project.total = total;
  for (const call of state.changed) call();
}

/** The reason why the service would reject a file, or "". The service checks the bytes itself. */
export function unfit(file) {
  if (file.type && !file.type.startsWith("image/")) return `Expected an image, not ${file.type}.`;
  const limit = state.project.max_upload;
  if (file.size > 0.99 * limit) return `The file is larger than ${Math.floor(limit / 2 ** 20)} MiB.`;
  return "";
}
