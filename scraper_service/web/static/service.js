// Usage of the team, stored sessions, and the state of the service.
import { useState } from "./libraries/hooks.js";
import { call, session } from "./http.js";
import { Failure, Notice, Time, html, number, useLoaded } from "./ui.js";
import { Plot } from "./plot.js";

const UNLIMITED = 1000000000;

export function Usage() {
  const [found, error, again] = useLoaded(async (signal) => {
    const read = (path) => call("GET", path, undefined, signal);
    const [credits, queue, history] = await Promise.all([
      read("/v2/team/credit-usage"),
      read("/v2/team/queue-status"),
      read("/v2/team/credit-usage/historical?timeRange=day"),
    ]);
    return { credits: credits.data, queue, periods: history.periods };
  }, []);
  const left = found?.credits.remainingCredits;
  const figures = found && [
    ["Credits left", left >= UNLIMITED ? "unlimited" : number(left)],
    ["Of", left >= UNLIMITED ? "–" : number(found.credits.planCredits)],
    ["Pages at a time", found.queue.maxConcurrency >= UNLIMITED ? "unlimited" : number(found.queue.maxConcurrency)],
    ["Running now", number(found.queue.activeJobsInQueue)],
    ["Waiting", number(found.queue.waitingJobsInQueue)],
  ];
  return html`<h1>Usage</h1><${Failure} error=${error} retry=${again} />
    ${found && html`<section class="card"><dl class="figures">${figures.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
      ${found.periods.length > 0 ? html`<${Plot} bars label="Credits used by day" unit="credits" points=${found.periods.map((each) => [Date.parse(each.startDate) / 1000, each.creditsUsed])} />` : html`<p class="empty">No credits were used yet.</p>`}</section>
      ${found.periods.length > 0 && html`<section class="card"><h2>Credits by day</h2><table class="list"><thead><tr><th>Day</th><th>Credits</th></tr></thead><tbody>${found.periods.toReversed().slice(0, 60).map((each) => html`<tr key=${each.startDate}><td>${each.startDate.slice(0, 10)}</td><td>${number(each.creditsUsed)}</td></tr>`)}</tbody></table></section>`}`}
    <section class="card"><h2>Keys</h2><p>${session.value?.needsKey ? html`API keys and the limits of teams are made on the command line of the service: <code>scraper-service keys create</code>, <code>scraper-service teams</code>. This browser is signed in until <${Time} at=${session.value.expiresAt} />.` : "This service asks nobody for a key."}</p></section>
    <${Stored} />`;
}

function Stored() {
  const [found, error, again] = useLoaded((signal) => call("GET", "/v2/sessions", undefined, signal), []);
  const [failed, fail] = useState();
  const remove = async (name) => {
    if (!confirm(`Delete the cookies of the session “${name}”?`)) return;
    await call("DELETE", `/v2/sessions/${encodeURIComponent(name)}`).then(again, fail);
  };
  return html`<section class="card"><h2>Stored sessions of sites</h2><${Failure} error=${error || failed} retry=${again} />
    ${found && !found.sessions.length && html`<p class="empty">None. The option “session” of a scrape keeps cookies under a name.</p>`}
    ${found?.sessions.length > 0 && html`<table class="list"><thead><tr><th>Name</th><th>Cookies</th><th>Changed</th><th></th></tr></thead><tbody>${found.sessions.map((each) => html`<tr key=${each.name}><td>${each.name}</td><td>${each.cookies}</td><td><${Time} at=${each.updatedAt} /></td>
      <td><button type="button" class="small" onClick=${() => remove(each.name)}>Delete</button></td></tr>`)}</tbody></table>`}</section>`;
}

export function Health() {
  const [found, error, again] = useLoaded(async (signal) => {
    const [ready, facts] = await Promise.all(["/health/ready", "/health"].map(async (path) => (await fetch(path, { signal })).json()));
    return { ready, facts, can: (await call("GET", "/v2/capabilities", undefined, signal)).data };
  }, []);
  return html`<div class="bar"><h1>Health</h1><span class="spring"></span><button type="button" onClick=${again}>Refresh</button></div><${Failure} error=${error} retry=${again} />
    ${found && html`<section class="card"><h2>Checks</h2><${Notice} kind=${found.ready.success ? "info" : "error"}>${found.ready.success ? "All parts work." : "A part does not work; see below."}<//>
      <table class="facts"><tbody>${Object.entries(found.ready.checks || {}).map(([name, told]) => html`<tr key=${name}><th scope="row">${name}</th><td><span class="tag ${told === "ok" ? "good" : "bad"}">${told}</span></td></tr>`)}</tbody></table></section>
    <section class="card"><h2>Work under way</h2><table class="facts"><tbody>${Object.entries(found.facts).filter(([name]) => !["success", "status", "checks"].includes(name)).map(([name, value]) => html`<tr key=${name}><th scope="row">${name}</th><td>${typeof value === "object" ? JSON.stringify(value) : String(value)}</td></tr>`)}</tbody></table></section>
    <section class="card"><h2>What this installation can do</h2><table class="facts"><tbody>
      <tr><th scope="row">Version</th><td>${found.can.version}</td></tr><tr><th scope="row">Database</th><td>${found.can.database}</td></tr><tr><th scope="row">Search</th><td>${found.can.searchEngines.join(", ") || "none"}</td></tr>
      ${[...found.can.features, ...found.can.formats].map((each) => html`<tr key=${each.name}><th scope="row">${each.name}</th><td><span class="tag ${each.available ? "good" : ""}">${each.available ? "yes" : "no"}</span> <span class="quiet">${each.reason || ""}</span></td></tr>`)}</tbody></table></section>`}`;
}
