// One job: its progress, and what can be changed while it runs.
import { useEffect, useRef, useState } from "../libraries/hooks.js";
import { call, description, pathOf } from "../http.js";
import { Copy, Failure, Notice, Time, bytes, go, html, number, seconds, useLoaded } from "../ui.js";
import { StateTag } from "./jobs.js";
import { FINAL, PARTS, Parts } from "./job_tabs.js";
import { PageResult, Source } from "../results.js";
import { Field, forget, unfinished } from "../form.js";
import { Plot } from "../plot.js";
import { optionsOf, resolved } from "../schema.js";

const PATHS = { crawl: "/v2/crawl", batch: "/v2/batch/scrape", batch_scrape: "/v2/batch/scrape" };
// Keys that a running crawl takes; a batch takes the last two.
const CHANGES = ["limit", "maxDiscoveryDepth", "includePaths", "excludePaths", "delay", "maxConcurrency"];

export function Job({ id }) {
  const [state, set] = useState({});
  const live = useRef({ pages: [], samples: [] });
  const load = async () => {
    try {
      const { data } = await call("GET", `/v2/jobs/${id}`);
      const now = Date.now() / 1000;
      if (data.counts) live.current.samples = [...live.current.samples.slice(-600), [now, data.counts.done]];
      set({ job: data });
      return data;
    } catch (error) {
      set((old) => ({ ...old, error }));
      return null;
    }
  };
  useEffect(() => {
    live.current = { pages: [], samples: [] };
    set({});
    return follow(id, load, live.current);
  }, [id]);
  const { job, error } = state;
  if (!job)
    return error
      ? html`<h1>Job</h1>
          <${Failure} error=${error} retry=${load} />
          <p>
            ${error.status === 404 && "It was deleted, or its time is over: jobs are kept for a limited time. "}<a
              href="#/jobs"
              >All jobs</a
            >
          </p>`
      : html`<p class="quiet">Reading the job…</p>`;
  const path = PATHS[job.kind] && `${PATHS[job.kind]}/${id}`;
  return html`<p class="crumbs"><a href="#/jobs">Jobs</a></p>
    <div class="bar">
      <h1 class="cut">${job.target || job.kind}</h1>
      <${StateTag} state=${job.state} />
    </div>
    <p class="quiet">
      ${job.kind.replace("_", " ")} · started <${Time} at=${job.createdAt} /> · kept until${" "}<${Time}
        at=${job.expiresAt}
      />${" "}· <code>${id}</code>
    </p>
    <${Failure} error=${error} retry=${load} />
    ${job.error && html`<${Notice}>${job.error}<//>`}
    ${job.warning && html`<${Notice} kind="warning">${job.warning}<//>`}
    ${
      path
        ? html`<${Progress} job=${job} live=${live.current} /><${Controls}
              job=${job}
              path=${path}
              load=${load}
            /><${Parts} job=${job} path=${path} live=${live.current} />`
        : html`<${Plain} job=${job} id=${id} />`
    }`;
}

// Read the job now, after each of its events, and each few seconds. Returns how to stop.
function follow(id, load, live) {
  let stream,
    timer,
    isStopped = false,
    isDue = false;
  const refresh = async () => {
    clearTimeout(timer);
    isDue = false;
    const job = await load();
    if (isStopped) return;
    const isOver = job && FINAL.includes(job.state);
    if (job && !isOver && !stream && PATHS[job.kind]) {
      // The browser reconnects by itself, and the stream goes on after the last event.
      stream = new EventSource(pathOf(`${PATHS[job.kind]}/${id}/events?lastEventId=now`));
      for (const type of ["started", "page", "completed", "failed", "cancelled", "paused", "resumed", "updated"])
        for (const kind of ["crawl", "batch_scrape"])
          stream.addEventListener(`${kind}.${type}`, (event) => heard(type, event));
    }
    if (isOver) stream = stream?.close();
    else timer = setTimeout(refresh, 3000);
  };
  const heard = (type, event) => {
    if (type === "page") {
      const { data, error } = JSON.parse(event.data);
      const meta = data[0]?.metadata;
      live.pages = [
        {
          url: meta?.sourceURL || meta?.url || error,
          title: meta?.title,
          status: meta?.statusCode,
          id: meta?.scrapeId,
        },
        ...live.pages,
      ].slice(0, 50);
    }
    if (isDue) return;
    isDue = true;
    clearTimeout(timer);
    timer = setTimeout(refresh, 400);
  };
  refresh();
  return () => {
    isStopped = true;
    clearTimeout(timer);
    stream?.close();
  };
}

function Progress({ job, live }) {
  const counts = job.counts || {};
  const total = PARTS.reduce((sum, [name]) => sum + (counts[name] || 0), 0);
  const isOver = FINAL.includes(job.state);
  const recent = live.samples.filter(([at]) => at > Date.now() / 1000 - 15);
  const spent = recent.length > 1 ? recent.at(-1)[0] - recent[0][0] : 0;
  const pace = isOver
    ? job.duration
      ? counts.done / job.duration
      : 0
    : spent > 0
      ? (recent.at(-1)[1] - recent[0][1]) / spent
      : 0;
  const left = (counts.pending || 0) + (counts.leased || 0);
  const figures = [
    ["Pages", number(job.completed ?? counts.done)],
    ["Limit", job.limit ? number(job.limit) : "none"],
    ["Pages per second", pace ? pace.toFixed(1) : "–"],
    ["Time left", isOver || !pace ? "–" : `about ${seconds(left / pace)}`],
    ["Took", seconds(job.duration)],
    ["Credits", number(job.creditsUsed)],
  ];
  return html`<section class="card" aria-label="Progress">
    <div
      class="stacked"
      role="img"
      aria-label=${PARTS.map(([name, label]) => `${counts[name] || 0} ${label}`).join(", ")}
    >
      ${PARTS.map(
        ([name]) =>
          counts[name] > 0 &&
          html`<span key=${name} class="part ${name}" style=${{ width: `${(100 * counts[name]) / total}%` }}></span>`,
      )}
    </div>
    <ul class="legend">
      ${PARTS.map(
        ([name, label]) => html`<li key=${name}><span class="dot ${name}"></span>${number(counts[name])} ${label}</li>`,
      )}
      <li class="quiet">= ${number(total)} URLs known</li>
    </ul>
    <dl class="figures">
      ${figures.map(
        ([name, value]) =>
          html`<div key=${name}>
            <dt>${name}</dt>
            <dd>${value}</dd>
          </div>`,
      )}
    </dl>
    ${
      live.samples.length > 3 &&
      !isOver &&
      html`<${Plot} label="Pages delivered" unit="pages" points=${live.samples} />`
    }
  </section>`;
}

function Controls({ job, path, load }) {
  const [state, set] = useState({});
  const isOver = FINAL.includes(job.state);
  const act = async (method, where, body, told) => {
    set({ running: true });
    try {
      const found = await call(method, where, body);
      set({ told: typeof told === "function" ? told(found) : told });
    } catch (error) {
      set({ error });
    }
    await load();
  };
  const name = job.kind === "crawl" ? "crawl" : "batch";
  const again = () => go("play", { op: name, body: JSON.stringify(job.options || {}) });
  return html`<div class="bar" role="group" aria-label="Control">
      ${
        !isOver &&
        job.state !== "paused" &&
        html`<button
          type="button"
          onClick=${() =>
            act("PATCH", path, { paused: true }, "Paused: no new page begins, running ones are delivered.")}
          disabled=${state.running}
        >
          Pause
        </button>`
      }
      ${
        job.state === "paused" &&
        html`<button
          type="button"
          class="primary"
          onClick=${() => act("PATCH", path, { paused: false }, "The job goes on.")}
          disabled=${state.running}
        >
          Resume
        </button>`
      }
      ${
        !isOver &&
        html`<button
            type="button"
            onClick=${() => set({ changing: !state.changing })}
            aria-expanded=${Boolean(state.changing)}
          >
            Change…
          </button>
          <button
            type="button"
            class="danger"
            onClick=${() =>
              confirm("Cancel this job? Delivered pages stay.") && act("DELETE", path, undefined, "Cancelled.")}
            disabled=${state.running}
          >
            Cancel
          </button>`
      }
      ${
        job.counts?.failed > 0 &&
        job.state !== "cancelled" &&
        html`<button
          type="button"
          onClick=${() => act("POST", `${path}/retry`, {}, (found) => `${found.retried} pages are fetched again.`)}
          disabled=${state.running}
        >
          Retry ${number(job.counts.failed)} failed
        </button>`
      }
      ${
        path.startsWith("/v2") &&
        (isOver || job.state === "paused") &&
        job.completed > 0 &&
        html`<button
          type="button"
          onClick=${() => set({ choosing: !state.choosing })}
          aria-expanded=${Boolean(state.choosing)}
        >
          Other formats…
        </button>`
      }
      <button type="button" onClick=${again}>Run again</button>
    </div>
    <${Download} job=${job} path=${path} />
    <${Failure} error=${state.error} />${state.told && html`<${Notice} kind="info">${state.told}<//>`}
    ${
      state.choosing &&
      html`<${Reprocess}
        make=${(formats) =>
          act(
            "POST",
            `${path}/reprocess`,
            { formats },
            (found) =>
              html`The pages are made again as <a href=${`#/jobs/${found.id}?kind=${job.kind}`}>another job</a>.`,
          )}
      />`
    }
    ${
      state.changing &&
      html`<${Change}
        job=${job}
        apply=${(body) =>
          act("PATCH", path, body, (found) => `Changed: ${number(found.effect?.admitted ?? 0)} URLs admitted.`)}
      />`
    }`;
}

function Reprocess({ make }) {
  const [document, error] = useLoaded(description, []);
  const [formats, set] = useState(["html"]);
  useEffect(() => () => forget("reprocess-"), []);
  if (!document) return html`<${Failure} error=${error} />`;
  const option = optionsOf(document, "/v2/crawl/{id}/reprocess").find(({ name }) => name === "formats");
  const submit = (event) => {
    event.preventDefault();
    if (!unfinished("reprocess-").length) make(formats);
  };
  return html`<form class="card" aria-label="Other formats" onSubmit=${submit} novalidate>
    <p class="quiet">Made of the stored responses as a new job; nothing is fetched.</p>
    <${Field} document=${document} option=${option} value=${formats} set=${set} path="reprocess-formats" />
    <button type="submit" class="primary" disabled=${!formats}>Make</button>
  </form>`;
}

function Change({ job, apply }) {
  const [document, error] = useLoaded(description, []);
  const [values, set] = useState({});
  if (!document) return html`<${Failure} error=${error} />`;
  const names = job.kind === "crawl" ? CHANGES : CHANGES.slice(-2);
  const content = document.paths["/v2/crawl"].post.requestBody.content["application/json"];
  const known = resolved(document, content.schema);
  const all = Object.assign(
    {},
    ...(known.allOf || []).map((part) => resolved(document, part).properties),
    known.properties,
  );
  return html`<form
    class="card"
    aria-label="Change the running job"
    onSubmit=${(event) => {
      event.preventDefault();
      apply(values);
    }}
  >
    <p class="quiet">What is left empty stays as it is. Delivered pages stay in any case.</p>
    ${names
      .filter((name) => all[name])
      .map(
        (name) =>
          html`<${Field}
            key=${name}
            document=${document}
            path="change-${name}"
            value=${values[name]}
            option=${{ name, schema: { ...resolved(document, all[name]), default: job.options?.[name] } }}
            set=${(value) => {
              const { [name]: _, ...rest } = values;
              set(value === undefined ? rest : { ...rest, [name]: value });
            }}
          />`,
      )}
    <button type="submit" class="primary" disabled=${!Object.keys(values).length}>Apply</button>
  </form>`;
}

const FILES = [
  ["jsonl", "JSON Lines", "every value of a page, one page a line"],
  ["csv", "CSV", "a table with the Markdown and the main metadata"],
  ["md", "Markdown", "a ZIP file with a file for each page"],
  ["parquet", "Parquet", "a table for data frames"],
  ["warc", "WARC", "the responses of the site, as they came"],
  ["wacz", "WACZ", "the same with an index, for players"],
];
const LATER = ["parquet", "warc", "wacz"]; // not of a running job

// The formats that this service can write, with the size of files that it has written before.
function Download({ job, path }) {
  const [isOpen, open] = useState(false);
  const isStill = FINAL.includes(job.state) || job.state === "paused";
  const load = async (signal) => {
    if (!isOpen) return null;
    const { data } = await call("GET", "/v2/capabilities", undefined, signal);
    const missing = Object.fromEntries(
      data.exports.filter((each) => !each.available).map((each) => [each.name, each.reason]),
    );
    return Promise.all(
      FILES.map(async ([name, label, about]) => {
        const href = pathOf(`${path}/export?format=${name}`);
        if (missing[name]) return { name, label, why: missing[name] };
        if (LATER.includes(name) && !isStill) return { name, label, why: "once the job is paused or over" };
        const { status, headers } = await fetch(href, { method: "HEAD", signal });
        if (status !== 200) return { name, label, why: "this job has not kept the responses of its pages" };
        return { name, label, about, href, pages: headers.get("X-Total-Pages"), size: headers.get("Content-Length") };
      }),
    );
  };
  const [files, error, again] = useLoaded(load, [isOpen, path, job.state]);
  return html`<details class="card" onToggle=${(event) => open(event.target.open)}>
    <summary>Download ${number(job.completed)} pages</summary>
    <${Failure} error=${error} retry=${again} />
    ${isOpen && !files && !error && html`<p class="quiet">Reading the formats…</p>`}
    ${
      files &&
      html`<table class="facts" aria-label="Files">
          <tbody>
            ${files.map(
              (each) =>
                html`<tr key=${each.name}>
                  <th scope="row">${each.href ? html`<a href=${each.href} download>${each.label}</a>` : each.label}</th>
                  <td>
                    ${
                      each.why
                        ? html`<span class="quiet">${each.why}</span>`
                        : html`${number(each.pages)} pages${each.size && html`, ${bytes(each.size)}`}${" "}<span
                              class="quiet"
                              >${each.about}</span
                            >`
                    }
                  </td>
                </tr>`,
            )}
          </tbody>
        </table>
        <p class="quiet">
          As tables: <a href=${pathOf(`${path}/export?format=csv&what=urls`)} download>every URL</a>,${" "}<a
            href=${pathOf(`${path}/export?format=csv&what=errors`)}
            download
            >the errors</a
          >.
        </p>`
    }
  </details>`;
}

// A job without a page for each URL: its result as it is.
function Plain({ job, id }) {
  const where = { extract: `/v2/extract/${id}`, scrape: `/v2/scrape/${id}` }[job.kind];
  const [found, error, again] = useLoaded(
    (signal) => (where ? call("GET", where, undefined, signal) : Promise.resolve(null)),
    [where, job.state],
  );
  return html`<dl class="figures card">
      <div>
        <dt>Took</dt>
        <dd>${seconds(job.duration)}</dd>
      </div>
      <div>
        <dt>Credits</dt>
        <dd>${number(job.creditsUsed)}</dd>
      </div>
    </dl>
    <${Failure} error=${error} retry=${again} />
    ${
      found &&
      (job.kind === "scrape"
        ? html`<${PageResult} page=${found.data} />`
        : html`<section class="card">
            <div class="bar">
              <h2>Result</h2>
              <span class="spring"></span><${Copy} text=${JSON.stringify(found.data, null, 2)} label="Copy data" />
            </div>
            <${Source} text=${JSON.stringify(found, null, 2)} />
          </section>`)
    }
    <details class="group">
      <summary>Options</summary>
      <${Source} text=${JSON.stringify(job.options ?? {}, null, 2)} />
    </details>`;
}
