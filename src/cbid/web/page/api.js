// The REST interface of the service. Every failure becomes an ApiError with a message of one line.

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function call(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The service does not respond. Is it still running?");
  }
  if (response.status === 204) return null;
  const text = await response.text();
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    throw new ApiError(response.status, `The service returned status ${response.status}.`);
  }
  if (!response.ok) throw new ApiError(response.status, body.error);
  return body;
}

const post = (path, body, signal) =>
  call(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });

function form(field, files, more = {}) {
  const data = new FormData();
  for (const file of files) data.append(field, file, file.name || "pasted");
  for (const [name, value] of Object.entries(more)) data.append(name, value);
  return data;
}

/** Query parameters without those that are not set. */
const params = (options) => new URLSearchParams(Object.entries(options).filter(([, value]) => value !== undefined && value !== null && value !== ""));

export const project = () => call("api/project");
export const images = (options) => call(`api/images?${params(options)}`);
export const classes = () => call("api/classes");
export const original = (id) => `api/images/${id}/file`;
export const image = (id, signal) => call(`api/images/${id}`, { signal });
export const picture = (id) => `api/images/${id}/thumbnail`;
export const search = (query, options, signal) => post("api/search", { query, ...options }, signal);
export const searchImage = (file, options, signal) =>
  call(`api/search/image?${params({ ...options, vector: true })}`, {
    method: "POST",
    body: form("image", [file]),
    signal,
  });
export const classify = (query, options, signal) => post("api/classify", { query, ...options }, signal);
export const explain = (a, b, options) => post("api/explain", { a, b, ...options });
export const weights = () => call("api/bits");
export const bit = (number, count) => call(`api/bits/${number}?count=${count}`);
export const confusion = () => call("api/confusion");
export const predictions = (options) => call(`api/predictions?${params(options)}`);
export const duplicates = (options) => call(`api/duplicates?${params(options)}`);
export const occlusion = (id, other, options) => post("api/occlusion", { id, other, ...options });
export const occlusionImage = (file, id, options) =>
  call(`api/occlusion/image?${params({ id, ...options })}`, { method: "POST", body: form("image", [file]) });
export const relabel = (ids, label) => post("api/images/labels", { ids, label });
export const refit = () => call("api/refit");
export const startRefit = () => call("api/refit", { method: "POST" });
export const cancelRefit = () => call("api/refit", { method: "DELETE" });
export const add = (files, label) =>
  call("api/images", { method: "POST", body: form("images", files, label ? { label } : {}) });
export const remove = (id) => call(`api/images/${id}`, { method: "DELETE" });
export const session = (key) => post("api/session", { key });
export const endSession = () => call("api/session", { method: "DELETE" });
