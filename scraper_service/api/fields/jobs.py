"""What the bodies that start jobs have in common: crawls and batches of both versions.

The rules are those of the interface document, parts 11.1, 11.2, 12.1 and 18.1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import attrs
from attrs import evolve, frozen

from scraper_service.api.fields import common
from scraper_service.api.fields.common import FieldsT, build, need
from scraper_service.options import jobs, urls
from scraper_service.options.job_arguments import BATCH_DEFAULTS, CRAWL_DEFAULTS
from scraper_service.options.jobs import (
    COMMON_EVENTS,
    EVENTS,
    MAX_BATCH_URLS,
    MAX_DELAY_S,
    BatchOptions,
    CrawlOptions,
    Webhook,
)
from scraper_service.options.patterns import caller_patterns
from scraper_service.options.structure import (
    INVALID,
    Array,
    Field,
    Kind,
    Object,
    Pairs,
    Place,
    Then,
    short,
)
from scraper_service.options.values import Bool, Choice, Number, Schema, Text, integer

if TYPE_CHECKING:
    from scraper_service.options.scrape import ScrapeOptions

MAX_USER_AGENT = 256  # characters
MAX_EVENTS = 100
MAX_HOOK_METADATA = 64 * 1024  # characters of JSON, which go with every event

MakeT: TypeAlias = Callable[[dict[str, Any], Place], Any]

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


@frozen
class BatchRequest:
    """A body that starts a batch, or adds to the batch ``append_to`` (a UUID).

    ``invalid_urls`` are the addresses left out, as they were sent; None when a bad
    address is refused instead.
    """

    options: BatchOptions
    append_to: str | None = None
    invalid_urls: tuple[str, ...] | None = None


def _positive(number: float) -> float:
    if number <= 0:
        raise ValueError(f"must be > 0, got {short(number)}")
    return number


def _product_token(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must not have control characters")
    return text


def _job_id(text: str) -> str:
    if not _UUID.fullmatch(text.lower()):
        raise ValueError(f"must be a UUID, got {short(text)}")
    return text.lower()


def _unique(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


@frozen
class _AddressOr:
    """An object; an address alone stands for the object with this ``url``."""

    expected: ClassVar[str] = "object"

    kind: Object

    def read(self, value: Any, at: Place) -> Any:
        if isinstance(value, str):
            url = common.URL.read(value, at)
            return INVALID if url is INVALID else self.kind.make({"url": url}, at)
        return self.kind.read(value, at)


def _echoed(metadata: dict[str, Any]) -> dict[str, Any]:
    if (size := len(json.dumps(metadata))) > MAX_HOOK_METADATA:
        raise ValueError(f"must be at most {MAX_HOOK_METADATA} bytes, got {size}")
    return metadata


def webhook_kind(prefix: str) -> Kind:
    names = {name: name for name in EVENTS}
    events = Choice({**names, **{f"{prefix}.{name}": name for name in EVENTS}})
    return _AddressOr(
        Object(
            {
                "url": need(common.URL, "url"),
                "headers": Field(Then(Pairs(Text()), urls.caller_headers), "headers"),
                "metadata": Field(Then(Schema(), _echoed), "metadata"),
                "events": Field(Then(Array(events, MAX_EVENTS), _unique), "events"),
            },
            build(Webhook, events=COMMON_EVENTS),
        )
    )


_PATTERNS = Then(Array(Text()), caller_patterns)
# Beside the options of a page: how fast, and who asks.
_PACE_FIELDS: FieldsT = {"maxConcurrency": Field(integer(1), "max_concurrency")}
_CALLER_FIELDS: FieldsT = {
    key: common.SCRAPE_FIELDS[key]
    for key in ("threatProtection", "origin", "integration", "auditMetadata")
}

# Of both versions; each adds its own ones and ``scrapeOptions``.
CRAWL_FIELDS: FieldsT = {
    **common.REQUEST_FIELDS,
    "limit": Field(integer(1), "limit"),
    "maxDiscoveryDepth": Field(integer(0), "max_discovery_depth"),
    "delay": Field(Then(Number(0, MAX_DELAY_S), _positive), "delay_s"),
    **_PACE_FIELDS,
    "crawlEntireDomain": Field(Bool(), "crawl_entire_domain"),
    "allowSubdomains": Field(Bool(), "allow_subdomains"),
    "allowExternalLinks": Field(Bool(), "allow_external_links"),
    "includePaths": Field(_PATTERNS, "include_paths"),
    "excludePaths": Field(_PATTERNS, "exclude_paths"),
    "regexOnFullURL": Field(Bool(), "regex_on_full_url"),
    "ignoreRobotsTxt": Field(Bool(), "ignore_robots_txt"),
    "robotsUserAgent": Field(
        Then(Text(MAX_USER_AGENT, minimum=1), _product_token), "robots_user_agent"
    ),
    "deduplicateSimilarURLs": Field(Bool(), "deduplicate_similar_urls"),
    "ignoreQueryParameters": Field(Bool(), "ignore_query_parameters"),
    "webhook": Field(webhook_kind("crawl"), "webhook"),
    **_CALLER_FIELDS,
}

# Beside the options of a page, which stand at the top level of a batch.
BATCH_FIELDS: FieldsT = {
    # A bad address is no fault of the body where they are left out.
    "urls": need(Array(Text(), MAX_BATCH_URLS), "urls"),
    "zeroDataRetention": common.REQUEST_FIELDS["zeroDataRetention"],
    **_PACE_FIELDS,
    "webhook": Field(webhook_kind("batch_scrape"), "webhook"),
    "appendToId": Field(Then(Text(), _job_id), "append_to"),
    "ignoreInvalidURLs": Field(Bool(), "ignore_invalid_urls"),
}

NAMED_FIELDS: FieldsT = {**BATCH_FIELDS, **CRAWL_FIELDS}


def crawl_options(
    values: dict[str, Any], at: Place, scrape_kind: Kind, defaults: Mapping[str, Any]
) -> Any:
    """Return ``CrawlOptions`` of complete ``values``, or report what breaks a rule."""
    scrape = values.pop("scrape", None) or scrape_kind.read({}, at / "scrapeOptions")
    if scrape is INVALID:
        return INVALID
    if (rules := values.pop("site_rules", None)) is not None:
        if scrape.site_rules is not None:
            text = "threatProtection must stand here or in scrapeOptions, not in both"
            return (at / "threatProtection").report("custom", text)
        scrape = evolve(scrape, site_rules=rules)
    if values.pop("zero_data_retention", False):
        scrape = evolve(scrape, zero_data_retention=True)
    complete = {**CRAWL_DEFAULTS, **defaults, **values}
    url, deepest = complete["url"], complete["max_path_depth"]
    if deepest is not None and (depth := jobs.path_depth(url)) > deepest:
        text = f"the path depth of url, {depth}, must not exceed maxDepth, {deepest}"
        return (at / "url").report("custom", text)
    return CrawlOptions(scrape=scrape, **complete)


def batch_request(
    values: dict[str, Any], at: Place, scrape: ScrapeOptions, *, ignores_invalid: bool
) -> Any:
    """Return a ``BatchRequest`` of ``values``, or report the addresses that are bad.

    ``ignores_invalid`` is the version's default of ``ignoreInvalidURLs``.
    """
    lenient = values.get("ignore_invalid_urls", ignores_invalid)
    spot = at / "urls"
    if not (given := values["urls"]):
        text = "No valid URLs provided: urls must have at least 1 item"
        return spot.report("too_small", text, minimum=1)
    good, bad = _sorted_out(given)
    if bad and not lenient:
        for index, fault in bad.items():
            (spot / index).report("custom", fault)
        return INVALID
    if not good:
        first = next(iter(bad.values()))
        text = f"No valid URLs provided: {len(bad)} given, the first one: {first}"
        return spot.report("custom", text)
    names = {a.name for a in attrs.fields(BatchOptions)} - {"scrape", "urls"}
    own = {name: values[name] for name in names & values.keys()}
    options = BatchOptions(urls=good, scrape=scrape, **{**BATCH_DEFAULTS, **own})
    left_out = tuple(given[index] for index in bad) if lenient else None
    return BatchRequest(options, values.get("append_to"), left_out)


def _sorted_out(given: tuple[str, ...]) -> tuple[tuple[str, ...], dict[int, str]]:
    """Return the good addresses, and what is wrong with each other one by its index."""
    good = []
    bad = {}
    for index, text in enumerate(given):
        try:
            good.append(urls.caller_url(text))
        except ValueError as error:
            bad[index] = str(error)
    return tuple(good), bad


def crawl_kind(
    own: FieldsT, scrape_kind: Kind, defaults: Mapping[str, Any] | None = None
) -> Object:
    """Make the kind of a body that starts a crawl, with a version's ``own`` fields."""

    def make(values: dict[str, Any], at: Place) -> Any:
        return crawl_options(values, at, scrape_kind, defaults or {})

    scrape_options = {"scrapeOptions": Field(scrape_kind, "scrape")}
    return Object({**CRAWL_FIELDS, **own, **scrape_options}, make, common.EXPERIMENTAL)


def batch_kind(
    scrape_fields: FieldsT, read_scrape: MakeT, *, ignores_invalid: bool
) -> Object:
    """Make the kind of a body that starts a batch, with a version's scrape options."""

    def make(values: dict[str, Any], at: Place) -> Any:
        if (scrape := read_scrape(values, at)) is INVALID:
            return INVALID
        return batch_request(values, at, scrape, ignores_invalid=ignores_invalid)

    return Object({**scrape_fields, **BATCH_FIELDS}, make, common.EXPERIMENTAL)
