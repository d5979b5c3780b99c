"""Request bodies that start crawls and batches, in both versions.

The keys are those of the catalogue, with the keys of each version beside them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import attrs
from attrs import evolve, frozen

from scraper_service.options import catalogue, urls
from scraper_service.options.crawl import BatchOptions, CrawlOptions, path_depth
from scraper_service.options.parsing import (
    INVALID,
    Bool,
    Key,
    Object,
    Position,
    Text,
    Then,
    ValueKind,
    short,
)
from scraper_service.options.wire import pages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.options.parsing import KeysT, MakeT
    from scraper_service.options.scrape import ScrapeOptions

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


@frozen
class BatchRequest:
    """A request that starts a batch or adds to a batch."""

    options: BatchOptions
    #: The UUID of the batch to add to.
    append_to: str | None = None
    #: The URLs left out, as the caller wrote them. None: invalid URLs are refused.
    invalid_urls: tuple[str, ...] | None = None


def _job_id(text: str) -> str:
    if not _UUID.fullmatch(text.lower()):
        raise ValueError(f"must be a UUID, got {short(text)}")
    return text.lower()


def crawl_keys(version: Literal["v1", "v2"]) -> KeysT:
    """Return the keys of a body that starts a crawl, without ``scrapeOptions``."""
    rules = catalogue.select(catalogue.SCRAPE, "site_rules")
    return {
        **pages.REQUEST_KEYS,
        **catalogue.keys(catalogue.CRAWL, version),
        **catalogue.keys(rules, version),
        **pages.CALLER_KEYS,
    }


def batch_keys(version: Literal["v1", "v2"]) -> KeysT:
    """Return the keys of a body that starts a batch, without those of its pages."""
    return {
        **catalogue.keys(catalogue.BATCH, version),
        "zeroDataRetention": pages.REQUEST_KEYS["zeroDataRetention"],
        "appendToId": Key(
            Then(Text(), _job_id, {"format": "uuid"}),
            "append_to",
            help="Add the pages to this batch.",
        ),
        "ignoreInvalidURLs": Key(
            Bool(),
            "ignore_invalid_urls",
            help="Leave out URLs that are not valid.",
            default=version == "v2",
        ),
    }


BATCH_DEFAULTS = catalogue.defaults(catalogue.BATCH, "v2")


def crawl_options(
    values: dict[str, Any],
    at: Position,
    scrape_kind: ValueKind,
    defaults: Mapping[str, Any],
) -> Any:
    """Return ``CrawlOptions`` from complete ``values``, or report a broken rule."""
    scrape = values.pop("scrape", None) or scrape_kind.read({}, at / "scrapeOptions")
    if scrape is INVALID or (scrape := pages.protect(scrape, values, at)) is INVALID:
        return INVALID
    if values.pop("zero_data_retention", False):
        scrape = evolve(scrape, zero_data_retention=True)
    complete = {**defaults, **values}
    url, deepest = complete["url"], complete["max_path_depth"]
    if deepest is not None and (depth := path_depth(url)) > deepest:
        text = f"the path depth of url, {depth}, must not exceed maxDepth, {deepest}"
        return (at / "url").report("custom", text)
    return CrawlOptions(scrape=scrape, **complete)


def batch_request(
    values: dict[str, Any],
    at: Position,
    scrape: ScrapeOptions,
    *,
    ignores_invalid: bool,
) -> Any:
    """Return a ``BatchRequest`` from ``values``, or report the invalid URLs.

    ``ignores_invalid`` is the version's default of ``ignoreInvalidURLs``.
    """
    lenient = values.get("ignore_invalid_urls", ignores_invalid)
    urls_at, given = at / "urls", values["urls"]
    good, bad = _split_urls(given)
    if bad and not lenient:
        for index, message in bad.items():
            (urls_at / index).report("custom", message)
        return INVALID
    if not good:
        first = next(iter(bad.values()))
        text = f"No valid URLs provided: {len(bad)} given, the first one: {first}"
        return urls_at.report("custom", text)
    if values.get("append_to") and values.get("keep_sources") is not None:
        text = "must be left out with appendToId: the batch decides for all its pages"
        return (at / "keepSources").report("custom", text)
    names = {a.name for a in attrs.fields(BatchOptions)} - {"scrape", "urls"}
    own = {name: values[name] for name in names & values.keys()}
    options = BatchOptions(urls=good, scrape=scrape, **{**BATCH_DEFAULTS, **own})
    left_out = tuple(given[index] for index in bad) if lenient else None
    return BatchRequest(options, values.get("append_to"), left_out)


def _split_urls(given: tuple[str, ...]) -> tuple[tuple[str, ...], dict[int, str]]:
    """Return the valid URLs, and the error of each invalid URL by its index."""
    good = []
    bad = {}
    for index, text in enumerate(given):
        try:
            good.append(urls.caller_url(text))
        except ValueError as error:
            bad[index] = str(error)
    return tuple(good), bad


def crawl_kind(
    version: Literal["v1", "v2"], aliases: KeysT, scrape_kind: ValueKind
) -> Object:
    """Return the kind of a body that starts a crawl.

    ``aliases`` are further keys of the version.
    """
    defaults = catalogue.defaults(catalogue.CRAWL, version)

    def make(values: dict[str, Any], at: Position) -> Any:
        return crawl_options(values, at, scrape_kind, defaults)

    keys = {
        **crawl_keys(version),
        **aliases,
        "scrapeOptions": Key(scrape_kind, "scrape", help="How each page is scraped."),
    }
    return Object(keys, make, pages.EXPERIMENTAL)


def batch_kind(
    version: Literal["v1", "v2"],
    scrape_keys: KeysT,
    read_scrape: MakeT,
    *,
    ignores_invalid: bool,
) -> Object:
    """Return the kind of a body that starts a batch, with the keys of its pages."""

    def make(values: dict[str, Any], at: Position) -> Any:
        if (scrape := read_scrape(values, at)) is INVALID:
            return INVALID
        return batch_request(values, at, scrape, ignores_invalid=ignores_invalid)

    return Object({**scrape_keys, **batch_keys(version)}, make, pages.EXPERIMENTAL)
