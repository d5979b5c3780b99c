// Monitors of the team: the list, and the checks of one with their pages and diffs.
import { useEffect, useState } from "../libraries/hooks.js";
import { call } from "../http.js";
import { Diff } from "../diff.js";
import { picture } from "../results.js";
import { Failure, Notice, Time, go, html, number, place, useLoaded } from "../ui.js";

const STATES = ["new", "changed", "removed", "error", "same"];
const KIND = { new: "good", changed: "warn", removed: "bad", error: "bad", same: "" };
const KIND_OF_CHECK = { completed: "good", failed: "bad", queued: "busy", running: "busy" };
const RUNNING_MS = 2000,
  IDLE_MS = 15000; // between two reads of a monitor
const MUTES = [
  ["1", "1 hour"],
  ["8", "8 hours"],
  ["24", "1 day"],
  ["168", "1 week"],
  ["forever", "until I unmute"],
];

export function Monitors() {
  const [found, error, again] = useLoaded((signal) => call("GET", "/v2/monitor?limit=100", undefined, signal), []);
  return html`<div class="bar">
      <h1>Monitors</h1>
      <span class="spring"></span><a class="button primary" href="#/monitors/new">New monitor</a>
    </div>
    <${Failure} error=${error} retry=${again} />
    ${
      found &&
      !found.data.length &&
      html`<p class="empty">
        No monitors yet. A monitor looks at pages, sites or searches by a schedule, and reports what has changed.
      </p>`
    }
    ${
      found?.data.length > 0 &&
      html`<section class="card">
        <div class="scroll" tabindex="0">
          <table class="list">
            <thead>
              <tr>
                <th>Name</th>
                <th>Schedule</th>
                <th>Last pages</th>
                <th>Last run</th>
                <th>Next run</th>
              </tr>
            </thead>
            <tbody>
              ${found.data.map(
                (each) =>
                  html`<tr key=${each.id}>
                    <td class="named">
                      <a href=${`#/monitors/${each.id}`}>${each.name}</a
                      >${" "}${each.mutedUntil && html`<span class="tag warn">muted</span>`}
                    </td>
                    <td><code>${each.schedule.cron}</code> ${each.schedule.timezone}</td>
                    <td><${Counts} summary=${each.lastCheckSummary} /></td>
                    <td><${Time} at=${each.lastRunAt} /></td>
                    <td>
                      ${
                        each.status === "paused"
                          ? html`<span class="tag warn">paused</span>`
                          : html`<${Time} at=${each.nextRunAt} />`
                      }
                    </td>
                  </tr>`,
              )}
            </tbody>
          </table>
        </div>
        ${
          found.total > found.data.length &&
          html`<p class="quiet">The newest ${number(found.data.length)} of ${number(found.total)}.</p>`
        }
      </section>`
    }`;
}

function Counts({ summary }) {
  if (!summary) return html`<span class="quiet">–</span>`;
  const shown = STATES.filter((state) => summary[state]);
  return shown.length
    ? shown.map(
        (state) => html`<span key=${state} class="tag ${KIND[state]}">${number(summary[state])} ${state}</span> `,
      )
    : html`<span class="quiet">none</span>`;
}

export function Monitor({ id }) {
  const chosen = place.value.query.get("check");
  const choose = (check) => go(`monitors/${id}`, { check });
  const [state, set] = useState({});
  const [found, error, again] = useLoaded(
    async (signal) => {
      const [monitor, checks] = await Promise.all([
        call("GET", `/v2/monitor/${id}`, undefined, signal),
        call("GET", `/v2/monitor/${id}/checks?limit=100`, undefined, signal),
      ]);
      return { monitor: monitor.data, checks: checks.data };
    },
    [id],
  );
  const isRunning = Boolean(found?.monitor.currentCheckId);
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && again(), isRunning ? RUNNING_MS : IDLE_MS);
    return () => clearInterval(timer);
  }, [isRunning]);
  const change = async (method, path, body, told) => {
    set({});
    try {
      const { data, warning } = await call(method, `/v2/monitor/${id}${path}`, body);
      set({ told: told?.(data), warning });
      again();
      return true;
    } catch (failed) {
      set({ failed });
      return false;
    }
  };
  const remove = async () => {
    if (confirm("Delete this monitor with its checks and their pages?") && (await change("DELETE", ""))) go("monitors");
  };
  const monitor = found?.monitor;
  const isPaused = monitor?.status === "paused";
  return html`<p class="crumbs"><a href="#/monitors">Monitors</a></p>
    <h1>${monitor?.name || "Monitor"}</h1>
    <${Failure} error=${error || state.failed} retry=${error && again} />
    ${error?.status === 404 && html`<p>It does not exist, or was deleted. <a href="#/monitors">All monitors</a></p>`}
    ${state.told && html`<${Notice} kind="info">${state.told}<//>`}${
      state.warning && html`<${Notice} kind="warning">${state.warning}<//>`
    }
    ${
      monitor &&
      html`<section class="card" aria-label="Monitor">
          <table class="facts">
            <tbody>
              <tr>
                <th scope="row">Schedule</th>
                <td><code>${monitor.schedule.cron}</code> ${monitor.schedule.timezone}</td>
              </tr>
              <tr>
                <th scope="row">Next run</th>
                <td>
                  ${isPaused ? html`<span class="tag warn">paused</span>` : html`<${Time} at=${monitor.nextRunAt} />`}
                </td>
              </tr>
              <tr>
                <th scope="row">Targets</th>
                <td>
                  ${monitor.targets.map(
                    (each) =>
                      html`<div key=${each.id}>
                        <b>${each.type}</b>${" "}${(each.urls || each.queries || [each.url]).slice(0, 5).join(", ")}${
                          (each.urls?.length || 0) > 5 &&
                          html` <span class="quiet">and ${number(each.urls.length - 5)} more</span>`
                        }
                      </div>`,
                  )}
                </td>
              </tr>
              ${
                monitor.goal &&
                html`<tr>
                  <th scope="row">Goal</th>
                  <td>
                    ${monitor.goal}${
                      !monitor.judgeEnabled && html` <span class="quiet">changes are not judged by it</span>`
                    }
                  </td>
                </tr>`
              }
              <tr>
                <th scope="row">Told</th>
                <td><${Told} monitor=${monitor} /></td>
              </tr>
              <tr>
                <th scope="row">Credits a month</th>
                <td>about ${number(monitor.estimatedCreditsPerMonth)}</td>
              </tr>
            </tbody>
          </table>
          <div class="bar" role="group" aria-label="Control">
            <button type="button" class="primary" disabled=${isRunning} onClick=${() => change("POST", "/run", {})}>
              ${isRunning ? "A check is running" : "Run now"}
            </button>
            <button type="button" onClick=${() => change("PATCH", "", { status: isPaused ? "active" : "paused" })}>
              ${isPaused ? "Resume" : "Pause"}
            </button>
            <a class="button" href=${`#/monitors/${id}/edit`}>Edit</a>
            <button type="button" class="danger" onClick=${remove}>Delete</button>
            <span class="spring"></span><${Mute} monitor=${monitor} change=${change} />
          </div>
        </section>
        <section class="card" aria-label="Checks">
          <h2>Checks</h2>
          ${
            !found.checks.length
              ? html`<p class="empty">
                  None yet. The first one runs at the next time of the schedule, or with <b>Run now</b>.
                </p>`
              : html`<${Timeline} checks=${found.checks} />
                  <div class="scroll" tabindex="0">
                    <table class="list">
                      <thead>
                        <tr>
                          <th>Check</th>
                          <th>State</th>
                          <th>Pages</th>
                          <th>Credits</th>
                        </tr>
                      </thead>
                      <tbody>
                        ${found.checks.map(
                          (each) =>
                            html`<tr key=${each.id}>
                              <td>
                                <button
                                  type="button"
                                  class="link"
                                  aria-pressed=${each.id === chosen}
                                  onClick=${() => choose(each.id)}
                                >
                                  <${Time} at=${each.createdAt} />
                                </button>
                              </td>
                              <td>
                                <span class="tag ${KIND_OF_CHECK[each.status] || "warn"}"
                                  >${each.status.replaceAll("_", " ")}</span
                                >${" "}${each.error}
                              </td>
                              <td><${Counts} summary=${each.summary} /></td>
                              <td>${number(each.actualCredits)}</td>
                            </tr>`,
                        )}
                      </tbody>
                    </table>
                  </div>`
          }
        </section>`
    }
    ${
      monitor &&
      chosen &&
      html`<${CheckPages} key=${chosen} path=${`/v2/monitor/${id}/checks/${chosen}`} targets=${monitor.targets} />`
    }`;
}

// Who gets to know of changes.
function Told({ monitor }) {
  const { email, channels = [] } = monitor.notification || {};
  const parts = [
    monitor.webhook && html`<div class="cut">webhook <code>${monitor.webhook.url}</code></div>`,
    channels.length > 0 && html`<div>channels ${channels.join(", ")}</div>`,
    email?.enabled && html`<div>mail to ${(email.recipients || []).join(", ")}</div>`,
  ].filter(Boolean);
  return parts.length ? parts : html`<span class="quiet">nobody: changes are shown here only</span>`;
}

// Mail and channels can be silent for a time.
function Mute({ monitor, change }) {
  const { email, channels = [] } = monitor.notification || {};
  if (!channels.length && !email?.enabled) return null;
  const test = (data) => data.map((each) => `${each.name}: ${each.delivered ? "delivered" : each.error}`).join(". ");
  const mute = (event) => {
    const chosen = event.target.value;
    change("PATCH", "", {
      mutedUntil: chosen === "forever" ? chosen : new Date(Date.now() + chosen * 3600e3).toISOString(),
    });
  };
  const until =
    monitor.mutedUntil === "forever" ? "until you unmute" : html`until <${Time} at=${monitor.mutedUntil} />`;
  return html`<button type="button" onClick=${() => change("POST", "/notification/test", {}, test)}>
      Send a test message
    </button>
    ${
      monitor.mutedUntil
        ? html`<span class="tag warn" title="Mail and channels get nothing; the webhook does.">muted ${until}</span
            ><button type="button" onClick=${() => change("PATCH", "", { mutedUntil: null })}>Unmute</button>`
        : html`<select
            aria-label="Mute"
            title="No mail and no messages to channels; the webhook goes on"
            value=""
            onChange=${mute}
          >
            <option value="" disabled>Mute…</option>
            ${MUTES.map(([value, label]) => html`<option key=${value} value=${value}>${label}</option>`)}
          </select>`
    }`;
}

// The checks as bars, the oldest on the left. The table has the same in words.
function Timeline({ checks }) {
  const most = Math.max(1, ...checks.map((each) => each.summary.totalPages - each.summary.same));
  return html`<div class="timeline" aria-hidden="true">
    ${[...checks].reverse().map((each) => {
      const news = STATES.filter((state) => state !== "same" && each.summary[state]);
      return html`<div
        key=${each.id}
        title=${`${new Date(each.createdAt).toLocaleString()}: ${each.status.replaceAll("_", " ")}`}
      >
        ${news.map(
          (state) =>
            html`<span
              key=${state}
              class="bar-${state}"
              style=${{ height: `${Math.max(3, (44 * each.summary[state]) / most)}px` }}
            ></span>`,
        )}
        <span class=${each.status === "completed" ? "bar-same" : "bar-error"}></span>
      </div>`;
    })}
  </div>`;
}

function CheckPages({ path, targets }) {
  const [state, set] = useState({ pages: [] });
  const load = async (from, pages) => {
    try {
      const { data, next } = await call("GET", from);
      set({ pages: [...pages, ...data.pages], next, isRead: true });
    } catch (error) {
      set((old) => ({ ...old, error }));
    }
  };
  useEffect(() => {
    load(`${path}?limit=100`, []);
  }, [path]);
  return html`<section class="card" aria-label="Pages of the check">
    <h2>Pages</h2>
    <${Failure} error=${state.error} retry=${() => load(`${path}?limit=100`, [])} />
    ${!state.isRead && !state.error && html`<p class="quiet">Reading the pages…</p>`}${
      state.isRead && !state.pages.length && html`<p class="empty">This check has no pages.</p>`
    }
    ${state.pages.map(
      (each) =>
        html`<div key=${each.id} class="checked">
          <p>
            <span class="tag ${KIND[each.status]}">${each.status}</span>
            ${each.url}${" "}${each.error && html`<span class="quiet">${each.error}</span>`}
          </p>
          ${
            each.judgment &&
            html`<p class="quiet">
              ${each.judgment.meaningful ? "Matters" : "Does not matter"}: ${each.judgment.reason}
            </p>`
          }
          ${
            each.diff &&
            html`<${Change} page=${each} target=${targets.find((target) => target.id === each.targetId)} />`
          }
        </div>`,
    )}
    ${state.next && html`<button type="button" onClick=${() => load(state.next, state.pages)}>More pages</button>`}
  </section>`;
}

const hasPicture = (target) =>
  (target?.scrapeOptions?.formats || []).some((each) => (each.type || each).startsWith("screenshot"));

// Made when it is opened: a diff is long, and screenshots are read one by one.
function Change({ page, target }) {
  const [isOpen, open] = useState(false);
  return html`<details onToggle=${(event) => open(event.currentTarget.open)}>
    <summary>What has changed</summary>
    ${isOpen && html`<${Diff} diff=${page.diff} />${hasPicture(target) && html`<${Pictures} page=${page} />`}`}
  </details>`;
}

function Pictures({ page }) {
  const read = async (id, signal) => {
    if (!id) return undefined;
    try {
      return (await call("GET", `/v2/scrape/${id}`, undefined, signal)).data.screenshot;
    } catch (error) {
      if (error.status === 404) return undefined;
      throw error;
    }
  };
  const [found, error, again] = useLoaded(
    (signal) => Promise.all([read(page.previousScrapeId, signal), read(page.currentScrapeId, signal)]),
    [page.id],
  );
  if (!found)
    return error
      ? html`<${Failure} error=${error} retry=${again} />`
      : html`<p class="quiet">Reading the screenshots…</p>`;
  const side = (label, url) =>
    html`<figure>
      <figcaption>${label}</figcaption>
      ${
        url
          ? html`<a href=${picture(url)} target="_blank" rel="noopener"
              ><img class="screenshot" src=${picture(url)} alt=${`Screenshot: ${label.toLowerCase()}`} loading="lazy"
            /></a>`
          : html`<p class="quiet">No screenshot is stored.</p>`
      }
    </figure>`;
  return html`<h3>Screenshots</h3>
    <div class="pair">${side("Before", found[0])}${side("Now", found[1])}</div>`;
}
