"""The operator's proxies: chooses by kind, health and session.

``PROXIES`` has entries such as ``stealth=http://user:password@host:8080``. An entry without
a kind is ``basic``. Only settings name proxies, so the egress rule does not apply to their
own addresses. It applies to the URLs that are requested through them.
"""

from __future__ import annotations

import asyncio
import base64
import math
import random
import re
import socket
import time
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias
from urllib.parse import unquote

import aiohttp
from attrs import define, field
from scrapy.exceptions import CannotResolveHostError

from scraper_service.crawling.page_errors import ProxyFailed
from scraper_service.discovery.outgoing_requests import OutgoingProxy
from scraper_service.options.urls import url_parts
from scraper_service.shared_objects import Singletons

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scraper_service.crawling.egress import EgressPolicy

# Family, type and protocol of a socket, and its address.
AddressT: TypeAlias = "tuple[int, int, int, tuple[Any, ...]]"

KINDS = ("basic", "stealth")
CONNECT_S = 15.0
HEAD_BYTES = 64 * 1024
RECOVERY_S = 60.0  # after which half of a proxy's failures are forgotten
STICKY_S = 3600.0  # an unused session keeps its proxy for this time


@define(eq=False)
class UpstreamProxy:
    """An HTTP proxy. ``failures`` decay with time; fewer are better."""

    kind: str
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)
    #: True if it may get names that this machine cannot resolve.
    resolves: bool = False
    _failures: float = 0.0
    _failed_at: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``[KIND=]http://[USER:PASSWORD@]HOST:PORT``.

        Raises :exc:`ValueError` with the reason, without the password.
        """
        kind, equals, url = text.strip().partition("=")
        if not equals or "://" in kind:
            kind, url = "basic", text.strip()
        parts = url_parts(url)
        if (
            kind not in KINDS
            or parts.scheme != "http"
            or not parts.hostname
            or not parts.port
        ):
            raise ValueError(
                "SCRAPER_PROXIES entries must be http://HOST:PORT or KIND=http://HOST:PORT, with"
                f" USER:PASSWORD@ before the host if needed and KIND one of"
                f" {', '.join(KINDS)}; got {text.strip().rpartition('@')[2][:100]!r}"
            )
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        return cls(kind, parts.hostname, parts.port, user, password)

    @property
    def url(self) -> str:
        """The URL without credentials."""
        return f"http://{self.host}:{self.port}"

    @property
    def weakness(self) -> float:
        """The number of recent failures; 0 is best."""
        age_s = time.monotonic() - self._failed_at
        return self._failures * math.exp2(-age_s / RECOVERY_S)

    def note_failure(self) -> None:
        """Note a failure of the proxy."""
        self._failures = self.weakness + 1
        self._failed_at = time.monotonic()

    def note_success(self) -> None:
        """Note a page that was fetched through the proxy."""
        self._failures = self.weakness / 2
        self._failed_at = time.monotonic()

    def credentials(self) -> list[str]:
        """Return the header fields with the credentials."""
        if not self.user:
            return []
        pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return [f"Proxy-Authorization: Basic {pair}"]

    def for_aiohttp(self) -> dict[str, Any]:
        """Return the arguments for :meth:`aiohttp.ClientSession.request`."""
        auth = aiohttp.BasicAuth(self.user, self.password) if self.user else None
        return {"proxy": self.url, "proxy_auth": auth}

    async def open(
        self, host: str, port: int, *, tunnel: bool
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the proxy. With ``tunnel`` connect to ``host`` through it.

        Raises :exc:`ProxyFailed`.
        """
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(
                    self.host, self.port, limit=HEAD_BYTES
                )
                if tunnel:
                    await self._ask(reader, writer, host, port)
        except (
            *(OSError, EOFError, TimeoutError, asyncio.LimitOverrunError),
            RuntimeError,  # of uvloop, for a write to a closed transport
        ) as error:
            self.note_failure()
            raise ProxyFailed("a proxy failed") from error
        return reader, writer

    async def _ask(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        host: str,
        port: int,
    ) -> None:
        name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {name} HTTP/1.1", f"Host: {name}", *self.credentials()]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        head = await reader.readuntil(b"\r\n\r\n")
        if head.split(b" ", 2)[1:2] != [b"200"]:
            writer.close()
            raise OSError("the proxy refused")


class Proxies:
    """All proxies of the operator. False if there are none."""

    _instances: ClassVar[Singletons[Proxies]] = Singletons()

    def __init__(self, entries: list[str], way_out: OutgoingProxy | None = None):
        self._way_out = way_out or OutgoingProxy()
        self._all = [UpstreamProxy.parse(entry) for entry in entries if entry.strip()]
        self._sticky: dict[tuple[str, str], tuple[UpstreamProxy, float]] = {}
        self._outgoing: UpstreamProxy | None = None

    @classmethod
    def shared(cls, settings: BaseSettings) -> Proxies:
        """Return the proxies of the settings. All crawlers share their health."""
        entries = settings.getlist("PROXIES")
        way_out = OutgoingProxy.from_settings(settings)
        key = (tuple(entries), way_out)
        return cls._instances.get(key, lambda: cls(entries, way_out))

    def __bool__(self) -> bool:
        return bool(self._all)

    def has(self, kind: str) -> bool:
        """Return True if there is a proxy of a kind."""
        return any(proxy.kind == kind for proxy in self._all)

    def choose(self, kind: str, session: str = "") -> UpstreamProxy | None:
        """Return a healthy proxy of a kind, the same for the same session.

        None if there is no proxy of the kind.
        """
        now = time.monotonic()
        proxy, until = self._sticky.get((kind, session), (None, 0.0))
        if session and proxy and now < until and proxy.weakness < 1:
            self._sticky[kind, session] = (proxy, now + STICKY_S)
            return proxy
        fitting = [proxy for proxy in self._all if proxy.kind == kind]
        if not fitting:
            return None
        least = min(round(proxy.weakness) for proxy in fitting)
        best = [proxy for proxy in fitting if round(proxy.weakness) == least]
        chosen = random.choice(best)  # noqa: S311  # not for security
        if session:
            self._sticky = {k: v for k, v in self._sticky.items() if v[1] > now}
            self._sticky[kind, session] = (chosen, now + STICKY_S)
        return chosen

    def outgoing(self, url: str) -> UpstreamProxy | None:
        """Return the outgoing proxy, None if a URL is reached directly."""
        proxy = self._way_out.to(url)
        if proxy is None:
            return None
        if self._outgoing is None:
            self._outgoing = UpstreamProxy.parse(proxy)
            self._outgoing.resolves = True
        return self._outgoing


# As public suffixes are; without those of private networks.
PUBLIC_NAME = re.compile(r".+\.([a-z]{2,}|xn--[a-z0-9-]+)", re.IGNORECASE)
PRIVATE_ENDINGS = (
    *(".corp", ".home", ".home.arpa", ".internal", ".intranet", ".lan"),
    *(".local", ".localdomain", ".localhost", ".private"),
)


def _is_public_name(host: str) -> bool:
    is_private = host.lower().endswith(PRIVATE_ENDINGS)
    return not is_private and PUBLIC_NAME.fullmatch(host) is not None


async def resolve(
    policy: EgressPolicy, url: str, upstream: UpstreamProxy | None = None
) -> list[AddressT]:
    """Resolve the host of ``url``. Return its addresses if all of them are allowed.

    Many networks behind a proxy resolve no public names. There, a name that looks public is
    left to an ``upstream`` that resolves names, and the list is empty. Raises
    :exc:`CannotResolveHostError` and :exc:`ForbiddenDestination`.
    """
    parts = url_parts(url)
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as error:
        if upstream is not None and upstream.resolves and _is_public_name(host):
            return []
        raise CannotResolveHostError(str(error)) from error
    for *_, address in found:
        policy.check(str(address[0]), port)
    return [(family, kind, proto, address) for family, kind, proto, _, address in found]
