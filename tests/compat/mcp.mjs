// The tools of the public MCP server, unmodified: node mcp.mjs SERVICE KEY SITE
// Speaks MCP over its standard streams; one line of JSON per tool: {client, method, result}.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const [service, apiKey, site] = process.argv.slice(2);
const server = spawn(process.execPath, ["node_modules/firecrawl-mcp/dist/index.js"], {
  env: { ...process.env, FIRECRAWL_API_URL: service, FIRECRAWL_API_KEY: apiKey },
  stdio: ["pipe", "pipe", "inherit"],
});
const waiting = new Map();
createInterface({ input: server.stdout }).on("line", (line) => {
  if (!line.startsWith("{")) return;
  const message = JSON.parse(line);
  waiting.get(message.id)?.(message);
});
let last = 0;
const send = (message) => server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const ask = (method, params) =>
  new Promise((resolve) => {
    last += 1;
    waiting.set(last, resolve);
    send({ id: last, method, params });
  });

await ask("initialize", {
  protocolVersion: "2025-03-26",
  capabilities: {},
  clientInfo: { name: "compat", version: "1" },
});
send({ method: "notifications/initialized" });
const listed = (await ask("tools/list", {})).result.tools.map((tool) => tool.name);

async function tool(name, given, isRight = Boolean) {
  if (!listed.includes(name)) return undefined;
  const { result, error } = await ask("tools/call", { name, arguments: given });
  const text = result?.content?.[0]?.text ?? error?.message ?? "";
  const failed = Boolean(error ?? result?.isError);
  let found = text;
  try { found = JSON.parse(text); } catch { /* some answer in plain text */ }
  const outcome = failed ? `refused: ${text.slice(0, 300)}`
    : isRight(found) ? "works" : `wrong: ${text.slice(0, 300)}`;
  console.log(JSON.stringify({ client: "MCP", method: name, result: outcome }));
  return found;
}

const lamp = `${site}/shop/lamp`;
await tool("firecrawl_scrape", { url: lamp, formats: ["markdown"] }, (x) => x.markdown);
await tool("firecrawl_map", { url: `${site}/` }, (x) => JSON.stringify(x).includes("/shop/lamp"));
await tool("firecrawl_search", { query: "lamp", limit: 2 },
  (x) => JSON.stringify(x).includes("/shop/lamp"));
const crawl = await tool("firecrawl_crawl", { url: `${site}/`, limit: 2 });
const id = JSON.stringify(crawl).match(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/)?.[0];
await tool("firecrawl_check_crawl_status", { id }, (x) => JSON.stringify(x).includes("status"));
await tool("firecrawl_scrape", {
  url: lamp, formats: ["json"],
  jsonOptions: {
    prompt: "the name", schema: { type: "object", properties: { name: { type: "string" } } },
  },
}, (x) => JSON.stringify(x).includes("Brass Lamp"));
await tool("firecrawl_credit_usage", {});
const idOf = (found) =>
  JSON.stringify(found)?.match(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/)?.[0];
const monitor = idOf(await tool("firecrawl_monitor_create", {
  page: lamp, goal: "the price changes", scheduleText: "every 30 minutes", name: "Lamp",
}, (x) => JSON.stringify(x).includes("nextRunAt")));
if (monitor) {
  const says = (word) => (x) => JSON.stringify(x).includes(word);
  await tool("firecrawl_monitor_list", { limit: 5 }, says(monitor));
  await tool("firecrawl_monitor_get", { id: monitor }, says(monitor));
  await tool("firecrawl_monitor_update", { id: monitor, body: { status: "paused" } }, says("paused"));
  const run = await tool("firecrawl_monitor_run", { id: monitor }, says("queued"));
  const checkId = run?.id ?? run?.data?.id ?? idOf(run);
  await tool("firecrawl_monitor_checks", { id: monitor }, says("trigger"));
  await tool("firecrawl_monitor_check", { id: monitor, checkId }, says("summary"));
  await tool("firecrawl_monitor_delete", { id: monitor });
}
const kept = (await tool("firecrawl_interact", {
  url: lamp, code: "agent-browser snapshot", language: "bash",
}, (x) => JSON.stringify(x).includes("Lamp")))?.scrapeId;
if (kept) {
  await tool("firecrawl_interact", {
    scrapeId: kept, code: "agent-browser get title", language: "bash", timeout: 20,
  }, (x) => JSON.stringify(x).includes("Lamp"));
  await tool("firecrawl_interact_stop", { scrapeId: kept }, (x) => x.success);
}
const run = idOf(await tool("firecrawl_agent", { prompt: "The name", urls: [lamp] }, idOf));
if (run) await tool("firecrawl_agent_status", { id: run }, (x) => JSON.stringify(x).includes("status"));
server.kill();
process.exit(0);
