// All methods of the public JavaScript client, v2 and v1: node clients.mjs SERVICE KEY SITE
// Prints one line of JSON per method: {client, method, result}.
import { Firecrawl } from "firecrawl";
import { WebSocket } from "undici";

globalThis.WebSocket ??= WebSocket; // which older versions of node do not have

const [service, apiKey, site] = process.argv.slice(2);
const second = new Firecrawl({ apiKey, apiUrl: service });
const first = second.v1;
const unknown = "00000000-0000-4000-8000-000000000000";
const lamp = `${site}/shop/lamp`;
const schema = { type: "object", properties: { name: { type: "string" } } };

async function call(client, method, action, isRight = Boolean) {
  let value, result;
  try {
    value = await action();
    const shown = JSON.stringify(value)?.slice(0, 300);
    result = isRight(value) ? "works" : `wrong: ${shown}`;
  } catch (error) {
    result = `refused: ${error.name}: ${String(error.message).slice(0, 300)}`;
  }
  console.log(JSON.stringify({ client, method, result }));
  return value;
}

const v2 = (method, action, isRight) => call("JavaScript v2", method, action, isRight);
const v1 = (method, action, isRight) => call("JavaScript v1", method, action, isRight);
const quick = { pollInterval: 1, timeout: 60 };
const isCompleted = (found) => found.status === "completed";

await v2("scrape", () => second.scrape(lamp), (page) => page.markdown);
await v2("parse", () =>
  second.parse({ data: "<h1>A file</h1>", filename: "a.html", contentType: "text/html" }),
  (page) => page.markdown === "# A file");
const rated = { rating: "bad", querySuggestions: "brass lamps" };
await v2("feedback", async () => {
  const { metadata } = await second.scrape(lamp);
  return second.feedback({ endpoint: "scrape", jobId: metadata.scrapeId, ...rated });
}, (x) => x.feedbackId);
await v2("searchFeedback", async () => {
  // The client's own search leaves out the id.
  const answer = await fetch(`${service}/v2/search`, {
    method: "POST",
    headers: { Authorization: `Bearer ${apiKey}` },
    body: JSON.stringify({ query: "lamp", limit: 2 }),
  });
  const { id } = await answer.json();
  return second.searchFeedback(id, rated);
}, (x) => x.feedbackId);
await v2("search", () => second.search("lamp", { limit: 2 }), (found) => found.web.length);
await v2("map", () => second.map(`${site}/`), (found) => found.links.length);
const crawl = await v2("startCrawl", () => second.startCrawl(`${site}/`, { limit: 3 }), (x) => x.id);
await v2("crawl", () => second.crawl(`${site}/`, { limit: 3, ...quick }), isCompleted);
await v2("getCrawlStatus", () => second.getCrawlStatus(crawl.id), (x) => x.status);
await v2("getCrawlErrors", () => second.getCrawlErrors(crawl.id), (x) => x.errors);
const slow = await second.startCrawl(`${site}/`, { limit: 100, delay: 5 });
await v2("getActiveCrawls", () => second.getActiveCrawls(), (x) => x.crawls.length);
await v2("cancelCrawl", () => second.cancelCrawl(slow.id));
await v2("crawlParamsPreview", () =>
  second.crawlParamsPreview(`${site}/`, "at most 5 pages"), (x) => x.limit === 5);
const batch = await v2("startBatchScrape", () => second.startBatchScrape([lamp]), (x) => x.id);
await v2("batchScrape", () => second.batchScrape([lamp], quick), isCompleted);
await v2("getBatchScrapeStatus", () => second.getBatchScrapeStatus(batch.id), (x) => x.status);
await v2("getBatchScrapeErrors", () => second.getBatchScrapeErrors(batch.id), (x) => x.errors);
const waiting = await second.startBatchScrape(Array(30).fill(`${site}/slow`));
await v2("cancelBatchScrape", () => second.cancelBatchScrape(waiting.id));
const extract = await v2("startExtract", () => second.startExtract({ urls: [lamp], schema }), (x) => x.id);
await v2("extract", () => second.extract({ urls: [lamp], schema, ...quick }),
  (found) => found.data.name === "Brass Lamp");
await v2("getExtractStatus", () => second.getExtractStatus(extract.id), (x) => x.status);
for (const name of ["getConcurrency", "getCreditUsage", "getTokenUsage", "getQueueStatus",
  "getCreditUsageHistorical", "getTokenUsageHistorical"])
  await v2(name, () => second[name]());
await v2("watcher", async () => {
  const { id } = await second.startCrawl(`${site}/`, { limit: 3 });
  const watcher = second.watcher(id, { kind: "crawl", timeout: 60 });
  const done = new Promise((resolve, reject) => {
    watcher.on("done", resolve);
    watcher.on("error", reject);
  });
  await watcher.start();
  const found = await done;
  watcher.close();
  return found;
}, isCompleted);
const monitor = await v2("createMonitor", () => second.createMonitor({
  name: "Lamps", schedule: { text: "every 30 minutes", timezone: "Europe/Berlin" },
  targets: [
    { type: "scrape", urls: [`${site}/about`], scrapeOptions: { formats: ["markdown"] } },
    { type: "crawl", url: `${site}/`, crawlOptions: { limit: 2 } },
  ],
  notification: { email: { enabled: false, recipients: [], includeDiffs: false } },
}), (x) => x.id && x.schedule.cron);
await v2("listMonitors", () => second.listMonitors({ limit: 5 }), (x) => x.length);
await v2("getMonitor", () => second.getMonitor(monitor.id), (x) => x.id === monitor.id);
await v2("updateMonitor", () => second.updateMonitor(monitor.id, { status: "paused", webhook: null }),
  (x) => x.status === "paused");
const check = await v2("runMonitor", () => second.runMonitor(monitor.id), (x) => x.id);
await v2("listMonitorChecks", () => second.listMonitorChecks(monitor.id), (x) => x[0].id === check.id);
await v2("getMonitorCheck", async () => {
  for (let tries = 0; tries < 600; tries += 1) {
    const found = await second.getMonitorCheck(monitor.id, check.id);
    if (!["queued", "running"].includes(found.status)) return found;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return undefined;
}, (x) => x.status === "completed" && x.pages.length === x.summary.new);
await v2("deleteMonitor", () => second.deleteMonitor(monitor.id));
const title = { code: "agent-browser get title", language: "bash" };
const isDone = (x) => x.success && x.exitCode === 0 && x.stdout.includes("Lamp");
const before = await second.scrape(lamp);
const used = before.metadata.scrapeId;
for (const name of ["interact", "scrapeExecute"])
  if (typeof second[name] === "function")
    await v2(name, () => second[name](used, title), isDone);
for (const name of ["stopInteraction", "stopInteractiveBrowser", "deleteScrapeBrowser"])
  await v2(name, () => second[name](used), (x) => x.success && x.creditsBilled === 2);
const held = await v2("browser", () => second.browser({ ttl: 60, activityTtl: 30 }), (x) => x.expiresAt);
await v2("browserExecute", () => second.browserExecute(held.id, {
  code: `agent-browser open ${lamp} && agent-browser get title`, language: "bash",
}), isDone);
await v2("listBrowsers", () => second.listBrowsers({ status: "active" }),
  (x) => x.sessions.some((each) => each.id === held.id));
await v2("deleteBrowser", () => second.deleteBrowser(held.id), (x) => x.sessionDurationMs > 0);
const wanted = { prompt: "The name", urls: [lamp], effort: "low" };
await v2("agent", () => second.agent({ ...wanted, schema, pollInterval: 1 }),
  (x) => x.status === "completed" && x.data.name);
const agentRun = await v2("startAgent", () => second.startAgent(wanted), (x) => x.id);
await v2("cancelAgent", () => second.cancelAgent(agentRun.id));
await v2("getAgentStatus", () => second.getAgentStatus(agentRun.id), (x) => x.status === "failed");
if (typeof second.listAgents === "function")
  await v2("listAgents", () => second.listAgents(), (x) => x.agents[0].id === agentRun.id);
for (const [name, ...given] of [
  ["getAgentTrace", unknown], ["getAgentThread", unknown], ["developerSearch", "lamp"], ["findTools", { urls: [lamp] }],
])
  if (typeof second[name] === "function")
    await v2(`${name} (not offered)`, () => second[name](...given), () => false);

await v1("scrapeUrl", () => first.scrapeUrl(lamp, {}), (page) => page.markdown);
await v1("search", () => first.search("lamp", { limit: 2 }), (found) => found.data.length);
await v1("mapUrl", () => first.mapUrl(`${site}/`, {}), (found) => found.links.length);
await v1("crawlUrl", () => first.crawlUrl(`${site}/`, { limit: 3 }, 1), isCompleted);
const old = await v1("asyncCrawlUrl", () => first.asyncCrawlUrl(`${site}/`, { limit: 3 }), (x) => x.id);
await v1("checkCrawlStatus", () => first.checkCrawlStatus(old.id), (x) => x.status);
await v1("checkCrawlErrors", () => first.checkCrawlErrors(old.id), (x) => x.errors);
const long = await first.asyncCrawlUrl(`${site}/`, { limit: 100, delay: 5 });
await v1("cancelCrawl", () => first.cancelCrawl(long.id));
await v1("batchScrapeUrls", () => first.batchScrapeUrls([lamp], {}, 1), isCompleted);
const oldBatch = await v1("asyncBatchScrapeUrls", () => first.asyncBatchScrapeUrls([lamp], {}), (x) => x.id);
await v1("checkBatchScrapeStatus", () => first.checkBatchScrapeStatus(oldBatch.id), (x) => x.status);
await v1("checkBatchScrapeErrors", () => first.checkBatchScrapeErrors(oldBatch.id), (x) => x.errors);
await v1("extract", () => first.extract([lamp], { schema }), (found) => found.data.name === "Brass Lamp");
const oldExtract = await v1("asyncExtract", () => first.asyncExtract([lamp], { schema }), (x) => x.id);
await v1("getExtractStatus", () => first.getExtractStatus(oldExtract.id), (x) => x.status);
await v1("generateLLMsText", () => first.generateLLMsText(`${site}/`, { maxUrls: 2 }), isCompleted);
const texts = await v1("asyncGenerateLLMsText", () =>
  first.asyncGenerateLLMsText(`${site}/`, { maxUrls: 2 }), (x) => x.id);
await v1("checkGenerateLLMsTextStatus", () => first.checkGenerateLLMsTextStatus(texts.id), (x) => x.status);
const asked = { maxDepth: 1, maxUrls: 1, timeLimit: 30 };
await v1("deepResearch", () => first.deepResearch("Who founded the shop?", asked), (x) => x.success);
const research = await v1("asyncDeepResearch", () =>
  first.asyncDeepResearch("Who founded the shop?", asked), (x) => x.id);
await v1("checkDeepResearchStatus", () => first.checkDeepResearchStatus(research.id), (x) => x.status);
for (const name of ["getCreditUsage", "getTokenUsage", "getQueueStatus",
  "getCreditUsageHistorical", "getTokenUsageHistorical"])
  if (typeof first[name] === "function") await v1(name, () => first[name]());
for (const [name, ...given] of [
  ["crawlUrlAndWatch", `${site}/`, { limit: 2 }], ["batchScrapeUrlsAndWatch", [lamp], {}]])
  await v1(name, async () => {
    const watcher = await first[name](...given);
    return new Promise((resolve, reject) => {
      watcher.addEventListener("done", (event) => resolve(event.detail));
      watcher.addEventListener("error", (event) => reject(new Error(event.detail?.error)));
    });
  });
process.exit(0);
