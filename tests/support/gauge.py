"""A site in a thread that counts its concurrent requests."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.mockserver import SITE_HOST
from tests.support.servers import InThread
from tests.support.waiting import WAIT_S


class Gauge(InThread, ThreadingHTTPServer):
    """A site on 127.0.0.2 whose pages take ``wait_s`` each, a context manager.

    Every path without a dot is a page. It links to ``/p/1``, ``/p/2`` and so on; with
    ``/p/`` there are :attr:`pages` pages, unless :attr:`links` has the links of each
    path. Responses wait while :attr:`gate` is clear, except those of :attr:`free` paths.
    """

    pages = 12
    wait_s = 0.05

    def __init__(self) -> None:
        super().__init__((SITE_HOST, 0), _Handler)
        self.log: list[tuple[int, str]] = []  # 1 for a start or -1 for an end, and path
        self.links: dict[str, list[str]] | None = None
        self.free = {"/p/"}
        self.gate = threading.Event()
        self.gate.set()
        self._lock = threading.Lock()

    def __exit__(self, *exc_info: object) -> None:
        self.gate.set()
        super().__exit__(*exc_info)

    def note(self, step: int, path: str) -> None:
        with self._lock:
            self.log.append((step, path))

    @property
    def asked(self) -> list[str]:
        """The paths of the requested pages, in order."""
        return [path for step, path in self.log if step > 0]

    @property
    def now(self) -> int:
        """The number of requests without a response so far."""
        return sum(step for step, _ in self.log)

    @property
    def most(self) -> int:
        """The greatest value of :attr:`now` so far."""
        return max(itertools.accumulate(step for step, _ in self.log))


class _Handler(BaseHTTPRequestHandler):
    server: Gauge

    def do_GET(self) -> None:
        is_page = "." not in self.path
        if is_page:
            self.server.note(1, self.path)
            if self.path not in self.server.free:
                self.server.gate.wait(WAIT_S)
            time.sleep(self.server.wait_s)
            # Note the end before the response: the next request may follow at once.
            self.server.note(-1, self.path)
        paths = [f"/p/{n}" for n in range(1, Gauge.pages)]
        if self.server.links is not None:
            paths = self.server.links.get(self.path, [])
        links = "".join(f"<a href={path}>{path[3:]}</a>" for path in paths)
        body = f"<title>Page</title><h1>Page</h1>{links}".encode()
        self.send_response(200 if is_page else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        with contextlib.suppress(ConnectionError):  # a client was killed meanwhile
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass
