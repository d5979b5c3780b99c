// The form that makes or changes a monitor.
import { useState } from "../libraries/hooks.js";
import { CallError, call, description } from "../http.js";
import { Failure, go, html, useLoaded } from "../ui.js";
import { Field, Fields, below, forget, unfinished } from "../form.js";
import { forms, members, optionsOf, resolved } from "../schema.js";

// The options of each kind of target that stand above the others.
const MAIN = { scrape: ["urls"], crawl: ["url"], search: ["queries", "searchWindow", "maxResults"] };
const HINT = {
  scrape: "Pages by their URLs.",
  crawl: "All pages of a site that a crawl finds.",
  search: "New results of searches.",
};

// What was entered, by monitor: kept while other screens are open.
const entered = {};
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const start = () => ({ schedule: { text: "daily at 9:00", timezone: zone }, targets: [{ type: "scrape" }] });

export function MonitorForm({ id }) {
  const [found, error, again] = useLoaded(
    async (signal) => {
      const [document, account, monitor] = await Promise.all([
        description(),
        call("GET", "/v2/account", undefined, signal),
        id && call("GET", `/v2/monitor/${id}`, undefined, signal),
      ]);
      return { document, account, monitor: monitor?.data };
    },
    [id],
  );
  const back = id ? html`<a href=${`#/monitors/${id}`}>${found?.monitor?.name || "Monitor"}</a>` : "New";
  return html`<p class="crumbs"><a href="#/monitors">Monitors</a> / ${back}</p>
    <h1>${id ? "Edit the monitor" : "New monitor"}</h1>
    <${Failure} error=${error} retry=${again} /> ${found && html`<${Form} id=${id} ...${found} />`}`;
}

const KEYS = ["name", "schedule", "targets", "goal", "judgeEnabled", "webhook", "notification", "retentionDays"];

function valuesOf(monitor) {
  return Object.fromEntries(KEYS.filter((key) => monitor[key] !== null).map((key) => [key, monitor[key]]));
}

function Form({ id, document, account, monitor }) {
  const own = id || "new";
  const stored = monitor && valuesOf(monitor);
  const [values, setValues] = useState(() => entered[own] || stored || start());
  const [state, set] = useState({});
  const change = (next) => {
    entered[own] = next;
    setValues(next);
  };
  const put = (name, value) => {
    const { [name]: _, ...rest } = values;
    change(value === undefined ? rest : { ...rest, [name]: value });
  };
  const options = Object.fromEntries(optionsOf(document, "/v2/monitor").map((each) => [each.name, each]));
  const errors = state.error?.details || [];
  const field = (name, schema) =>
    html`<${Field}
      key=${name}
      document=${document}
      path="${own}-${name}"
      value=${values[name]}
      errors=${below(errors, name)}
      option=${{ ...options[name], schema: { ...options[name].schema, ...schema } }}
      set=${(value) => put(name, value)}
    />`;
  const submit = async (event) => {
    event.preventDefault();
    const open = unfinished(`${own}-`);
    if (open.length) return set({ error: new CallError(400, { error: `Not valid JSON yet: ${open.join(", ")}.` }) });
    set({ running: true });
    try {
      const found = id ? await save() : await call("POST", "/v2/monitor", values);
      drop();
      go(`monitors/${found?.data.id || id}`);
    } catch (error) {
      set({ error });
    }
  };
  const save = () => {
    const changed = KEYS.filter((key) => JSON.stringify(values[key]) !== JSON.stringify(stored[key]));
    const body = Object.fromEntries(changed.map((key) => [key, values[key] ?? null]));
    return changed.length ? call("PATCH", `/v2/monitor/${id}`, body) : undefined;
  };
  const drop = () => {
    delete entered[own];
    forget(`${own}-`);
  };
  const dropped = () => {
    drop();
    go(id ? `monitors/${id}` : "monitors");
  };
  return html`<form class="monitor-form" aria-label="Monitor" onSubmit=${submit} novalidate>
    <section class="card">
      ${field("name")}<${Schedule}
        own=${own}
        document=${document}
        option=${options.schedule}
        values=${values.schedule || {}}
        errors=${below(errors, "schedule")}
        set=${(value) => put("schedule", value)}
      />
    </section>
    <${Targets}
      own=${own}
      document=${document}
      schema=${options.targets.schema}
      values=${values.targets || []}
      errors=${below(errors, "targets")}
      set=${(value) => put("targets", value)}
    />
    <section class="card" aria-label="Messages">
      <h2>Who is told</h2>
      <${Told}
        own=${own}
        document=${document}
        option=${options.notification}
        account=${account}
        values=${values.notification || {}}
        errors=${below(errors, "notification")}
        set=${(value) => put("notification", value)}
      />${field("webhook")}
    </section>
    <section class="card" aria-label="Judging and storing">
      <h2>What matters, and how long it is kept</h2>
      ${field("goal")}${field("judgeEnabled")}${field("retentionDays")}
    </section>
    <${Failure} error=${state.error} />
    <div class="bar">
      <button type="submit" class="primary" disabled=${state.running}>
        ${state.running ? "Saving…" : id ? "Save" : "Create the monitor"}
      </button>
      <button type="button" onClick=${dropped}>${id ? "Leave it as it was" : "Discard"}</button>
    </div>
  </form>`;
}

// Words or an expression: what is typed into one takes the place of the other.
function Schedule({ own, document, option, values, errors, set }) {
  const change = (next) => {
    if (next.text !== values.text && next.text !== undefined) delete next.cron;
    if (next.cron !== values.cron && next.cron !== undefined) delete next.text;
    set(next);
  };
  const all = members(document, option.schema);
  return html`<fieldset class="field">
    <legend>schedule</legend>
    <div class="thirds">
      <${Fields}
        document=${document}
        options=${["text", "cron", "timezone"].map((name) => all.find((each) => each.name === name))}
        values=${values}
        set=${change}
        path="${own}-schedule"
      />
    </div>
    ${errors.length > 0 && html`<div class="help wrong">${errors[0].message}</div>`}
  </fieldset>`;
}

function Targets({ own, document, schema, values, errors, set }) {
  const kinds = Object.fromEntries(
    forms(document, resolved(document, schema).items).map((each) => [each.properties.type.const, each]),
  );
  const replace = (at, value) => set(values.map((each, number) => (number === at ? value : each)));
  return html`${values.map(
      (each, at) =>
        html`<${Target}
          key=${each.id || at}
          own=${own}
          at=${at}
          document=${document}
          kinds=${kinds}
          values=${each}
          set=${(value) => replace(at, value)}
          errors=${below(errors, at)}
          remove=${values.length > 1 && (() => set(values.filter((_, number) => number !== at)))}
        />`,
    )}
    <p><button type="button" onClick=${() => set([...values, { type: "scrape" }])}>Add a target</button></p>`;
}

function Target({ own, at, document, kinds, values, errors, set, remove }) {
  const { type, id, ...rest } = values;
  const options = members(document, kinds[type]).filter(({ name }) => !["type", "id"].includes(name));
  const main = MAIN[type].map((name) => options.find((each) => each.name === name)).filter(Boolean);
  const others = options.filter(({ name }) => !MAIN[type].includes(name));
  const change = (next) => set({ type, ...(id && { id }), ...next });
  const shared = { document, values: rest, set: change, errors, path: `${own}-target-${at}` };
  return html`<section class="card" aria-label="Target ${at + 1}">
    <div class="bar">
      <h2>Target ${at + 1}</h2>
      <span class="spring"></span
      >${remove && html`<button type="button" class="small" onClick=${remove}>Remove</button>`}
    </div>
    <div class="field">
      <label for="type-${at}">type</label
      ><select id="type-${at}" value=${type} onChange=${(event) => set({ type: event.target.value })}>
        ${Object.keys(kinds).map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
      </select>
      <div class="help">${HINT[type]}</div>
    </div>
    <${Fields} ...${shared} options=${main} /><${Fields} ...${shared} options=${others} />
  </section>`;
}

// Mail, and the channels of the operator by their names.
function Told({ own, document, option, account, values, errors, set }) {
  const known = [...new Set([...account.channels, ...(values.channels || [])])];
  const options = members(document, option.schema).map((each) =>
    each.name === "channels" ? { ...each, schema: { ...each.schema, items: { enum: known } } } : each,
  );
  const shown = options.filter(({ name }) => name !== "channels" || known.length);
  return html`${
      !known.length && html`<p class="quiet">The operator has named no channels, such as chats and push services.</p>`
    }
    ${!account.sendsMail && html`<p class="quiet">This service sends no mail: the operator has set no mail server.</p>`}
    <${Fields}
      document=${document}
      options=${shown}
      values=${values}
      path="${own}-notification"
      set=${(next) => set(Object.keys(next).length ? next : undefined)}
    />
    ${errors.length > 0 && html`<div class="help wrong">${errors[0].message}</div>`}`;
}
