// One page: its formats as tabs.
import { useRef, useState } from "./libraries/hooks.js";
import { signal } from "./libraries/signals.js";
import { call } from "./http.js";
import { Copy, Failure, Frame, Notice, Tabs, Time, html, number, useLoaded, words } from "./ui.js";

const safe = (url) => (/^https?:\/\//i.test(url || "") ? url : undefined);

// Formats that are values, shown together as data.
const DATA = ["json", "attributes", "changeTracking", "answer", "highlights", "summary", "branding", "product", "menu"];

export function PageResult({ page, told }) {
  const meta = page.metadata || {};
  const tabs = [
    page.markdown !== undefined && ["rendered", "Rendered"],
    page.markdown !== undefined && ["markdown", "Markdown"],
    (page.html ?? page.rawHtml) !== undefined && ["html", "HTML"],
    page.links && ["links", `Links ${page.links.length}`],
    page.images && ["images", `Images ${page.images.length}`],
    page.screenshot && ["screenshot", "Screenshot"],
    DATA.some((name) => page[name] !== undefined) && ["data", "Data"],
    ["metadata", "Metadata"],
    ["why", "Why"],
    ["all", "JSON"],
  ].filter(Boolean);
  const [chosen, choose] = useState(tabs[0][0]);
  const shown = tabs.some(([name]) => name === chosen) ? chosen : tabs[0][0];
  return html`<section class="card" aria-label="Result">
    <h2>${meta.title || meta.sourceURL || "Page"}</h2>
    <p class="quiet">
      ${meta.statusCode && html`<span class="tag ${meta.statusCode < 400 ? "good" : "bad"}">${meta.statusCode}</span> `}
      ${meta.engine && html`<span class="tag">${meta.engine}</span> `}${
        meta.verdict && html`<span class="tag ${meta.verdict === "ok" ? "good" : "bad"}">${meta.verdict}</span> `
      }
      ${meta.wordCount !== undefined && `${number(meta.wordCount)} words · `}${
        safe(meta.url)
          ? html`<a href=${meta.url} target="_blank" rel="noopener noreferrer">${meta.url}</a>`
          : meta.sourceURL
      }
    </p>
    ${told} ${page.warning && html`<${Notice} kind="warning">${page.warning}<//>`}
    ${meta.losses && html`<${Losses} losses=${meta.losses} />`}
    <${Tabs} label="Formats" chosen=${shown} choose=${choose} tabs=${tabs} />
    <div role="tabpanel"><${Panel} name=${shown} page=${page} /></div>
  </section>`;
}

// The parts of a page that no format contains.
function Losses({ losses }) {
  const count = losses.reduce((sum, each) => sum + each.count, 0);
  return html`<details class="losses">
    <summary>Not in the formats: ${number(count)} ${count === 1 ? "part" : "parts"} of the page</summary>
    <ul>
      ${losses.map(
        (each) =>
          html`<li key=${each.kind}>
            <strong>${words(each.kind)}</strong>${each.count > 1 && ` (${number(each.count)})`}: ${each.reason}
            ${each.texts?.map((text, at) => html`<div class="quiet" key=${at}>${text}</div>`)}
            ${each.urls?.map(
              (url) =>
                html`<div key=${url}><a href=${safe(url)} target="_blank" rel="noopener noreferrer">${url}</a></div>`,
            )}
          </li>`,
      )}
    </ul>
  </details>`;
}

function Panel({ name, page }) {
  if (name === "rendered") return html`<${Rendered} text=${page.markdown} />`;
  if (name === "markdown") return html`<${Source} text=${page.markdown} />`;
  if (name === "html") return html`<${HtmlPanel} text=${page.html ?? page.rawHtml} />`;
  if (name === "links" || name === "images")
    return html`<ul class="results">
      ${page[name]
        .slice(0, 1000)
        .map(
          (url, at) =>
            html`<li key=${at}><a href=${safe(url)} target="_blank" rel="noopener noreferrer">${url}</a></li>`,
        )}
    </ul>`;
  if (name === "screenshot")
    return html`<img class="screenshot" src=${picture(page.screenshot)} alt="Screenshot of the page" />
      <p><a href=${picture(page.screenshot)} target="_blank" rel="noopener">Open the file</a></p>`;
  if (name === "data") {
    const found = Object.fromEntries(DATA.filter((each) => page[each] !== undefined).map((each) => [each, page[each]]));
    return html`<${Source}
      text=${JSON.stringify(Object.keys(found).join() === "json" ? page.json : found, null, 2)}
    />`;
  }
  if (name === "metadata") return html`<${Facts} facts=${page.metadata} />`;
  if (name === "why") return html`<${Why} page=${page} />`;
  return html`<${Source} text=${JSON.stringify(page, null, 2)} />`;
}

// Files of pages are at this address too, whatever address the service has in its answers.
export function picture(url) {
  if (/^data:image\//.test(url)) return url;
  const { pathname, search } = new URL(url, location.origin);
  return pathname + search;
}

function Preview({ body }) {
  const [found, error, again] = useLoaded(
    (signal) => call("POST", "/v2/preview", body, signal),
    [body.markdown, body.html],
  );
  if (error) return html`<${Failure} error=${error} retry=${again} />`;
  if (!found) return html`<p class="quiet">Rendering…</p>`;
  return html`<${Frame} body=${found.html} title="Preview of the page" />
    <p class="quiet">
      Images are shown as their text, so that nothing is loaded from the
      site.${found.isCut ? " The page is long; its end is left out." : ""}
    </p>`;
}

const isBeside = signal(false);

// The page, alone or beside its Markdown.
function Rendered({ text }) {
  const shown = html`<div><${Preview} key="markdown" body=${{ markdown: text }} /></div>`;
  return html`<button
      type="button"
      class="small"
      aria-pressed=${isBeside.value}
      onClick=${() => (isBeside.value = !isBeside.value)}
    >
      Beside its Markdown
    </button>
    ${isBeside.value ? html`<div class="pair">${shown}<${Source} text=${text} /></div>` : shown}`;
}

function HtmlPanel({ text }) {
  const [isSource, set] = useState(false);
  return html`<button type="button" class="small" onClick=${() => set(!isSource)}>
      ${isSource ? "Show the page" : "Show the source"}
    </button>
    ${isSource ? html`<${Source} text=${text} />` : html`<${Preview} body=${{ html: text }} />`}`;
}

export function Source({ text }) {
  const most = 300000;
  return html`<div class="source">
    <${Copy} text=${text} />
    <pre class="code" tabindex="0">${text.slice(0, most)}</pre>
    ${
      text.length > most &&
      html`<p class="quiet">
        The first ${number(most)} of ${number(text.length)} characters are shown; Copy takes all.
      </p>`
    }
  </div>`;
}

function Facts({ facts }) {
  return html`<table class="facts">
    <tbody>
      ${Object.entries(facts || {}).map(
        ([name, value]) =>
          html`<tr key=${name}>
            <th scope="row">${name}</th>
            <td>${typeof value === "object" ? JSON.stringify(value) : String(value)}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;
}

// What a selector matches in the HTML, before it stands in a format.
function Selector({ html: read }) {
  const [text, write] = useState("");
  const [state, set] = useState({});
  const look = async (event) => {
    event.preventDefault();
    set({ running: true });
    try {
      set({ found: await call("POST", "/v2/matches", { ...(await read()), selector: text }) });
    } catch (error) {
      set({ error });
    }
  };
  const { found } = state;
  return html`<form onSubmit=${look}>
      <p>
        <label
          >CSS or XPath${" "}<input
            type="text"
            value=${text}
            onInput=${(event) => write(event.target.value)}
            placeholder="h2 a::attr(href)"
            spellcheck="false"
            required
        /></label>
        <button type="submit" disabled=${state.running}>${state.running ? "Reading…" : "Show its matches"}</button>
      </p>
    </form>
    <${Failure} error=${state.error} />
    ${
      found &&
      html`<div aria-live="polite">
        ${
          found.error
            ? html`<p class="tag bad">${found.error}</p>`
            : html`<p>
                ${number(found.count)}${" "}${found.count === 1 ? "match" : "matches"}${
                  found.count > found.matches.length ? `, the first ${found.matches.length}` : ""
                }
              </p>`
        }
        ${
          found.matches.length > 0 &&
          html`<div class="scroll" tabindex="0">
            <table class="list">
              <thead>
                <tr>
                  <th>Where</th>
                  <th>Text</th>
                </tr>
              </thead>
              <tbody>
                ${found.matches.map(
                  (match, at) =>
                    html`<tr key=${at}>
                      <td class="quiet" title=${match.html}>${match.path || "–"}</td>
                      <td>${match.text}</td>
                    </tr>`,
                )}
              </tbody>
            </table>
          </div>`
        }
      </div>`
    }`;
}

// How the page came, which blocks of it were kept, and what selectors match.
function Why({ page }) {
  const meta = page.metadata || {};
  const [state, set] = useState({});
  const kept = useRef();
  const read = async () => {
    kept.current ??=
      page.rawHtml ??
      (
        await call("POST", "/v2/scrape", {
          url: meta.url || meta.sourceURL,
          formats: ["rawHtml"],
          onlyMainContent: false,
        })
      ).data.rawHtml;
    return { html: kept.current, url: meta.url || meta.sourceURL || "" };
  };
  const explain = async () => {
    set({ running: true });
    try {
      set({ found: await call("POST", "/v2/blocks", await read()) });
    } catch (error) {
      set({ error });
    }
  };
  return html`<table class="facts">
      <tbody>
        <tr>
          <th scope="row">Engine</th>
          <td>${meta.engine || "–"}</td>
        </tr>
        <tr>
          <th scope="row">Verdict</th>
          <td>
            ${meta.verdict || "–"}${" "}${(meta.verdictEvidence || []).map(
              (each) => html`<div class="quiet">${typeof each === "string" ? each : JSON.stringify(each)}</div>`,
            )}
          </td>
        </tr>
        <tr>
          <th scope="row">Cache</th>
          <td>${meta.cacheState || "–"} ${meta.cachedAt && html`<${Time} at=${meta.cachedAt} />`}</td>
        </tr>
        <tr>
          <th scope="row">Queue</th>
          <td>${meta.concurrencyQueueDurationMs ? `${meta.concurrencyQueueDurationMs} ms` : "no wait"}</td>
        </tr>
      </tbody>
    </table>
    <h3>Selectors</h3>
    <${Selector} html=${read} />
    <h3>Main content</h3>
    <${Failure} error=${state.error} /> ${
      !state.found &&
      html`<p>
        <button type="button" onClick=${explain} disabled=${state.running}>
          ${state.running ? "Reading…" : "Show the blocks that were kept and dropped"}
        </button>
        ${page.rawHtml === undefined && html` <span class="quiet">This scrapes the page again, for its HTML.</span>`}
      </p>`
    }
    ${
      state.found &&
      html`<p>
          ${
            state.found.kind
              ? `This page is of the kind “${state.found.kind}”; ${
                  state.found.bar
                    ? `blocks with a chance of ${state.found.bar} and more`
                    : "as it is small, all blocks but menus and footers"
                } are kept.`
              : "The page has no blocks of text."
          }
        </p>
        <div class="scroll" tabindex="0">
          <table class="list">
            <thead>
              <tr>
                <th>Kept</th>
                <th>Chance</th>
                <th>Words</th>
                <th>Where</th>
                <th>Text</th>
              </tr>
            </thead>
            <tbody>
              ${state.found.blocks.slice(0, 1000).map(
                (block) =>
                  html`<tr key=${block.number}>
                    <td><span class="tag ${block.keep ? "good" : "bad"}">${block.keep ? "kept" : "dropped"}</span></td>
                    <td>${block.rule || block.chance}</td>
                    <td>${block.words}</td>
                    <td class="quiet">${block.path}</td>
                    <td>${block.text}</td>
                  </tr>`,
              )}
            </tbody>
          </table>
        </div>`
    }`;
}
