"""Limits that the operator and a team set for callers: calls, scopes, sites, retention."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import asdict, evolve, field, frozen

from scraper_service.errors import InvalidOptions, Issue, OptionUnavailable
from scraper_service.options.parsing import short
from scraper_service.options.scrape import SiteRules
from scraper_service.options.urls import (
    caller_domain,
    caller_url,
    host_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DAY_S = 86_400
MIN_DAYS = 0.01
HIDDEN = "retentionDays must be left out with zeroDataRetention, got {}"
OptionsT = TypeVar("OptionsT", bound=Any)

_NOT_ALLOWED = (
    "the policy of the team does not allow threatProtection in a request; it is allowed"
    " with allowRequestOverrides"
)


class Mode(StrEnum):
    """The classes of routes with separate rate limits (docs/api/README.md, Rate limits)."""

    SCRAPE = "scrape"
    CRAWL = "crawl"
    MAP = "map"
    EXTRACT = "extract"
    SEARCH = "search"
    CRAWL_STATUS = "crawlStatus"
    EXTRACT_STATUS = "extractStatus"
    ACCOUNT = "account"


class KeyScope(StrEnum):
    """What an API key may do. Each scope includes those before it."""

    #: Read jobs, pages, usage and settings of the team.
    READ = "read"
    #: Also start, change and cancel work.
    SCRAPE = "scrape"
    #: Also change the settings of the team, read its audit log and delete its jobs.
    ADMIN = "admin"

    def includes(self, other: KeyScope) -> bool:
        """Return True if a key with this scope may do what needs ``other``."""
        order = list(KeyScope)
        return order.index(self) >= order.index(other)


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


#: The languages that ``INTERACT_CODE`` can list.
NODE, PYTHON = "node", "python"


def parse_languages(entries: Iterable[str]) -> tuple[str, ...]:
    """Return the languages whose code callers may run, from ``INTERACT_CODE``.

    :raises ValueError: with the invalid entry.
    """
    given = [entry.strip().lower() for entry in entries]
    found = tuple(entry for entry in given if entry not in {"", "none"})
    for entry in found:
        if entry not in {NODE, PYTHON}:
            raise ValueError(
                f"SCRAPER_INTERACT_CODE must be none, or a list of {NODE} and {PYTHON},"
                f" got {entry!r}"
            )
    return found


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
        for url in urls if self._hosts else ():
            if not isinstance(url, str):
                continue
            try:
                if self.covers(caller_url(url)):
                    return url
            except ValueError:
                continue  # another check refuses the URL
        return None


@frozen
class Retention:
    """The settings ``RETENTION_DAYS`` and ``MAX_RETENTION_DAYS``."""

    usual_days: float
    most_days: float

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Retention:
        """Return the values of the settings of a service."""
        usual, most = settings["RETENTION_DAYS"], settings["MAX_RETENTION_DAYS"]
        return cls(float(usual), float(most))

    def seconds(self, days: float | None, *, is_zero: bool = False) -> float:
        """Return the life of results after their last change, for an option ``days``.

        None is the usual time. ``is_zero`` stands for zero data retention.

        :raises OptionUnavailable: for more days than allowed, or with zero retention.
        """
        if days is None:
            return self.usual_days * DAY_S
        if is_zero:
            raise OptionUnavailable("retention_days", HIDDEN.format(short(days)))
        if days > self.most_days:
            raise OptionUnavailable(
                "retention_days",
                f"retentionDays must be {MIN_DAYS} to {self.most_days:g}, got {short(days)}",
            )
        return days * DAY_S


@frozen(kw_only=True)
class SitePolicy:
    """The threat protection of a team."""

    #: ``manual-only``, or ``off``: the lists are kept and have no effect.
    mode: str = "off"
    rules: SiteRules = field(factory=SiteRules)
    #: True lets a request replace lists by its own.
    allows_overrides: bool = False

    def rules_for(self, asked: SiteRules | None) -> SiteRules | None:
        """Return the rules of a request whose own rules are ``asked``.

        Its lists that are not empty replace those of the team. Raises
        :exc:`InvalidOptions` if it has lists and must not.
        """
        if self.mode == "off":
            return asked
        if asked is None:
            return self.rules
        if not self.allows_overrides:
            raise InvalidOptions([Issue("custom", ("threatProtection",), _NOT_ALLOWED)])
        return SiteRules(
            asked.blacklist or self.rules.blacklist,
            asked.whitelist or self.rules.whitelist,
            asked.blocked_tlds or self.rules.blocked_tlds,
        )


def under_policy(options: OptionsT, policy: SitePolicy | None) -> OptionsT:
    """Return the options of a request with the rules of its team."""
    if policy is None:
        return options
    changes: dict[str, Any] = {}
    if (scrape := options.scrape) is not None:
        rules = policy.rules_for(scrape.site_rules)
        changes["scrape"] = evolve(scrape, site_rules=rules)
    if hasattr(options, "site_rules"):  # of the results of a search
        changes["site_rules"] = policy.rules_for(options.site_rules)
    changed: OptionsT = evolve(options, **changes)
    return changed


def policy_to_json(policy: SitePolicy) -> str:
    """Return the text of a policy in the row of its team."""
    return json.dumps(asdict(policy))


def policy_from_json(text: str | None) -> SitePolicy | None:
    """Return the policy in the row of a team, None for a team without one."""
    if text is None:
        return None
    values = json.loads(text)
    lists = {name: tuple(found) for name, found in values.pop("rules").items()}
    return SitePolicy(rules=SiteRules(**lists), **values)
