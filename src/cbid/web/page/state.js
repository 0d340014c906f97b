// What all views share.

export const state = {
  project: null, // what api/project tells
  changed: new Set(), // called after images were added or removed
};

export function changed(total) {
  state.project.total = total;
  for (const call of state.changed) call();
}
