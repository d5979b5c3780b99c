// The report of a job: quality of its pages, politeness, and why URLs were left out.
import { call } from "../http.js";
import { Failure, bytes, html, number, seconds, useLoaded, words } from "../ui.js";

export const REASONS = {
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
  nofollow: "Its page is marked nofollow, and the crawl obeys that.",
  robots: "robots.txt refuses it.",
  blocked_site: "The operator of this service refuses the site.",
  duplicate: "Another URL of the job is the same page.",
  limit: "The crawl has all the pages that its limit allows.",
};

const VERDICTS = {
  ok: "Content as expected.",
  login_wall: "The page asks to sign in.",
  block_page: "The site refuses robots, or asks for proof of a person.",
  soft_404: "An error, a parked domain or a notice stands in place of the page, with a good status.",
  consent_wall: "Only a question for consent.",
  empty_shell: "A page without text, which scripts would fill.",
  truncated: "The end of the page is missing.",
  unknown: "A file, or an error of the site.",
};

// Numbers of delivered pages by status, depth, verdict, and field of the data.
export function Quality({ path, stamp }) {
  const [found, error, again] = useLoaded((signal) => call("GET", `${path}/report`, undefined, signal), [path, stamp]);
  if (error) return html`<${Failure} error=${error} retry=${again} />`;
  if (!found) return html`<p class="quiet">Reading…</p>`;
  const { pages, statuses, depths, verdicts, duplicates, data } = found.quality;
  const lost =
    found.losses && Object.fromEntries(Object.entries(found.losses).map(([kind, each]) => [words(kind), each.pages]));
  return html`<dl class="figures">
      ${[
        ["Delivered", pages],
        ["Failed", found.addresses.failed],
        ["Duplicates left out", duplicates],
        ["With data", data?.pages],
      ]
        .filter(([, count]) => count !== undefined)
        .map(
          ([name, count]) =>
            html`<div key=${name}>
              <dt>${name}</dt>
              <dd>${number(count)}</dd>
            </div>`,
        )}
    </dl>
    ${
      pages === 0
        ? html`<p class="empty">No page was delivered yet.</p>`
        : html` <${Bars}
              title="Verdicts"
              counts=${verdicts}
              of=${pages}
              words=${VERDICTS}
              isGood=${(name) => name === "ok"}
            />
            <${Bars} title="Statuses of the site" counts=${statuses} of=${pages} isGood=${(name) => name < 400} />
            <${Bars} title="Links from the start" counts=${depths} of=${pages} isOrdered />
            ${
              lost &&
              html`<${Bars}
                title="Pages that lost a part"
                counts=${lost}
                of=${pages}
                isGood=${() => false}
                note="Parts of pages that no format contains, by their kind. The metadata of each page names them."
              />`
            }
            ${
              data &&
              html`<${Bars}
                title="Fields of the data"
                counts=${data.fields}
                of=${data.pages}
                isOrdered
                note="How many of the pages with data have a value."
              />`
            }`
    }`;
}

function Bars({ title, counts, of, words = {}, note, isGood = () => true, isOrdered }) {
  const rows = Object.entries(counts);
  if (!isOrdered) rows.sort((one, other) => other[1] - one[1]);
  return html`<h2>${title}</h2>
    ${note && html`<p class="quiet">${note}</p>`}
    <table class="facts bars">
      <tbody>
        ${rows.map(
          ([name, count]) =>
            html`<tr key=${name}>
              <th scope="row">${name}</th>
              <td>${number(count)}</td>
              <td>${of ? `${Math.round((100 * count) / of)} %` : ""}</td>
              <td>
                <span class="track" aria-hidden="true"
                  ><span
                    class=${isGood(name) ? "" : "bad"}
                    style=${{ width: `${of ? (100 * count) / of : 0}%` }}
                  ></span></span
                >${" "}<span class="quiet">${words[name] || ""}</span>
              </td>
            </tr>`,
        )}
      </tbody>
    </table>`;
}

export function Report({ path, stamp }) {
  const [found, error, again] = useLoaded((signal) => call("GET", `${path}/report`, undefined, signal), [path, stamp]);
  if (error) return html`<${Failure} error=${error} retry=${again} />`;
  if (!found) return html`<p class="quiet">Reading…</p>`;
  const reasons = Object.entries(found.reasons).sort((one, other) => other[1] - one[1]);
  return html`<h2>Hosts</h2>
    <div class="scroll" tabindex="0">
      <table class="list">
        <thead>
          <tr>
            <th>Host</th>
            <th>Requests</th>
            <th>Bytes</th>
            <th>Most a second</th>
            <th>At a time now</th>
            <th>Pause</th>
            <th>Answers</th>
            <th>Slowed down by</th>
          </tr>
        </thead>
        <tbody>
          ${found.hosts.map(
            (host) =>
              html`<tr key=${host.host}>
                <td>${host.host}</td>
                <td>${number(host.requests)}</td>
                <td>${bytes(host.bytes)}</td>
                <td>${host.peakRate}</td>
                <td>${host.window}</td>
                <td>${seconds(host.gapSeconds)}</td>
                <td class="named">${pairs(host.answers)}</td>
                <td>${pairs(host.backoffs) || "–"}</td>
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
    <h2>Why URLs were left out or failed</h2>
    ${
      reasons.length
        ? html`<table class="facts">
            <tbody>
              ${reasons.map(
                ([name, count]) =>
                  html`<tr key=${name}>
                    <th scope="row">${name}</th>
                    <td>${number(count)} <span class="quiet">${REASONS[name] || ""}</span></td>
                  </tr>`,
              )}
            </tbody>
          </table>`
        : html`<p class="empty">None was.</p>`
    }
    <h2>robots.txt</h2>
    ${
      found.robots.length
        ? html`<table class="facts">
            <tbody>
              ${found.robots.map(
                (each) =>
                  html`<tr key=${each.url}>
                    <th scope="row">${each.host}</th>
                    <td>
                      ${each.state || "not read yet"}
                      ${each.detail || ""}${" "}${each.crawlDelay ? `Crawl-delay ${each.crawlDelay}` : ""}${" "}<span
                        class="quiet"
                        >${number(each.refused)} refused</span
                      >
                    </td>
                  </tr>`,
              )}
            </tbody>
          </table>`
        : html`<p class="empty">None was read.</p>`
    }
    <h2>Stats of Scrapy</h2>
    <p class="quiet">Of all crawlers of the job.</p>
    <table class="facts">
      <tbody>
        ${Object.entries(found.stats).map(
          ([name, value]) =>
            html`<tr key=${name}>
              <th scope="row" title=${name}>${name.replace(/[/_]/g, " ")}</th>
              <td>${number(value)}</td>
            </tr>`,
        )}
      </tbody>
    </table>`;
}

const pairs = (counts) =>
  Object.entries(counts || {})
    .map(([name, count]) => `${name}: ${number(count)}`)
    .join(", ");
