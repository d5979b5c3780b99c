// Drives the public client, unmodified, where a browser is needed:
// node browser.js SERVICE KEY SITE. Prints one line of JSON per step.
import { Firecrawl } from "firecrawl";

const [service, apiKey, site] = process.argv.slice(2);
const client = new Firecrawl({ apiKey, apiUrl: service });
const formats = ["markdown", "screenshot"];
const actions = [
  { type: "click", selector: "#go" },
  { type: "screenshot" },
  { type: "executeJavascript", script: "document.title" },
];

async function step(name, action) {
  let line;
  try {
    line = { step: name, value: await action() };
  } catch (error) {
    line = { step: name, error: String(error.message) };
  }
  console.log(JSON.stringify(line));
}

await step("v2 scrape", () => client.scrape(`${site}/form`, { formats, actions, maxAge: 0 }));
await step("v1 scrape", () => client.v1.scrapeUrl(`${site}/form`, { formats, actions }));
