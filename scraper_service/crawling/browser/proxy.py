"""The forward proxy between Chromium and the network, with the egress rule.

Each page has a :class:`Passage` of its own, a port that lives as long as the page. So
refusals and traffic belong to a page. The browser itself gets a port that refuses all
connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import TYPE_CHECKING, Self

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    IgnoreRequest,
)

from scraper_service.crawling.egress import EgressPolicy
from scraper_service.crawling.proxies import resolve
from scraper_service.options.urls import host_of, url_parts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scraper_service.crawling.proxies import AddressT, UpstreamProxy

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
HEAD_BYTES = 64 * 1024  # of one request
CHUNK_BYTES = 64 * 1024
CONNECT_S = 15.0
HEAD_S = 30.0  # for the head of a request; Chromium opens connections ahead
MAX_CONNECTIONS = 256  # of one page
# Two lengths are an error of the network for every Chromium, before any page is shown.
# Some show an empty page for a valid answer without content.
REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nContent-Length: 1\r\n\r\n"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# uvloop raises RuntimeError for a write to a closed transport.
ENDS = (
    *(OSError, EOFError, ValueError, TimeoutError),
    *(RuntimeError, asyncio.LimitOverrunError),
)
_HOP = ("proxy-", "connection:", "keep-alive:", "te:", "trailer:")


class Blocked(DownloadFailedError):
    """Raised for a host that the options of the page block, such as advertising."""


class Passage:
    """The proxy of one page, an asynchronous context manager.

    ``refusal`` returns the error for a blocked host name, None otherwise. ``max_bytes`` limits
    the traffic. ``upstream`` is the operator's proxy, or None. :attr:`failures` has the
    errors by host.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        refusal: Callable[[str], Exception | None] = lambda _: None,
        max_bytes: int = 0,
        upstream: UpstreamProxy | None = None,
    ):
        self._policy = policy
        self._refusal = refusal
        self._max_bytes = max_bytes
        self._upstream = upstream
        self._server: asyncio.Server | None = None
        #: The host that each connection leads to; empty before its first request.
        self._tasks: dict[asyncio.Task[None], str] = {}
        self.carried = 0
        self.failures: dict[str, Exception] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._accept, LOOPBACK, 0, limit=HEAD_BYTES
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def address(self) -> str:
        """The URL of the proxy for the browser."""
        assert self._server is not None
        return f"http://{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"

    def failure(self, url: str) -> Exception | None:
        """Return why the host of ``url`` was not reached, None if it was."""
        return self.failures.get(host_of(url))

    @property
    def connected_hosts(self) -> frozenset[str]:
        """The hosts with an open connection."""
        return frozenset(filter(None, self._tasks.values()))

    def hang_up(self, hosts: frozenset[str] | None = None) -> None:
        """End the connections to hosts, None for all. The page may connect again."""
        for task, host in self._tasks.items():
            if host and (hosts is None or host in hosts):
                task.cancel()

    async def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        self._tasks[task] = ""
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the page has ended
        except ENDS:
            logger.debug("a connection of the browser ended early", exc_info=True)
        finally:
            del self._tasks[task]
            writer.transport.abort() if task.cancelling() else writer.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        async with asyncio.timeout(HEAD_S):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *fields = head[:-4].split("\r\n")
        method, target, _ = line.split(" ", 2)
        is_tunnel = method == "CONNECT"
        parts = url_parts(f"//{target}" if is_tunnel else target)
        if not parts.hostname or (not is_tunnel and parts.scheme != "http"):
            raise ValueError(target)
        if not is_tunnel and method not in METHODS:
            raise ValueError(method)
        host, port = (
            parts.hostname.rstrip("."),
            parts.port or (443 if is_tunnel else 80),
        )
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = host
        try:
            far_reader, far_writer = await self._reach(host, port, tunnel=is_tunnel)
        except (
            CannotResolveHostError,
            DownloadConnectionRefusedError,
            DownloadFailedError,
            IgnoreRequest,
            OSError,
        ) as error:
            self.failures[host] = error
            writer.write(REFUSED)
            await writer.drain()
            return
        try:
            if is_tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                far_writer.write(self._plain(method, target, fields))
            await self._both_ways(reader, writer, far_reader, far_writer)
        finally:
            far_writer.transport.abort()

    def _plain(self, method: str, target: str, fields: list[str]) -> bytes:
        """Return the head of a request without TLS, as sent to the site."""
        parts = url_parts(target)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        kept = [f for f in fields if not f.lower().startswith(_HOP)]
        if self._upstream is not None:
            path = target
            kept += self._upstream.credentials()
        # One request per connection, so the end of the response is the end of the connection.
        lines = [f"{method} {path} HTTP/1.1", *kept, "Connection: close", "", ""]
        return "\r\n".join(lines).encode("latin-1")

    async def _both_ways(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        upward = asyncio.ensure_future(self._carry(reader, far_writer))
        downward = asyncio.ensure_future(self._carry(far_reader, writer))
        try:
            await downward
        finally:
            for task in (upward, downward):
                task.cancel()
            await asyncio.gather(upward, downward, return_exceptions=True)

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(CHUNK_BYTES):
            self.carried += len(data)
            if self._max_bytes and self.carried > self._max_bytes:
                error = DownloadCancelledError("the page loads more than it may")
                self.failures.setdefault("", error)
                return
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    async def _reach(
        self, host: str, port: int, *, tunnel: bool
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if (error := self._refusal(host)) is not None:
            raise error
        name = f"[{host}]" if ":" in host else host
        found = await resolve(self._policy, f"//{name}:{port}", self._upstream)
        if self._upstream is not None:
            return await self._upstream.open(host, port, tunnel=tunnel)
        return await _connect(found)


async def _connect(
    found: list[AddressT],
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    last: Exception = OSError("no address")
    for family, kind, proto, address in found:
        link = socket.socket(family, kind, proto)
        link.setblocking(False)
        try:
            async with asyncio.timeout(CONNECT_S):
                await loop.sock_connect(link, address)
            return await asyncio.open_connection(sock=link)
        except (OSError, TimeoutError) as error:
            last = error
            link.close()
        except BaseException:
            link.close()
            raise
    raise DownloadConnectionRefusedError(str(last)) from last


@contextlib.asynccontextmanager
async def no_passage() -> AsyncIterator[str]:
    """Yield the address of a port that refuses all connections."""
    async with Passage(EgressPolicy(), refusal=Blocked) as passage:
        yield passage.address
