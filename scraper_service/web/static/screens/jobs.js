// The list of jobs.
import { useEffect, useRef, useState } from "../libraries/hooks.js";
import { call } from "../http.js";
import { Failure, Rows, Time, go, html, number, place, seconds } from "../ui.js";

const KINDS = [
  "crawl",
  "batch_scrape",
  "extract",
  "llmstxt",
  "deep_research",
  "agent",
  "monitor_check",
  "scrape",
  "map",
  "search",
  "parse",
];
const STATES = ["queued", "running", "paused", "completed", "failed", "cancelled"];

export function Jobs() {
  const { query } = place.value;
  const filters = Object.fromEntries([...query].filter(([, value]) => value));
  const wanted = new URLSearchParams({ ...filters, limit: 100 }).toString();
  const [state, set] = useState({ jobs: [] });
  const loading = useRef(null);
  const load = async (path, jobs) => {
    if (loading.current === path) return;
    loading.current = path;
    try {
      const found = await call("GET", path);
      if (loading.current === path) set({ jobs: [...jobs, ...found.jobs], next: found.next, wanted });
    } catch (error) {
      set((old) => ({ ...old, error }));
    } finally {
      if (loading.current === path) loading.current = null;
    }
  };
  const first = () => load(`/v2/jobs?${wanted}`, []);
  useEffect(() => {
    first();
  }, [wanted]);
  const choose = (name, value) =>
    go("jobs", Object.fromEntries(Object.entries({ ...filters, [name]: value }).filter(([, each]) => each)));
  const select = (name, all) =>
    html`<label
      >${name}<select value=${filters[name] || ""} onChange=${(event) => choose(name, event.target.value)}>
        <option value="">all</option>
        ${all.map((each) => html`<option key=${each} value=${each}>${each.replace("_", " ")}</option>`)}
      </select></label
    >`;
  return html`<h1>Jobs</h1>
    <form class="bar filters" aria-label="Filter jobs" onSubmit=${(event) => event.preventDefault()}>
      ${select("kind", KINDS)} ${select("state", STATES)}
      <label
        >site<input
          type="search"
          value=${filters.site || ""}
          placeholder="example.org"
          onChange=${(event) => choose("site", event.target.value)}
      /></label>
      <label
        >text<input
          type="search"
          value=${filters.q || ""}
          placeholder="part of URL or name"
          onChange=${(event) => choose("q", event.target.value)}
      /></label>
      <label
        >since<input
          type="date"
          value=${(filters.since || "").slice(0, 10)}
          onChange=${(event) => choose("since", event.target.value && `${event.target.value}T00:00:00Z`)}
      /></label>
      <label
        >until<input
          type="date"
          value=${dayBefore(filters.until)}
          onChange=${(event) => choose("until", event.target.value && dayAfter(event.target.value))}
      /></label>
      <button type="button" onClick=${first}>Refresh</button>
    </form>
    <${Failure} error=${state.error} retry=${first} />
    ${
      state.wanted &&
      !state.jobs.length &&
      html`<p class="empty">No jobs here. <a href="#/play?op=crawl">Start a crawl</a>, or change the filter.</p>`
    }
    ${
      state.jobs.length > 0 &&
      html`<div class="table-head jobs-grid">
          <span>State</span><span>Target</span><span>Pages</span><span>Took</span><span>Started</span>
        </div>
        <${Rows}
          label="Jobs"
          rows=${state.jobs}
          height=${46}
          more=${state.next && (() => load(state.next, state.jobs))}
          row=${(job, reach) =>
            html`<a
              class="row jobs-grid"
              ...${reach}
              href=${job.monitorId ? `#/monitors/${job.monitorId}` : `#/jobs/${job.id}?kind=${job.kind}`}
            >
              <span><${StateTag} state=${job.state} /></span>
              <span class="cut"
                ><b>${job.kind.replace("_", " ")}</b
                >${" "}${job.target?.replace(/^https?:\/\//, "") || html`<span class="quiet">not kept</span>`}</span
              >
              <span
                >${job.completed === undefined ? "" : number(job.completed)}${
                  job.total ? html`<span class="quiet"> of ${number(job.total)}</span>` : ""
                }</span
              >
              <span>${seconds(job.duration)}</span><span><${Time} at=${job.createdAt} /></span
            ></a>`}
        />`
    }`;
}

// The list ends before a time; the form has the last day in it.
const dayAfter = (day) => new Date(Date.parse(day) + 86400e3).toISOString();
const dayBefore = (time) => (time ? new Date(Date.parse(time) - 86400e3).toISOString().slice(0, 10) : "");

export function StateTag({ state }) {
  const kind = { completed: "good", failed: "bad", cancelled: "bad", paused: "warn" }[state] || "busy";
  return html`<span class="tag ${kind}">${state}</span>`;
}
