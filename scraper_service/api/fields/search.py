"""What the bodies that ask for a search have in common (interface document, 14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.api.fields import common as fields
from scraper_service.api.fields.common import need
from scraper_service.options.scrape import OVERALL_TIMEOUT_MS
from scraper_service.options.search import (
    DEFAULT_AGE_MS,
    MAX_QUERY,
    MAX_RESULTS,
    SearchOptions,
    Source,
    TimeFilter,
    time_filter,
)
from scraper_service.options.structure import Field, Place, Then
from scraper_service.options.values import Bool, Text, integer

if TYPE_CHECKING:
    from scraper_service.api.fields.common import FieldsT
    from scraper_service.api.fields.jobs import MakeT

_OF_A_SOURCE = ("when", "filter", "language", "country", "location")


def _language(text: str) -> str:
    """Return the code of a language; of ``en-US`` the first part."""
    code = text.strip().replace("_", "-").partition("-")[0].lower()
    if not (2 <= len(code) <= 3 and code.isascii() and code.isalpha()):
        raise ValueError(f"not a language code: {text[:20]!r}")
    return code


def _country(text: str) -> str:
    code = text.strip().lower()
    if not (len(code) == 2 and code.isascii() and code.isalpha()):
        raise ValueError(f"country must be a code of two letters, got {text[:20]!r}")
    return code


def _time(text: str) -> TimeFilter | None:
    return time_filter(text) if text.strip() else None


def _capped_ms(timeout_ms: int) -> int:
    return min(timeout_ms, OVERALL_TIMEOUT_MS)


def _query(text: str) -> str:
    if not text.strip():
        raise ValueError("query must not be empty")
    return text.strip()


# How a source is asked; in v1, and at the top level of v2, for all of them.
SOURCE_FIELDS: FieldsT = {
    "tbs": Field(Then(Text(200), _time), "when"),
    "filter": Field(Text(200), "filter"),
    "lang": Field(Then(Text(), _language), "language"),
    "country": Field(Then(Text(), _country), "country"),
    "location": Field(Text(500), "location"),
}
SEARCH_FIELDS: FieldsT = {
    **SOURCE_FIELDS,
    "query": need(Then(Text(MAX_QUERY), _query), "query"),
    "limit": Field(integer(1, MAX_RESULTS), "limit"),
    "timeout": Field(Then(integer(1), _capped_ms), "timeout_ms"),
    "ignoreInvalidURLs": Field(Bool(), "ignore_invalid_urls"),
    **{
        key: fields.SCRAPE_FIELDS[key]
        for key in ("origin", "integration", "auditMetadata", "__searchPreviewToken")
    },
}


def source_of(values: dict[str, Any], common: dict[str, Any]) -> Source:
    """Return a source that is asked as ``values`` say, else as all of them are.

    Without a country it is the default one, unless a place is given in words.
    """
    facts = {**common, **values}
    if facts.get("location") and "country" not in facts:
        facts["country"] = None
    return Source(**facts)


def common_of(values: dict[str, Any]) -> dict[str, Any]:
    """Take out of the values of a body those that are about all sources."""
    return {name: values.pop(name) for name in _OF_A_SOURCE if name in values}


def search_options(values: dict[str, Any], at: Place) -> Any:
    """Return ``SearchOptions`` of complete ``values``, or report what breaks a rule."""
    options = SearchOptions(**values)
    if options.include_domains and options.exclude_domains:
        text = "includeDomains and excludeDomains are not allowed together"
        return (at / "excludeDomains").report("custom", text)
    kinds = [source.kind for source in options.sources]
    if len(set(kinds)) < len(kinds):
        text = "sources must have each kind once"
        return (at / "sources").report("custom", text)
    if options.scrape is not None and options.scrape.site_rules is None:
        scrape = evolve(options.scrape, site_rules=options.site_rules)
        return evolve(options, scrape=scrape)
    return options


def pages_of_results(scrape_options: MakeT, **defaults: Any) -> MakeT:
    """Make a ``make`` for the options of the pages; stored ones may be days old."""

    def make(values: dict[str, Any], at: Place) -> Any:
        aged = {"max_age_ms": DEFAULT_AGE_MS, **defaults, **values}
        return scrape_options(aged, at)

    return make
