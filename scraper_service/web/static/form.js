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

// The errors of a value with this key, of [{path, message}].
export const below = (errors, key) =>
  errors.filter(({ path }) => path?.[0] === key).map(({ path, message }) => ({ path: path.slice(1), message }));

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const nameOf = (each) => each?.type ?? each; // of a choice, which may be an object
const told = (error) => error && [error.path.join("."), error.message].filter(Boolean).join(": ");
// A sentence on an option and its values.
const helpOf = (schema, own) => [schema.description, own && range({ ...own, ...schema })].filter(Boolean).join(" · ");

// The names of fields below a path whose text is no value yet.
export const unfinished = (path) =>
  [...drafts]
    .filter(([id, each]) => each.wrong && id.startsWith(`field-${path}`))
    .map(([id]) => id.slice(`field-${path}`.length).split(".").at(-1));

// One option. `value` is undefined if it is not set; `set(undefined)` unsets it.
// `errors` are those of a response, as [{path, message}], with paths from this option on.
export function Field({ document, option, value, set, errors = [], path }) {
  const { name, schema, required } = option;
  const asked = control(document, schema);
  const { choices, schema: own, isText } = asked;
  const [isJson, choose] = useState(null);
  const Parts = !isJson && fits(asked, value) && { group: Group, several: Several, list: List }[asked.kind];
  const kind = ["group", "several", "list"].includes(asked.kind) ? "json" : asked.kind;
  const id = `field-${path}`;
  const stored = drafts.get(id);
  const typed = stored?.value === value ? stored : undefined;
  if (!typed) drafts.delete(id);
  const [, redraw] = useState(0);
  const draft = typed?.text ?? null;
  const setDraft = (text, next, fault) => drafts.set(id, { text, value: next, wrong: fault });
  const wrong = told(errors[0]) || typed?.wrong || fault(kind, own, value);
  const isListed = kind === "boolean" || kind === "choice"; // its default stands in the list
  const help = helpOf(schema, !isListed && own);
  const shared = { id, "aria-describedby": `${id}-help`, "aria-invalid": Boolean(wrong), required };
  const change = () => {
    forget(path);
    choose(!isJson);
  };
  const other =
    ["group", "list"].includes(asked.kind) &&
    html` <button type="button" class="link" aria-label="${name} ${isJson ? "as fields" : "as JSON"}" onClick=${change}>
      ${isJson ? "as fields" : "as JSON"}
    </button>`;
  if (Parts)
    return html`<${Parts}
      document=${document}
      option=${option}
      asked=${asked}
      value=${value ?? undefined}
      set=${set}
      errors=${errors}
      path=${path}
      other=${other}
      isOpen=${isJson === false}
    />`;
  let input;
  if (kind === "boolean") {
    input = html`<select
      ...${shared}
      value=${value === undefined ? "" : String(value)}
      onChange=${(event) => set(event.target.value === "" ? undefined : event.target.value === "true")}
    >
      <option value="">
        ${schema.default === undefined ? "not set" : `default: ${schema.default ? "yes" : "no"}`}
      </option>
      <option value="true">yes</option>
      <option value="false">no</option>
    </select>`;
  } else if (kind === "choice") {
    input = html`<select
      ...${shared}
      value=${value ?? ""}
      onChange=${(event) => set(choices.find((each) => String(each) === event.target.value))}
    >
      <option value="">${schema.default === undefined ? "not set" : `default: ${schema.default}`}</option>
      ${choices.map((each) => html`<option key=${each} value=${String(each)}>${String(each)}</option>`)}
    </select>`;
  } else if (kind === "integer" || kind === "number") {
    input = html`<input
      type="number"
      step=${kind === "integer" ? 1 : "any"}
      ...${shared}
      min=${own.minimum}
      max=${own.maximum}
      value=${value ?? ""}
      placeholder=${schema.default ?? ""}
      onInput=${(event) => set(event.target.value === "" ? undefined : Number(event.target.value))}
    />`;
  } else if (kind === "lines") {
    input = html`<textarea
      ...${shared}
      rows="3"
      spellcheck=${false}
      placeholder="one on each line"
      value=${draft ?? (value || []).join("\n")}
      onInput=${(event) => {
        const lines = event.target.value
          .split("\n")
          .map((line) => line.trim())
          .filter(Boolean);
        const next = lines.length ? lines : undefined;
        setDraft(event.target.value, next);
        set(next);
      }}
    ></textarea>`;
  } else if (kind === "string") {
    const long = (own.maxLength || 0) >= 10000 && name !== "url";
    const onInput = (event) => set(event.target.value === "" ? undefined : event.target.value);
    input = long
      ? html`<textarea ...${shared} rows="2" value=${value ?? ""} onInput=${onInput}></textarea>`
      : html`<input
          type=${name === "url" ? "url" : "text"}
          ...${shared}
          spellcheck=${false}
          value=${value ?? ""}
          onInput=${onInput}
        />`;
  } else {
    const isPlain = (text) => isText && !/^\s*[[{"]/.test(text);
    const written =
      value === undefined ? "" : typeof value === "string" && isPlain(value) ? value : JSON.stringify(value, null, 1);
    input = html`<textarea
      ...${shared}
      rows=${isText ? 1 : 3}
      spellcheck=${false}
      class="code grows ${isText ? "line" : ""}"
      placeholder=${isText ? "text or JSON" : "JSON"}
      value=${draft ?? written}
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
      }}
    ></textarea>`;
  }
  return html`<div class="field">
    <label for=${id}><${Name} ...${option} /></label>${input}
    <div class="help" id="${id}-help">${wrong ? html`<span class="wrong">${wrong}</span>` : help}${other}</div>
  </div>`;
}

function Name({ name, schema, required }) {
  return html`${name}${
    required && html`<span class="required" title="required"> *</span>`
  }${schema["x-own"] && html` <span class="tag">addition</span>`}`;
}

// If a form of several fields can show a value; others are shown as JSON.
function fits({ kind, choices }, value) {
  if (value === undefined || value === null) return true;
  if (kind === "group") return isObject(value);
  if (kind === "list") return Array.isArray(value) && value.every(isObject);
  const names = [value].flat().map(nameOf);
  return names.every((each) => choices?.includes(each)) && new Set(names).size === names.length;
}

// An object with named values.
function Group({ document, option, asked, value, set, errors, path, other, isOpen }) {
  const [own] = errors.filter((each) => !each.path.length);
  return html`<details class="group" open=${isOpen || errors.length > 0}>
    <summary><${Name} ...${option} />${value && html` <span class="tag">set</span>`}</summary>
    <div class="help">${own ? html`<span class="wrong">${own.message}</span>` : option.schema.description}${other}</div>
    <${Fields}
      document=${document}
      options=${members(document, asked.schema)}
      values=${value || {}}
      errors=${errors}
      path=${path}
      set=${(next) => set(Object.keys(next).length ? next : undefined)}
    />
  </details>`;
}

// Some of several choices, and the options of those that have any.
function Several({ document, option, asked, value = [], set, errors, path }) {
  const { choices, alone, objects, isOneToo } = asked;
  const chosen = [value].flat();
  const names = chosen.map(nameOf);
  const missing = choices.filter((each) => objects[each]?.["x-available"] === false && !names.includes(each));
  const put = (next) => set(isOneToo && next.length === 1 ? next[0] : next.length ? next : undefined);
  const made = (name, values) =>
    alone.includes(name) && !Object.keys(values).length ? name : { type: name, ...values };
  const toggle = (name, isOn) => {
    forget(`${path}.${name}.`);
    put(isOn ? [...chosen, made(name, {})] : chosen.filter((each) => nameOf(each) !== name));
  };
  const optionsOf = (name) => members(document, objects[name] || {}).filter((each) => each.name !== "type");
  const [own] = errors.filter((each) => each.path.length < 2 || !optionsOf(names[each.path[0]]).length);
  return html`<fieldset class="field">
    <legend><${Name} ...${option} /></legend>
    <div class="chips">
      ${choices
        .filter((each) => !missing.includes(each))
        .map(
          (each) =>
            html`<label key=${each} class="chip" title=${objects[each]?.description}
              ><input
                type="checkbox"
                checked=${names.includes(each)}
                onChange=${(event) => toggle(each, event.target.checked)}
              />${each}</label
            >`,
        )}
    </div>
    <div class="help">${own ? html`<span class="wrong">${told(own)}</span>` : helpOf(option.schema, asked.schema)}</div>
    ${
      missing.length > 0 &&
      html`<div class="help">Not available here, see <a href="#/health">Health</a>: ${missing.join(", ")}</div>`
    }
    ${names.map(
      (name, at) =>
        optionsOf(name).length > 0 &&
        html`<details key=${name} class="group" open=${true}>
          <summary>${name}</summary>
          <div class="help">${objects[name].description}</div>
          <${Fields}
            document=${document}
            options=${optionsOf(name)}
            values=${isObject(chosen[at]) ? chosen[at] : {}}
            errors=${below(errors, at)}
            path="${path}.${name}"
            set=${({ type, ...values }) => put(chosen.map((each, place) => (place === at ? made(name, values) : each)))}
          />
        </details>`,
    )}
  </fieldset>`;
}

// Any number of objects with the same names.
function List({ document, option, asked, value = option.required ? [{}] : [], set, errors, path, other }) {
  const options = members(document, asked.item);
  const [own] = errors.filter((each) => each.path.length < 2);
  const remove = (at) => {
    forget(`${path}.`); // the numbers of the others change
    set(value.length > 1 ? value.filter((_, place) => place !== at) : undefined);
  };
  return html`<fieldset class="field">
    <legend><${Name} ...${option} /></legend>
    <div class="help">
      ${own ? html`<span class="wrong">${told(own)}</span>` : helpOf(option.schema, asked.schema)}${other}
    </div>
    ${value.map(
      (each, at) =>
        html`<details key=${at} class="group" open=${true}>
          <summary>${at + 1}. ${Object.values(each).find((text) => typeof text === "string")}</summary>
          <div class="entry">
            <${Fields}
              document=${document}
              options=${options}
              values=${each}
              errors=${below(errors, at)}
              path="${path}.${at}"
              set=${(next) => set(value.map((other, place) => (place === at ? next : other)))}
            />
          </div>
          <button type="button" class="small" onClick=${() => remove(at)}>Remove ${option.name} ${at + 1}</button>
        </details>`,
    )}
    <button type="button" class="small" onClick=${() => set([...value, {}])}>Add to ${option.name}</button>
  </fieldset>`;
}

// Names that are always refused, and old ones, are shown if they have a value.
const isOffered = ({ schema }, value) => value !== undefined || !(schema.not || schema.deprecated);

export function Fields({ document, options, values, set, errors = [], path = "" }) {
  return options
    .filter((option) => isOffered(option, values[option.name]))
    .map(
      (option) =>
        html`<${Field}
          key=${option.name}
          document=${document}
          option=${option}
          path="${path}${path && "."}${option.name}"
          value=${values[option.name]}
          errors=${below(errors, option.name)}
          set=${(value) => {
            const { [option.name]: _, ...rest } = values;
            set(value === undefined ? rest : { ...rest, [option.name]: value });
          }}
        />`,
    );
}
