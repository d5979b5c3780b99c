"""Both ends of a server in a subprocess that is asked over HTTP."""

from __future__ import annotations

import json
import socketserver
import sys
import threading
import urllib.request
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tests.support.waiting import WAIT_S
from tools.bench.processes import ServerProcess

if TYPE_CHECKING:
    from http.server import HTTPServer

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class HttpServer(ServerProcess):
    """A server that announces its address on stdout; a context manager.

    ``given`` is the first line of its standard input, as JSON; None for no line.
    No two have the same address, one after the other either: a service that knows the
    first one's robots.txt would not ask the second for its own.
    """

    _had: ClassVar[set[str]] = set()

    def __init__(self, *arguments: str, given: Any = None):
        while True:
            super().__init__(*arguments)
            if given is not None:
                self.write(json.dumps(given))
            self.address = self.line("http").strip()
            if self.address not in self._had:
                break
            self.stop()
        self._had.add(self.address)

    def url(self, path: str) -> str:
        return self.address + path

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """Return the JSON of a path that is none of the pages; ``body`` is JSON too."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url(path), data, method=method)
        with _opener.open(request, timeout=WAIT_S) as found:
            return json.loads(found.read() or "null")


class InThread(socketserver.ThreadingTCPServer):
    """A server in a thread of this process; a context manager."""

    daemon_threads = True
    request_queue_size = 128

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def url(self, path: str) -> str:
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}{path}"


def serve(server: HTTPServer) -> None:
    """Answer until the end of standard input."""
    host, port = server.server_address[:2]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://{host}:{port}", flush=True)
    sys.stdin.read()
