// A form made from the options of a route.
import { useState } from "./libraries/hooks.js";
import { html } from "./ui.js";
import { control, fault, members, range } from "./schema.js";

const NO_JSON = "this is not valid JSON yet";

// What was typed into a field, with the value that it stands for: kept while other screens are
// open, and dropped when another value is set.
const drafts = new Map();

export function forget(path) {
  for (const id of drafts.keys()) if (id.startsWith(`field-${path}`)) drafts.delete(id);
}

// The names of fields below a path whose text is no value yet.
export const unfinished = (path) => [...drafts].filter(([id, each]) => each.wrong && id.startsWith(`field-${path}`)).map(([id]) => id.slice(`field-${path}`.length).split(".").at(-1));

// One option. `value` is undefined if it is not set; `set(undefined)` unsets it.
export function Field({ document, option, value, set, error, path }) {
  const { name, schema, required } = option;
  const { kind, choices, schema: own, isText } = control(document, schema);
  const id = `field-${path}`;
  const stored = drafts.get(id);
  const typed = stored?.value === value ? stored : undefined;
  if (!typed) drafts.delete(id);
  const [, redraw] = useState(0);
  const draft = typed?.text ?? null;
  const setDraft = (text, next, fault) => drafts.set(id, { text, value: next, wrong: fault });
  const told = error || typed?.wrong || fault(kind, own, value);
  const isListed = kind === "boolean" || kind === "choice";  // its default stands in the list
  const help = [schema.description, !isListed && range({ ...own, ...schema })].filter(Boolean).join(" · ");
  const shared = { id, "aria-describedby": `${id}-help`, "aria-invalid": Boolean(told), required };
  const head = html`<label for=${id}>${name}${required && html`<span class="required" title="required"> *</span>`}${schema["x-own"] && html` <span class="tag">addition</span>`}</label>`;
  const foot = html`<div class="help" id="${id}-help">${told ? html`<span class="wrong">${told}</span>` : help}</div>`;
  if (kind === "group") {
    return html`<details class="group" open=${Boolean(told)}><summary>${name}${value && html` <span class="tag">set</span>`}</summary>
      ${told && html`<div class="help wrong">${told}</div>`}
      <${Fields} document=${document} options=${members(document, own)} values=${value || {}} path=${path}
        set=${(next) => set(Object.keys(next).length ? next : undefined)} /></details>`;
  }
  let input;
  if (kind === "boolean") {
    input = html`<select ...${shared} value=${value === undefined ? "" : String(value)}
      onChange=${(event) => set(event.target.value === "" ? undefined : event.target.value === "true")}>
      <option value="">${schema.default === undefined ? "not set" : `default: ${schema.default ? "yes" : "no"}`}</option><option value="true">yes</option><option value="false">no</option></select>`;
  } else if (kind === "choice") {
    input = html`<select ...${shared} value=${value ?? ""} onChange=${(event) => set(choices.find((each) => String(each) === event.target.value))}>
      <option value="">${schema.default === undefined ? "not set" : `default: ${schema.default}`}</option>
      ${choices.map((each) => html`<option key=${each} value=${String(each)}>${String(each)}</option>`)}</select>`;
  } else if (kind === "several" && (value || []).every((each) => typeof each === "string")) {
    const chosen = value || [];
    return html`<fieldset class="field"><legend>${name}</legend><div class="chips">
      ${choices.map((each) => html`<label key=${each} class="chip"><input type="checkbox" checked=${chosen.includes(each)}
        onChange=${(event) => {
          const next = event.target.checked ? [...chosen, each] : chosen.filter((other) => other !== each);
          set(next.length ? next : undefined);
        }} />${each}</label>`)}</div>${foot}</fieldset>`;
  } else if (kind === "integer" || kind === "number") {
    input = html`<input type="number" step=${kind === "integer" ? 1 : "any"} ...${shared} min=${own.minimum} max=${own.maximum} value=${value ?? ""}
      placeholder=${schema.default ?? ""} onInput=${(event) => set(event.target.value === "" ? undefined : Number(event.target.value))} />`;
  } else if (kind === "lines") {
    input = html`<textarea ...${shared} rows="3" spellcheck=${false} placeholder="one on each line" value=${draft ?? (value || []).join("\n")}
      onInput=${(event) => {
        const lines = event.target.value.split("\n").map((line) => line.trim()).filter(Boolean);
        const next = lines.length ? lines : undefined;
        setDraft(event.target.value, next);
        set(next);
      }}></textarea>`;
  } else if (kind === "string") {
    const long = (own.maxLength || 0) >= 10000 && name !== "url";
    const onInput = (event) => set(event.target.value === "" ? undefined : event.target.value);
    input = long
      ? html`<textarea ...${shared} rows="2" value=${value ?? ""} onInput=${onInput}></textarea>`
      : html`<input type=${name === "url" ? "url" : "text"} ...${shared} spellcheck=${false} value=${value ?? ""} onInput=${onInput} />`;
  } else {
    const isPlain = (text) => isText && !/^\s*[[{"]/.test(text);
    const written = value === undefined ? "" : typeof value === "string" && isPlain(value) ? value : JSON.stringify(value, null, 1);
    input = html`<textarea ...${shared} rows=${isText ? 1 : 3} spellcheck=${false} class="code" placeholder=${isText ? "text or JSON" : "JSON"} value=${draft ?? written}
      onInput=${(event) => {
        const text = event.target.value;
        try {
          const next = !text.trim() ? undefined : isPlain(text) ? text.trim() : JSON.parse(text);
          setDraft(text, next);
          set(next);
        } catch {
          setDraft(text, value, NO_JSON);
          redraw((count) => count + 1);
        }
      }}></textarea>`;
  }
  return html`<div class="field">${head}${input}${foot}</div>`;
}

export function Fields({ document, options, values, set, errors = {}, path = "" }) {
  return options.map((option) => html`<${Field} key=${option.name} document=${document} option=${option} path="${path}${path && "."}${option.name}"
    value=${values[option.name]} error=${errors[option.name]}
    set=${(value) => {
      const { [option.name]: _, ...rest } = values;
      set(value === undefined ? rest : { ...rest, [option.name]: value });
    }} />`);
}
