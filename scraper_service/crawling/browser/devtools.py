"""Messages of the DevTools protocol: the bound of those to the driver, and a connection.

A page determines the size of many messages: those about its errors, console and requests are
sent without a request. Messages above some hundred MiB end the driver and all its pages. So a
script inside the driver, a Node process, drops large messages before the driver reads them. It
also lowers the priority of the driver and its browser.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
from attrs import define

from scraper_service.crawling.converter_pool.converter_process import NICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAX_EVENT_BYTES = 8 * 2**20
# The driver cannot read 512 MiB. One character may take 6 bytes in a message.
MAX_REPLY_BYTES = 448 * 2**20
# Playwright takes other errors of a script for a navigation of the page.
_TOO_LARGE = "Object reference chain is too long"

_FILE = "guard.js"
_SCRIPT = """
'use strict';
// Chromium's messages come by its fifth pipe, each ends with a zero byte. A reply begins
// with its id and ends with its session; it is replaced by an error.
const childProcess = require('child_process');
const os = require('os');
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

try {
  os.setPriority(Math.min(os.getPriority() + %(nice)d, 19));  // Chromium inherits it
} catch {}  // where the system does not allow it, the priority stays

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
    """Return True if a reply of the browser was too large."""
    return _TOO_LARGE.lower() in str(error).lower()


def node_options(home: str, max_bytes: int) -> str:
    """Return ``NODE_OPTIONS`` for a driver with replies of up to ``max_bytes``.

    Writes the script to ``home``.
    """
    most = min(max_bytes, MAX_REPLY_BYTES)
    facts = {
        "event": MAX_EVENT_BYTES,
        "nice": NICE,
        "reply": most,
        "text": f"{_TOO_LARGE}: the reply has more than {most / 2**20:.4g} MiB",
    }
    path = Path(home, _FILE)
    path.write_text(_SCRIPT % facts)
    quoted = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'{os.environ.get("NODE_OPTIONS", "")} --require "{quoted}"'.strip()


MAX_MESSAGE = 64 * 2**20  # bytes from the browser: a screenshot of a long page
CONNECT_S = 10.0


@define
class DevTools:
    """A connection to the DevTools port of a session's browser, on this machine."""

    _socket: aiohttp.ClientWebSocketResponse

    async def send(self, text: str) -> None:
        """Send a message. Raises :exc:`ConnectionError` if the browser has ended."""
        await self._socket.send_str(text)

    async def messages(self) -> AsyncIterator[str]:
        """Yield the messages of the browser until its end."""
        async for message in self._socket:
            if message.type is aiohttp.WSMsgType.TEXT:
                yield message.data

    @classmethod
    @asynccontextmanager
    async def connected(cls, url: str) -> AsyncIterator[DevTools]:
        """Yield a connection to the URL of a browser's own socket.

        Raises :exc:`aiohttp.ClientError` and :exc:`TimeoutError`.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.ws_connect(url, max_msg_size=MAX_MESSAGE, compress=0) as socket,
        ):
            yield cls(socket)
