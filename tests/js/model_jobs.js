// Model jobs.
import { client, site, step } from "./steps.js";

const first = client.v1;
const schema = {
  type: "object",
  properties: { name: { type: "string" }, price: { type: "number" } },
  required: ["name"],
};

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
