// Drives the public client, unmodified: node operations.js SERVICE KEY SITE
// Prints one line of JSON per step: {step, value} or {step, error}.
import { Firecrawl } from "firecrawl";

const [service, apiKey, site] = process.argv.slice(2);
const client = new Firecrawl({ apiKey, apiUrl: service });
const first = client.v1;
const schema = {
  type: "object",
  properties: { name: { type: "string" }, price: { type: "number" } },
  required: ["name"],
};

async function step(name, action) {
  let line;
  try {
    line = { step: name, value: (await action()) ?? null };
  } catch (error) {
    const { message, status } = error;
    line = { step: name, error: String(message), status };
  }
  console.log(JSON.stringify(line));
  return line.value;
}

const urls = [`${site}/shop/lamp`];
await step("v2 extract", () =>
  client.extract({ urls, schema, showSources: true, pollInterval: 1 }));
const started = await step("v2 startExtract", () =>
  client.startExtract({ urls, prompt: "the name and the price" }));
await step("v2 getExtractStatus", () => client.getExtractStatus(started.id));
await step("v1 extract", () => first.extract(urls, { schema, prompt: "the product" }));
const again = await step("v1 asyncExtract", () => first.asyncExtract(urls, { schema }));
await step("v1 getExtractStatus", () => first.getExtractStatus(again.id));
await step("v1 generateLLMsText", () =>
  first.generateLLMsText(`${site}/`, { maxUrls: 3, showFullText: true }));
await step("v1 scrapeUrl", () => first.scrapeUrl(`${site}/about`, { formats: ["markdown"] }));
const seen = [];
await step("v1 deepResearch", async () => {
  const found = await first.deepResearch(
    "Who founded the shop?",
    { maxDepth: 1, maxUrls: 2, timeLimit: 60 },
    (activity) => seen.push(activity.type),
  );
  return { ...found, seen };
});
