// The URLs of a job: pages, states, errors, site tree, webhooks.
import { useEffect, useRef, useState } from "../libraries/hooks.js";
import { call } from "../http.js";
import { Failure, Notice, Rows, Tabs, Time, bytes, go, html, number, place, useLoaded } from "../ui.js";
import { Quality, REASONS, Report } from "./job_report.js";
import { PageResult, Source } from "../results.js";

// States of URLs, with their words. They sum to the URLs that the job knows.
export const PARTS = [
  ["done", "delivered"],
  ["failed", "failed"],
  ["skipped", "left out"],
  ["leased", "being fetched"],
  ["pending", "waiting"],
  ["held", "held by the limit"],
];
export const FINAL = ["completed", "failed", "cancelled"];
const TABS = [
  ["pages", "Pages"],
  ["urls", "URLs"],
  ["errors", "Errors"],
  ["tree", "Site tree"],
  ["quality", "Quality"],
  ["report", "Politeness"],
  ["deliveries", "Webhooks"],
  ["options", "Options"],
];

export function Parts({ job, path, live }) {
  const { query } = place.value;
  const chosen = TABS.some(([name]) => name === query.get("tab")) ? query.get("tab") : "pages";
  const choose = (tab) => go(`jobs/${job.id}`, { kind: job.kind, tab });
  const counts = job.counts || {};
  const isStill = FINAL.includes(job.state) || job.state === "paused";
  const stamp = isStill ? job.state : Math.floor((counts.done + counts.failed) / 20);
  return html`<${Tabs} label="Parts of the job" chosen=${chosen} choose=${choose} tabs=${TABS} />
    <section class="card" role="tabpanel">
      ${
        chosen === "pages" &&
        html`<${Pages}
          path=${path}
          live=${live}
          delivered=${counts.done}
          stamp=${stamp}
          limit=${isStill ? 1000 : 100}
        />`
      }
      ${chosen === "urls" && html`<${Urls} path=${path} />${job.kind === "crawl" && html`<${Missing} job=${job} />`}`}
      ${chosen === "errors" && html`<${Errors} path=${path} stamp=${counts.failed} job=${job} />`}
      ${chosen === "tree" && html`<${Tree} path=${path} delivered=${counts.done} />`}
      ${chosen === "quality" && html`<${Quality} path=${path} stamp=${stamp} />`}
      ${chosen === "report" && html`<${Report} path=${path} stamp=${stamp} />`}
      ${chosen === "deliveries" && html`<${Deliveries} path=${path} />`}
      ${chosen === "options" && html`<${Source} text=${JSON.stringify(job.options, null, 2)} />`}
    </section>`;
}

// The last pages that came while this screen was open, above the first ones of the job.
function Pages({ path, live, delivered, stamp, limit }) {
  const [stored, error, again] = useLoaded(
    (signal) => call("GET", `${path}/urls?state=done&limit=${limit}`, undefined, signal),
    [path, stamp],
  );
  const [shown, show] = useState(null);
  const fresh = live.pages.filter((page) => page.id);
  const known = new Set(fresh.map((page) => page.id));
  const rows = [
    ...fresh,
    ...(stored?.urls || [])
      .filter((each) => each.scrapeId && !known.has(each.scrapeId))
      .map((each) => ({ url: each.url, id: each.scrapeId })),
  ];
  return html`<${Failure} error=${error} retry=${again} />
    ${stored && !rows.length && html`<p class="empty">No page yet.</p>`}
    ${
      stored?.next &&
      delivered > rows.length &&
      html`<p class="quiet">
        ${number(rows.length)} of ${number(delivered)} pages are listed here, all of them under URLs.
      </p>`
    }
    <div class="columns">
      <div>
        ${
          rows.length > 0 &&
          html`<${Rows}
            label="Pages"
            rows=${rows}
            height=${46}
            row=${(page, reach) =>
              html`<button
                type="button"
                class="row pages-grid"
                ...${reach}
                aria-pressed=${shown === page.id}
                onClick=${() => show(page.id)}
              >
                <span class="cut">${page.title || page.url}</span
                >${page.title && html`<span class="quiet cut">${page.url}</span>`}
              </button>`}
          />`
        }
      </div>
      ${shown && html`<${StoredPage} key=${shown} id=${shown} />`}
    </div>`;
}

function StoredPage({ id }) {
  const [found, error, again] = useLoaded((signal) => call("GET", `/v2/scrape/${id}`, undefined, signal), [id]);
  if (error) return html`<${Failure} error=${error} retry=${again} />`;
  return found ? html`<${PageResult} page=${found.data} />` : html`<p class="quiet">Reading the page…</p>`;
}

function Urls({ path }) {
  const [filter, setFilter] = useState({});
  const [state, set] = useState({ urls: [] });
  const [chosen, choose] = useState(null);
  const loading = useRef(null);
  const load = async (where, urls) => {
    if (loading.current === where) return;
    loading.current = where;
    try {
      const found = await call("GET", where);
      if (loading.current === where) set({ urls: [...urls, ...found.urls], next: found.next, total: found.total });
    } catch (error) {
      set((old) => ({ ...old, error }));
    } finally {
      if (loading.current === where) loading.current = null;
    }
  };
  const terms = new URLSearchParams({ ...filter, limit: 500 }).toString();
  const first = () => load(`${path}/urls?${terms}`, []);
  useEffect(() => {
    first();
  }, [terms]);
  const pick = (name, value) =>
    setFilter(Object.fromEntries(Object.entries({ ...filter, [name]: value }).filter(([, each]) => each)));
  return html`<form class="bar filters" aria-label="Filter URLs" onSubmit=${(event) => event.preventDefault()}>
      <label
        >state<select value=${filter.state || ""} onChange=${(event) => pick("state", event.target.value)}>
          <option value="">all</option>
          ${PARTS.map(([name, label]) => html`<option key=${name} value=${name}>${label}</option>`)}
        </select></label
      >
      <label
        >reason<input
          type="search"
          placeholder="such as robots"
          value=${filter.reason || ""}
          onChange=${(event) => pick("reason", event.target.value)}
      /></label>
      <button type="button" onClick=${first}>Refresh</button
      ><span class="quiet">${state.total !== undefined && `${number(state.total)} URLs`}</span>
    </form>
    <${Failure} error=${state.error} retry=${first} />
    ${
      state.urls.length > 0 &&
      html`<${Rows}
        label="URLs"
        rows=${state.urls}
        height=${34}
        total=${state.total}
        more=${state.next && (() => load(state.next, state.urls))}
        row=${(each, reach) =>
          html`<button
            type="button"
            class="row urls-grid"
            ...${reach}
            aria-pressed=${chosen === each}
            onClick=${() => choose(each)}
          >
            <span class="tag ${{ done: "good", failed: "bad", skipped: "" }[each.state] ?? "busy"}">${each.state}</span
            ><span class="cut">${each.url}</span
            ><span class="quiet cut">${each.reason || (each.kind === "page" ? "" : each.kind)}</span>
          </button>`}
      />`
    }
    ${chosen && html`<${Explained} each=${chosen} />`}`;
}

function Explained({ each }) {
  const facts = [
    ["State", `${PARTS.find(([name]) => name === each.state)?.[1] || each.state} (${each.kind})`],
    ["Why", REASONS[each.reason] || each.reason || "It is in the scope of the job."],
    ["Detail", each.detail],
    ["Found on", each.foundOn || "the start, or a sitemap"],
    ["Depth", each.depth],
    ["Last modified", each.lastModified],
  ];
  return html`<section class="explained" aria-label="This URL">
    <h2 class="cut">${each.url}</h2>
    <table class="facts">
      <tbody>
        ${facts
          .filter(([, value]) => value !== undefined)
          .map(
            ([name, value]) =>
              html`<tr key=${name}>
                <th scope="row">${name}</th>
                <td>${value}</td>
              </tr>`,
          )}
      </tbody>
    </table>
    ${each.scrapeId && html`<${StoredPage} key=${each.scrapeId} id=${each.scrapeId} />`}
  </section>`;
}

// Why the rules of a crawl leave a URL out, also one that it has not found.
function Missing({ job }) {
  const [url, setUrl] = useState("");
  const [state, set] = useState({});
  const explain = async (event) => {
    event.preventDefault();
    const { scrapeOptions, webhook, since, ...rules } = job.options;
    try {
      const { results } = await call("POST", "/v2/crawl/explain", {
        ...rules,
        url: rules.url || job.target,
        urls: [url.trim()],
      });
      set({ found: results[0] });
    } catch (error) {
      set({ error });
    }
  };
  const { found } = state;
  const told =
    found &&
    (!found.allowed
      ? REASONS[found.reason] || found.reason
      : found.robots === "refused"
        ? REASONS.robots
        : "The rules of the crawl allow it. If it is not in the list, no page or sitemap " +
          "that was read has a link to it.");
  return html`<form class="explained" aria-label="A missing URL" onSubmit=${explain}>
    <h2>Is a page missing?</h2>
    <div class="bar">
      <input
        type="url"
        class="spring"
        aria-label="URL"
        placeholder="its URL"
        value=${url}
        onInput=${(event) => setUrl(event.target.value)}
      /><button disabled=${!url.trim()}>Explain</button>
    </div>
    <${Failure} error=${state.error} />
    ${
      told &&
      html`<${Notice} kind=${found.allowed && found.robots !== "refused" ? "info" : "warning"}
        >${told} ${found.detail && html`<code>${found.detail}</code>`}<//
      >`
    }
  </form>`;
}

function Errors({ path, stamp, job }) {
  const [found, error, again] = useLoaded((signal) => call("GET", `${path}/errors`, undefined, signal), [path, stamp]);
  const [told, tell] = useState({});
  if (error) return html`<${Failure} error=${error} retry=${again} />`;
  if (!found) return html`<p class="quiet">Reading…</p>`;
  const groups = Map.groupBy ? Map.groupBy(found.errors, group) : grouped(found.errors);
  const retry = async (code, host) => {
    try {
      const { retried } = await call("POST", `${path}/retry`, { codes: [code], hosts: [host] });
      tell({ text: `${retried} pages are fetched again.` });
      again();
    } catch (failed) {
      tell({ failed });
    }
  };
  return html`<${Failure} error=${told.failed} />${told.text && html`<${Notice} kind="info">${told.text}<//>`}
    ${!found.errors.length && !found.robotsBlocked.length && html`<p class="empty">No page failed.</p>`}
    ${[...groups].map(([key, rows]) => {
      const [code, host] = key.split(" ");
      return html`<details key=${key} class="group">
        <summary>
          <span class="tag bad">${code}</span> ${host} <span class="quiet">${number(rows.length)}</span>
        </summary>
        ${
          job.state !== "cancelled" &&
          html`<button type="button" class="small" onClick=${() => retry(code, host)}>Retry these</button>`
        }
        <ul class="results">
          ${rows.slice(0, 200).map(
            (row) =>
              html`<li key=${row.id}>
                <span class="cut">${row.url}</span>
                <div class="quiet">${row.error}</div>
              </li>`,
          )}
        </ul>
      </details>`;
    })}
    ${
      found.robotsBlocked.length > 0 &&
      html`<details class="group">
        <summary>Refused by robots.txt <span class="quiet">${number(found.robotsBlocked.length)}</span></summary>
        <ul class="results">
          ${found.robotsBlocked.slice(0, 500).map((url) => html`<li key=${url} class="cut">${url}</li>`)}
        </ul>
      </details>`
    }`;
}

const group = (row) => `${row.code || "ERROR"} ${URL.canParse(row.url) ? new URL(row.url).hostname : row.url}`;

function grouped(rows) {
  const found = new Map();
  for (const row of rows) found.set(group(row), [...(found.get(group(row)) || []), row]);
  return found;
}

// The delivered pages by the folders of their paths; at most 2,000 URLs are read.
function Tree({ path, delivered }) {
  const [found, error, again] = useLoaded(
    async (signal) => {
      const urls = [];
      let next = `${path}/urls?state=done&limit=1000`;
      while (next && urls.length < 2000) {
        const part = await call("GET", next, undefined, signal);
        urls.push(...part.urls.filter((each) => each.kind === "page").map((each) => each.url));
        next = part.next;
      }
      return { root: folders(urls), count: urls.length, next };
    },
    [path],
  );
  if (error) return html`<${Failure} error=${error} retry=${again} />`;
  if (!found) return html`<p class="quiet">Reading…</p>`;
  return html`${
      found.next && html`<p class="quiet">Made of the first ${number(found.count)} of ${number(delivered)} pages.</p>`
    } <${Folder} name="Site" node=${found.root} open=${true} />`;
}

function folders(urls) {
  const root = { count: 0, below: new Map() };
  for (const url of urls) {
    const { host, pathname } = new URL(url);
    let node = root;
    node.count += 1;
    for (const part of [host, ...pathname.split("/").filter(Boolean)]) {
      if (!node.below.has(part)) node.below.set(part, { count: 0, below: new Map() });
      node = node.below.get(part);
      node.count += 1;
    }
  }
  return root;
}

function Folder({ name, node, open }) {
  if (!node.below.size) return html`<div class="leaf">${name}</div>`;
  const below = [...node.below].sort((one, other) => other[1].count - one[1].count);
  return html`<details class="folder" open=${open}>
    <summary>${name} <span class="quiet">${number(node.count)}</span></summary>
    ${below
      .slice(0, 200)
      .map(([key, each]) => html`<${Folder} key=${key} name=${key} node=${each} open=${node.below.size === 1} />`)}
    ${below.length > 200 && html`<p class="quiet">and ${number(below.length - 200)} more</p>`}
  </details>`;
}

function Deliveries({ path }) {
  const [found, error, again] = useLoaded(
    (signal) => call("GET", `${path}/deliveries?limit=200`, undefined, signal),
    [path],
  );
  const [told, tell] = useState({});
  const [shown, show] = useState(null);
  const replay = async (where) => {
    try {
      const { replayed } = await call("POST", where, {});
      tell({ text: `${replayed} deliveries are sent again.` });
      again();
    } catch (failed) {
      tell({ failed });
    }
  };
  if (error) return html`<${Failure} error=${error} retry=${again} />`;
  if (!found) return html`<p class="quiet">Reading…</p>`;
  if (!found.deliveries.length)
    return html`<p class="empty">This job has no webhook, or nothing has been sent yet.</p>`;
  const choose = (number) => show(shown === number ? null : number);
  return html`<${Failure} error=${told.failed} />${told.text && html`<${Notice} kind="info">${told.text}<//>`}
    <div class="bar">
      <button type="button" onClick=${() => replay(`${path}/deliveries/replay`)}>Send all failed ones again</button
      ><button type="button" onClick=${again}>Refresh</button>
    </div>
    ${
      shown &&
      html`<${Sent} key=${shown} where=${`${path}/deliveries/${shown}`} replay=${replay} close=${() => show(null)} />`
    }
    <div class="scroll" tabindex="0">
      <table class="list">
        <thead>
          <tr>
            <th>State</th>
            <th>Event</th>
            <th>Page</th>
            <th>Made</th>
            <th>Attempts</th>
            <td></td>
          </tr>
        </thead>
        <tbody>
          ${found.deliveries.map(
            (each) =>
              html`<tr key=${each.id}>
                <td>
                  <span class="tag ${{ delivered: "good", failed: "bad" }[each.state] || "busy"}">${each.state}</span>
                </td>
                <td>${each.type}</td>
                <td class="cut">${each.url}</td>
                <td><${Time} at=${each.createdAt} /></td>
                <td>${each.attempts.map((attempt) => attempt.status || attempt.error).join(", ") || "none yet"}</td>
                <td>
                  <button
                    type="button"
                    class="small"
                    aria-pressed=${shown === each.id}
                    onClick=${() => choose(each.id)}
                  >
                    Show
                  </button>
                  <button type="button" class="small" onClick=${() => replay(`${path}/deliveries/${each.id}/replay`)}>
                    Send again
                  </button>
                </td>
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${found.next && html`<p class="quiet">The first ${number(found.deliveries.length)} are shown.</p>`}`;
}

// One delivery: its attempts, what was sent, and what was answered.
function Sent({ where, replay, close }) {
  const [found, error, again] = useLoaded((signal) => call("GET", where, undefined, signal), [where]);
  if (error) return html`<${Failure} error=${error} retry=${again} />`;
  if (!found) return html`<p class="quiet">Reading the delivery…</p>`;
  const { type, attempts, body, bodyBytes, response, webhookId } = found.delivery;
  return html`<section class="explained" aria-label="Delivery">
    <div class="bar">
      <h3>${type}</h3>
      <code>${webhookId}</code><span class="spring"></span>
      <button type="button" class="small" onClick=${() => replay(`${where}/replay`).then(again)}>Send again</button
      ><button type="button" class="small" onClick=${close}>Close</button>
    </div>
    <table class="list">
      <thead>
        <tr>
          <th>Attempt</th>
          <th>At</th>
          <th>Took</th>
          <th>Result</th>
        </tr>
      </thead>
      <tbody>
        ${attempts.map(
          (each) =>
            html`<tr key=${each.attempt}>
              <td>${each.attempt}</td>
              <td><${Time} at=${each.at} /></td>
              <td>${each.durationMs} ms</td>
              <td>${[each.status, each.error].filter(Boolean).join(": ")}</td>
            </tr>`,
        )}
      </tbody>
    </table>
    <h4>Sent</h4>
    ${
      body === undefined
        ? html`<p class="empty">It is not stored any more.</p>`
        : html`<${Source}
              text=${body}
            />${bodyBytes > 4096 && html`<p class="quiet">The start of ${bytes(bodyBytes)}.</p>`}`
    }
    <h4>Answer</h4>
    ${
      response
        ? html`<${Source} text=${response} />`
        : html`<p class="empty">${response === undefined ? "None has come yet." : "It was empty."}</p>`
    }
  </section>`;
}
