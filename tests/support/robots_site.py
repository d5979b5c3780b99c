"""Many sites in a subprocess, on 127.0.0.2, each with its own port and robots.txt.

``python -m tests.support.robots_site --forbidden URL`` prints their URLs by name as one JSON
line. For a line ``log`` on standard input it prints the requests so far. It ends with
SIGTERM or its standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import json
import socket
import struct
from typing import Any

from tests.support.lines import answer_lines
from tests.support.mockserver import SITE_HOST
from tools.bench.processes import ServerProcess

RULES = b"User-agent: *\nDisallow: /private/\nSitemap: /map.xml\n"
CHALLENGE = b"<!doctype html><title>Wait</title><script>_cf_chl_opt = {}</script>"
CLOSED = b"User-agent: *\nDisallow: /\n"
FOREVER_S = 3600


def answer(body: bytes, status: int = 200, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Mock", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body


def moved(to: str, status: int = 301) -> bytes:
    return answer(CLOSED, status, f"Location: {to}")


UTF_16 = "User-agent: *\nDisallow: /private/\n".encode("utf-16")
ANSWERS = {
    "good": answer(RULES, 200, "Set-Cookie: robots=seen; Path=/"),
    "other": answer(RULES),
    "empty": answer(b""),
    "no-content": b"HTTP/1.1 204 Mock\r\nConnection: close\r\n\r\n",
    "html": answer(
        b"<!doctype html><title>Shop</title>", 200, "Content-Type: text/html"
    ),
    "challenge": answer(CHALLENGE, 200, "Content-Type: text/html"),
    "huge": answer(RULES + b"# much\n" * 1_500_000 + CLOSED),
    "many": answer(RULES + b"".join(b"Disallow: /%d\n" % n for n in range(10_000))),
    "utf-16": answer(UTF_16),
    "bom": answer(b"\xef\xbb\xbf" + RULES),
    "gzip": answer(gzip.compress(RULES), 200, "Content-Encoding: gzip"),
    "broken-gzip": answer(b"no gzip", 200, "Content-Encoding: gzip"),
    "loop": moved("/robots.txt"),
    "nowhere": answer(CLOSED, 302),
    "bad-redirect": moved("http://[bad/"),
    "to-no-host": moved("http://nosuch.invalid/robots.txt"),
    "to-ftp": moved("ftp://127.0.0.2/robots.txt"),
    "truncated": b"HTTP/1.1 200 Mock\r\nContent-Length: 999\r\n\r\n" + RULES,
    **{f"{n}": answer(CLOSED, n) for n in (401, 403, 404, 410, 429, 500, 503, 999)},
}


class Site:
    """The sites' server; the port of a request selects the site."""

    def __init__(self, forbidden: str):
        self.addresses: dict[str, str] = {}
        self.log: list[dict[str, Any]] = []
        self.forbidden = forbidden
        self.servers: list[asyncio.Server] = []

    async def open(self) -> None:
        special = "chain-5 chain-6 elsewhere forbidden silent drop trickle slow"
        special += (
            " failing paused soon dropping busy busy-for-a-second later-challenge"
        )
        for name in (*ANSWERS, *special.split()):
            await self.listen(name)
        self.shut = socket.socket()  # bound, so that no other process can listen there
        self.shut.bind((SITE_HOST, 0))
        self.addresses["refused"] = f"http://{SITE_HOST}:{self.shut.getsockname()[1]}"

    async def listen(self, name: str) -> None:
        async def serve(reader: Any, writer: Any) -> None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self.serve(name, reader, writer)
            writer.close()

        server = await asyncio.start_server(serve, SITE_HOST, 0)
        self.servers.append(server)
        port = server.sockets[0].getsockname()[1]
        self.addresses[name] = f"http://{SITE_HOST}:{port}"

    async def serve(self, name: str, reader: Any, writer: Any) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        path = first.split(" ")[1]
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
        self.log.append({"site": name, "path": path, "headers": headers})
        if name == "silent":
            await asyncio.sleep(FOREVER_S)
        times = sum(request["site"] == name for request in self.log)
        if name == "drop" or (name == "dropping" and times < 3):
            linger = struct.pack("ii", 1, 0)
            peer = writer.get_extra_info("socket")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            return
        if name == "trickle":
            writer.write(b"HTTP/1.1 200 Mock\r\nContent-Length: 100000\r\n\r\n")
            while True:
                writer.write(b"#")
                await writer.drain()
                await asyncio.sleep(0.1)
        if name == "slow":
            await asyncio.sleep(2)
        writer.write(self.answer(name, path))
        await writer.drain()

    def answer(self, name: str, path: str) -> bytes:
        if name.startswith("chain-"):
            hop = int(path.rpartition("/")[2]) if path.startswith("/hop/") else 0
            is_last = hop == int(name.removeprefix("chain-"))
            return answer(RULES) if is_last else moved(f"/hop/{hop + 1}", 302)
        if name == "elsewhere":
            return moved(f"{self.addresses['other']}/rules.txt", 307)
        if name == "forbidden":
            return moved(f"{self.forbidden}/robots.txt")
        times = sum(request["site"] == name for request in self.log)
        if name == "failing" and times > 1:
            return answer(CLOSED, 503)
        if name == "soon" and times < 3:
            return answer(CLOSED, 503, "Retry-After: 1")
        if name == "busy" and times < 3:
            return answer(CLOSED, 429)
        if name == "busy-for-a-second" and times < 3:
            return answer(CLOSED, 429, "Retry-After: 1")
        if name == "later-challenge" and times > 1:
            return answer(CHALLENGE)
        if name == "paused" and times == 1:  # longer than the time-out of the tests
            return answer(CLOSED, 429, "Retry-After: 5")
        return ANSWERS.get(name) or answer(RULES)


async def run(forbidden: str) -> None:
    site = Site(forbidden)
    await site.open()
    await answer_lines(
        json.dumps(site.addresses), lambda _: print(json.dumps(site.log), flush=True)
    )


class RobotsSite(ServerProcess):
    """The sites as a subprocess, a context manager."""

    def __init__(self, forbidden: str):
        super().__init__("tests.support.robots_site", "--forbidden", forbidden)
        self._addresses: dict[str, str] = json.loads(self.line("{"))

    def url(self, name: str, path: str = "/") -> str:
        return self._addresses[name] + path

    def requests(self, name: str) -> list[dict[str, Any]]:
        """Return the requests to one site, the oldest first: path and headers."""
        self.write("log")
        log: list[dict[str, Any]] = json.loads(self.line("["))
        return [request for request in log if request["site"] == name]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--forbidden", required=True)
    asyncio.run(run(parser.parse_args().forbidden))
