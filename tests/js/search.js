// Searches.
import { client, step } from "./steps.js";

await step("v2", () => client.search("hay", { limit: 2, sources: ["web", "news"] }));
await step("v2 with pages", () =>
  client.search("hay", { limit: 1, scrapeOptions: { formats: ["markdown"] } }));
await step("v2 without a query", () => client.search(" "));
await step("v1", () => client.v1.search("hay", { limit: 2 }));
await step("v1 with pages", () =>
  client.v1.search("hay", { limit: 1, scrapeOptions: { formats: ["markdown"] } }));
