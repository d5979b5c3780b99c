// Searches with the public client, unmodified: node search.js SERVICE KEY
// Prints one line of JSON per step: {step, value} or {step, error}.
import { Firecrawl } from "firecrawl";

const [service, apiKey] = process.argv.slice(2);
const client = new Firecrawl({ apiKey, apiUrl: service });

async function step(name, action) {
  let line;
  try {
    line = { step: name, value: (await action()) ?? null };
  } catch (error) {
    line = { step: name, error: String(error.message), status: error.status };
  }
  console.log(JSON.stringify(line));
}

await step("v2", () => client.search("hay", { limit: 2, sources: ["web", "news"] }));
await step("v2 with pages", () =>
  client.search("hay", { limit: 1, scrapeOptions: { formats: ["markdown"] } }));
await step("v2 without a query", () => client.search(" "));
await step("v1", () => client.v1.search("hay", { limit: 2 }));
await step("v1 with pages", () =>
  client.v1.search("hay", { limit: 1, scrapeOptions: { formats: ["markdown"] } }));
