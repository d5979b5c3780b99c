// The n8n node, replayed.
// The node only declares its requests. This evaluates the declarations as n8n does, with the
// defaults of each field, and sends what they make.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const place = "@mendable/n8n-nodes-firecrawl/dist/nodes/Firecrawl/Firecrawl.node.js";
const { Firecrawl } = require(place);
const { properties, requestDefaults } = new Firecrawl().description;

// Return the value of a text that may be an expression, with the variables of `names`.
export function evaluate(text, names) {
  if (typeof text !== "string" || !text.startsWith("=")) return text;
  const parts = text.slice(1).split(/(\{\{.*?\}\})/s).filter(Boolean);
  const values = parts.map((part) => {
    if (!part.startsWith("{{")) return part;
    try {
      return new Function(...Object.keys(names), `return (${part.slice(2, -2)})`)(...Object.values(names));
    } catch (error) {
      if (error instanceof TypeError) return undefined; // as in n8n, for members of empty fields
      throw error;
    }
  });
  const whole = values.filter((value) => typeof value !== "string" || value.trim());
  return whole.length === 1 ? whole[0] : values.join("");
}

export function filled(object, names) {
  if (typeof object !== "object" || object === null) return evaluate(object, names);
  const made = Object.entries(object).map(([name, each]) => [name, filled(each, names)]);
  return Array.isArray(object) ? made.map(([, each]) => each) : Object.fromEntries(made);
}

const matches = (rules, given) => Object.entries(rules || {}).map(([name, values]) =>
  values.includes(given[name.replace(/^\//, "")]));
const isShown = ({ show, hide } = {}, given) =>
  matches(show, given).every(Boolean) && !matches(hide, given).some(Boolean);

function merge(request, routing, value, given) {
  const names = { $value: value, $parameter: given };
  const { body, qs, ...rest } = filled(routing.request || {}, names);
  Object.assign(request, rest);
  Object.assign(request.body, body);
  Object.assign(request.qs, qs);
  request.preSend.push(...(routing.send?.preSend || []));
  const { property, type } = routing.send || {};
  const sent = routing.send?.value === undefined ? value : evaluate(routing.send.value, names);
  if (property) request[type === "query" ? "qs" : "body"][evaluate(property, names)] = sent;
}

// Collections have the routing of their fields, for the fields that are set.
function apply(request, field, value, given) {
  if (field.routing) merge(request, field.routing, value, given);
  for (const option of field.options || [])
    if (field.type === "options" && option.value === value && option.routing)
      merge(request, option.routing, value, given);
    else if (field.type === "collection" && option.name in (value || {}))
      apply(request, option, value[option.name], given);
    else if (field.type === "fixedCollection" && option.name in (value || {}))
      for (const inner of option.values)
        for (const row of [value[option.name]].flat())
          if (inner.name in row) apply(request, inner, row[inner.name], given);
}

// Send the request of an operation with the fields of `set`; return the body of the response.
export async function send(service, key, resource, operation, set) {
  const baseUrl = `${service}/v2`;
  const given = { resource, operation, useCustomBody: false, ...set };
  const fields = properties.filter((each) => each.type !== "notice" && each.name !== "resource");
  const shown = [];
  for (const field of fields) {
    if (!isShown(field.displayOptions, given)) continue;
    if (!(field.name in given)) given[field.name] = field.default;
    shown.push(field);
  }
  const request = { method: "GET", qs: {}, body: { ...requestDefaults.body }, preSend: [] };
  for (const field of shown) apply(request, field, given[field.name], given);
  const context = { getNodeParameter: (name, other) => given[name] ?? other, getNode: () => ({}) };
  let options = { ...request, baseURL: baseUrl };
  for (const each of request.preSend) options = await each.call(context, options);
  const query = new URLSearchParams(options.qs).toString();
  const answer = await fetch(`${baseUrl}${options.url}${query && `?${query}`}`, {
    method: options.method,
    headers: { ...requestDefaults.headers, Authorization: `Bearer ${key}` },
    body: options.method === "GET" ? undefined : JSON.stringify(options.body),
  });
  const found = await answer.json();
  if (!answer.ok) throw new Error(`${options.method} ${options.url}: ${answer.status} ${JSON.stringify(found)}`);
  return found;
}

// Return the declaration of an operation.
export function operationOf(resource, operation) {
  const choices = properties.filter((field) =>
    field.type === "options" && field.name === "operation" && field.displayOptions?.show?.resource?.includes(resource));
  return choices.flatMap((field) => field.options).find((each) => each.value === operation);
}
