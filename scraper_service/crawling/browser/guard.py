"""Bounds what Chromium sends to Playwright's driver.

A page decides how large messages of the browser's protocol become: those about its
errors, its console and its requests are sent unasked. Above some hundred MiB they end
the driver, and with it all pages. So a script inside the driver, which is a Node process,
drops them before the driver reads them.
"""

from __future__ import annotations

import os
from pathlib import Path

MAX_EVENT_BYTES = 8 * 2**20
# The driver cannot read 512 MiB. A character of a page takes up to 6 bytes in a message.
MAX_REPLY_BYTES = 448 * 2**20
# Playwright takes other errors of a script for those of a page that has moved on.
_TOO_LARGE = "Object reference chain is too long"

_FILE = "guard.js"
_SCRIPT = """
'use strict';
// Chromium's messages come by its fifth pipe, each ends with a zero byte. A reply begins
// with its id and ends with its session; it is replaced by an error.
const childProcess = require('child_process');
const { Transform } = require('stream');
const MAX_EVENT = %(event)d, MAX_REPLY = %(reply)d, ENDS = 256;

class Bounded extends Transform {
  constructor() { super(); this.begin(); }
  begin() { this.parts = []; this.size = 0; this.head = this.tail = ''; }
  add(part) {
    if (this.head.length < ENDS)
      this.head += part.toString('latin1', 0, ENDS - this.head.length);
    this.size += part.length;
    const isReply = this.head.startsWith('{"id":');
    if (this.size <= (isReply ? MAX_REPLY : MAX_EVENT)) { this.parts.push(part); return; }
    this.parts = null;
    const end = part.toString('latin1', Math.max(0, part.length - ENDS));
    this.tail = (this.tail + end).slice(-ENDS);
  }
  finish() {
    if (this.parts) {
      for (const part of this.parts) this.push(part);
      this.push('\\0');
    } else {
      const id = /^\\{"id":(\\d+)/.exec(this.head);
      const session = /,"sessionId":"(\\w+)"\\}$/.exec(this.tail);
      const error = { code: -32000, message: '%(text)s' };
      const reply = { id: id && Number(id[1]), error, sessionId: session && session[1] };
      if (!session) delete reply.sessionId;
      if (id) this.push(JSON.stringify(reply) + '\\0');
    }
    this.begin();
  }
  _transform(chunk, _, done) {
    let start = 0;
    for (let end; (end = chunk.indexOf(0, start)) !== -1; start = end + 1) {
      this.add(chunk.subarray(start, end));
      this.finish();
    }
    if (start < chunk.length) this.add(chunk.subarray(start));
    done();
  }
}

const spawn = childProcess.spawn;
childProcess.spawn = function (...args) {
  const child = spawn.apply(this, args);
  const pipe = child.stdio && child.stdio[4];
  if (pipe) {
    const bounded = child.stdio[4] = new Bounded();
    pipe.on('error', (error) => bounded.destroy(error));
    pipe.on('close', () => bounded.end());
    pipe.pipe(bounded);
  }
  return child;
};
"""


def is_too_large(error: Exception) -> bool:
    """Return True if an error of Playwright says that a reply was too large."""
    return _TOO_LARGE.lower() in str(error).lower()


def node_options(home: str, max_bytes: int) -> str:
    """Return ``NODE_OPTIONS`` for a driver that reads replies of up to ``max_bytes``.

    The script is written to ``home``.
    """
    most = min(max_bytes, MAX_REPLY_BYTES)
    facts = {
        "event": MAX_EVENT_BYTES,
        "reply": most,
        "text": f"{_TOO_LARGE}: the reply has more than {most / 2**20:.4g} MiB",
    }
    path = Path(home, _FILE)
    path.write_text(_SCRIPT % facts)
    quoted = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'{os.environ.get("NODE_OPTIONS", "")} --require "{quoted}"'.strip()
