// The URLs of a job: pages, states, errors, site tree, politeness, webhooks.
import { useEffect, useRef, useState } from "./libraries/hooks.js";
import { call } from "./http.js";
import { Failure, Notice, Rows, Tabs, Time, bytes, go, html, number, place, seconds, useLoaded } from "./ui.js";
import { PageResult, Source } from "./results.js";

// States of URLs, with their words. They sum to the URLs that the job knows.
export const PARTS = [["done", "delivered"], ["failed", "failed"], ["skipped", "left out"], ["leased", "being fetched"], ["pending", "waiting"], ["held", "held by the limit"]];
export const FINAL = ["completed", "failed", "cancelled"];
const TABS = [["pages", "Pages"], ["urls", "URLs"], ["errors", "Errors"], ["tree", "Site tree"], ["report", "Politeness"], ["deliveries", "Webhooks"], ["options", "Options"]];

export function Parts({ job, path, live }) {
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
      row=${(each) => html`<button type="button" class="row urls-grid" aria-pressed=${chosen === each} onClick=${() => choose(each)}>
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

const group = (row) => `${row.code || "ERROR"} ${URL.canParse(row.url) ? new URL(row.url).hostname : row.url}`;

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
  return html`<h2>Hosts</h2><div class="scroll" tabindex="0"><table class="list"><thead><tr><th>Host</th><th>Requests</th><th>Bytes</th><th>Most a second</th><th>At a time now</th><th>Pause</th><th>Answers</th><th>Slowed down by</th></tr></thead>
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
    <div class="scroll" tabindex="0"><table class="list"><thead><tr><th>State</th><th>Event</th><th>Receiver</th><th>Made</th><th>Attempts</th><th></th></tr></thead><tbody>
    ${found.deliveries.map((each) => html`<tr key=${each.id}><td><span class="tag ${{ delivered: "good", failed: "bad" }[each.state] || "busy"}">${each.state}</span></td><td>${each.type}</td><td class="cut">${each.url}</td><td><${Time} at=${each.createdAt} /></td>
      <td>${(each.attempts || []).map((attempt) => attempt.status || attempt.error).join(", ") || "none yet"}</td><td><button type="button" class="small" onClick=${() => replay(`${path}/deliveries/${each.id}/replay`)}>Send again</button></td></tr>`)}</tbody></table></div>`;
}
