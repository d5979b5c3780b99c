"""Connections for pages over HTTP, and what it means when they fail."""

from __future__ import annotations

import asyncio
import functools
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
from scrapy.core.downloader.handlers import _aiohttp
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    UnsupportedURLSchemeError,
)

from scraper_service.crawling.download.download_errors import (
    CertificateError,
    NoCommonTls,
)
from scraper_service.crawling.download.response_heads import (
    HEAD_BYTES,
    MAX_FIELDS,
    LenientProtocol,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

CONNECTIONS = 256  # open at a time; HostPace holds the hosts
KEEPALIVE_S = 15


def open_session(
    local_address: tuple[str, int] | None,
    open_socket: Callable[[Any], socket.socket] | None = None,
) -> aiohttp.ClientSession:
    """Return a session that keeps no cookies and adds no headers of its own.

    ``open_socket`` makes the socket of each connection, given where it is to lead to.
    """
    connector = aiohttp.TCPConnector(
        limit=CONNECTIONS,
        limit_per_host=0,
        local_addr=local_address,
        keepalive_timeout=KEEPALIVE_S,
        socket_factory=open_socket,
    )
    # aiohttp has no option for it; a test fails where this one is not used.
    loop = asyncio.get_running_loop()
    connector._factory = functools.partial(  # type: ignore[assignment]  # a subclass
        LenientProtocol, loop=loop
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        response_class=_aiohttp._ClientResponse,
        skip_auto_headers=(
            "Accept",
            "Accept-Encoding",
            "Content-Type",
            "User-Agent",
        ),
        max_line_size=HEAD_BYTES,
        max_field_size=HEAD_BYTES,
        max_headers=MAX_FIELDS,
    )


def download_error(error: Exception, timeout: float) -> Exception:
    """Return the error of Scrapy, or ours, that says what happened."""
    if isinstance(error, TimeoutError):
        return DownloadTimeoutError(f"no complete answer within {timeout:.1f} s")
    if isinstance(error, (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError)):
        return UnsupportedURLSchemeError(str(error))
    if isinstance(
        error, (aiohttp.ClientConnectorCertificateError, ssl.CertificateError)
    ):
        return CertificateError(str(error))
    if isinstance(error, (aiohttp.ClientSSLError, ssl.SSLError)):
        return NoCommonTls(str(error))
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return CannotResolveHostError(str(error))
    if isinstance(error, aiohttp.ClientConnectorError):
        return DownloadConnectionRefusedError(str(error))
    if isinstance(error, ValueError):
        return DownloadFailedError(f"the address cannot be fetched: {error}")
    return DownloadFailedError(str(error) or type(error).__name__)
