"""What an operator sets for all callers: rates by mode, sites that stay out."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from scraper_service.options.origins import host_of, plain_address
from scraper_service.options.urls import caller_domain, caller_url

if TYPE_CHECKING:
    from collections.abc import Iterable


class Mode(StrEnum):
    """Classes of routes that have a rate of their own (interface document, 1.9)."""

    SCRAPE = "scrape"
    CRAWL = "crawl"
    MAP = "map"
    EXTRACT = "extract"
    SEARCH = "search"
    CRAWL_STATUS = "crawlStatus"
    EXTRACT_STATUS = "extractStatus"
    ACCOUNT = "account"


def parse_rates(entries: Iterable[str]) -> dict[str, int]:
    """Return calls per minute by mode, of entries such as ``scrape=100``.

    0 is unlimited. Raises :exc:`ValueError` naming the entry.
    """
    rates = {}
    for entry in entries:
        mode, _, number = entry.strip().partition("=")
        if mode not in set(Mode) or not (number.isascii() and number.isdigit()):
            raise ValueError(
                f"SCRAPER_RATE_LIMITS entry {entry!r} must be MODE=NUMBER, calls per minute,"
                f" 0 for unlimited; a mode is one of {', '.join(Mode)}"
            )
        rates[mode] = int(number)
    return rates


def parse_sites(entries: Iterable[str]) -> BlockedSites:
    """Return the sites that nothing is fetched from.

    Raises :exc:`ValueError` naming the entry.
    """
    hosts = set()
    for entry in filter(None, (entry.strip() for entry in entries)):
        try:
            hosts.add(caller_domain(entry.rstrip(".")))
        except ValueError:
            raise ValueError(
                f"SCRAPER_BLOCKED_SITES entry {entry!r} must be a host name, such as"
                " example.org, which stands for its subdomains too"
            ) from None
    return BlockedSites(hosts)


class BlockedSites:
    """Hosts that nothing is fetched from, with their subdomains; may be none."""

    def __init__(self, hosts: Iterable[str] = ()):
        self._hosts = frozenset(hosts)

    def __bool__(self) -> bool:
        return bool(self._hosts)

    def covers(self, url: str) -> bool:
        """Tell whether an absolute address is of one of them."""
        if not self._hosts:
            return False
        try:
            host = host_of(plain_address(url))
            host = host if host.isascii() else caller_domain(host)
        except ValueError:
            return False  # nothing can be fetched from there
        return self.covers_host(host)

    def covers_host(self, host: str) -> bool:
        """Tell whether a host, in ASCII and lower case, is one of them or below one."""
        while host and self._hosts:
            if host in self._hosts:
                return True
            _, _, host = host.partition(".")
        return False

    def first_of(self, urls: Iterable[object]) -> str | None:
        """Return the first address, as callers write it, that is of one of them."""
        for url in urls:
            if not isinstance(url, str):
                continue
            try:
                if self.covers(caller_url(url)):
                    return url
            except ValueError:
                continue  # it is refused for what it is
        return None
