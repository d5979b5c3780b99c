// Searches.
import { client, step } from "./steps.js";

await step("v2", () => client.search("hay", { limit: 2, sources: ["web", "news"] }));
await step("v2 with pages", () =>
  client.search("hay", { limit: 1, scrapeOptions: { formats: ["markdown"] } }));
// The client's own search leaves out the id.
const [service, apiKey] = process.argv.slice(2);
const answer = await fetch(`${service}/v2/search`, {
  method: "POST",
  headers: { Authorization: `Bearer ${apiKey}` },
  body: JSON.stringify({ query: "hay", limit: 1 }),
});
const { id } = await answer.json();
const rated = { rating: "good", valuableSources: [{ url: "https://a.example/" }] };
await step("searchFeedback", () => client.searchFeedback(id, rated));
await step("feedback", () =>
  client.feedback({ endpoint: "search", jobId: id, note: "again", ...rated }));
await step("feedback on an unknown one", () =>
  client.searchFeedback("00000000-0000-4000-8000-000000000000", rated));
await step("v2 without a query", () => client.search(" "));
await step("v1", () => client.v1.search("hay", { limit: 2 }));
await step("v1 with pages", () =>
  client.v1.search("hay", { limit: 1, scrapeOptions: { formats: ["markdown"] } }));
