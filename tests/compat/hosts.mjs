// A host that reads mcpServers from a file, as most do: node hosts.mjs SERVICE KEY SITE
// mcporter, unmodified, with our server over HTTP and over standard streams.
import { spawnSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [service, key, site] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "hosts-"));
const file = join(folder, "mcp.json");
const { SERVICE_PYTHON, SERVICE_FOLDER, ...environment } = process.env;
writeFileSync(file, JSON.stringify({ mcpServers: {
  http: { url: `${service}/mcp`, headers: { Authorization: `Bearer ${key}` } },
  stdio: {
    command: SERVICE_PYTHON, args: ["-m", "scraper_service", "mcp", "--server", service],
    env: { SCRAPER_KEY: key, PYTHONPATH: SERVICE_FOLDER },
  },
  refused: { url: `${service}/mcp`, headers: { Authorization: "Bearer fc-wrong" } },
} }));
// Its own settings, and those of other hosts that it reads, stay out.
const env = { ...environment, HOME: folder, NO_COLOR: "1" };

function run(name, words, isRight) {
  const command = ["node_modules/mcporter/dist/cli.js", "--config", file, ...words];
  const done = spawnSync(process.execPath, command, { env, encoding: "utf8", timeout: 120000 });
  const text = `${done.stdout}\n${done.stderr}`;
  const result = isRight(done.stdout, text) ? "works" : `wrong: ${text.slice(0, 300)}`;
  console.log(JSON.stringify({ client: "mcporter", method: name, result }));
}

for (const name of ["http", "stdio"]) {
  const call = (tool, ...given) => ["call", `${name}.${tool}`, ...given, "--output", "json"];
  run(`list, ${name}`, ["list", name, "--json"],
    (x) => JSON.parse(x).tools.some((tool) => tool.name === "firecrawl_scrape"));
  run(`scrape, ${name}`, call("firecrawl_scrape", `url=${site}/shop/lamp`),
    (x) => JSON.parse(x).markdown.includes("Brass Lamp"));
  run(`map, ${name}`, call("firecrawl_map", `url=${site}/`), (x) => x.includes("/shop/lamp"));
  run(`an unknown argument, ${name}`, call("firecrawl_scrape", "nothing=1"),
    (x, all) => all.includes("no argument 'nothing'"));
  run(`a failed scrape, ${name}`, call("firecrawl_scrape", "url=http://127.0.0.1/"),
    (x, all) => all.includes("UNSUPPORTED_SITE"));
}
run("a wrong key", ["list", "refused", "--json"], (x) => JSON.parse(x).status !== "ok");
