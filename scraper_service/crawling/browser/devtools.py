"""The DevTools protocol: messages, a connection, and the part that callers may use.

The size of messages to the driver has a bound. Callers may use part of the protocol in the
browser of their session.
"""

from __future__ import annotations

import json
import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from attrs import define, frozen

from scraper_service.crawling.converter_pool.converter_process import NICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

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
MAX_MESSAGE = 64 * 2**20  # bytes from the browser: a screenshot of a long page
CONNECT_S = 10.0
DOMAINS: Final = frozenset(
    "Accessibility Animation Audits Browser CSS Console DOM DOMDebugger DOMSnapshot"
    " DOMStorage Debugger DeviceOrientation Emulation EventBreakpoints Fetch IO IndexedDB"
    " Input Inspector LayerTree Log Media Network Overlay Page Performance"
    " PerformanceTimeline Profiler Runtime Schema Security ServiceWorker Storage Target"
    " WebAudio WebAuthn".split()
)
#: The methods of domains that are mostly refused.
ONLY: Final = {
    "Browser": frozenset(
        "close getVersion getWindowBounds getWindowForTarget grantPermissions"
        " resetPermissions setDownloadBehavior setWindowBounds".split()
    ),
    "Target": frozenset(
        "activateTarget attachToBrowserTarget attachToTarget closeTarget createTarget"
        " detachFromTarget getBrowserContexts getTargetInfo getTargets setAutoAttach"
        " setDiscoverTargets".split()
    ),
}
REFUSED: Final = frozenset(
    {
        "DOM.getFileInfo",
        "DOM.setFileInputFiles",
        "Network.loadNetworkResource",
        "Page.crash",
        "Page.handleFileChooser",
        "Storage.overrideQuotaForOrigin",
    }
)
_TEXTS = ("text/plain", "text/html")  # of a drag: Chromium opens no URL in them
_SCHEMES = ("http://", "https://", "data:")
CLOSE = "Browser.close"
OPEN_PAGE = "Target.createTarget"
MOST_ID = 2**31 - 1


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
    async def connect(cls, url: str) -> AsyncIterator[DevTools]:
        """Yield a connection to the URL of a browser's own socket.

        Raises :exc:`aiohttp.ClientError` and :exc:`TimeoutError`.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.ws_connect(url, max_msg_size=MAX_MESSAGE, compress=0) as socket,
        ):
            yield cls(socket)


#: The codes of Chromium's own errors (JSON-RPC 2.0).
NOT_JSON, INVALID, REFUSED_CODE = -32700, -32600, -32000


@frozen
class Decision:
    """What happens with a message of a caller: the browser gets it, or the caller a reply."""

    #: The message as the browser gets it.
    sent: str = ""
    #: The reply instead of the message.
    reply: str = ""
    #: True if it ends the session.
    is_end: bool = False
    #: The id of a message that opens a page, else None.
    opening: int | None = None


def decide(text: str, context_id: str) -> Decision:
    """Return what happens with a message.

    ``context_id`` is that of the session's own context, where new pages are opened. Replies to
    what is no message are those of Chromium.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return Decision(reply=error_reply({}, "the message is not JSON", NOT_JSON))
    if why := _message_error(message):
        return Decision(reply=error_reply(message, why, INVALID))
    method, params = message["method"], message.get("params") or {}
    domain, _, name = method.partition(".")
    if why := _refusal(method, domain, name, params):
        return Decision(reply=error_reply(message, why))
    if method == CLOSE:
        reply = {"id": message["id"], "result": {}}
        return Decision(reply=json.dumps(reply), is_end=True)
    if (change := _CHANGES.get(method)) is not None:
        message["params"] = change(params, context_id)
    # Never as it was received: of a key that stands twice the browser may read another
    # value than the one that was checked.
    try:
        sent = json.dumps(message, allow_nan=False)
    except (ValueError, RecursionError):
        return Decision(reply=error_reply(message, "the message is not JSON", NOT_JSON))
    opening = message["id"] if method == OPEN_PAGE else None
    return Decision(sent=sent, opening=opening)


def _message_error(message: object) -> str | None:
    if not isinstance(message, dict):
        return "the message must be an object"
    if type(message.get("id")) is not int or abs(message["id"]) > MOST_ID:
        return "the message must have an id, a whole number of 32 bits"
    if not isinstance(message.get("method"), str):
        return "the message must have a method, a string"
    if not isinstance(message.get("params") or {}, dict):
        return "params must be an object"
    if not isinstance(message.get("sessionId", ""), str):
        return "sessionId must be a string"
    return None


def error_reply(message: object, why: str, code: int = REFUSED_CODE) -> str:
    """Return the protocol's error reply to a message."""
    reply: dict[str, Any] = {"error": {"code": code, "message": why}}
    if isinstance(message, dict):
        reply |= {
            name: message[name]
            for name, kind in (("id", int), ("sessionId", str))
            if type(message.get(name)) is kind
        }
    return json.dumps(reply)


def _refusal(
    method: str, domain: str, name: str, params: Mapping[str, Any]
) -> str | None:
    only = ONLY.get(domain)
    if (
        domain not in DOMAINS
        or method in REFUSED
        or (only is not None and name not in only)
    ):
        return f"{method} is not allowed in a session of this service"
    if method in {"Page.navigate", "Target.createTarget"}:
        url = str(params.get("url") or "about:blank").strip().lower()
        if url != "about:blank" and not url.startswith(_SCHEMES):
            return f"{method} takes http(s) URLs, data: URLs and about:blank"
    if method in {"Target.attachToTarget", "Target.setAutoAttach"}:
        is_off = method.endswith("AutoAttach") and not params.get("autoAttach")
        if not is_off and not params.get("flatten"):
            return f"{method} needs flatten: true"
    if method == "Input.dispatchDragEvent" and _has_files(params.get("data")):
        return "files of the server cannot be dropped"
    # Playwright sends allowAndName when it connects, and would not without its success.
    if name == "setDownloadBehavior" and params.get("behavior") == "allow":
        return "a session keeps no downloads: behavior must be deny"
    return None


def _has_files(data: object) -> bool:
    """Return True if the data of a drag name files, or have URLs of files."""
    if not isinstance(data, dict):
        return False
    items = data.get("items")
    return bool(data.get("files")) or any(
        str(item.get("mimeType")).lower() not in _TEXTS
        and "file:" in str(item.get("data")).lower()
        for item in (items if isinstance(items, list) else [])
        if isinstance(item, dict)
    )


def _in_own_context(params: dict[str, Any], context_id: str) -> dict[str, Any]:
    return {**params, "browserContextId": context_id}


def _without_downloads(params: dict[str, Any], context_id: str) -> dict[str, Any]:
    return {"behavior": "deny", "browserContextId": context_id}


def _deny(params: dict[str, Any], context_id: str) -> dict[str, Any]:
    return {"behavior": "deny"}


_CHANGES: Mapping[str, Callable[[dict[str, Any], str], dict[str, Any]]] = {
    "Browser.grantPermissions": _in_own_context,
    "Browser.resetPermissions": _in_own_context,
    "Browser.setDownloadBehavior": _without_downloads,
    "Page.setDownloadBehavior": _deny,
    "Target.createTarget": _in_own_context,
}
