"""A Chromium on another machine, by its DevTools address, that renders pages.

Its pages have contexts whose proxy is the passage of the page in this service, so the egress
rule holds as far as that browser obeys. Its flags and its machine are not ours: see
``docs/browser.md``, A browser elsewhere.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from typing import TYPE_CHECKING, Any, Self

from attrs import frozen

from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

SCHEMES = ("ws", "wss", "http", "https")
# What reaches the network beside a proxy, where no flag of the browser forbids it.
WITHOUT_DATAGRAMS = """
for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport'])
  delete globalThis[name];
"""


def why_invalid(url: str) -> str | None:
    """Return why a URL is none of a browser, None if it may be one."""
    parts = url_parts(url)
    if parts.scheme in SCHEMES and parts.hostname:
        return None
    shown = re.sub("//[^/@]*@", "//", url.partition("?")[0])[:80]
    return (
        "SCRAPER_BROWSER_CDP_URL must be a URL such as ws://HOST:9222/devtools/browser/ID"
        f" or http://HOST:9222, got {shown!r}"
    )


@frozen
class RemoteBrowser:
    """The operator's browser elsewhere."""

    #: May hold a secret: never shown.
    url: str
    #: Where it reaches this service, a name or an IP address of this machine.
    proxy_address: str = "127.0.0.1"
    #: True if it has its own way to the network, without the proxy of the service.
    is_direct: bool = False

    @classmethod
    def of(cls, settings: BaseSettings) -> Self | None:
        """Return the browser of the settings, None for one on this machine."""
        if not (url := str(settings["BROWSER_CDP_URL"] or "")):
            return None
        address = str(settings["BROWSER_PROXY_ADDRESS"] or "127.0.0.1")
        return cls(url, address, settings.getbool("BROWSER_CDP_DIRECT"))

    @property
    def host(self) -> str:
        """Its host and port, for messages."""
        return url_parts(self.url).netloc.rpartition("@")[2]

    async def connect(self, chromium: Any, timeout_s: float) -> Any:
        """Return Playwright's connection to it. Raises :exc:`ConnectionError`."""
        from playwright.async_api import Error as PlaywrightError  # noqa: PLC0415  # slow

        try:
            return await chromium.connect_over_cdp(self.url, timeout=timeout_s * 1000)
        except PlaywrightError as error:
            reason = str(error).partition("\n")[0].replace(self.url, "its URL")
            text = f"the browser at {self.host} cannot be reached: {reason}"
            raise ConnectionError(text) from None

    async def peers(self) -> frozenset[str]:
        """Return the addresses from which it may use the passages of pages.

        Raises :exc:`ConnectionError`.
        """
        name = url_parts(self.url).hostname or ""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(name, None)
        except OSError as error:
            text = f"the host of the browser, {name}, does not resolve: {error}"
            raise ConnectionError(text) from None
        return frozenset(str(ipaddress.ip_address(each[4][0])) for each in found)

    def misses_proxy(self, text: str) -> bool:
        """Return True if an error of Chromium means that it does not reach its proxy."""
        return not self.is_direct and "ERR_PROXY_CONNECTION_FAILED" in text
