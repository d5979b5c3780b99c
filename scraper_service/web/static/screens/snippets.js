// The same call in other languages.

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
const lines = (...texts) => texts.join("\n");
const pretty = (body) => JSON.stringify(body, null, 2);

// `path` as /v2/scrape; `file` is the name of an uploaded file.
export function snippets(path, body, file) {
  const url = location.origin + path;
  return file ? withFile(url, body, file) : { ...withBody(url, body), shell: shell(path, body) };
}

function withFile(url, body, file) {
  const options = JSON.stringify(body);
  return {
    curl: lines(
      `curl ${url} -H "Authorization: Bearer $KEY" \\`,
      `  -F ${quoted(`file=@${file}`)} -F ${quoted(`options=${options}`)}`,
    ),
    Python: lines(
      "import json, os, requests",
      "",
      "response = requests.post(",
      `    ${JSON.stringify(url)},`,
      '    headers={"Authorization": "Bearer " + os.environ["KEY"]},',
      `    files={"file": open(${JSON.stringify(file)}, "rb")},`,
      `    data={"options": json.dumps(${python(body)})},`,
      ")",
      "print(response.json())",
    ),
    JavaScript: lines(
      "const form = new FormData();",
      'form.append("file", file);',
      `form.append("options", JSON.stringify(${pretty(body)}));`,
      `const response = await fetch(${JSON.stringify(url)}, {`,
      '  method: "POST",',
      '  headers: { Authorization: "Bearer " + process.env.KEY },',
      "  body: form,",
      "});",
      "console.log(await response.json());",
    ),
    shell: `scraper-service parse ${quoted(file)}${rest(body)}`,
  };
}

function withBody(url, body) {
  return {
    curl: lines(
      `curl ${url} -H "Authorization: Bearer $KEY" \\`,
      '  -H "Content-Type: application/json" \\',
      `  -d ${quoted(pretty(body))}`,
    ),
    Python: lines(
      "import os, requests",
      "",
      "response = requests.post(",
      `    ${JSON.stringify(url)},`,
      '    headers={"Authorization": "Bearer " + os.environ["KEY"]},',
      `    json=${python(body)},`,
      ")",
      "print(response.json())",
    ),
    JavaScript: lines(
      `const response = await fetch(${JSON.stringify(url)}, {`,
      '  method: "POST",',
      "  headers: {",
      '    Authorization: "Bearer " + process.env.KEY,',
      '    "Content-Type": "application/json",',
      "  },",
      `  body: JSON.stringify(${pretty(body)}),`,
      "});",
      "console.log(await response.json());",
    ),
  };
}

function shell(path, body) {
  const { url, urls, query, ...others } = body;
  const command = { "/v2/batch/scrape": "batch" }[path] || path.slice("/v2/".length);
  if (command === "extract") return "# The command line has no extract; use one of the other calls.";
  if (command === "batch")
    return `printf '%s\\n' ${(urls || []).map(quoted).join(" ")} | scraper-service batch -${rest(others)}`;
  const targets = [url ?? query ?? ""];
  return `scraper-service ${command} ${targets.map(quoted).join(" ")}${rest(others)}`;
}

const rest = (options) => (Object.keys(options).length ? ` \\\n  --options ${quoted(JSON.stringify(options))}` : "");

function python(value, indent = "    ") {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map((each) => python(each, indent)).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = `${indent}    `;
  const lines = Object.entries(value).map(([key, each]) => `${inner}${JSON.stringify(key)}: ${python(each, inner)},\n`);
  return lines.length ? `{\n${lines.join("")}${indent}}` : "{}";
}
