"""Fake search engines in their own process: SearXNG, Brave and Serper.

``python -m tests.support.search_engines`` reads the results as JSON from the first line of
its standard input, prints its URL and ends with its standard input. The first part of the
path selects the response: ``ok``, ``empty``, ``silent`` (SearXNG's own engines are blocked),
``blocked`` (429), ``closed`` (403), ``broken`` (500), ``malformed``, ``list``, ``huge``,
``moved``. :meth:`SearchEngines.held` delays all responses.
"""

from __future__ import annotations

import json
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tests.support.servers import HttpServer, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.2"
LOG = "/engine-log"
GATE = "/engine-gate"
KEY = "engine-key"
PAGE = 10  # results per response
STATUS = {"blocked": 429, "closed": 403, "broken": 500}


class SearchEngines(HttpServer):
    """The engines as a subprocess, a context manager.

    ``results`` are lists by kind (``web``, ``news``, ``images``) of objects with
    ``url``, ``title``, ``text``, ``date``, ``image``, ``width`` and ``height``.
    """

    def __init__(self, results: dict[str, list[dict[str, Any]]]):
        super().__init__("tests.support.search_engines", given=results)

    def environment(self, providers: str, mode: str = "ok") -> dict[str, str]:
        """Return the settings of a service that uses these engines.

        ``providers`` has names with commas. ``mode`` is one mode for all, or a list with
        commas.
        """
        names = providers.split(",")
        modes = dict(zip(names, mode.split(",") * len(names), strict=False))
        address = {name: f"{self.address}/{modes[name]}/{name}" for name in names}
        urls = {
            f"SCRAPER_{name.upper()}_URL": address[name]
            for name in names
            if name in {"searxng", "brave", "serper"}
        }
        keys = {f"SCRAPER_{name}_API_KEY": KEY for name in ("BRAVE", "SERPER")}
        return {"SCRAPER_SEARCH_PROVIDERS": providers, **urls, **keys}

    def log(self) -> list[dict[str, Any]]:
        """Return the requests in order: path, query or body, headers."""
        asked: list[dict[str, Any]] = self.ask(LOG)
        return asked

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay all responses until the end of the block."""
        self.ask(GATE, False, "PUT")
        try:
            yield
        finally:
            self.ask(GATE, True, "PUT")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    results: dict[str, list[dict[str, Any]]]
    requests: list[dict[str, Any]]
    lock = threading.Lock()
    gate = threading.Event()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == LOG:
            self._send(200, json.dumps(self.requests).encode())
            return
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self._answer(parts.path, asked)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(self.path, json.loads(body))

    def do_PUT(self) -> None:
        is_open = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        (self.gate.set if is_open else self.gate.clear)()
        self._send(200, b"null")

    def _answer(self, path: str, asked: dict[str, Any]) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.lock:
            self.requests.append({"path": path, "asked": asked, "headers": headers})
        self.gate.wait()
        _, mode, engine, *rest = path.split("/")
        if mode in STATUS:
            self._send(STATUS[mode], b'{"error":"no"}')
        elif mode == "malformed":
            self._send(200, b'{"results": [')
        elif mode == "list":
            self._send(200, b"[1, 2]")
        elif mode == "moved":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif mode == "huge":
            self._send(200, b'{"results": "%s"}' % (b"x" * 8 * 2**20))
        else:
            found = getattr(self, f"_{engine}")("/".join(rest), asked, mode)
            self._send(200, json.dumps(found).encode())

    def _rows(self, kind: str, mode: str, start: int, count: int) -> list[Any]:
        if mode in {"empty", "silent"}:
            return []
        return self.results.get(kind, [])[start : start + count]

    def _searxng(self, path: str, asked: dict[str, Any], mode: str) -> Any:
        assert path == "search"
        assert asked["format"] == "json"
        kind = {"general": "web"}.get(asked["categories"], asked["categories"])
        start = (int(asked["pageno"]) - 1) * PAGE
        silent = [["google", "CAPTCHA"]] if mode == "silent" else []
        rows = [
            {
                "url": row["url"],
                "title": row.get("title"),
                "content": row.get("text"),
                "publishedDate": row.get("date"),
                "img_src": row.get("image"),
                "resolution": f"{row['width']} x {row['height']}"
                if "width" in row
                else None,
            }
            if isinstance(row, dict)
            else row
            for row in self._rows(kind, mode, start, PAGE)
        ]
        return {"query": asked["q"], "results": rows, "unresponsive_engines": silent}

    def _brave(self, path: str, asked: dict[str, Any], mode: str) -> Any:
        assert self.headers["X-Subscription-Token"] == KEY
        kind = path.split("/", maxsplit=1)[0]
        count = int(asked["count"])
        start = int(asked.get("offset", 0)) * count
        rows = [
            {
                "url": row["url"],
                "title": f"<strong>{row.get('title')}</strong>",
                "description": row.get("text"),
                "age": row.get("date"),
                "thumbnail": {"src": row.get("image")},
                "properties": {
                    "url": row.get("image"),
                    "width": row.get("width"),
                    "height": row.get("height"),
                },
            }
            if isinstance(row, dict)
            else row
            for row in self._rows(kind, mode, start, count)
        ]
        return {"web": {"results": rows}} if kind == "web" else {"results": rows}

    def _serper(self, path: str, asked: dict[str, Any], mode: str) -> Any:
        assert self.headers["X-API-KEY"] == KEY
        kind = {"search": "web"}.get(path, path)
        start = (asked["page"] - 1) * PAGE
        rows = [
            {
                "link": row["url"],
                "title": row.get("title"),
                "snippet": row.get("text"),
                "date": row.get("date"),
                "imageUrl": row.get("image"),
                "imageWidth": row.get("width"),
                "imageHeight": row.get("height"),
            }
            if isinstance(row, dict)
            else row
            for row in self._rows(kind, mode, start, PAGE)
        ]
        return {"organic" if kind == "web" else kind: rows}

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args: Any) -> None:
        pass  # the client has closed the connection


def main() -> None:
    _Handler.results = json.loads(sys.stdin.readline())
    _Handler.requests = []
    _Handler.gate.set()
    server = _Server((HOST, 0), _Handler)
    serve(server)


if __name__ == "__main__":
    main()
