// The operations of the n8n node: node n8n.mjs SERVICE KEY SITE
import { send } from "./n8n_node.mjs";

const [service, key, site] = process.argv.slice(2);
const lamp = `${site}/shop/lamp`;

async function call(resource, operation, set = {}, isRight = Boolean, suffix = "") {
  let value, result;
  try {
    value = await send(service, key, resource, operation, set);
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
