// Research over a page that was scraped.
import { client, site, step } from "./steps.js";

const first = client.v1;
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
