// The public client, unmodified, for the scripts beside: node NAME.js SERVICE KEY SITE
// A step prints one line of JSON: {step, value} or {step, error, status}.
import { Firecrawl } from "firecrawl";

const [service, apiKey, address] = process.argv.slice(2);
export const client = new Firecrawl({ apiKey, apiUrl: service });
export const site = address;

export async function step(name, action) {
  let line;
  try {
    line = { step: name, value: (await action()) ?? null };
  } catch (error) {
    const { message, status } = error;
    line = { step: name, error: String(message), status };
  }
  console.log(JSON.stringify(line));
  return line.value;
}
