"""Base classes of HTTP servers for tests: in a subprocess or in a thread."""

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
    """A server in a subprocess that prints its URL, a context manager.

    ``given`` is the first line of its standard input, as JSON; None for no line. Two servers
    of a test run never have the same URL, even one after the other. Otherwise a service
    would use the cached robots.txt of the first server for the second.
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
        """Return the JSON of a path for the test's own use; ``body`` is sent as JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url(path), data, method=method)
        with _opener.open(request, timeout=WAIT_S) as found:
            return json.loads(found.read() or "null")


class InThread(socketserver.ThreadingTCPServer):
    """A server in a thread of this process, a context manager."""

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
    """Print the URL, then serve requests until the end of standard input."""
    host, port = server.server_address[:2]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://{host}:{port}", flush=True)
    sys.stdin.read()
