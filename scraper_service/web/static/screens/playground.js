// Every operation: a form, its result, and the same call as code.
import { useEffect, useRef, useState } from "../libraries/hooks.js";
import { CallError, call, description } from "../http.js";
import { Copy, Failure, Notice, Tabs, go, html, number, place, seconds, useLoaded } from "../ui.js";
import { Fields, forget, unfinished } from "../form.js";
import { members, optionsOf } from "../schema.js";
import { PageResult } from "../results.js";
import { snippets } from "./snippets.js";

// Path, whether the answer is a job, first values, and the options that stand above the others.
const OPERATIONS = {
  scrape: {
    path: "/v2/scrape",
    start: { formats: ["markdown", "links"] },
    main: ["url", "formats", "onlyMainContent"],
  },
  crawl: { path: "/v2/crawl", job: true, start: { limit: 100 }, main: ["url", "limit", "prompt"] },
  batch: { path: "/v2/batch/scrape", job: true, start: { formats: ["markdown"] }, main: ["urls", "formats"] },
  map: { path: "/v2/map", start: {}, main: ["url", "search", "limit"] },
  search: { path: "/v2/search", start: { limit: 10 }, main: ["query", "limit", "sources"] },
  extract: { path: "/v2/extract", job: true, start: {}, main: ["urls", "prompt", "schema"] },
  parse: { path: "/v2/parse", file: true, start: { formats: ["markdown"] }, main: ["formats"] },
};

// Options of crawls and searches that clients of other versions send; they have no effect.
const isShown = ({ name }) => !name.startsWith("__") && !["file", "options", "origin", "integration"].includes(name);

// What was entered, by operation: kept while other screens are open.
const entered = {};

export function Playground() {
  const { query } = place.value;
  const name = query.get("op") in OPERATIONS ? query.get("op") : "scrape";
  const [document, error, again] = useLoaded(description, []);
  const choose = (op) => go("play", { op });
  return html`<h1 class="sr">Playground</h1>
    <${Tabs}
      label="Operation"
      chosen=${name}
      choose=${choose}
      tabs=${Object.keys(OPERATIONS).map((each) => [each, each])}
    />
    <${Failure} error=${error} retry=${again} />
    ${document && html`<${Operation} key=${name} name=${name} document=${document} />`}`;
}

function startValues(name, query) {
  try {
    const body = JSON.parse(query.get("body"));
    if (body && typeof body === "object" && !Array.isArray(body)) return body;
  } catch {
    // The link was cut or edited: the usual form is shown.
  }
  return entered[name] || OPERATIONS[name].start;
}

function Operation({ name, document }) {
  const operation = OPERATIONS[name];
  const [values, setValues] = useState(() => startValues(name, place.value.query));
  const [file, setFile] = useState(null);
  const [filter, setFilter] = useState("");
  const [state, setState] = useState({});
  const stop = useRef(null);
  const set = (next) => {
    entered[name] = next;
    setValues(next);
  };
  useEffect(() => () => stop.current?.abort(), []);

  const options = formOptions(document, operation).filter(isShown);
  const main = operation.main.map((each) => options.find((option) => option.name === each)).filter(Boolean);
  const others = options.filter((option) => !operation.main.includes(option.name));
  const matching = others.filter((option) =>
    `${option.name} ${option.schema.description || ""}`.toLowerCase().includes(filter.toLowerCase()),
  );
  const missing = main
    .filter((option) => option.required && values[option.name] === undefined)
    .map((option) => option.name);
  if (operation.file && !file) missing.push("file");

  const run = async () => {
    if (missing.length)
      return setState({ error: new CallError(400, { error: `Still missing: ${missing.join(", ")}.` }) });
    const open = unfinished(name);
    if (open.length)
      return setState({ error: new CallError(400, { error: `Not valid JSON yet: ${open.join(", ")}.` }) });
    stop.current?.abort();
    const own = (stop.current = new AbortController());
    const begun = performance.now();
    setState({ running: true });
    let body = values;
    if (operation.file) {
      body = new FormData();
      body.append("file", file);
      body.append("options", JSON.stringify(values));
    }
    try {
      const found = await call("POST", operation.path, body, own.signal);
      if (operation.job && found.id) return go(`jobs/${found.id}`, { kind: name });
      setState({ found, took: (performance.now() - begun) / 1000 });
    } catch (error) {
      if (error.name === "AbortError") return own === stop.current && setState({});
      setState({ error, errors: error.details });
    }
  };
  const keys = (event) => {
    if (
      event.key === "Enter" &&
      (event.ctrlKey || event.metaKey || event.target.matches("input[type=url],input[type=text]"))
    ) {
      event.preventDefault();
      run();
    }
  };
  const link = () => `${location.origin}/#/play?${new URLSearchParams({ op: name, body: JSON.stringify(values) })}`;

  return html`<div class="split">
    <form class="card" aria-label="${name} options" onKeyDown=${keys} onSubmit=${(event) => event.preventDefault()}>
      ${operation.file && html`<${FileDrop} file=${file} set=${setFile} />`}
      <${Fields} document=${document} options=${main} values=${values} set=${set} errors=${state.errors} path=${name} />
      <details
        class="group"
        open=${(state.errors || []).some(({ path }) => path?.length && !operation.main.includes(path[0]))}
      >
        <summary>
          More
          options${others.some((option) => values[option.name] !== undefined) && html` <span class="tag">set</span>`}
        </summary>
        <input
          type="search"
          aria-label="Find an option"
          placeholder="Find an option"
          value=${filter}
          onInput=${(event) => setFilter(event.target.value)}
        />
        <${Fields}
          document=${document}
          options=${matching}
          values=${values}
          set=${set}
          errors=${state.errors}
          path="${name}-more"
        />
      </details>
      <div class="bar">
        <button type="button" class="primary" onClick=${run} disabled=${state.running} title="Ctrl-Enter">
          ${state.running ? "Running…" : operation.job ? `Start ${name}` : `Run ${name}`}
        </button>
        ${state.running && html`<button type="button" onClick=${() => stop.current.abort()}>Stop</button>`}
        <button
          type="button"
          onClick=${() => {
            forget(name);
            setState({});
            set(operation.start);
          }}
        >
          Reset
        </button>
        <${Copy} text=${link} label="Copy link to this form" />
      </div>
    </form>
    <div class="stack">
      <${Failure} error=${state.error} />
      ${state.running && html`<${Notice} kind="info">Waiting for the answer…<//>`}
      ${
        !state.found &&
        !state.running &&
        !state.error &&
        html`<p class="card quiet">
          ${
            operation.job
              ? "The job opens on a page of its own, which is updated while it runs."
              : "The result appears here."
          }${" "}Ctrl-Enter
          starts the call.
        </p>`
      }
      ${state.found && html`<${Result} name=${name} found=${state.found} took=${state.took} />`}
      <${Code} path=${operation.path} values=${values} file=${operation.file ? file?.name || "page.pdf" : null} />
    </div>
  </div>`;
}

// A file is sent beside its options, which the document describes as a part of the form.
function formOptions(document, operation) {
  const own = optionsOf(document, operation.path);
  const nested = operation.file && own.find((option) => option.name === "options");
  if (!operation.file) return own;
  if (nested?.schema.properties || nested?.schema.allOf) return members(document, nested.schema);
  return optionsOf(document, "/v2/scrape").filter((option) => option.name !== "url");
}

function FileDrop({ file, set }) {
  const [over, setOver] = useState(false);
  const dropped = (event) => {
    event.preventDefault();
    setOver(false);
    if (event.dataTransfer.files.length) set(event.dataTransfer.files[0]);
  };
  return html`<label
    class="drop ${over ? "over" : ""}"
    onDrop=${dropped}
    onDragOver=${(event) => {
      event.preventDefault();
      setOver(true);
    }}
    onDragLeave=${() => setOver(false)}
  >
    <span>${file ? file.name : "Drop a PDF, Word, Excel or other file here, or choose one"}</span>
    <input type="file" onChange=${(event) => set(event.target.files[0] || null)}
  /></label>`;
}

function Code({ path, values, file }) {
  const [language, choose] = useState("curl");
  const all = snippets(path, values, file);
  return html`<section class="card" aria-label="The same call as code">
    <div class="bar">
      <h2>The same call</h2>
      <span class="spring"></span><${Copy} text=${all[language]} />
    </div>
    <${Tabs}
      label="Language"
      chosen=${language}
      choose=${choose}
      tabs=${Object.keys(all).map((each) => [each, each])}
    />
    <pre class="code" tabindex="0">${all[language]}</pre>
  </section>`;
}

function Result({ name, found, took }) {
  const told = html`<p class="quiet">
    Answered in ${seconds(took)}${found.creditsUsed !== undefined ? ` · ${found.creditsUsed} credits` : ""}
  </p>`;
  const warning = found.warning && html`<${Notice} kind="warning">${found.warning}<//>`;
  if (name === "map")
    return html`<section class="card" aria-label="Result">
      <h2>${number(found.links.length)} URLs</h2>
      ${told}${warning}<${Links} links=${found.links} />
    </section>`;
  if (name === "search") {
    return html`<section class="card" aria-label="Result">
      <h2>Results</h2>
      ${told}${warning}
      ${Object.entries(found.data).map(
        ([source, results]) =>
          html`<h3 key=${source}>${source}: ${results.length}</h3>
            <ol class="results">
              ${results.map(
                (each) =>
                  html`<li key=${each.url || each.imageUrl}>
                    <a href=${safe(each.url)} target="_blank" rel="noopener noreferrer">${each.title || each.url}</a>
                    <div class="quiet">${each.url}</div>
                    <div>${each.description || each.snippet}</div>
                    ${each.metadata && html`<${Scraped} page=${each} />`}
                  </li>`,
              )}
            </ol>`,
      )}
    </section>`;
  }
  return html`<div class="stack">
    ${found.success === false && html`<${Notice}>${found.error}<//>`}
    ${found.data && html`<${PageResult} page=${found.data} told=${told} />`}
  </div>`;
}

// The page of a search result. It is made when it is opened: a search may have 100.
function Scraped({ page }) {
  const [isOpen, open] = useState(false);
  return html`<details onToggle=${(event) => open(event.currentTarget.open)}>
    <summary>The page ${page.metadata.error ? html` <span class="tag bad">${page.metadata.error}</span>` : ""}</summary>
    ${isOpen && html`<${PageResult} page=${page} />`}
  </details>`;
}

function Links({ links }) {
  return html`<ol class="results">
      ${links
        .slice(0, 500)
        .map(
          (each) =>
            html`<li key=${each.url}>
              <a href=${safe(each.url)} target="_blank" rel="noopener noreferrer">${each.title || each.url}</a
              >${each.title && html`<div class="quiet">${each.url}</div>`}
            </li>`,
        )}
    </ol>
    ${links.length > 500 && html`<p class="quiet">The first 500 are shown.</p>`}
    <${Copy} text=${() => links.map((each) => each.url).join("\n")} label="Copy all URLs" />`;
}

const safe = (url) => (/^https?:\/\//i.test(url || "") ? url : undefined);
