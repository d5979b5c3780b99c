// The operations of the n8n node, replayed: node n8n.mjs SERVICE KEY SITE
// The node only declares its requests. This evaluates the declarations as n8n does, with the
// defaults of each field, and sends what they make.
import { createRequire } from "node:module";

const [service, key, site] = process.argv.slice(2);
const require = createRequire(import.meta.url);
const place = "@mendable/n8n-nodes-firecrawl/dist/nodes/Firecrawl/Firecrawl.node.js";
const { Firecrawl } = require(place);
const { properties, requestDefaults } = new Firecrawl().description;
const baseUrl = `${service}/v2`;
const lamp = `${site}/shop/lamp`;

function evaluate(text, $value, $parameter) {
  if (typeof text !== "string" || !text.startsWith("=")) return text;
  const parts = text.slice(1).split(/(\{\{.*?\}\})/s).filter(Boolean);
  const values = parts.map((part) => {
    if (!part.startsWith("{{")) return part;
    try {
      return new Function("$value", "$parameter", `return (${part.slice(2, -2)})`)($value, $parameter);
    } catch (error) {
      if (error instanceof TypeError) return undefined; // as in n8n, for members of empty fields
      throw error;
    }
  });
  const whole = values.filter((value) => typeof value !== "string" || value.trim());
  return whole.length === 1 ? whole[0] : values.join("");
}

function filled(object, $value, $parameter) {
  if (typeof object !== "object" || object === null) return evaluate(object, $value, $parameter);
  const made = Object.entries(object).map(([name, each]) => [name, filled(each, $value, $parameter)]);
  return Array.isArray(object) ? made.map(([, each]) => each) : Object.fromEntries(made);
}

const matches = (rules, given) => Object.entries(rules || {}).map(([name, values]) =>
  values.includes(given[name.replace(/^\//, "")]));
const isShown = ({ show, hide } = {}, given) =>
  matches(show, given).every(Boolean) && !matches(hide, given).some(Boolean);

function merge(request, routing, value, given) {
  const { body, qs, ...rest } = filled(routing.request || {}, value, given);
  Object.assign(request, rest);
  Object.assign(request.body, body);
  Object.assign(request.qs, qs);
  request.preSend.push(...(routing.send?.preSend || []));
  const { property, type } = routing.send || {};
  const sent = routing.send?.value === undefined ? value : evaluate(routing.send.value, value, given);
  if (property) request[type === "query" ? "qs" : "body"][evaluate(property, value, given)] = sent;
}

// Collections have the routing of their fields, for the fields that are set.
function apply(request, field, value, given) {
  if (field.routing) merge(request, field.routing, value, given);
  for (const option of field.options || [])
    if (field.type === "options" && option.value === value && option.routing)
      merge(request, option.routing, value, given);
    else if (field.type === "collection" && option.name in (value || {}))
      apply(request, option, value[option.name], given);
    else if (field.type === "fixedCollection" && option.name in (value || {}))
      for (const inner of option.values)
        for (const row of [value[option.name]].flat())
          if (inner.name in row) apply(request, inner, row[inner.name], given);
}

async function send(resource, operation, set) {
  const given = { resource, operation, useCustomBody: false, ...set };
  const fields = properties.filter((each) => each.type !== "notice" && each.name !== "resource");
  const shown = [];
  for (const field of fields) {
    if (!isShown(field.displayOptions, given)) continue;
    if (!(field.name in given)) given[field.name] = field.default;
    shown.push(field);
  }
  const request = { method: "GET", qs: {}, body: { ...requestDefaults.body }, preSend: [] };
  for (const field of shown) apply(request, field, given[field.name], given);
  const context = { getNodeParameter: (name, other) => given[name] ?? other, getNode: () => ({}) };
  let options = { ...request, baseURL: baseUrl };
  for (const each of request.preSend) options = await each.call(context, options);
  const query = new URLSearchParams(options.qs).toString();
  const answer = await fetch(`${baseUrl}${options.url}${query && `?${query}`}`, {
    method: options.method,
    headers: { ...requestDefaults.headers, Authorization: `Bearer ${key}` },
    body: options.method === "GET" ? undefined : JSON.stringify(options.body),
  });
  const found = await answer.json();
  if (!answer.ok) throw new Error(`${options.method} ${options.url}: ${answer.status} ${JSON.stringify(found)}`);
  return found;
}

async function call(resource, operation, set = {}, isRight = Boolean, suffix = "") {
  let value, result;
  try {
    value = await send(resource, operation, set);
    result = isRight(value) ? "works" : `wrong: ${JSON.stringify(value).slice(0, 300)}`;
  } catch (error) {
    result = `refused: ${error.name}: ${String(error.message).slice(0, 300)}`;
  }
  const method = `${resource}: ${operation}${suffix}`;
  console.log(JSON.stringify({ client: "n8n", method, result }));
  return value || {};
}

const page = await call("Scraping", "scrape", { url: lamp }, (x) => x.data.markdown);
const batch = await call("Scraping", "batchScrape", { urls: lamp }, (x) => x.id);
await call("Scraping", "batchScrapeStatus", { batchId: batch.id }, (x) => x.status);
await call("Scraping", "batchScrapeErrors", { batchId: batch.id }, (x) => x.errors);
const crawl = await call("Crawling", "crawl", { url: `${site}/`, limit: 3 }, (x) => x.id);
await call("Crawling", "getCrawlStatus", { crawlId: crawl.id }, (x) => x.status);
await call("Crawling", "getCrawlErrors", { crawlId: crawl.id }, (x) => x.errors);
await call("Crawling", "crawlActive", {}, (x) => x.crawls);
// It sends a GET, without the prompt.
await call("Crawling", "crawlParamsPreview", { url: `${site}/`, prompt: "at most 5 pages" },
  (x) => x.data, " (fails in the client)");
await call("MapSearch", "map", { url: `${site}/` }, (x) => x.links.length);
await call("MapSearch", "search", { query: "lamp" }, (x) => x.data);
const agent = await call("Agent", "agentAsync", { prompt: "The name", specifyUrls: true, urls: lamp }, (x) => x.id);
await call("Agent", "agent", { prompt: "The name" }, (x) => x.id);
await call("Agent", "getAgentStatus", { agentId: agent.id }, (x) => x.status);
const extract = await call("Extract", "extract", { urls: { items: [{ url: lamp }] }, prompt: "The name" }, (x) => x.id);
await call("Extract", "getExtractStatus", { extractId: extract.id }, (x) => x.status);
const scrapeId = page.data?.metadata?.scrapeId;
const title = { code: "agent-browser get title", language: "bash" };
await call("Interact", "interact", { scrapeId, interactMode: "code", ...title }, (x) => x.success);
await call("Interact", "interactStop", { scrapeId }, (x) => x.success);
const session = await call("Browser", "browserCreate", {}, (x) => x.id);
await call("Browser", "browserExecute", { sessionId: session.id, ...title }, (x) => x.success);
await call("Browser", "browserList", {}, (x) => x.sessions.length);
await call("Browser", "browserDelete", { sessionId: session.id }, (x) => x.success);
for (const name of ["teamCreditUsage", "creditUsageHistorical", "teamTokenUsage",
  "teamTokenUsageHistorical", "teamQueueStatus"])
  await call("Account", name, {}, (x) => x.success);
const waiting = Array.from({ length: 30 }, (_, number) => `${site}/slow?${number}`).join("\n");
const slow = await call("Scraping", "batchScrape", { urls: waiting }, (x) => x.id, ", slow");
await call("Scraping", "cancelBatchScrape", { batchId: slow.id });
const long = await call("Crawling", "crawl", { url: `${site}/`, limit: 100, delay: 5 }, (x) => x.id, ", slow");
await call("Crawling", "cancelCrawl", { crawlId: long.id });
