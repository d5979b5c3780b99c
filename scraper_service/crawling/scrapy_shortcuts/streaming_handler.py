"""Scrapy's experimental download handler for aiohttp, with public names for its private ones.

This is no shortcut that may be left out: Scrapy's own handler has no rule for the addresses
that pages may reach. Without the private names nothing is fetched.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import aiohttp
from scrapy.core.downloader.handlers import _aiohttp
from scrapy.http import Headers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from scrapy import Request
    from scrapy.crawler import Crawler


class PageResponse(_aiohttp._ClientResponse):
    """A response whose body is read up to ``cut_bytes``, and not much beyond.

    After ``large_bytes`` the body waits for ``before_large``.
    """

    cut_bytes = math.inf
    large_bytes = math.inf
    before_large: Callable[[], Awaitable[None]]


class StreamingHandler(_aiohttp.AiohttpDownloadHandler):
    """Reads responses as they come, through the sessions of :meth:`open_response`."""

    experimental = False  # pinned and tested; avoids the warning at each start
    lazy = True  # needs a running loop, which `scrapy shell` starts later

    def __init__(self, crawler: Crawler):
        super().__init__(crawler)
        #: The local address of connections, None for any.
        self.bind_address = self._bind_address
        #: TLS without a look at certificates.
        self.unverified = self._ssl_context

    @abstractmethod
    def open_response(
        self, request: Request, timeout_s: float
    ) -> AbstractAsyncContextManager[PageResponse]:
        """Return the context of a response whose head has come."""

    def proxy_of(self, request: Request) -> str | None:
        """Return the proxy that ``meta`` of a request names, with its credentials."""
        return self._extract_proxy_url_with_creds(request)

    def _make_request(self, request: Request, timeout: float) -> Any:
        return self.open_response(request, timeout)

    @staticmethod
    def _extract_headers(response: _aiohttp._ClientResponse) -> Headers:
        # Raw bytes: values are not always UTF-8.
        return Headers(response.raw_headers)

    @staticmethod
    async def _iter_body_chunks(
        response: _aiohttp._ClientResponse,
    ) -> AsyncIterator[bytes]:
        assert isinstance(response, PageResponse)
        received, large_bytes = 0, response.large_bytes
        try:
            async for chunk in response.content.iter_any():
                yield chunk
                received += len(chunk)
                if received >= response.cut_bytes:
                    return
                if received > large_bytes:
                    large_bytes = math.inf
                    await response.before_large()
        except aiohttp.ClientPayloadError:
            # Received before the error; no public method returns it then.
            yield b"".join(response.content._buffer)
            raise
