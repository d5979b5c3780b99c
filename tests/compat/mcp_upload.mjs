// A PDF in two steps with the public MCP server, unmodified, as its operators run it:
// node mcp_upload.mjs SERVICE KEY
// Prints one line of JSON: {client, method, result}.
import { spawn, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createServer } from "node:net";

const [service, apiKey] = process.argv.slice(2);
const file = "two steps.pdf";
writeFileSync(file, pdf("A file in two steps"), "latin1");
const port = await freePort();
const server = spawn(process.execPath, ["node_modules/firecrawl-mcp/dist/index.js"], {
  env: {
    ...process.env, CLOUD_SERVICE: "true", FIRECRAWL_MCP_SEARCH_ENABLED: "false", PORT: port,
    KEYLESS_PROXY_SECRET: "none", FIRECRAWL_API_URL: service,
  },
  stdio: ["ignore", "ignore", "inherit"],
});
const url = `http://127.0.0.1:${port}/mcp`;
let session, last = 0;

function pdf(text) {
  const stream = `BT /F1 24 Tf 72 700 Td (${text}) Tj ET`;
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
    `<< /Length ${stream.length} >>\nstream\n${stream}\nendstream`,
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
  ];
  let body = "%PDF-1.4\n";
  const places = objects.map((object, at) => {
    const place = body.length;
    body += `${at + 1} 0 obj\n${object}\nendobj\n`;
    return `${String(place).padStart(10, "0")} 00000 n \n`;
  });
  return `${body}xref\n0 6\n0000000000 65535 f \n${places.join("")}trailer << /Size 6 /Root 1 0 R >>\nstartxref\n${body.length}\n%%EOF\n`;
}

function freePort() {
  return new Promise((resolve) => {
    const listener = createServer().listen(0, "127.0.0.1", () => {
      const { port } = listener.address();
      listener.close(() => resolve(port));
    });
  });
}

async function send(method, params, isNote) {
  const headers = {
    "Content-Type": "application/json", Accept: "application/json, text/event-stream",
    Authorization: `Bearer ${apiKey}`, "x-firecrawl-api-key": apiKey,
    ...(session ? { "mcp-session-id": session } : {}),
  };
  const message = { jsonrpc: "2.0", method, params, ...(isNote ? {} : { id: ++last }) };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(message) });
  session ||= response.headers.get("mcp-session-id");
  const text = await response.text();
  if (isNote) return null;
  const lines = text.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5));
  return JSON.parse(lines.at(-1) || text);
}

async function begun() {
  const params = { protocolVersion: "2025-03-26", capabilities: {}, clientInfo: { name: "compat", version: "1" } };
  for (let attempt = 0; attempt < 100; attempt += 1) {
    try {
      return await send("initialize", params);
    } catch {
      await new Promise((done) => setTimeout(done, 200));
    }
  }
  throw new Error("the server does not start");
}

async function parse(given) {
  const { result, error } = await send("tools/call", { name: "firecrawl_parse", arguments: given });
  const text = result?.content?.[0]?.text ?? error?.message ?? "";
  if (error || result.isError) throw new Error(text);
  return JSON.parse(text);
}

let result;
try {
  await begun();
  await send("notifications/initialized", {}, true);
  const first = await parse({ filePath: file, formats: ["markdown"] });
  const upload = spawnSync("sh", ["-c", first.upload.command.replace(/^curl /, "curl --fail ")]);
  if (upload.status !== 0) throw new Error(`the upload failed: ${upload.stderr}`);
  const found = await parse(first.nextToolCall.arguments);
  const markdown = (found.data ?? found).markdown ?? "";
  result = markdown.includes("A file in two steps") ? "works" : `wrong: ${JSON.stringify(found).slice(0, 300)}`;
} catch (error) {
  result = `refused: ${String(error.message).slice(0, 300)}`;
}
console.log(JSON.stringify({ client: "MCP", method: "firecrawl_parse in two steps", result }));
server.kill();
process.exit(0);
