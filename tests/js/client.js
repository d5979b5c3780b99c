// Pages, crawls, batches and maps.
import { WebSocket } from "undici";

import { client, site, step } from "./steps.js";

globalThis.WebSocket ??= WebSocket; // which older versions of node do not have

const first = client.v1;
const pages = (name, count) =>
  Array.from({ length: count }, (_, i) => `${site}/site/${name}/p/${i || ""}`);

async function untilDone(read) {
  for (;;) {
    const status = await read();
    if (status.status !== "scraping") return status;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

await step("v2 scrape", () => client.scrape(pages("5-js", 1)[0], { formats: ["markdown", "links"] }));

await step("v2 crawlParamsPreview", () =>
  client.crawlParamsPreview(pages("5-js", 1)[0], "at most 50 pages, skip /private"));
const tracked = (modes) => ({ formats: ["markdown", { type: "changeTracking", modes }] });
await step("v2 changeTracking", () => client.scrape(`${site}/site/5-jschange/p/`, tracked(["git-diff"])));
await step("v1 changeTracking", () =>
  first.scrapeUrl(`${site}/site/5-jschange/p/`, {
    formats: ["markdown", "changeTracking"],
    changeTrackingOptions: { modes: ["git-diff"] },
  }));

const crawl = await step("v2 startCrawl", () =>
  client.startCrawl(pages("30-jsstart", 1)[0], { limit: 20 }));
await step("v2 getCrawlStatus", () => untilDone(() => client.getCrawlStatus(crawl.id)));
await step("v2 one page of status", () =>
  client.getCrawlStatus(crawl.id, { autoPaginate: false }));
await step("v2 cancelCrawl of a finished one", () => client.cancelCrawl(crawl.id));
await step("v2 getCrawlStatus of an unknown one", () =>
  client.getCrawlStatus("00000000-0000-4000-8000-000000000000"));
await step("v2 crawl", () =>
  client.crawl(pages("12-jswait", 1)[0], { pollInterval: 1, timeout: 200 }));

const slow = await step("v2 startCrawl, slow", () =>
  client.startCrawl(pages("900-slow200-js", 1)[0], { limit: 800 }));
await step("v2 getActiveCrawls", () => client.getActiveCrawls());
// While it runs: the client follows `next` until there is none, and must return.
await step("v2 getCrawlStatus of a running one", () => client.getCrawlStatus(slow.id));
await step("v2 cancelCrawl", () => client.cancelCrawl(slow.id));
await step("v2 getCrawlStatus of a cancelled one", () => client.getCrawlStatus(slow.id));
await step("v2 getActiveCrawls after it", () => client.getActiveCrawls());

const flaky = await step("v2 crawl with bad pages", () =>
  client.crawl(pages("20-flaky10-js", 1)[0], { pollInterval: 1, timeout: 200 }));
await step("v2 getCrawlErrors", () => client.getCrawlErrors(flaky.id));

const batch = await step("v2 startBatchScrape", () =>
  client.startBatchScrape([...pages("8-jsbatch", 8), "http://"], {
    options: { formats: ["markdown"] },
    ignoreInvalidURLs: true,
  }));
await step("v2 getBatchScrapeStatus", () =>
  untilDone(() => client.getBatchScrapeStatus(batch.id)));
await step("v2 getBatchScrapeErrors", () => client.getBatchScrapeErrors(batch.id));
await step("v2 batchScrape", () =>
  client.batchScrape(pages("6-jsbatchwait", 6), { pollInterval: 1, timeout: 200 }));

// Each page is more than 1 MB of raw HTML, so that the result takes several chunks.
const big = Array.from({ length: 20 }, (_, i) =>
  `${site}/html?count=60000&body=${encodeURIComponent(`<p>page ${i} text</p>`)}`);
await step("v2 batchScrape of more than 20 MB", async () => {
  const job = await client.batchScrape(big, {
    options: { formats: ["rawHtml"] }, pollInterval: 1, timeout: 200,
  });
  return { status: job.status, urls: job.data.map((page) => page.metadata.sourceURL), id: job.id };
});

await step("v2 map", () => client.map(pages("5-js", 1)[0], { search: "p 3", limit: 4 }));
await step("v2 map, wrong", () => client.map(pages("5-js", 1)[0], { limit: 0 }));

await step("v2 getCreditUsage", () => client.getCreditUsage());
await step("v2 getTokenUsage", () => client.getTokenUsage());
await step("v2 getCreditUsageHistorical", () => client.getCreditUsageHistorical(true));
await step("v2 getTokenUsageHistorical", () => client.getTokenUsageHistorical());
await step("v2 getConcurrency", () => client.getConcurrency());
await step("v2 getQueueStatus", () => client.getQueueStatus());
await step("v1 getCreditUsage", () => first.getCreditUsage());
await step("v1 getTokenUsage", () => first.getTokenUsage());

await step("v1 mapUrl", () => first.mapUrl(pages("5-js", 1)[0], { ignoreSitemap: true }));
await step("v1 scrapeUrl", () => first.scrapeUrl(pages("5-js", 1)[0], { formats: ["markdown"] }));
const old = await step("v1 crawlUrl", () =>
  first.crawlUrl(pages("30-jsone", 1)[0], { limit: 10 }, 1));
const started = await step("v1 asyncCrawlUrl", () =>
  first.asyncCrawlUrl(pages("20-flaky10-jsone", 1)[0], { limit: 800 }));
await step("v1 checkCrawlStatus", () =>
  untilDone(() => first.checkCrawlStatus(started.id, true)));
await step("v1 checkCrawlErrors", () => first.checkCrawlErrors(started.id));
await step("v1 checkCrawlStatus after it", () => first.checkCrawlStatus(started.id, true));
await step("v1 batchScrapeUrls", () =>
  first.batchScrapeUrls(pages("6-jsonebatch", 6), { formats: ["markdown"] }, 1));
const oldSlow = await step("v1 asyncCrawlUrl, slow", () =>
  first.asyncCrawlUrl(pages("900-slow200-jsone", 1)[0], { limit: 800 }));
await step("v1 cancelCrawl", () => first.cancelCrawl(oldSlow.id));
await step("v1 checkCrawlStatus of a cancelled one", () => first.checkCrawlStatus(oldSlow.id));

// What a watcher tells until it says that it has ended. Documents carry the id of the
// job in place of their own.
const told = (listen) => new Promise((resolve) => {
  const documents = [], snapshots = [];
  const address = (page) => page.metadata.sourceURL;
  const end = (type) => (detail) => resolve({
    type, status: detail.status, error: detail.error ?? null, documents,
    snapshots, completed: detail.completed ?? null,
  });
  listen({
    document: (page) => documents.push(address(page)),
    snapshot: (job) => snapshots.push(job.status),
    done: end("done"),
    error: end("error"),
  });
});
const watched = (id, options = {}, onSnapshot = () => {}) => told((handlers) => {
  const watcher = client.watcher(id, { timeout: 200, ...options });
  for (const [name, handle] of Object.entries(handlers)) watcher.on(name, handle);
  watcher.on("snapshot", onSnapshot);
  watcher.start();
});
const firstWatched = (watcher) => told((handlers) => {
  for (const name of ["document", "done", "error"])
    watcher.addEventListener(name, (event) => handlers[name](event.detail));
});

const running = await client.startCrawl(pages("12-slow60-jswatch", 1)[0]);
await step("v2 watcher of a crawl", () => watched(running.id));
await step("v2 watcher of a crawl that has ended", () => watched(running.id));
const many = await client.startBatchScrape(pages("8-slow60-jswatchbatch", 8));
await step("v2 watcher of a batch", () => watched(many.id, { kind: "batch" }));
const stopped = await client.startCrawl(pages("900-slow200-jswatch", 1)[0], { limit: 800 });
let cancelled;
const seen = watched(stopped.id, {}, () => { cancelled ??= client.cancelCrawl(stopped.id); });
await step("v2 watcher of a cancelled crawl", () => seen);
const large = await client.startBatchScrape(big.slice(0, 3), { options: { formats: ["rawHtml"] } });
await untilDone(() => client.getBatchScrapeStatus(large.id));
await step("v2 watcher of large pages", () => watched(large.id, { kind: "batch" }));
await step("v1 crawlUrlAndWatch", async () =>
  firstWatched(await first.crawlUrlAndWatch(pages("12-slow60-jsonewatch", 1)[0], {})));
await step("v1 batchScrapeUrlsAndWatch", async () =>
  firstWatched(await first.batchScrapeUrlsAndWatch(pages("6-slow60-jsonewatch", 6), {})));
