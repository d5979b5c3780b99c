// A workflow of n8n, replayed: node n8n_workflow.mjs SERVICE KEY WORKFLOW
// Prints the items of its last node, one line of JSON each. It knows the nodes of the example.
import { readFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { filled, operationOf, send } from "./n8n_node.mjs";

const [service, key, file] = process.argv.slice(2);
const { nodes, connections } = JSON.parse(readFileSync(file));
const outputs = {};
let node = nodes.find((each) => each.type === "n8n-nodes-base.manualTrigger");
let items = [{}];

function after(name, output) {
  const [next] = connections[name]?.main[output] || [];
  return next && nodes.find((each) => each.name === next.node);
}

// Return the items that a node makes of an item, and the number of its output.
async function run({ type, parameters }, item) {
  const $ = (name) => ({ first: () => ({ json: outputs[name][0] }) });
  const { resource, operation, ...given } = filled(parameters, { $json: item, $ });
  if (type === "@mendable/n8n-nodes-firecrawl.firecrawl") {
    const $response = { body: await send(service, key, resource, operation, given) };
    const { postReceive = [] } = operationOf(resource, operation).routing.output || {};
    const set = postReceive.find((each) => each.type === "setKeyValue");
    return [[set ? filled(set.properties, { $response }) : $response.body], 0];
  }
  if (type === "n8n-nodes-base.wait") await setTimeout(given.amount * 1000);
  if (type === "n8n-nodes-base.if") {
    const { leftValue, rightValue } = given.conditions.conditions[0];
    return [[item], leftValue === rightValue ? 0 : 1];
  }
  if (type === "n8n-nodes-base.splitOut")
    return [given.fieldToSplitOut.split(".").reduce((value, name) => value[name], item), 0];
  return [[item], 0];
}

while (node) {
  const [made, output] = await run(node, items[0]);
  outputs[node.name] = items = made;
  node = after(node.name, output);
}
for (const item of items) console.log(JSON.stringify(item));
