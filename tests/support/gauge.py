"""A site in a thread that notes how many of its pages are asked for at a time."""

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
    """A site on 127.0.0.2 whose pages take ``wait_s`` each; a context manager.

    Every path without a dot is a page and links to ``/p/1`` and so on, which are
    :attr:`pages` with the page ``/p/``. No page is answered while :attr:`gate` is
    clear.
    """

    pages = 12
    wait_s = 0.05

    def __init__(self) -> None:
        super().__init__((SITE_HOST, 0), _Handler)
        self.log: list[tuple[int, str]] = []  # 1 for a begin, -1 for an end; the path
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
        """The paths of pages, in the order in which they were asked for."""
        return [path for step, path in self.log if step > 0]

    @property
    def now(self) -> int:
        """How many pages are asked for and not yet answered."""
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
            self.server.gate.wait(WAIT_S)
            time.sleep(self.server.wait_s)
            # Before the answer: after it the next request may begin.
            self.server.note(-1, self.path)
        links = "".join(f"<a href=/p/{n}>{n}</a>" for n in range(1, Gauge.pages))
        body = f"<title>Page</title><h1>Page</h1>{links}".encode()
        self.send_response(200 if is_page else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        with contextlib.suppress(ConnectionError):  # who was killed meanwhile
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass
