// One job: its progress, its URLs, its errors, and what can be changed while it runs.
import { useEffect, useRef, useState } from "./libraries/hooks.js";
import { call, description, pathOf } from "./http.js";
import { Copy, Failure, Notice, Rows, Tabs, Time, bytes, go, html, number, place, seconds, useLoaded } from "./ui.js";
import { StateTag } from "./jobs.js";
import { PageResult, Source } from "./results.js";
import { Field } from "./form.js";
import { Plot } from "./plot.js";
import { resolved } from "./schema.js";

const PATHS = { crawl: "/v2/crawl", batch: "/v2/batch/scrape", batch_scrape: "/v2/batch/scrape" };
const PARTS = [["done", "delivered"], ["failed", "failed"], ["skipped", "left out"], ["leased", "being fetched"], ["pending", "waiting"], ["held", "held by the limit"]];
const FINAL = ["completed", "failed", "cancelled"];
const TABS = [["pages", "Pages"], ["urls", "URLs"], ["errors", "Errors"], ["tree", "Site tree"], ["report", "Politeness"], ["deliveries", "Webhooks"], ["options", "Options"]];
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
  if (!job) return error ? html`<h1>Job</h1><${Failure} error=${error} retry=${load} /><p><a href="#/jobs">All jobs</a></p>` : html`<p class="quiet">Reading the job…</p>`;
  const path = PATHS[job.kind] && `${PATHS[job.kind]}/${id}`;
  return html`<p class="crumbs"><a href="#/jobs">Jobs</a></p>
    <div class="bar"><h1 class="cut">${job.target || job.kind}</h1><${StateTag} state=${job.state} /></div>
    <p class="quiet">${job.kind.replace("_", " ")} · started <${Time} at=${job.createdAt} /> · kept until <${Time} at=${job.expiresAt} /> · <code>${id}</code></p>
    <${Failure} error=${error} retry=${load} />
    ${job.error && html`<${Notice}>${job.error}<//>`}
    ${job.warning && html`<${Notice} kind="warning">${job.warning}<//>`}
    ${path ? html`<${Progress} job=${job} live=${live.current} /><${Controls} job=${job} path=${path} load=${load} /><${Parts} job=${job} path=${path} live=${live.current} />`
      : html`<${Plain} job=${job} id=${id} />`}`;
}

// Read the job now, after each of its events, and each few seconds. Returns how to stop.
function follow(id, load, live) {
  let stream, timer, isStopped = false, isDue = false;
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
        for (const kind of ["crawl", "batch_scrape"]) stream.addEventListener(`${kind}.${type}`, (event) => heard(type, event));
    }
    if (isOver) stream = stream?.close();
    else timer = setTimeout(refresh, 3000);
  };
  const heard = (type, event) => {
    if (type === "page") {
      const { data, error } = JSON.parse(event.data);
      const meta = data[0]?.metadata;
      live.pages = [{ url: meta?.sourceURL || meta?.url || error, title: meta?.title, status: meta?.statusCode, id: meta?.scrapeId }, ...live.pages].slice(0, 50);
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
  const pace = isOver ? (job.duration ? counts.done / job.duration : 0) : spent > 0 ? (recent.at(-1)[1] - recent[0][1]) / spent : 0;
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
    <div class="stacked" role="img" aria-label=${PARTS.map(([name, label]) => `${counts[name] || 0} ${label}`).join(", ")}>
      ${PARTS.map(([name]) => counts[name] > 0 && html`<span key=${name} class="part ${name}" style=${{ width: `${(100 * counts[name]) / total}%` }}></span>`)}</div>
    <ul class="legend">${PARTS.map(([name, label]) => html`<li key=${name}><span class="dot ${name}"></span>${number(counts[name])} ${label}</li>`)}<li class="quiet">= ${number(total)} URLs known</li></ul>
    <dl class="figures">${figures.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${live.samples.length > 3 && !isOver && html`<${Plot} label="Pages delivered" unit="pages" points=${live.samples} />`}</section>`;
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
    ${!isOver && job.state !== "paused" && html`<button type="button" onClick=${() => act("PATCH", path, { paused: true }, "Paused: no new page begins, running ones are delivered.")} disabled=${state.running}>Pause</button>`}
    ${job.state === "paused" && html`<button type="button" class="primary" onClick=${() => act("PATCH", path, { paused: false }, "The job goes on.")} disabled=${state.running}>Resume</button>`}
    ${!isOver && html`<button type="button" onClick=${() => set({ changing: !state.changing })} aria-expanded=${Boolean(state.changing)}>Change…</button>
      <button type="button" class="danger" onClick=${() => confirm("Cancel this job? Delivered pages stay.") && act("DELETE", path, undefined, "Cancelled.")} disabled=${state.running}>Cancel</button>`}
    ${job.counts?.failed > 0 && job.state !== "cancelled" && html`<button type="button" onClick=${() => act("POST", `${path}/retry`, {}, (found) => `${found.retried} pages are fetched again.`)} disabled=${state.running}>Retry ${number(job.counts.failed)} failed</button>`}
    <button type="button" onClick=${again}>Run again</button>
    <${Download} job=${job} path=${path} /></div>
    <${Failure} error=${state.error} />${state.told && html`<${Notice} kind="info">${state.told}<//>`}
    ${state.changing && html`<${Change} job=${job} apply=${(body) => act("PATCH", path, body, (found) => {
      const { admitted = 0, dropped = 0, restored = 0 } = found.effect || {};
      return `Changed: ${number(admitted)} URLs admitted, ${number(dropped)} dropped, ${number(restored)} restored.`;
    })} />`}`;
}

function Change({ job, apply }) {
  const [document, error] = useLoaded(description, []);
  const [values, set] = useState({});
  if (!document) return html`<${Failure} error=${error} />`;
  const names = job.kind === "crawl" ? CHANGES : CHANGES.slice(-2);
  const content = document.paths["/v2/crawl"].post.requestBody.content["application/json"];
  const known = resolved(document, content.schema);
  const all = Object.assign({}, ...(known.allOf || []).map((part) => resolved(document, part).properties), known.properties);
  return html`<form class="card" aria-label="Change the running job" onSubmit=${(event) => { event.preventDefault(); apply(values); }}>
    <p class="quiet">What is left empty stays as it is. Delivered pages stay in any case.</p>
    ${names.filter((name) => all[name]).map((name) => html`<${Field} key=${name} document=${document} path="change-${name}" value=${values[name]}
      option=${{ name, schema: { ...resolved(document, all[name]), default: job.options?.[name] } }}
      set=${(value) => { const { [name]: _, ...rest } = values; set(value === undefined ? rest : { ...rest, [name]: value }); }} />`)}
    <button type="submit" class="primary" disabled=${!Object.keys(values).length}>Apply</button></form>`;
}

// All pages as one file, read chunk by chunk.
function Download({ job, path }) {
  const [state, set] = useState({});
  const run = async () => {
    const parts = [];
    let size = 0;
    let next = `${path}?skip=0`;
    try {
      let read = 0;
      while (next) {
        const found = await call("GET", next);
        for (const page of found.data) {
          const line = `${JSON.stringify(page)}\n`;
          size += line.length;
          parts.push(line);
        }
        read += found.data.length;
        set({ read, size });
        next = found.data.length ? found.next : null;
      }
      const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob(parts)), download: `${job.site || job.kind}-${job.id.slice(0, 8)}.jsonl` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      set({ done: size });
    } catch (error) {
      set({ error });
    }
  };
  const busy = state.read !== undefined;
  return html`<button type="button" onClick=${run} disabled=${busy || !job.completed}>${busy ? `${number(state.read)} pages, ${bytes(state.size)}…` : `Download ${number(job.completed)} pages (JSON Lines)`}</button>
    ${state.done && html`<span class="quiet">${bytes(state.done)}</span>`}<${Failure} error=${state.error} />`;
}

function Parts({ job, path, live }) {
  const { query } = place.value;
  const chosen = TABS.some(([name]) => name === query.get("tab")) ? query.get("tab") : "pages";
  const choose = (tab) => go(`jobs/${job.id}`, { kind: job.kind, tab });
  const counts = job.counts || {};
  const stamp = FINAL.includes(job.state) || job.state === "paused" ? job.state : Math.floor((counts.done + counts.failed) / 20);
  return html`<${Tabs} label="Parts of the job" chosen=${chosen} choose=${choose} tabs=${TABS} />
    <section class="card" role="tabpanel">
    ${chosen === "pages" && html`<${Pages} path=${path} live=${live} stamp=${stamp} />`}
    ${chosen === "urls" && html`<${Urls} path=${path} />`}
    ${chosen === "errors" && html`<${Errors} path=${path} stamp=${counts.failed} job=${job} />`}
    ${chosen === "tree" && html`<${Tree} path=${path} />`}
    ${chosen === "report" && html`<${Report} path=${path} stamp=${stamp} />`}
    ${chosen === "deliveries" && html`<${Deliveries} path=${path} />`}
    ${chosen === "options" && html`<${Source} text=${JSON.stringify(job.options, null, 2)} />`}</section>`;
}

function Pages({ path, live, stamp }) {
  const [stored, error, again] = useLoaded((signal) => call("GET", `${path}/urls?state=done&limit=100`, undefined, signal), [path, stamp]);
  const [shown, show] = useState(null);
  const fresh = live.pages.filter((page) => page.id);
  const known = new Set(fresh.map((page) => page.id));
  const rows = [...fresh, ...(stored?.urls || []).filter((each) => each.scrapeId && !known.has(each.scrapeId)).map((each) => ({ url: each.url, id: each.scrapeId }))];
  return html`<${Failure} error=${error} retry=${again} />
    ${stored && !rows.length && html`<p class="empty">No page yet.</p>`}
    <div class="columns"><ul class="results tall" aria-label="Pages">${rows.map((page) => html`<li key=${page.id}>
      <button type="button" class="link cut" aria-pressed=${shown === page.id} onClick=${() => show(page.id)}>${page.title || page.url}</button>
      ${page.title && html`<div class="quiet cut">${page.url}</div>`}</li>`)}</ul>
    ${shown && html`<${StoredPage} key=${shown} id=${shown} />`}</div>`;
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
  const pick = (name, value) => setFilter(Object.fromEntries(Object.entries({ ...filter, [name]: value }).filter(([, each]) => each)));
  return html`<form class="bar filters" aria-label="Filter URLs" onSubmit=${(event) => event.preventDefault()}>
      <label>state<select value=${filter.state || ""} onChange=${(event) => pick("state", event.target.value)}><option value="">all</option>
        ${PARTS.map(([name, label]) => html`<option key=${name} value=${name}>${label}</option>`)}</select></label>
      <label>reason<input type="search" placeholder="robots, excluded, SCRAPE_TIMEOUT" value=${filter.reason || ""} onChange=${(event) => pick("reason", event.target.value)} /></label>
      <button type="button" onClick=${first}>Refresh</button><span class="quiet">${state.total !== undefined && `${number(state.total)} URLs`}</span></form>
    <${Failure} error=${state.error} retry=${first} />
    ${state.urls.length > 0 && html`<${Rows} label="URLs" rows=${state.urls} height=${34} more=${() => state.next && load(state.next, state.urls)}
      row=${(each, at) => html`<button type="button" class="row urls-grid" role="listitem" key=${at} aria-pressed=${chosen === each} onClick=${() => choose(each)}>
        <span class="tag ${{ done: "good", failed: "bad", skipped: "" }[each.state] ?? "busy"}">${each.state}</span><span class="cut">${each.url}</span><span class="quiet cut">${each.reason || ""}</span></button>`} />`}
    ${chosen && html`<${Explained} each=${chosen} />`}`;
}

const REASONS = {
  discovery_depth: "It is more links away from the start than maxDiscoveryDepth allows.",
  malformed: "The link is not a valid URL.",
  scheme: "The link is not http or https.",
  subdomain: "It is on another host of the site; allowSubdomains would follow it.",
  external: "It is on another site; allowExternalLinks would follow it.",
  trap: "It looks like a calendar or another place without end.",
  path_depth: "Its path is deeper than maxDepth.",
  excluded: "A pattern of excludePaths matches it.",
  not_included: "No pattern of includePaths matches it.",
  outside_path: "It is outside of the path of the start URL; crawlEntireDomain would follow it.",
  file_type: "Its ending is that of a file without text, such as an image or a style sheet.",
  external_hop: "It is a link of a page that is on another site already.",
  external_home: "It is the home page of another site.",
  social_host: "It is on a social network.",
  robots: "robots.txt refuses it.",
  blocked_site: "The operator of this service refuses the site.",
  duplicate: "Another URL of the job is the same page.",
  limit: "The crawl has all the pages that its limit allows.",
};

function Explained({ each }) {
  const facts = [
    ["State", `${PARTS.find(([name]) => name === each.state)?.[1] || each.state} (${each.kind})`],
    ["Why", REASONS[each.reason] || each.reason || "It is in the scope of the job."],
    ["Detail", each.detail],
    ["Found on", each.foundOn || "the start, or a sitemap"],
    ["Depth", each.depth],
    ["Last modified", each.lastModified],
  ];
  return html`<section class="explained" aria-label="This URL"><h3 class="cut">${each.url}</h3><table class="facts"><tbody>
    ${facts.filter(([, value]) => value !== undefined).map(([name, value]) => html`<tr key=${name}><th scope="row">${name}</th><td>${value}</td></tr>`)}</tbody></table>
    ${each.scrapeId && html`<${StoredPage} key=${each.scrapeId} id=${each.scrapeId} />`}</section>`;
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
    ${!found.errors.length && html`<p class="empty">No page failed.</p>`}
    ${[...groups].map(([key, rows]) => {
      const [code, host] = key.split(" ");
      return html`<details key=${key} class="group"><summary><span class="tag bad">${code}</span> ${host} <span class="quiet">${number(rows.length)}</span></summary>
        ${job.state !== "cancelled" && html`<button type="button" class="small" onClick=${() => retry(code, host)}>Retry these</button>`}
        <ul class="results">${rows.slice(0, 200).map((row) => html`<li key=${row.id}><span class="cut">${row.url}</span><div class="quiet">${row.error}</div></li>`)}</ul></details>`;
    })}
    ${found.robotsBlocked.length > 0 && html`<details class="group"><summary>Refused by robots.txt <span class="quiet">${number(found.robotsBlocked.length)}</span></summary>
      <ul class="results">${found.robotsBlocked.slice(0, 500).map((url) => html`<li key=${url} class="cut">${url}</li>`)}</ul></details>`}`;
}

const group = (row) => `${row.code || "ERROR"} ${URL.canParse(row.url) ? new URL(row.url).host : row.url}`;

function grouped(rows) {
  const found = new Map();
  for (const row of rows) found.set(group(row), [...(found.get(group(row)) || []), row]);
  return found;
}

// The delivered pages by the folders of their paths; at most 2,000 URLs are read.
function Tree({ path }) {
  const [found, error, again] = useLoaded(async (signal) => {
    const urls = [];
    let next = `${path}/urls?state=done&limit=1000`;
    let total = 0;
    while (next && urls.length < 2000) {
      const part = await call("GET", next, undefined, signal);
      urls.push(...part.urls.map((each) => each.url));
      [next, total] = [part.next, part.total];
    }
    return { root: folders(urls), count: urls.length, total };
  }, [path]);
  if (error) return html`<${Failure} error=${error} retry=${again} />`;
  if (!found) return html`<p class="quiet">Reading…</p>`;
  return html`${found.total > found.count && html`<p class="quiet">Made of the first ${number(found.count)} of ${number(found.total)} pages.</p>`}
    <${Folder} name="Site" node=${found.root} open=${true} />`;
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
  return html`<details class="folder" open=${open}><summary>${name} <span class="quiet">${number(node.count)}</span></summary>
    ${below.slice(0, 200).map(([key, each]) => html`<${Folder} key=${key} name=${key} node=${each} open=${node.below.size === 1} />`)}
    ${below.length > 200 && html`<p class="quiet">and ${number(below.length - 200)} more</p>`}</details>`;
}

function Report({ path, stamp }) {
  const [found, error, again] = useLoaded((signal) => call("GET", `${path}/report`, undefined, signal), [path, stamp]);
  if (error) return html`<${Failure} error=${error} retry=${again} />`;
  if (!found) return html`<p class="quiet">Reading…</p>`;
  const reasons = Object.entries(found.reasons).sort((one, other) => other[1] - one[1]);
  return html`<h2>Hosts</h2><div class="scroll"><table class="list"><thead><tr><th>Host</th><th>Requests</th><th>Bytes</th><th>Most a second</th><th>At a time now</th><th>Pause</th><th>Answers</th><th>Slowed down by</th></tr></thead>
    <tbody>${found.hosts.map((host) => html`<tr key=${host.host}><td>${host.host}</td><td>${number(host.requests)}</td><td>${bytes(host.bytes)}</td><td>${host.peakRate}</td><td>${host.window}</td><td>${seconds(host.gapSeconds)}</td>
      <td>${pairs(host.answers)}</td><td>${pairs(host.backoffs) || "–"}</td></tr>`)}</tbody></table></div>
    <h2>Why URLs were left out or failed</h2>${reasons.length ? html`<table class="facts"><tbody>${reasons.map(([name, count]) => html`<tr key=${name}><th scope="row">${name}</th><td>${number(count)} <span class="quiet">${REASONS[name] || ""}</span></td></tr>`)}</tbody></table>` : html`<p class="empty">None was.</p>`}
    <h2>robots.txt</h2>${found.robots.length ? html`<table class="facts"><tbody>${found.robots.map((each) => html`<tr key=${each.url}><th scope="row">${each.host}</th><td>${each.state || "not read yet"} ${each.detail || ""} ${each.crawlDelay ? `Crawl-delay ${each.crawlDelay}` : ""} <span class="quiet">${number(each.refused)} refused</span></td></tr>`)}</tbody></table>` : html`<p class="empty">None was read.</p>`}`;
}

const pairs = (counts) => Object.entries(counts || {}).map(([name, count]) => `${name}: ${number(count)}`).join(", ");

function Deliveries({ path }) {
  const [found, error, again] = useLoaded((signal) => call("GET", `${path}/deliveries?limit=200`, undefined, signal), [path]);
  const [told, tell] = useState({});
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
  if (!found.deliveries.length) return html`<p class="empty">This job has no webhook, or nothing has been sent yet.</p>`;
  return html`<${Failure} error=${told.failed} />${told.text && html`<${Notice} kind="info">${told.text}<//>`}
    <div class="bar"><button type="button" onClick=${() => replay(`${path}/deliveries/replay`)}>Send all failed ones again</button><button type="button" onClick=${again}>Refresh</button></div>
    <div class="scroll"><table class="list"><thead><tr><th>State</th><th>Event</th><th>Receiver</th><th>Made</th><th>Attempts</th><th></th></tr></thead><tbody>
    ${found.deliveries.map((each) => html`<tr key=${each.id}><td><span class="tag ${{ delivered: "good", failed: "bad" }[each.state] || "busy"}">${each.state}</span></td><td>${each.type}</td><td class="cut">${each.url}</td><td><${Time} at=${each.createdAt} /></td>
      <td>${(each.attempts || []).map((attempt) => attempt.status || attempt.error).join(", ") || "none yet"}</td><td><button type="button" class="small" onClick=${() => replay(`${path}/deliveries/${each.id}/replay`)}>Send again</button></td></tr>`)}</tbody></table></div>`;
}

// A job without a page for each URL: its result as it is.
function Plain({ job, id }) {
  const where = { extract: `/v2/extract/${id}`, scrape: `/v2/scrape/${id}` }[job.kind];
  const [found, error, again] = useLoaded((signal) => (where ? call("GET", where, undefined, signal) : Promise.resolve(null)), [where, job.state]);
  return html`<dl class="figures card"><div><dt>Took</dt><dd>${seconds(job.duration)}</dd></div><div><dt>Credits</dt><dd>${number(job.creditsUsed)}</dd></div></dl>
    <${Failure} error=${error} retry=${again} />
    ${found && (job.kind === "scrape" ? html`<${PageResult} page=${found.data} />` : html`<section class="card"><div class="bar"><h2>Result</h2><span class="spring"></span><${Copy} text=${JSON.stringify(found.data, null, 2)} /></div><${Source} text=${JSON.stringify(found, null, 2)} /></section>`)}
    <details class="group"><summary>Options</summary><${Source} text=${JSON.stringify(job.options ?? {}, null, 2)} /></details>`;
}
