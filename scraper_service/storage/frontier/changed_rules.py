"""The rules of a crawl whose caller has changed its paths or its depth.

Processes that work on the crawl may apply the former rules for a while. So the database
applies the new rules itself: to the links that are stored, and to URLs before a lease.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from scraper_service.discovery import Reason
from scraper_service.discovery.sitemap_locations import first_scope
from scraper_service.options.crawl import CrawlOptions
from scraper_service.options.serialization import options_from_json
from scraper_service.storage.jobs.job_records import UrlKind

if TYPE_CHECKING:
    from scraper_service.discovery import CrawlScope, Refusal
    from scraper_service.storage.jobs.job_records import Link

#: The options of these rules.
OPTIONS: Final = ("include_paths", "exclude_paths", "max_discovery_depth")
#: The reasons of these rules. A change may restore URLs that were skipped for them.
REASONS: Final = (Reason.EXCLUDED, Reason.NOT_INCLUDED, Reason.DISCOVERY_DEPTH)


class ChangedRules:
    """The present rules of a crawl. ``options`` and ``base`` are those of its row."""

    def __init__(self, options: str, base: str | None):
        found = options_from_json("crawl", json.loads(options))
        assert isinstance(found, CrawlOptions)
        scope = first_scope(found)
        self._scope: CrawlScope = scope if base is None else scope.rebased(base)

    def refusal(self, url: str, depth: int) -> Refusal | None:
        """Return why a URL that passed the former rules may not be fetched, or None."""
        return self._scope.changed_refusal(url, depth)

    def refusal_of_skipped(
        self, url: str, depth: int, found_on: str | None
    ) -> Refusal | None:
        """Return why a skipped URL may still not be fetched, or None.

        The former rules have not checked all other rules. ``found_on`` is the URL of the
        page with the link.
        """
        return self._scope.refusal(url, depth, found_on)

    def checked(self, link: Link, found_on: str | None) -> Link:
        """Return a link with the reason that the present rules give, or without one."""
        if link.kind is UrlKind.SITEMAP:
            return link
        if link.code is None:
            refusal = self.refusal(link.url, link.depth)
            if refusal is None:
                return link
        elif link.code in REASONS:
            refusal = self.refusal_of_skipped(link.url, link.depth, found_on)
        else:
            return link
        code, error = reason_of(refusal)
        return link._replace(code=code, error=error)


def reason_of(refusal: Refusal | None) -> tuple[str | None, str | None]:
    """Return ``code`` and ``error`` of a row."""
    return (None, None) if refusal is None else (refusal.reason.value, refusal.rule)


@lru_cache(maxsize=64)
def changed_rules(options: str, base: str | None) -> ChangedRules:
    """Return the rules of a crawl, which take milliseconds to compile."""
    return ChangedRules(options, base)
