// Runs code of a caller in the sandbox, with page, context and browser: run_python.py says how.
'use strict';
const fs = require('fs');
const inspector = require('inspector');
const util = require('util');

const request = JSON.parse(fs.readFileSync(0, 'utf8'));
const { chromium } = require(process.argv[2]);

function textOf(value) {
  if (value === undefined || typeof value === 'string') return value;
  try {
    const text = JSON.stringify(value);
    if (text !== undefined) return text;
  } catch { /* circular, or a BigInt */ }
  return typeof value === 'bigint' ? String(value) : util.inspect(value);
}

async function pageOf(browser) {
  const context = browser.contexts()[0];
  const pages = context.pages();
  if (pages.length === 1) return pages[0];
  for (const page of pages) {
    const session = await context.newCDPSession(page);
    const { targetInfo } = await session.send('Target.getTargetInfo');
    await session.detach();
    if (targetInfo.targetId === request.target) return page;
  }
  return pages[0] || context.newPage(); // the page of the session was closed
}

let kept;
const session = new inspector.Session();
const post = (method, params) => new Promise((resolve, reject) =>
  session.post(method, params, (error, found) => (error ? reject(error) : resolve(found))));

// The value behind an object of the DevTools protocol.
async function valueOf(found) {
  const { objectId: global } = (await post('Runtime.evaluate', { expression: 'globalThis' })).result;
  const { objectId, unserializableValue, value } = found;
  await post('Runtime.callFunctionOn', {
    objectId: global,
    functionDeclaration: 'function (keep, value) { keep(value); }',
    arguments: [
      { objectId: (await post('Runtime.evaluate', { expression: 'globalThis.__keep' })).result.objectId },
      objectId ? { objectId } : unserializableValue ? { unserializableValue } : { value },
    ],
  });
  return kept;
}

// The mode of a console: await at the top level, and the value of the last expression.
async function run(code) {
  const found = await post('Runtime.evaluate', {
    expression: `${code}\n//# sourceURL=code`, replMode: true, awaitPromise: true,
  });
  const failure = found.exceptionDetails;
  if (failure) throw failure.exception ? await valueOf(failure.exception) : new Error(failure.text);
  return await valueOf(found.result);
}

let isOver = false;
async function finish(reply) {
  if (isOver) return;
  isOver = true;
  for (const stream of [process.stdout, process.stderr])
    await new Promise((done) => stream.write('', done));
  fs.writeFileSync(request.reply, reply);
  process.reallyExit(reply.startsWith('!') ? 1 : 0);
}

// The stack without the frames of this file and of Node's own.
function stackOf(error) {
  const lines = String(error.stack).split('\n');
  return lines.filter((line) => !/^ +at .*(\/opt\/run\.js|\(?node:\w+)/.test(line)).join('\n');
}

function fail(error) {
  const isError = error instanceof Error;
  process.stderr.write(`${isError ? stackOf(error) : util.inspect(error)}\n`);
  return finish(isError ? `!${error.name}: ${error.message}` : `!Thrown: ${textOf(error)}`);
}

process.on('uncaughtException', fail);
(async () => {
  if (!('code' in request)) process.exit(); // a trial of the sandbox
  const browser = await chromium.connectOverCDP(request.endpoint);
  const page = await pageOf(browser);
  const context = page.context();
  context.setDefaultTimeout(request.timeout_ms);
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(globalThis, { browser, context, page, require });
  Object.defineProperty(globalThis, '__keep', { value: (value) => { kept = value; } });
  session.connect();
  const result = textOf(await run(request.code));
  await finish(result === undefined ? '' : `=${result}`);
})().catch(fail);
