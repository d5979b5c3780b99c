// Data and summaries through the public client: node answers.js SERVICE KEY SITE
import { Firecrawl } from "firecrawl";

const [service, apiKey, site] = process.argv.slice(2);
const client = new Firecrawl({ apiKey, apiUrl: service });
const url = `${site}/article`;
const schema = {
  type: "object", properties: { title: { type: "string" } }, required: ["title"],
};

async function step(name, action) {
  let line;
  try {
    line = { step: name, value: await action() };
  } catch (error) {
    line = { step: name, error: String(error.message), status: error.status };
  }
  console.log(JSON.stringify(line));
}

await step("v2 json", () =>
  client.scrape(url, { formats: [{ type: "json", schema, prompt: "the article" }] }));
await step("v2 summary", () => client.scrape(url, { formats: ["summary"] }));
await step("v2 question", () =>
  client.scrape(url, { formats: [{ type: "question", question: "Who wrote it?" }] }));
await step("v1 json", () =>
  client.v1.scrapeUrl(url, { formats: ["json"], jsonOptions: { schema } }));
await step("v1 extract", () =>
  client.v1.scrapeUrl(url, { formats: ["extract"], extract: { schema } }));
