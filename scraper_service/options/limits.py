"""Limits that the operator sets for all callers: calls per minute, blocked sites."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from scraper_service.options.urls import (
    caller_domain,
    caller_url,
    host_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


class Mode(StrEnum):
    """The classes of routes with separate rate limits (docs/api.md, Rate limits)."""

    SCRAPE = "scrape"
    CRAWL = "crawl"
    MAP = "map"
    EXTRACT = "extract"
    SEARCH = "search"
    CRAWL_STATUS = "crawlStatus"
    EXTRACT_STATUS = "extractStatus"
    ACCOUNT = "account"


def parse_rates(entries: Iterable[str]) -> dict[str, int]:
    """Return calls per minute by mode from entries such as ``scrape=100``.

    0 is unlimited.

    :raises ValueError: with the invalid entry.
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
    """Return the blocked sites from host names.

    :raises ValueError: with the invalid entry.
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
    """Hosts that are never fetched from, with their subdomains. It may be empty."""

    def __init__(self, hosts: Iterable[str] = ()):
        self._hosts = frozenset(hosts)

    def __bool__(self) -> bool:
        return bool(self._hosts)

    def covers(self, url: str) -> bool:
        """Return True if an absolute URL belongs to a blocked site."""
        if not self._hosts:
            return False
        try:
            host = host_of(url)
            host = host if host.isascii() else caller_domain(host)
        except ValueError:
            return False  # such a URL cannot be fetched
        return self.covers_host(host)

    def covers_host(self, host: str) -> bool:
        """Return True for a blocked host or its subdomain, in ASCII and lower case."""
        while host and self._hosts:
            if host in self._hosts:
                return True
            _, _, host = host.partition(".")
        return False

    def first_of(self, urls: Iterable[object]) -> str | None:
        """Return the first URL of a blocked site, as the caller wrote it."""
        for url in urls:
            if not isinstance(url, str):
                continue
            try:
                if self.covers(caller_url(url)):
                    return url
            except ValueError:
                continue  # another check refuses the URL
        return None
