// Parts that several screens use.
import { h } from "./libraries/preact.js";
import { useEffect, useRef, useState } from "./libraries/hooks.js";
import { signal } from "./libraries/signals.js";
import htm from "./libraries/htm.js";

export const html = htm.bind(h);

// The place in the page: {path: ["jobs", ID], query: URLSearchParams}.
export const place = signal(readPlace());
addEventListener("hashchange", () => (place.value = readPlace()));

function readPlace() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").filter(Boolean), query: new URLSearchParams(query) };
}

export function go(path, query) {
  const terms = new URLSearchParams(query).toString();
  location.hash = `/${path}${terms ? `?${terms}` : ""}`;
}

// "embedded document" for embeddedDocument.
export const words = (name) => name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

export function Notice({ kind = "error", children }) {
  return html`<p class="notice ${kind}" role=${kind === "error" ? "alert" : "status"}>${children}</p>`;
}

export function Failure({ error, retry }) {
  if (!error) return null;
  return html`<${Notice}
    >${error.message} ${retry && html`<button class="link" onClick=${retry}>Try again</button>`}<//
  >`;
}

export function Copy({ text, label = "Copy" }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await copied(typeof text === "function" ? text() : text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button type="button" class="small" onClick=${copy}>${done ? "Copied" : label}</button>`;
}

// Browsers have the clipboard for https and this machine only; elsewhere a selection is copied.
async function copied(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = Object.assign(document.createElement("textarea"), { value: text });
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

// Tabs with the keys of arrows, Home and End. `tabs` is [[name, label], ...].
export function Tabs({ tabs, chosen, choose, label }) {
  const move = (event) => {
    const at = tabs.findIndex(([name]) => name === chosen);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const [name] = tabs[(to + tabs.length) % tabs.length];
    choose(name);
    event.currentTarget.querySelector(`[data-name="${name}"]`).focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${move}>
    ${tabs.map(
      ([name, text]) =>
        html`<button
          type="button"
          role="tab"
          key=${name}
          data-name=${name}
          aria-selected=${name === chosen}
          tabindex=${name === chosen ? 0 : -1}
          onClick=${() => choose(name)}
        >
          ${text}
        </button>`,
    )}
  </div>`;
}

const TIME = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };

export function Time({ at }) {
  if (!at) return html`<span class="quiet">–</span>`;
  return html`<time datetime=${at} title=${at}>${new Date(at).toLocaleString([], TIME)}</time>`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 60) return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;
  const minutes = Math.floor(value / 60);
  return minutes < 60
    ? `${minutes} min ${Math.round(value % 60)} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const number = (value) => (value ?? 0).toLocaleString("en");

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB"];
  let at = 0;
  while (value >= 1000 && at < 3) [value, at] = [value / 1000, at + 1];
  return `${at && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

// Call `load` now, and again when a value of `inputs` changes. Returns [value, error, again].
export function useLoaded(load, inputs) {
  const [state, set] = useState({});
  const [count, again] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    load(stop.signal).then(
      (value) => set({ value }),
      (error) => error.name !== "AbortError" && set((old) => ({ ...old, error })),
    );
    return () => stop.abort();
  }, [...inputs, count]);
  return [state.value, state.error, () => again((n) => n + 1)];
}

// A text that its own frame shows: without scripts, and without loads from elsewhere.
export function Frame({ body, title }) {
  const style = `<link rel="stylesheet" href="${location.origin}/web/preview.css">`;
  const head = `<meta charset="utf-8">${style}<title>${title}</title>`;
  const source = `<!doctype html><html lang="en">${head}<body>${body}`;
  return html`<iframe
    class="preview"
    title=${title}
    srcdoc=${source}
    sandbox="allow-popups allow-popups-to-escape-sandbox"
  ></iframe>`;
}

// A list of any length: only rows in view are made. `more` is called near the end, if there are
// more; `total` is the number of all, if it is known. One row can be reached with Tab, the others
// from there with the arrows, Page Up, Page Down, Home and End; `row` gets the attributes for this.
export function Rows({ rows, height, row, more, label, total }) {
  const [top, setTop] = useState(0);
  const [active, activate] = useState(0);
  const list = useRef(null);
  const isMoved = useRef(false);
  const shown = 480;
  const first = Math.max(0, Math.floor(top / height) - 5);
  const last = Math.min(rows.length, Math.ceil((top + shown) / height) + 5);
  const reached = active >= first && active < last ? active : Math.min(Math.ceil(top / height), last - 1);
  const scrolled = (event) => {
    setTop(event.currentTarget.scrollTop);
    if (more && event.currentTarget.scrollTop + shown * 2 > rows.length * height) more();
  };
  const move = (event) => {
    const page = Math.floor(shown / height) - 1;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length }[
      event.key
    ];
    if (step === undefined) return;
    event.preventDefault();
    const to = Math.max(0, Math.min(rows.length - 1, reached + step));
    const box = list.current;
    box.scrollTop = Math.max((to + 1) * height - box.clientHeight, Math.min(box.scrollTop, to * height));
    isMoved.current = true;
    setTop(box.scrollTop);
    activate(to);
  };
  useEffect(() => {
    if (isMoved.current) list.current.querySelector('[tabindex="0"]')?.focus();
    isMoved.current = false;
  }, [active]);
  const above = { style: { height: `${first * height}px` } };
  const below = { style: { height: `${(rows.length - last) * height}px` } };
  const seen = [Math.ceil(top / height) + 1, Math.min(rows.length, Math.floor((top + shown) / height))];
  return html`<div class="rows" role="list" aria-label=${label} ref=${list} onScroll=${scrolled} onKeyDown=${move}>
      <div role="presentation" ...${above}></div>
      ${rows.slice(first, last).map((item, place) => {
        const at = first + place;
        return html`<div role="listitem" key=${at}>
          ${row(item, { tabindex: at === reached ? 0 : -1, onFocus: () => activate(at) })}
        </div>`;
      })}
      <div role="presentation" ...${below}></div>
    </div>
    ${
      (seen[1] - seen[0] + 1 < rows.length || more) &&
      html`<p class="help">
        ${seen.map(number).join(" to ")} of ${number(total ?? rows.length)}${more && !total ? " and more" : ""}: the
        list scrolls.
      </p>`
    }`;
}
