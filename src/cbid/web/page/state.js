// What all views share.

export const state = {
  project: null, // what api/project tells
  changed: new Set(), // called after images were added or removed
};

export function changed(total) {
  state.project.total = total;
  for (const call of state.changed) call();
}

/** Why a file need not be sent, or "". Whatever passes here, the service looks at the bytes. */
export function unfit(file) {
  if (file.type && !file.type.startsWith("image/")) return `It is no image, but ${file.type}.`;
  const most = state.project.max_upload;
  if (file.size > 0.99 * most) return `It is larger than ${Math.floor(most / 2 ** 20)} MiB.`;
  return "";
}
