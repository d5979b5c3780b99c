"""A receiver of webhook deliveries in its own process, which records its requests.

``python -m tests.support.receiver`` prints its URL and ends with its standard input. The
first part of the path selects the response: ``/ok``, ``/slow/200`` (after 200 ms),
``/fails/2`` (500 twice per event, then 200), ``/always/410``, ``/redirect``, ``/huge`` (a
response without end), ``/silent`` (no response). Further parts are names.
"""

from __future__ import annotations

import base64
import contextlib
import json
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.support.servers import HttpServer, serve

HOST = "127.0.0.2"
LOG = "/received-log/"
SILENT_S = 60


class Received(NamedTuple):
    """A request: its time, the start of its response, path, lower-case headers, body."""

    at: float
    until: float
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def event(self) -> str:
        return str(self.json["type"]).rpartition(".")[2]

    @property
    def id(self) -> str:
        return str(self.json["webhookId"])


class Receiver(HttpServer):
    """The receiver as a subprocess, a context manager."""

    def __init__(self, host: str = HOST):
        super().__init__("tests.support.receiver", host)

    def received(self, path: str = "") -> list[Received]:
        """Return the requests for paths that begin with ``path``, in order."""
        return [
            Received(at, until, to, headers, base64.b64decode(body))
            for at, until, to, headers, body in self.ask(LOG + path)
        ]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a response is two writes
    requests: list[list[Any]]
    tries: Counter[tuple[str, str]]
    lock = threading.Lock()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        text = base64.b64encode(body).decode()
        entry = [time.time(), 0.0, self.path, headers, text]
        with self.lock:
            self.requests.append(entry)
            key = (self.path, headers.get("x-scraper-event-id", ""))
            self.tries[key] += 1
            number = self.tries[key]
        kind, _, rest = self.path[1:].partition("/")
        argument = rest.partition("/")[0]
        if kind == "slow":
            time.sleep(int(argument) / 1000)
        # Before the response: the next request may follow at once.
        entry[1] = time.time()
        with contextlib.suppress(OSError):
            self._answer(kind, argument, number)

    def _answer(self, kind: str, argument: str, number: int) -> None:
        if kind == "fails":
            self._send(200 if number > int(argument) else 500)
        elif kind == "always":
            self._send(int(argument))
        elif kind == "redirect":
            self._send(307, Location=f"http://{self.headers['Host']}/ok/redirected")
        elif kind == "huge":
            self.send_response(200)
            self.send_header("Content-Length", str(2**40))
            self.end_headers()
            for _ in range(1000):
                self.wfile.write(b"x" * 2**20)
        elif kind == "silent":
            time.sleep(SILENT_S)
            self.close_connection = True
        else:
            self._send(200)

    def do_GET(self) -> None:
        path = self.path.removeprefix(LOG)
        with self.lock:
            found = [entry for entry in self.requests if entry[2].startswith(path)]
        self._send(200, json.dumps(found).encode())

    def _send(self, status: int, body: bytes = b"ok", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, *args: Any) -> None:
        pass  # the sender was killed


def main(host: str) -> None:
    server = _Server((host, 0), _Handler)
    _Handler.requests = []
    _Handler.tries = Counter()
    serve(server)


if __name__ == "__main__":
    main(sys.argv[1])
