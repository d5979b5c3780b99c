// Calls of the service, and the session they are made with.
import { signal } from "./libraries/signals.js";

// null until it is known; then {needsKey, signedIn, token}.
export const session = signal(null);

// A call that failed. `details` are the issues of a 400, by their path.
export class CallError extends Error {
  constructor(status, body) {
    super(sentence(status, body));
    this.status = status;
    this.code = body.code;
    this.details = body.details || [];
  }
}

function sentence(status, body) {
  if (status === 0) return "The service cannot be reached. Nothing you entered is lost: try again when it runs.";
  const issues = (body.details || []).map((issue) => {
    const path = (issue.path || []).join(".");
    return path && !issue.message.includes(path) ? `${path}: ${issue.message}` : issue.message;
  });
  const text = body.error || `The service answered with status ${status}.`;
  if (status === 429) return `${text} Wait a little, then try again.`;
  return issues.length ? issues.join(". ") : text;
}

// Call the interface: `path` as in its reference, such as /v2/scrape. Returns the JSON.
export async function call(method, path, body, signal) {
  const options = { method, headers: {}, signal };
  if (body instanceof FormData) options.body = body;
  else if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  if (method !== "GET") options.headers["X-CSRF-Token"] = session.value?.token || "";
  let response, value;
  try {
    response = await fetch(pathOf(path), options);
    value = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new CallError(response?.ok === false ? response.status : 0, {});
  }
  // A session whose key may not do this goes on.
  const isSignedOut = response.status === 401 && value.code !== "MISSING_SCOPE";
  if (isSignedOut)
    session.value = {
      ...session.value,
      signedIn: false,
      wasSignedIn: session.value?.wasSignedIn || session.value?.signedIn,
    };
  if (!response.ok) throw new CallError(response.status, value);
  return value;
}

// The page calls the routes of /v2 under a path where its session is accepted.
export function pathOf(path) {
  const { pathname, search } = new URL(path, location.origin);
  return pathname.replace(/^\/(web\/api|v2)\//, "/web/api/") + search;
}

export async function readSession() {
  session.value = await call("GET", "/v2/session");
}

export async function signIn(secret) {
  const found = await call("POST", "/v2/session", secret);
  session.value = { ...session.value, ...found, signedIn: true, wasSignedIn: false };
}

export async function signOut() {
  await call("DELETE", "/v2/session");
  session.value = { ...session.value, signedIn: false, wasSignedIn: false, token: "" };
}

// The JSON of /health and the like, which has a meaning with a bad status, too.
export async function state(path, signal) {
  try {
    return await (await fetch(path, { signal })).json();
  } catch (error) {
    throw error.name === "AbortError" ? error : new CallError(0, {});
  }
}

let described;
// The OpenAPI document of the service, read once.
export async function description() {
  described ||= fetch("/openapi.json").then((response) => {
    if (!response.ok) throw new CallError(response.status, {});
    return response.json();
  });
  try {
    return await described;
  } catch (error) {
    described = undefined;
    throw error instanceof CallError ? error : new CallError(0, {});
  }
}
