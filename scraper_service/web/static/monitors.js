// Monitors of the team: the list, and the checks of one with their pages and diffs.
import { useEffect, useState } from "./libraries/hooks.js";
import { call } from "./http.js";
import { Failure, Time, html, number, useLoaded } from "./ui.js";

const STATES = ["new", "changed", "removed", "error", "same"];
const KIND = { new: "good", changed: "warn", removed: "bad", error: "bad", same: "" };
const POLL_MS = 2000;

export function Monitors() {
  const [found, error, again] = useLoaded((signal) => call("GET", "/v2/monitor?limit=100", undefined, signal), []);
  return html`<h1>Monitors</h1><${Failure} error=${error} retry=${again} />
    ${found && !found.data.length && html`<p class="empty">No monitors yet. <code>POST /v2/monitor</code> makes one: see the <a href="#/reference">reference</a>.</p>`}
    ${found?.data.length > 0 && html`<section class="card"><div class="scroll" tabindex="0"><table class="list"><thead><tr><th>Name</th><th>Schedule</th><th>Last pages</th><th>Last run</th><th>Next run</th></tr></thead><tbody>
      ${found.data.map((each) => html`<tr key=${each.id}><td><a href=${`#/monitors/${each.id}`}>${each.name}</a></td><td><code>${each.schedule.cron}</code> ${each.schedule.timezone}</td>
        <td><${Counts} summary=${each.lastCheckSummary} /></td><td><${Time} at=${each.lastRunAt} /></td><td>${each.status === "paused" ? html`<span class="tag warn">paused</span>` : html`<${Time} at=${each.nextRunAt} />`}</td></tr>`)}</tbody></table></div>
      ${found.total > found.data.length && html`<p class="quiet">The newest ${number(found.data.length)} of ${number(found.total)}.</p>`}</section>`}`;
}

function Counts({ summary }) {
  if (!summary) return html`<span class="quiet">–</span>`;
  const shown = STATES.filter((state) => summary[state]);
  return shown.length ? shown.map((state) => html`<span key=${state} class="tag ${KIND[state]}">${number(summary[state])} ${state}</span> `) : html`<span class="quiet">none</span>`;
}

export function Monitor({ id }) {
  const [chosen, choose] = useState();
  const [failed, fail] = useState();
  const [found, error, again] = useLoaded(async (signal) => {
    const [monitor, checks] = await Promise.all([
      call("GET", `/v2/monitor/${id}`, undefined, signal),
      call("GET", `/v2/monitor/${id}/checks?limit=100`, undefined, signal),
    ]);
    return { monitor: monitor.data, checks: checks.data };
  }, [id]);
  const isRunning = Boolean(found?.monitor.currentCheckId);
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(again, POLL_MS);
    return () => clearInterval(timer);
  }, [isRunning]);
  const change = async (method, path, body) => {
    fail(undefined);
    try {
      await call(method, `/v2/monitor/${id}${path}`, body);
      again();
    } catch (caught) {
      fail(caught);
    }
  };
  const monitor = found?.monitor;
  const isPaused = monitor?.status === "paused";
  return html`<h1>${monitor?.name || "Monitor"}</h1><${Failure} error=${error || failed} retry=${again} />
    ${monitor && html`<section class="card" aria-label="Monitor"><table class="facts"><tbody>
      <tr><th scope="row">Schedule</th><td><code>${monitor.schedule.cron}</code> ${monitor.schedule.timezone}</td></tr>
      <tr><th scope="row">Next run</th><td>${isPaused ? html`<span class="tag warn">paused</span>` : html`<${Time} at=${monitor.nextRunAt} />`}</td></tr>
      <tr><th scope="row">Targets</th><td>${monitor.targets.map((each) => html`<div key=${each.id}><b>${each.type}</b> ${(each.urls || each.queries || [each.url]).slice(0, 5).join(", ")}</div>`)}</td></tr>
      <tr><th scope="row">Credits a month</th><td>about ${number(monitor.estimatedCreditsPerMonth)}</td></tr></tbody></table>
      <div class="bar"><button type="button" disabled=${isRunning} onClick=${() => change("POST", "/run", {})}>${isRunning ? "A check is running" : "Run now"}</button>
        <button type="button" onClick=${() => change("PATCH", "", { status: isPaused ? "active" : "paused" })}>${isPaused ? "Resume" : "Pause"}</button></div></section>
    <section class="card" aria-label="Checks"><h2>Checks</h2>${!found.checks.length ? html`<p class="empty">None yet.</p>` : html`<div class="scroll" tabindex="0"><table class="list"><thead><tr><th>Check</th><th>State</th><th>Pages</th><th>Credits</th></tr></thead><tbody>
      ${found.checks.map((each) => html`<tr key=${each.id}><td><button type="button" class="link" aria-pressed=${each.id === chosen} onClick=${() => choose(each.id)}><${Time} at=${each.createdAt} /></button></td>
        <td><span class="tag ${{ completed: "good", failed: "bad", queued: "busy", running: "busy" }[each.status] || "warn"}">${each.status.replaceAll("_", " ")}</span> ${each.error}</td>
        <td><${Counts} summary=${each.summary} /></td><td>${number(each.actualCredits)}</td></tr>`)}</tbody></table></div>`}</section>`}
    ${chosen && html`<${CheckPages} key=${chosen} path=${`/v2/monitor/${id}/checks/${chosen}`} />`}`;
}

function CheckPages({ path }) {
  const [state, set] = useState({ pages: [] });
  const load = async (from, pages) => {
    try {
      const { data, next } = await call("GET", from);
      set({ pages: [...pages, ...data.pages], next });
    } catch (error) {
      set((old) => ({ ...old, error }));
    }
  };
  useEffect(() => {
    load(`${path}?limit=100`, []);
  }, [path]);
  return html`<section class="card" aria-label="Pages of the check"><h2>Pages</h2><${Failure} error=${state.error} retry=${() => load(`${path}?limit=100`, [])} />
    ${state.pages.map((each) => html`<div key=${each.id}><p><span class="tag ${KIND[each.status]}">${each.status}</span> ${each.url} ${each.error && html`<span class="quiet">${each.error}</span>`}</p>
      ${each.judgment && html`<p class="quiet">${each.judgment.meaningful ? "Matters" : "Does not matter"}: ${each.judgment.reason}</p>`}
      ${each.diff && html`<details><summary>What has changed</summary><pre tabindex="0">${each.diff.text || JSON.stringify(each.diff.json, null, 2)}</pre></details>`}</div>`)}
    ${state.next && html`<button type="button" onClick=${() => load(state.next, state.pages)}>More pages</button>`}</section>`;
}
