// The public command line, unmodified: node cli.mjs SERVICE KEY SITE
import { spawnSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const [service, key, site] = process.argv.slice(2);
const cwd = mkdtempSync(join(tmpdir(), "cli-"));
// It keeps settings and the last scrape in the home.
const env = { ...process.env, HOME: cwd, XDG_CONFIG_HOME: cwd, NO_COLOR: "1", CI: "1" };
Object.assign(env, { FIRECRAWL_API_URL: service, FIRECRAWL_API_KEY: key }); // for --status
const program = resolve("node_modules/firecrawl-cli/dist/index.js");
const lamp = `${site}/shop/lamp`;

function run(method, words, isRight) {
  const command = [program, "--api-url", service, "--api-key", key, ...words];
  const done = spawnSync(process.execPath, command, { cwd, env, encoding: "utf8", timeout: 120000 });
  let result;
  try {
    result = done.status === 0 && isRight(done.stdout) ? "works" : "";
  } catch {
    result = "";
  }
  if (!result) {
    const said = `${done.stdout}\n${done.stderr}`.trim().slice(0, 300);
    result = done.status ? `refused: ${said}` : `wrong: ${said}`;
  }
  console.log(JSON.stringify({ client: "firecrawl-cli", method, result }));
  return done.stdout;
}

const json = (text) => JSON.parse(text.slice(text.indexOf("{")));
const idOf = (text) => text.match(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/)?.[0];
const schema = JSON.stringify({ type: "object", properties: { name: { type: "string" } } });

run("scrape", ["scrape", lamp], (x) => x.includes("Brass Lamp"));
run("scrape, formats", ["scrape", lamp, "--format", "markdown,html", "--json"],
  (x) => json(x).html && json(x).markdown);
run("scrape, --schema", ["scrape", lamp, "--format", "json", "--schema", schema],
  (x) => x.includes("Brass Lamp"));
run("map", ["map", `${site}/`], (x) => x.includes("/shop/lamp"));
run("crawl --wait", ["crawl", `${site}/`, "--limit", "3", "--wait", "--poll-interval", "1"],
  (x) => json(x).data.length === 3);
run("search", ["search", "lamp", "--limit", "2", "--json"], (x) => json(x).data.web.length);
const crawl = run("crawl", ["crawl", `${site}/`, "--limit", "100", "--delay", "5"], idOf);
run("crawl, status", ["crawl", idOf(crawl)], (x) => x.includes(idOf(crawl)));
run("crawl --cancel", ["crawl", idOf(crawl), "--cancel"], () => true);
writeFileSync(join(cwd, "a.html"), "<h1>A file</h1>");
run("parse", ["parse", "a.html"], (x) => x.includes("# A file"));
run("agent --wait",
  ["agent", "The name", "--urls", lamp, "--schema", schema, "--wait", "--poll-interval", "1", "--json"],
  (x) => x.includes("Brass Lamp"));
const agent = run("agent", ["agent", "The name", "--urls", lamp, "--json"], idOf);
run("agent --status", ["agent", idOf(agent), "--status", "--json"], idOf);
run("interact --bash", ["interact", "-c", "agent-browser get title", "--bash"],
  (x) => x.includes("Brass Lamp"));
run("interact stop", ["interact", "stop"], () => true);
const monitor = run("monitor create",
  ["monitor", "create", "--name", "Lamps", "--schedule", "every 30 minutes", "--page", lamp], idOf);
for (const [verb, isRight] of [["get", idOf], ["run", idOf], ["checks", () => true], ["delete", () => true]])
  run(`monitor ${verb}`, ["monitor", verb, idOf(monitor)], isRight);
run("monitor list", ["monitor", "list"], () => true);
run("credit-usage", ["credit-usage", "--json"], (x) => json(x));
run("--status", ["--status"], (x) => x.includes("Credits"));
run("developer (not offered)", ["developer", "a lamp"], () => true);
run("research search-papers (not offered)", ["research", "search-papers", "a lamp"], () => true);
