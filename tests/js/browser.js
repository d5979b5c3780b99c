// Where a browser is needed.
import { client, site, step } from "./steps.js";

const formats = ["markdown", "screenshot"];
const actions = [
  { type: "click", selector: "#go" },
  { type: "screenshot" },
  { type: "executeJavascript", script: "document.title" },
];

await step("v2 scrape", () => client.scrape(`${site}/form`, { formats, actions, maxAge: 0 }));
await step("v1 scrape", () => client.v1.scrapeUrl(`${site}/form`, { formats, actions }));
