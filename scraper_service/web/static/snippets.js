// The same call in other languages.

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
const pretty = (body) => JSON.stringify(body, null, 2);

// `path` as /v2/scrape; `file` is the name of an uploaded file.
export function snippets(path, body, file) {
  const url = location.origin + path;
  if (file) {
    const options = JSON.stringify(body);
    return {
      curl: `curl ${url} -H "Authorization: Bearer $KEY" \\\n  -F ${quoted(`file=@${file}`)} -F ${quoted(`options=${options}`)}`,
      Python: `import json, os, requests\n\nresponse = requests.post(\n    ${JSON.stringify(url)},\n    headers={"Authorization": "Bearer " + os.environ["KEY"]},\n    files={"file": open(${JSON.stringify(file)}, "rb")},\n    data={"options": json.dumps(${python(body)})},\n)\nprint(response.json())`,
      JavaScript: `const form = new FormData();\nform.append("file", file);\nform.append("options", JSON.stringify(${pretty(body)}));\nconst response = await fetch(${JSON.stringify(url)}, {\n  method: "POST",\n  headers: { Authorization: "Bearer " + process.env.KEY },\n  body: form,\n});\nconsole.log(await response.json());`,
      shell: `scraper-service parse ${quoted(file)}${rest(body)}`,
    };
  }
  return {
    curl: `curl ${url} -H "Authorization: Bearer $KEY" \\\n  -H "Content-Type: application/json" \\\n  -d ${quoted(pretty(body))}`,
    Python: `import os, requests\n\nresponse = requests.post(\n    ${JSON.stringify(url)},\n    headers={"Authorization": "Bearer " + os.environ["KEY"]},\n    json=${python(body)},\n)\nprint(response.json())`,
    JavaScript: `const response = await fetch(${JSON.stringify(url)}, {\n  method: "POST",\n  headers: {\n    Authorization: "Bearer " + process.env.KEY,\n    "Content-Type": "application/json",\n  },\n  body: JSON.stringify(${pretty(body)}),\n});\nconsole.log(await response.json());`,
    shell: shell(path, body),
  };
}

function shell(path, body) {
  const { url, urls, query, ...others } = body;
  const command = { "/v2/batch/scrape": "batch" }[path] || path.slice("/v2/".length);
  if (command === "extract") return "# The command line has no extract; use one of the other calls.";
  if (command === "batch") return `printf '%s\\n' ${(urls || []).map(quoted).join(" ")} | scraper-service batch -${rest(others)}`;
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
