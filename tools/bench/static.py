"""A server of constant pages on 127.0.0.2, fast enough not to affect the measurements.

``python -m tools.bench.static`` prints its origin, and stops when its standard input ends.
``--linked N`` adds the pages of :mod:`tools.bench.linked`, of the site that ``--site`` names.
``--sitemaps N M`` adds the files of :mod:`tools.bench.sitemap_files`. ``--hosts N`` listens
on N further addresses of this machine; see :func:`hosts`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import cast

from tools.bench import linked, pages, sitemap_files

HOST = "127.0.0.2"
END_OF_HEAD = b"\r\n\r\n"
SLOW = b"/slow/"  # prefix of slow pages
SLOW_S = 1.0


def _response(status: str, body: bytes, mime: str = "text/html") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {mime}; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


RESPONSES = {
    b"/article": _response("200 OK", pages.article()),
    b"/big": _response("200 OK", pages.long_article()),
}
SLOW_RESPONSE = _response("200 OK", b"<title>slow</title><p>A slow page.</p>")
NOT_FOUND = _response("404 Not Found", b"<p>not found</p>")


def hosts(count: int) -> list[str]:
    """Return up to 250 further IP addresses of the network 127.0.1.0/24."""
    return [f"127.0.1.{number}" for number in range(1, count + 1)]


class Connection(asyncio.Protocol):
    """A keep-alive connection that serves GET requests without bodies, in order."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while END_OF_HEAD in self.buffer:
            head, self.buffer = self.buffer.split(END_OF_HEAD, 1)
            target = head.split(b" ", 2)[1]
            if target.startswith(SLOW):
                loop = asyncio.get_running_loop()
                loop.call_later(SLOW_S, self.transport.write, SLOW_RESPONSE)
            else:
                self.transport.write(RESPONSES.get(target, NOT_FOUND))


async def main(
    source: str, count: int, site: str, sitemaps: list[int], more: int
) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, HOST, 0, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    if more:
        await loop.create_server(Connection, hosts(more), port, backlog=1024)
    origin = f"http://{HOST}:{port}"
    if count:
        for path, body in linked.site(source, count, origin, site).items():
            RESPONSES[path.encode()] = _response("200 OK", body)
    if sitemaps:
        for path, body in sitemap_files.site(*sitemaps, origin).items():
            RESPONSES[path.encode()] = _response("200 OK", body, "application/xml")
    print(origin, flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--linked", type=int, default=0, metavar="N")
    parser.add_argument("--source", default="", help="directory or archive of pages")
    parser.add_argument("--site", choices=linked.SITES, default="relinked")
    parser.add_argument(
        "--sitemaps", type=int, nargs=2, default=[], metavar=("FILES", "URLS")
    )
    parser.add_argument("--hosts", type=int, default=0, metavar="N")
    options = parser.parse_args()
    asyncio.run(
        main(
            options.source,
            options.linked,
            options.site,
            options.sitemaps,
            options.hosts,
        )
    )
