"""A site with the pages of one test, which records its requests.

``python -m tests.support.scripted_site`` reads the pages as JSON from the first line of its
standard input, prints its URL and ends with its standard input. Below ``/trap/`` are crawler
traps.
"""

from __future__ import annotations

import base64
import calendar
import hashlib
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.servers import HttpServer, serve

HOST = "127.0.0.2"
LOG = "/scripted-log"
STATUSES = "/scripted-statuses"
MONTHS = calendar.month_name[1:]
WORDS = "amber birch cedar delta ember fjord grove heron islet juniper".split()


def page(*links: str, text: str = "", title: str = "A page", head: str = "") -> str:
    """Return a page with links."""
    anchors = "".join(f'<p><a href="{link}">to {link}</a></p>' for link in links)
    return (
        f"<title>{title}</title>{head}<h1>{title}</h1><p>{text or title}</p>{anchors}"
    )


def answer(body: str | bytes = "", status: int = 200, **headers: str) -> dict[str, Any]:
    """Return a response; header names have underscores for dashes."""
    data = body.encode() if isinstance(body, str) else body
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {
        "status": status,
        "headers": named,
        "body": base64.b64encode(data).decode(),
    }


def slow(found: str | dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return a page or a response that is sent after ``seconds``."""
    whole = answer(found) if isinstance(found, str) else found
    return {**whole, "seconds": seconds}


def text(body: str | bytes, status: int = 200) -> dict[str, Any]:
    """Return a plain text, such as robots.txt."""
    return answer(body, status, Content_Type="text/plain; charset=utf-8")


def sitemap(*urls: str, index: bool = False) -> dict[str, Any]:
    """Return a sitemap, or an index of sitemaps."""
    outer, inner = ("sitemapindex", "sitemap") if index else ("urlset", "url")
    rows = "".join(f"<{inner}><loc>{url}</loc></{inner}>" for url in urls)
    body = (
        f'<{outer} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</{outer}>'
    )
    return answer(body, Content_Type="application/xml")


def moved(location: str, status: int = 301) -> dict[str, Any]:
    """Return a redirect."""
    return answer(status=status, Location=location)


class ScriptedSite(HttpServer):
    """The site in its own process, a context manager.

    Values of ``pages`` are HTML, or results of :func:`answer` and similar functions.
    ``{site}`` in bodies and headers stands for the site's URL. ``host`` is the IP address
    to listen on.
    """

    def __init__(self, pages: dict[str, Any], host: str = HOST):
        given = {
            path: answer(found) if isinstance(found, str) else found
            for path, found in pages.items()
        }
        super().__init__("tests.support.scripted_site", host, given=given)

    def put(self, path: str, found: Any) -> None:
        """Change a page from now on."""
        given = answer(found) if isinstance(found, str) else found
        self.ask(path, given, "PUT")

    def log(self) -> list[tuple[float, str]]:
        """Return the time and path of each request, in seconds of a monotonic clock."""
        return [(at, path) for at, path in self.ask(LOG)]

    def statuses(self) -> list[tuple[str, int]]:
        """Return the path and the status of each response in order."""
        return [(path, status) for path, status in self.ask(STATUSES)]

    def paths(self) -> list[str]:
        """Return the requested paths in order."""
        return [path for _, path in self.log()]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    pages: dict[str, Any]
    site: str
    requests: list[tuple[float, str]]
    statuses: list[tuple[str, int]]
    lock = threading.Lock()

    def do_GET(self) -> None:
        if self.path == LOG:
            self._send(200, {}, json.dumps(self.requests).encode())
            return
        if self.path == STATUSES:
            self._send(200, {}, json.dumps(self.statuses).encode())
            return
        with self.lock:
            self.requests.append((time.monotonic(), self.path))
        found = self.pages.get(self.path)
        if found is not None:
            time.sleep(found.get("seconds", 0))
            body = base64.b64decode(found["body"])
            body = body.replace(b"{site}", self.site.encode())
            headers = {
                k: v.replace("{site}", self.site) for k, v in found["headers"].items()
            }
            if self._has_page(headers):
                self._send(304, headers, b"")
            else:
                self._send(found["status"], headers, body)
        elif self.path.startswith("/trap/"):
            self._send(200, {}, _trap(self.path).encode())
        else:
            self._send(404, {}, b"<title>Not found</title><p>Nothing is here.</p>")

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.pages[self.path] = json.loads(body)
        self._send(200, {}, b"")

    def _has_page(self, headers: dict[str, str]) -> bool:
        """Return True if the client has the page already (RFC 9110, 13.2.2)."""
        if (wanted := self.headers.get("If-None-Match")) is not None:
            return wanted == headers.get("ETag")
        since = self.headers.get("If-Modified-Since")
        return since is not None and since == headers.get("Last-Modified")

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        if self.command == "GET" and self.path not in {LOG, STATUSES}:
            with self.lock:
                self.statuses.append((self.path, status))
        self.send_response(status)
        for name, value in {"Content-Type": "text/html", **headers}.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


def _trap(path: str) -> str:
    """Return a page of a crawler trap; its links lead further into the trap."""
    parts = urlsplit(path)
    kind, _, rest = parts.path.removeprefix("/trap/").partition("/")
    if kind == "calendar":  # months without events, for ever
        year, month = map(int, parse_qs(parts.query)["date"][0].split("-"))
        after = f"{year + month // 12}-{month % 12 + 1:02}"
        target = f"/trap/calendar/?date={after}"
        return _same(f"Events in {MONTHS[month - 1]} {year}", target)
    if kind == "session":  # each page makes up a new id
        known = parse_qs(parts.query).get("PHPSESSID", ["0"])[0]
        fresh = hashlib.md5(known.encode(), usedforsecurity=False).hexdigest()
        return _same("Shop", f"/trap/session/?PHPSESSID={fresh}")
    if kind == "growing":  # a relative link that is resolved wrongly
        return _same("Deeper", "more/")
    if kind == "soft":  # every URL responds with status 200 and the same words
        number = int(rest or 0)
        return _same("Sorry", *(f"/trap/soft/{number * 3 + n}" for n in range(1, 4)))
    if kind == "forum":  # a query for each thread; all threads differ
        number = int(parse_qs(parts.query).get("t", ["0"])[0])
        links = [f"/trap/forum/view?t={n}" for n in (number * 2 + 1, number * 2 + 2)]
        said = " ".join(
            WORDS[(number * k + k) % 10] + str(number * k) for k in range(40)
        )
        return page(*(x for x in links if number < 100), title=f"{number}", text=said)
    return page(title="Nothing")


def _same(title: str, *links: str) -> str:
    """Return a page whose words are always the same, except for the title."""
    anchors = "".join(f'<a href="{link}">next</a>' for link in links)
    said = " ".join(f"{word} {other}" for word in WORDS for other in WORDS[:5])
    return page(title=title, text=f"Nothing happens here. {said} {anchors}")


def main(host: str) -> None:
    server = ThreadingHTTPServer((host, 0), _Handler)
    _Handler.pages = json.loads(sys.stdin.readline())
    _Handler.requests, _Handler.statuses = [], []
    _Handler.site = f"http://{host}:{server.server_address[1]}"
    serve(server)


if __name__ == "__main__":
    main(sys.argv[1])
