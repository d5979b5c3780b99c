// Usage of the team, stored sessions, and the state of the service.
import { useState } from "../libraries/hooks.js";
import { call, session, state } from "../http.js";
import { Failure, Notice, Time, bytes, html, number, useLoaded } from "../ui.js";
import { Plot } from "../plot.js";

const UNLIMITED = 1000000000;
const DAY_S = 86400;
const SHOWN_DAYS = 30;

// A point for each day, also for days without use: at least the last SHOWN_DAYS.
function days(periods) {
  const used = new Map(periods.map((each) => [Date.parse(each.startDate) / 1000, each.creditsUsed]));
  const last = Math.max(...used.keys());
  const first = Math.min(...used.keys(), last - (SHOWN_DAYS - 1) * DAY_S);
  const at = (number) => first + number * DAY_S;
  return Array.from({ length: Math.round((last - first) / DAY_S) + 1 }, (_, number) => [
    at(number),
    used.get(at(number)) ?? 0,
  ]);
}

export function Usage() {
  const [found, error, again] = useLoaded(async (signal) => {
    const read = (path) => call("GET", path, undefined, signal);
    const [credits, queue, history, account] = await Promise.all([
      read("/v2/team/credit-usage"),
      read("/v2/team/queue-status"),
      read("/v2/team/credit-usage/historical?timeRange=day"),
      read("/v2/account"),
    ]);
    return { credits: credits.data, queue, periods: history.periods, account };
  }, []);
  const left = found?.credits.remainingCredits;
  const figures =
    found &&
    [
      ["Credits left", left >= UNLIMITED ? "unlimited" : number(left)],
      left < UNLIMITED && ["Of", number(found.credits.planCredits)],
      ["Pages at a time", found.queue.maxConcurrency >= UNLIMITED ? "unlimited" : number(found.queue.maxConcurrency)],
      ["Running now", number(found.queue.activeJobsInQueue)],
      ["Waiting", number(found.queue.waitingJobsInQueue)],
    ].filter(Boolean);
  return html`<h1>Usage</h1>
    <${Failure} error=${error} retry=${again} />
    ${
      found &&
      html`<section class="card">
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
            found.periods.length > 0
              ? html`<${Plot} bars label="Credits used by day" unit="credits" points=${days(found.periods)} />`
              : html`<p class="empty">No credits were used yet.</p>`
          }
        </section>
        ${
          found.periods.length > 0 &&
          html`<section class="card">
            <h2>Credits by day</h2>
            <table class="list">
              <thead>
                <tr>
                  <th>Day</th>
                  <th>Credits</th>
                </tr>
              </thead>
              <tbody>
                ${found.periods
                  .toReversed()
                  .slice(0, 60)
                  .map(
                    (each) =>
                      html`<tr key=${each.startDate}>
                        <td>${each.startDate.slice(0, 10)}</td>
                        <td>${number(each.creditsUsed)}</td>
                      </tr>`,
                  )}
              </tbody>
            </table>
          </section>`
        }`
    }
    ${found && html`<${Account} account=${found.account} />`}
    <${Stored} />`;
}

// The team, its limits and its keys. They are changed on the command line only.
function Account({ account: { team, callsPerMinute, keys } }) {
  const most = (value) => (value === null ? html`<span class="quiet">no limit</span>` : number(value));
  const limited = Object.entries(callsPerMinute).filter(([, count]) => count !== null);
  return html`<section class="card" aria-label="Team and limits">
      <h2>Team and limits</h2>
      <table class="facts">
        <tbody>
          <tr>
            <th scope="row">Team</th>
            <td>${team.name} <code>${team.id}</code></td>
          </tr>
          <tr>
            <th scope="row">Pages at a time</th>
            <td>${most(team.maxConcurrency)}</td>
          </tr>
          <tr>
            <th scope="row">Stored</th>
            <td>
              ${bytes(team.diskUsedBytes)}${team.diskLimitBytes !== null && html` of ${bytes(team.diskLimitBytes)}`}
            </td>
          </tr>
          <tr>
            <th scope="row">Credits of the plan</th>
            <td>${most(team.planCredits)}</td>
          </tr>
          <tr>
            <th scope="row">Calls a minute</th>
            <td>
              ${
                limited.length
                  ? limited.map(([mode, count]) => html`<div key=${mode}>${mode} ${number(count)}</div>`)
                  : most(null)
              }
            </td>
          </tr>
        </tbody>
      </table>
    </section>
    <section class="card" aria-label="Keys">
      <h2>Keys</h2>
      ${
        !session.value?.needsKey
          ? html`<p class="empty">This service asks nobody for a key.</p>`
          : html` <div class="scroll" tabindex="0">
                <table class="list">
                  <thead>
                    <tr>
                      <th>Key</th>
                      <th>Name</th>
                      <th>Scope</th>
                      <th>Made</th>
                      <th>Last used</th>
                    </tr>
                  </thead>
                  <tbody>
                    ${keys.map(
                      (each) =>
                        html`<tr key=${each.key + each.createdAt}>
                          <td>
                            <code>${each.key}</code>${" "}${
                              each.state !== "valid"
                                ? html`<span class="tag bad">${each.state}</span>`
                                : each.isOwn && html`<span class="tag good">signed in with it</span>`
                            }
                          </td>
                          <td>${each.name}</td>
                          <td>${each.scope}</td>
                          <td><${Time} at=${each.createdAt} /></td>
                          <td>${each.lastUsedOn || html`<span class="quiet">not in a year</span>`}</td>
                        </tr>`,
                    )}
                  </tbody>
                </table>
              </div>
              <p class="quiet">
                Keys are stored as hashes, so they cannot be shown again. They and the limits are changed on the command
                line of the service: <code>scraper-service keys create</code>, <code>scraper-service teams</code>. This
                browser is signed in until <${Time} at=${session.value.expiresAt} />.
              </p>`
      }
    </section>`;
}

function Stored() {
  const [found, error, again] = useLoaded((signal) => call("GET", "/v2/sessions", undefined, signal), []);
  const [failed, fail] = useState();
  const remove = async (name) => {
    if (!confirm(`Delete the cookies of the session “${name}”?`)) return;
    await call("DELETE", `/v2/sessions/${encodeURIComponent(name)}`).then(again, fail);
  };
  return html`<section class="card">
    <h2>Stored sessions of sites</h2>
    <${Failure} error=${error || failed} retry=${again} />
    ${
      found &&
      !found.sessions.length &&
      html`<p class="empty">None. The option “session” of a scrape keeps cookies under a name.</p>`
    }
    ${
      found?.sessions.length > 0 &&
      html`<table class="list">
        <thead>
          <tr>
            <th>Name</th>
            <th>Cookies</th>
            <th>Changed</th>
            <td></td>
          </tr>
        </thead>
        <tbody>
          ${found.sessions.map(
            (each) =>
              html`<tr key=${each.name}>
                <td>${each.name}</td>
                <td>${each.cookies}</td>
                <td><${Time} at=${each.updatedAt} /></td>
                <td><button type="button" class="small" onClick=${() => remove(each.name)}>Delete</button></td>
              </tr>`,
          )}
        </tbody>
      </table>`
    }
  </section>`;
}

// A name of the interface in words: loopLagP99Ms as "loop lag P99 ms".
const worded = (name) =>
  name
    .replace(/([a-z0-9])([A-Z])/g, (_, end, start) => `${end} ${start}`)
    .replace(/\b[A-Z](?=[a-z])/g, (letter) => letter.toLowerCase());

export function Health() {
  const [found, error, again] = useLoaded(async (signal) => {
    const [ready, facts] = await Promise.all(["/health/ready", "/health"].map((path) => state(path, signal)));
    // Without its database the service knows nobody, and tells no more than its state.
    const can = await call("GET", "/v2/capabilities", undefined, signal).then(
      (each) => each.data,
      () => undefined,
    );
    return { ready, facts, can };
  }, []);
  return html`<div class="bar">
      <h1>Health</h1>
      <span class="spring"></span><button type="button" onClick=${again}>Refresh</button>
    </div>
    <${Failure} error=${error} retry=${again} /> ${
      found &&
      html`<section class="card">
          <h2>Checks</h2>
          <${Notice} kind=${found.ready.success ? "info" : "error"}
            >${found.ready.success ? "All parts work." : "A part does not work; see below."}<//
          >
          <table class="facts">
            <tbody>
              ${Object.entries(found.ready.checks || {}).map(
                ([name, told]) =>
                  html`<tr key=${name}>
                    <th scope="row">${worded(name)}</th>
                    <td><span class="tag ${told === "ok" ? "good" : "bad"}">${told}</span></td>
                  </tr>`,
              )}
            </tbody>
          </table>
        </section>
        <section class="card">
          <h2>Work under way</h2>
          ${(found.facts.warnings || []).map((each) => html`<${Notice} key=${each}>${each}<//>`)}
          <table class="facts">
            <tbody>
              ${Object.entries(found.facts)
                .filter(([name]) => !["success", "status", "checks", "warnings"].includes(name))
                .map(
                  ([name, value]) =>
                    html`<tr key=${name}>
                      <th scope="row">${worded(name)}</th>
                      <td>
                        ${
                          typeof value === "object"
                            ? Object.entries(value)
                                .map(([kind, count]) => `${kind}: ${count}`)
                                .join(", ")
                            : String(value)
                        }
                      </td>
                    </tr>`,
                )}
            </tbody>
          </table>
        </section>
        ${
          found.can &&
          html`<section class="card">
            <h2>What this installation can do</h2>
            <table class="facts">
              <tbody>
                <tr>
                  <th scope="row">Version</th>
                  <td>${found.can.version}</td>
                </tr>
                <tr>
                  <th scope="row">Database</th>
                  <td>${found.can.database}</td>
                </tr>
                <tr>
                  <th scope="row">Search</th>
                  <td>${found.can.searchEngines.join(", ") || "none"}</td>
                </tr>
                ${[...found.can.features, ...found.can.formats].map(
                  (each) =>
                    html`<tr key=${each.name}>
                      <th scope="row">${worded(each.name)}</th>
                      <td>
                        <span class="tag ${each.available ? "good" : ""}">${each.available ? "yes" : "no"}</span
                        >${" "}<span class="quiet">${each.reason || ""}</span>
                      </td>
                    </tr>`,
                )}
              </tbody>
            </table>
          </section>`
        }`
    }`;
}
