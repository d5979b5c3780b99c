"""The options of single pages, crawls, batches and webhooks, and the events of webhooks."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import evolve, field, frozen
from attrs.validators import (
    deep_iterable,
    ge,
    gt,
    in_,
    instance_of,
    le,
    max_len,
    min_len,
    optional,
)

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options.scrape import ScrapeOptions
from scraper_service.options.urls import url_parts

MAX_BATCH_URLS = 100_000
MAX_DELAY_S = 60
MIN_DAYS = 0.01  # of stored results
SITEMAP_MODES = ("include", "skip", "only")
# A webhook without events receives the common ones.
COMMON_EVENTS = ("started", "page", "completed", "failed")
EXTRACT_EVENTS = (*COMMON_EVENTS, "cancelled")
AGENT_EVENTS = ("started", "action", "completed", "failed", "cancelled")
EVENTS = (*EXTRACT_EVENTS, "paused", "resumed", "updated")
MONITOR_EVENTS = ("page", "check.completed")

_INDEX_FILES = frozenset({"index.html", "index.php"})
_texts = deep_iterable(instance_of(str), instance_of(tuple))
_flag = instance_of(bool)
#: The validator of the option ``retention_days``.
DAYS: Any = optional(ge(MIN_DAYS))


@frozen(kw_only=True)
class Caller:
    """What a request says about its caller, for the log only."""

    #: The client.
    origin: str = "api"
    #: The platform.
    integration: str | None = None
    #: The user.
    audit_username: str | None = None


@frozen(kw_only=True)
class PageOptions(Caller):
    """One URL and how to scrape it."""

    #: The URL of the caller; a missing scheme is added.
    url: str = field(validator=instance_of(str))
    scrape: ScrapeOptions
    #: Days that the results are stored after the last change; None is the operator's.
    retention_days: float | None = field(default=None, validator=DAYS)


@frozen(kw_only=True)
class Webhook:
    """The receiver of the events of a job (docs/api/events.md, Webhooks)."""

    url: str = field(validator=instance_of(str))
    #: Added to each delivery.
    headers: tuple[tuple[str, str], ...] = ()
    #: Any JSON; each delivery repeats it.
    metadata: Mapping[str, Any] = field(factory=dict)
    #: Some of :data:`EVENTS`, :data:`AGENT_EVENTS` or :data:`MONITOR_EVENTS`, without
    #: the kind of job.
    events: tuple[str, ...] = field(
        default=COMMON_EVENTS,
        validator=deep_iterable(
            in_((*EVENTS, *AGENT_EVENTS, *MONITOR_EVENTS)), instance_of(tuple)
        ),
    )


@frozen(kw_only=True)
class CrawlOptions(Caller):
    """The URLs that a crawl may visit, and how each page is scraped (docs/api/crawls.md, Crawls)."""

    #: The start URL.
    url: str = field(validator=instance_of(str))
    #: Pages, delivered or in work.
    limit: int = field(validator=ge(1))
    #: Links from the start URL; None is unlimited.
    max_discovery_depth: int | None = field(validator=optional(ge(0)))
    #: The pause between two pages, in seconds.
    delay_s: float | None = field(validator=optional([gt(0), le(MAX_DELAY_S)]))
    #: Requests in flight.
    max_concurrency: int | None = field(validator=optional(ge(1)))
    crawl_entire_domain: bool = field(validator=_flag)
    allow_subdomains: bool = field(validator=_flag)
    allow_external_links: bool = field(validator=_flag)
    #: Regular expressions, see :mod:`scraper_service.options.urls`.
    include_paths: tuple[str, ...] = field(validator=_texts)
    exclude_paths: tuple[str, ...] = field(validator=_texts)
    regex_on_full_url: bool = field(validator=_flag)
    ignore_robots_txt: bool = field(validator=_flag)
    robots_user_agent: str | None = field(validator=optional(instance_of(str)))
    #: True follows no links of pages marked ``nofollow``.
    obey_nofollow: bool = field(default=False, validator=_flag)
    sitemap: str = field(validator=in_(SITEMAP_MODES))
    deduplicate_similar_urls: bool = field(validator=_flag)
    ignore_query_parameters: bool = field(validator=_flag)
    #: Path segments below the path of the start URL; None is unlimited.
    max_path_depth: int | None = field(validator=optional(ge(0)))
    #: Options are derived from these words.
    prompt: str | None = field(validator=optional(instance_of(str)))
    #: True removes text that repeats over the pages of a site from the Markdown.
    dedupe_boilerplate: bool = field(default=False, validator=_flag)
    webhook: Webhook | None
    scrape: ScrapeOptions
    #: Days that the results are stored after the last change; None is the operator's.
    retention_days: float | None = field(default=None, validator=DAYS)
    #: True keeps the response of each page with the job; None is the operator's.
    keep_sources: bool | None = field(default=None, validator=optional(_flag))
    #: The id of an earlier crawl, or a time (:func:`parse_since`): only pages that are new or
    #: have changed since are delivered.
    since: str | None = field(default=None, validator=optional(instance_of(str)))


@frozen(kw_only=True)
class BatchOptions(Caller):
    """URLs to scrape with the same options, in no particular order.

    A URL that stands twice is scraped twice.
    """

    urls: tuple[str, ...] = field(
        validator=[min_len(1), max_len(MAX_BATCH_URLS), _texts]
    )
    max_concurrency: int | None = field(validator=optional(ge(1)))
    #: The pause between two pages, in seconds. Only a change of the batch sets it.
    delay_s: float | None = field(
        default=None, validator=optional([gt(0), le(MAX_DELAY_S)])
    )
    dedupe_boilerplate: bool = field(default=False, validator=_flag)
    webhook: Webhook | None
    scrape: ScrapeOptions
    #: Days that the results are stored after the last change; None is the operator's.
    retention_days: float | None = field(default=None, validator=DAYS)
    #: True keeps the response of each page with the job; None is the operator's.
    keep_sources: bool | None = field(default=None, validator=optional(_flag))


MAX_REPROCESSED_URLS = 10_000
#: Options of a page that only shape its output, without the formats.
SHAPING = (
    *("only_main_content", "only_clean_content", "include_tags", "exclude_tags"),
    *("remove_base64_images", "parsers", "max_tokens"),
)


@frozen(kw_only=True)
class ReprocessRequest(Caller):
    """A request to make other formats of the stored responses of a job."""

    scrape: ScrapeOptions
    #: URLs of pages of the job; empty for all pages.
    urls: tuple[str, ...] = field(
        default=(), validator=[max_len(MAX_REPROCESSED_URLS), _texts]
    )
    webhook: Webhook | None = None
    #: Days that the results are stored after the last change; None is the operator's.
    retention_days: float | None = field(default=None, validator=DAYS)

    def options(
        self, known: CrawlOptions | BatchOptions
    ) -> CrawlOptions | BatchOptions:
        """Return the options of the new job; ``known`` are those of the other job."""
        if isinstance(known, CrawlOptions):
            known = evolve(known, since=None)
        return evolve(
            known,
            scrape=self.scrape,
            webhook=self.webhook,
            retention_days=self.retention_days,
            delay_s=None,
            max_concurrency=None,
            dedupe_boilerplate=False,
            keep_sources=None,
            origin=self.origin,
            integration=self.integration,
            audit_username=self.audit_username,
        )


def parse_since(text: str) -> str | float:
    """Return the id of a job, or a time in seconds since 1970, from an option ``since``.

    A time is one of ISO 8601, in UTC without a zone. Raises :exc:`ValueError`.
    """
    try:
        return str(uuid.UUID(text))
    except ValueError:
        pass
    try:
        return iso_seconds(text)
    except ValueError:
        raise ValueError(
            f"since must be the id of a crawl or a time of ISO 8601, got {text[:100]!r}"
        ) from None


def iso_seconds(text: str) -> float:
    """Return a time of ISO 8601 in seconds since 1970; without a zone it is in UTC.

    :raises ValueError: also for times outside of the years 1 to 9999.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC).timestamp()
    except OverflowError as error:
        raise ValueError(str(error)) from None


SINCE_FETCHES = (
    "since must be left out with headers, actions, sessions, profiles, stealth proxies,"
    " changeTracking, maxTokens, minAge, lockdown and zeroDataRetention: it fetches pages"
    " and compares them with stored ones"
)


def fetching_all(options: CrawlOptions) -> CrawlOptions:
    """Return the options of a crawl with ``since``, which fetches all its pages.

    Raises :exc:`InvalidOptions` for options that it cannot go with.
    """
    scrape = options.scrape
    is_stored = scrape.lockdown or scrape.min_age_ms is not None
    if is_stored or not scrape.accepts_copies or scrape.max_tokens is not None:
        raise InvalidOptions([Issue("custom", ("since",), SINCE_FETCHES)])
    return evolve(options, scrape=evolve(scrape, max_age_ms=0))


#: The options of a running job that its caller may change, by kind of job. Those of a
#: finished job are :data:`CHANGEABLE_AFTERWARDS`.
CHANGEABLE: Mapping[str, tuple[str, ...]] = {
    "crawl": ("limit", "delay_s", "max_concurrency", "retention_days"),
    "batch": ("delay_s", "max_concurrency", "retention_days"),
}
CHANGEABLE_AFTERWARDS = frozenset({"retention_days"})
#: The options that a retry of failed pages may replace.
REPLACEABLE = ("timeout_ms", "wait_for_ms", "proxy", "headers", "location", "mobile")


def path_depth(url: str) -> int:
    """Return the number of path segments of ``url``, without a final index file."""
    return depth_of_path(url_parts(url).path)


def depth_of_path(path: str) -> int:
    """Return the number of segments of ``path``, without a final index file."""
    segments = [part for part in path.split("/") if part]
    return len(segments) - bool(segments and segments[-1] in _INDEX_FILES)


@frozen(kw_only=True)
class ChangeRequest:
    """A change that a caller asks for."""

    #: True pauses the job, False resumes it, None does neither.
    paused: bool | None = None
    #: Some of :data:`CHANGEABLE` with their new values.
    options: Mapping[str, Any] = field(factory=dict)

    @property
    def fits_finished(self) -> bool:
        """True if a finished job takes the change."""
        return self.paused is None and self.options.keys() <= CHANGEABLE_AFTERWARDS


@frozen(kw_only=True)
class RetryRequest:
    """Which failed pages are fetched again, and how. Empty filters match every page."""

    codes: frozenset[str] = frozenset()
    #: Statuses of the site.
    statuses: frozenset[int] = frozenset()
    #: Host names in lower case, without ports.
    hosts: frozenset[str] = frozenset()
    #: URLs as the list of errors has them.
    urls: frozenset[str] = frozenset()
    #: Some of :data:`REPLACEABLE` with their values for these pages.
    scrape: Mapping[str, Any] = field(factory=dict)
