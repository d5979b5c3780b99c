"""The outgoing proxy of the operator: the way out of a network that has no other.

The settings name it, not ``HTTPS_PROXY``: a variable that is set for other programs must not
decide where requests go. Pages, search engines, language models and webhooks use it. The
database and scrapyd nodes are reached directly.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Protocol, Self

from attrs import field, frozen

from scraper_service.options.urls import url_parts


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
