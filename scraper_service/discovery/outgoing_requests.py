"""Outgoing requests: the operator's proxy, and pauses after a 429 or 503.

The proxy is the way out of a network that has no other. A pause is that of ``Retry-After``,
else an exponential backoff.
"""

from __future__ import annotations

import random
import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Protocol, Self

from attrs import field, frozen

from scraper_service.options.urls import url_parts

MAX_PAUSE_S = 600.0  # the longest pause, even if a site requests more
BACKOFF_S = 1.0  # the first pause without a Retry-After; it doubles
MAX_BACKOFF_S = 60.0
BUSY = frozenset({429, 503})


class Settings(Protocol):
    """What this module needs of Scrapy's settings."""

    def __getitem__(self, name: str) -> Any: ...

    def getlist(self, name: str) -> list[Any]: ...


@frozen
class OutgoingProxy:
    """The proxy, and the hosts that are reached without it.

    :meth:`from_settings` raises :exc:`ValueError` for an invalid URL, without its password.
    """

    #: ``http://[USER:PASSWORD@]HOST:PORT``; empty without a proxy.
    url: str = field(default="", repr=False)
    #: Host names, which count with their subdomains.
    hosts: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        url = str(settings["OUTGOING_PROXY"] or "").strip()
        if url and not _is_usable(url):
            raise ValueError(
                "SCRAPER_OUTGOING_PROXY must be http://HOST:PORT, with USER:PASSWORD@ before"
                " the host if needed; other kinds of proxies cannot be used"
            )
        hosts, networks = set(), []
        for entry in settings.getlist("OUTGOING_PROXY_EXCEPT"):
            text = entry.strip().lower()
            try:
                networks.append(ip_network(text))
            except ValueError:
                hosts.add(text.strip("."))
        return cls(url, frozenset(hosts - {""}), tuple(networks))

    def to(self, url: str) -> str | None:
        """Return the URL of the proxy for ``url``; None if it is reached directly."""
        host = (url_parts(url).hostname or "").rstrip(".")
        return None if not self.url or self._is_excepted(host) else self.url

    def _is_excepted(self, host: str) -> bool:
        try:
            address = ip_address(host)
        except ValueError:
            labels = host.split(".")
            return any(".".join(labels[n:]) in self.hosts for n in range(len(labels)))
        return any(address in network for network in self.networks)


def _is_usable(url: str) -> bool:
    parts = url_parts(url)
    return bool(parts.scheme == "http" and parts.hostname and parts.port)


def retry_after_s(value: str, sent: str, now: float) -> float | None:
    """Return the pause of a ``Retry-After`` header in seconds, None if it has none.

    The value is seconds or an HTTP date (RFC 9110, 10.2.3). A date counts from ``sent``, the
    ``Date`` of the response, else from ``now`` (seconds since 1970). Negative, past and invalid
    values have no pause.
    """
    if re.fullmatch(r"[0-9]{1,18}(\.[0-9]+)?", value.strip(), re.ASCII):
        pause_s = float(value)
    elif (until := _seconds_of(value)) is not None:
        pause_s = until - (_seconds_of(sent) or now)
    else:
        return None
    return min(pause_s, MAX_PAUSE_S) if pause_s > 0 else None


def _seconds_of(date: str) -> float | None:
    try:
        found = parsedate_to_datetime(date)
        return found.replace(tzinfo=found.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def backoff_s(times: int) -> float:
    """Return the pause before attempt ``times`` (from 1) without a ``Retry-After``."""
    pause_s: float = min(BACKOFF_S * 2 ** min(times - 1, 30), MAX_BACKOFF_S)
    return pause_s * random.uniform(0.75, 1.25)  # noqa: S311  # not a secret
