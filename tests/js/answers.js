// Data and summaries.
import { client, site, step } from "./steps.js";

const url = `${site}/article`;
const schema = {
  type: "object", properties: { title: { type: "string" } }, required: ["title"],
};

await step("v2 json", () =>
  client.scrape(url, { formats: [{ type: "json", schema, prompt: "the article" }] }));
await step("v2 summary", () => client.scrape(url, { formats: ["summary"] }));
await step("v2 question", () =>
  client.scrape(url, { formats: [{ type: "question", question: "Who wrote it?" }] }));
await step("v1 json", () =>
  client.v1.scrapeUrl(url, { formats: ["json"], jsonOptions: { schema } }));
await step("v1 extract", () =>
  client.v1.scrapeUrl(url, { formats: ["extract"], extract: { schema } }));
