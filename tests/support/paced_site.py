"""A site in a subprocess, on 127.0.0.2, with rate limits.

``python -m tests.support.paced_site`` prints its URL and ends with SIGTERM. ``/p/`` and
``/p/N`` are pages that link to all others. ``--first K --status S --retry-after R`` responds
to the first K requests with status S, ``--broken PATH`` to all requests for a page. ``--rate N``
responds with 429 to more than N requests in a second, and to all requests during the pause. R is the ``Retry-After``
header; ``date+SECONDS`` stands for an HTTP date from now. ``/_log`` returns the requests as
JSON: path, status, start and end by :func:`time.monotonic`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import signal
import time
from email.utils import formatdate
from typing import NamedTuple

from tests.support.servers import HttpServer

HOST = "127.0.0.2"


class Seen(NamedTuple):
    """A request. The site measures the times; ``end`` is just before its response."""

    path: str
    status: int
    begin: float
    end: float
    pause_s: float  # the pause in the response


class PacedSite(HttpServer):
    """The site as a subprocess, a context manager."""

    def __init__(self, **options: object):
        flags = (f"--{k.replace('_', '-')}={v}" for k, v in options.items())
        super().__init__("tests.support.paced_site", *flags)

    def url(self, path: str = "/p/") -> str:
        return super().url(path)

    @property
    def log(self) -> list[Seen]:
        """The requests for pages so far, by their start."""
        return sorted((Seen(*row) for row in self.ask("/_log")), key=_begin)

    def statuses(self) -> list[int]:
        return [seen.status for seen in self.log]

    def gaps(self) -> list[float]:
        """Return the times from the end of each request to the start of the next."""
        log = self.log
        return [b.begin - a.end for a, b in itertools.pairwise(log)]

    def most(self) -> int:
        """Return the maximum of concurrent requests."""
        log = self.log
        return max(sum(o.begin <= s.begin < o.end for o in log) for s in log)


def _begin(seen: Seen) -> float:
    return seen.begin


class _Site:
    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.log: list[Seen] = []
        self.opens_at = -math.inf

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1].decode("latin-1")
                writer.write(await self.answer(path))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def answer(self, path: str) -> bytes:
        if path == "/_log":
            return _message(200, json.dumps(self.log).encode())
        if not path.startswith("/p/"):
            return _message(404, b"none")
        begin = time.monotonic()
        status = self.status(path, begin)
        asked = self.options.retry_after if status in {429, 503} else ""
        pause_s = _seconds(asked)
        self.opens_at = max(self.opens_at, begin + pause_s)
        place = len(self.log)
        self.log.append(Seen(path, status, begin, math.inf, pause_s))
        await asyncio.sleep(self.options.wait)
        self.log[place] = self.log[place]._replace(end=time.monotonic())
        if asked.startswith("date"):
            asked = formatdate(math.ceil(time.time() + pause_s), usegmt=True)
        links = "".join(
            f'<a href="/p/{n}">{n}</a>' for n in range(1, self.options.pages)
        )
        body = f"<title>{path}</title><h1>Page {path}</h1>{links}".encode()
        return _message(status, body, asked)

    def status(self, path: str, now: float) -> int:
        options = self.options
        if len(self.log) < options.first or path == options.broken:
            return int(options.status)
        if options.rate:
            recent = sum(s.status == 200 and s.begin > now - 1 for s in self.log)
            if recent >= options.rate or now < self.opens_at:
                return 429
        return 200


def _seconds(asked: str) -> float:
    try:
        return max(0.0, float(asked.removeprefix("date+") or 0))
    except ValueError:
        return 0.0


def _message(status: int, body: bytes, retry_after: str = "") -> bytes:
    lines = [f"HTTP/1.1 {status} Paced", "Content-Type: text/html"]
    lines += [f"Retry-After: {retry_after}"] if retry_after else []
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


async def _run(options: argparse.Namespace) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    server = await asyncio.start_server(_Site(options).serve, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    print(f"http://{HOST}:{port}", flush=True)
    await stopped.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=1)
    parser.add_argument("--wait", type=float, default=0.02, help="seconds per page")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--broken", default="")
    parser.add_argument("--status", type=int, default=429)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--retry-after", default="")
    asyncio.run(_run(parser.parse_args()))
