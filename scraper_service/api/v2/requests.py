"""Bodies of v2 to options: the interface document, parts 3.1, 5, 11.1 and 12.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from scraper_service.api.fields import common as fields
from scraper_service.api.fields import jobs, maps, operations, search
from scraper_service.api.fields.actions import action_kinds
from scraper_service.api.fields.common import FieldsT, build, need
from scraper_service.api.v2.format_fields import FORMATS, PARSERS, PROMPT
from scraper_service.options import formats
from scraper_service.options.jobs import SITEMAP_MODES, CrawlOptions
from scraper_service.options.scrape import OVERALL_TIMEOUT_MS, PdfParser, session_name
from scraper_service.options.search import CATEGORIES, MAX_DOMAINS, SOURCES
from scraper_service.options.structure import (
    INVALID,
    Array,
    Field,
    Object,
    Place,
    Tagged,
    Then,
    structure,
)
from scraper_service.options.urls import MAX_URL, caller_domain, caller_formats
from scraper_service.options.values import Anything, Bool, Text, choice, integer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.api.fields.jobs import BatchRequest
    from scraper_service.api.fields.operations import ExtractRequest
    from scraper_service.options.jobs import MapOptions, PageOptions
    from scraper_service.options.search import SearchOptions

WHERE = "body (v2)"
MAX_EXPLAINED = 1000  # addresses

DEFAULTS: Mapping[str, Any] = {
    "actions": (),
    "block_ads": True,
    "check_prompt_injection": False,
    "exclude_tags": (),
    "fast_mode": False,
    "formats": (formats.Markdown(),),
    "headers": (),
    "include_tags": (),
    "location": None,
    "lockdown": False,
    "max_age_ms": 172_800_000,  # 2 days
    "min_age_ms": None,
    "mobile": False,
    "only_clean_content": False,
    "only_main_content": True,
    "parsers": (PdfParser(),),
    "profile": None,
    "proxy": "auto",
    "session": None,
    "remove_base64_images": True,
    "site_rules": None,
    "skip_tls_verification": True,
    "store_in_cache": True,
    "timeout_ms": None,
    "wait_for_ms": 0,
    "zero_data_retention": False,
}

SCRAPE_FIELDS: FieldsT = {
    **fields.SCRAPE_FIELDS,
    "formats": Field(Then(Array(FORMATS, 100), caller_formats), "formats"),
    "onlyCleanContent": Field(Bool(), "only_clean_content"),
    "timeout": Field(integer(1, OVERALL_TIMEOUT_MS), "timeout_ms"),
    "parsers": Field(Array(PARSERS, 10), "parsers"),
    "actions": Field(action_kinds(fields.SCREENSHOT_FIELDS), "actions"),
    "minAge": Field(integer(0), "min_age_ms"),
    "session": Field(Then(Text(), session_name), "session"),
}
PAGE_FIELDS: FieldsT = {**fields.REQUEST_FIELDS, **SCRAPE_FIELDS}

# Beside those of both versions.
CRAWL_FIELDS: FieldsT = {
    "sitemap": Field(choice(*SITEMAP_MODES), "sitemap"),
    "prompt": Field(PROMPT, "prompt"),
    "dedupeBoilerplate": Field(Bool(), "dedupe_boilerplate"),
}
BATCH_FIELDS: FieldsT = {
    **SCRAPE_FIELDS,
    "dedupeBoilerplate": CRAWL_FIELDS["dedupeBoilerplate"],
}

_WIRE_NAMES = fields.wire_names({**jobs.NAMED_FIELDS, **CRAWL_FIELDS, **PAGE_FIELDS})


def wire_name(attribute: str) -> str:
    """Return the JSON spelling of an attribute of the options, or of a format."""
    return _WIRE_NAMES.get(attribute) or fields.camel_case(attribute)


def scrape_options(values: dict[str, Any], at: Place) -> Any:
    """Return ``ScrapeOptions`` of the ``values`` read, or report and return INVALID."""
    return fields.scrape_options({**DEFAULTS, **values}, at, wire_name)


def _page(values: dict[str, Any], at: Place) -> Any:
    scrape = scrape_options(values, at)
    return scrape if scrape is INVALID else fields.page_options(values, scrape)


def _map(values: dict[str, Any], at: Place) -> Any:
    return maps.map_options(values, at, scrape_options)


SCRAPE_OPTIONS = Object(SCRAPE_FIELDS, scrape_options, fields.EXPERIMENTAL)
PAGE = Object(PAGE_FIELDS, _page, fields.EXPERIMENTAL)
CRAWL = jobs.crawl_kind(CRAWL_FIELDS, SCRAPE_OPTIONS)
BATCH = jobs.batch_kind(BATCH_FIELDS, scrape_options, ignores_invalid=True)
MAP = Object(
    {**maps.MAP_FIELDS, "sitemap": CRAWL_FIELDS["sitemap"]},
    _map,
    fields.EXPERIMENTAL,
)


EXTRACT = operations.extract_kind(
    {"webhook": Field(jobs.webhook_kind("extract"), "webhook")},
    SCRAPE_OPTIONS,
    {},
    ignores_invalid=True,
)


def _source(kind: str) -> Object:
    return Object(search.SOURCE_FIELDS, build(dict, kind=kind))


def _category(name: str) -> Object:
    return Object({}, lambda values, at: name)


def _unique(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _ignored(value: object) -> None:
    """Stand for a source that is accepted, and is none here."""


def _search(values: dict[str, Any], at: Place) -> Any:
    common = search.common_of(values)
    asked = [each for each in values.pop("sources", ()) if each is not None]
    sources = [search.source_of(each, common) for each in asked or [{}]]
    values["sources"] = tuple(dict.fromkeys(sources))
    return search.search_options(values, at)


_DOMAINS = Array(Then(Text(), caller_domain), MAX_DOMAINS)
SEARCH = Object(
    {
        **search.SEARCH_FIELDS,
        "sources": Field(
            Array(
                Tagged(
                    {
                        **{kind: _source(kind) for kind in SOURCES},
                        "alexandria": Then(Anything(), _ignored),
                    }
                ),
                10,
            ),
            "sources",
        ),
        "categories": Field(
            Then(
                Array(Tagged({name: _category(name) for name in CATEGORIES}), 10),
                _unique,
            ),
            "categories",
        ),
        "includeDomains": Field(_DOMAINS, "include_domains"),
        "excludeDomains": Field(_DOMAINS, "exclude_domains"),
        "scrapeOptions": Field(
            Object(
                SCRAPE_FIELDS,
                search.pages_of_results(scrape_options),
                fields.EXPERIMENTAL,
            ),
            "scrape",
        ),
        "threatProtection": SCRAPE_FIELDS["threatProtection"],
        "asyncScraping": Field(Bool(), "in_background"),
        **{
            key: Field(Anything())
            for key in ("highlights", "safe", "enterprise", "domainTools", "toolDetail")
        },
    },
    _search,
    fields.EXPERIMENTAL,
)


@frozen
class ExplainRequest:
    """A body that asks which of ``urls``, ``depth`` links away, a crawl would fetch."""

    options: CrawlOptions
    urls: tuple[str, ...]
    depth: int


def _explain(values: dict[str, Any], at: Place) -> Any:
    urls, depth = values.pop("urls"), values.pop("depth", 0)
    if not urls:
        text = "urls must have at least 1 item"
        return (at / "urls").report("too_small", text, minimum=1)
    options = CRAWL.make(values, at)
    return options if options is INVALID else ExplainRequest(options, urls, depth)


# Keys of a body that asks for an explanation, beside those of a crawl.
EXPLAIN_ONLY: FieldsT = {
    "urls": need(Array(Text(MAX_URL), MAX_EXPLAINED), "urls"),
    "depth": Field(integer(0), "depth"),
}
EXPLAIN = Object(
    {**CRAWL.fields, **EXPLAIN_ONLY},
    _explain,
    fields.EXPERIMENTAL,
)


def _parsed(values: dict[str, Any], at: Place) -> Any:
    scrape = scrape_options(values, at)
    if scrape is INVALID:
        return scrape
    # A file of a caller is never stored (interface document, 20.1).
    scrape = evolve(scrape, max_age_ms=0, min_age_ms=None, store_in_cache=False)
    return fields.page_options({"url": "upload", **values}, scrape)


PARSE = Object(
    {name: kind for name, kind in PAGE_FIELDS.items() if name != "url"},
    _parsed,
    fields.EXPERIMENTAL,
)


def parse_options(options: object) -> PageOptions:
    """Return the options of the field ``options`` of ``POST /v2/parse``.

    Their ``url`` is to be the name of the file.

    :raises InvalidOptions: with every fault found.
    """
    found: PageOptions = structure(PARSE, options, WHERE)
    return found


def page_options(body: object) -> PageOptions:
    """Return the options of a body of ``POST /v2/scrape``.

    :raises InvalidOptions: with every fault found.
    """
    options: PageOptions = structure(PAGE, body, WHERE)
    return options


def map_options(body: object) -> MapOptions:
    """Return the options of a body of ``POST /v2/map``.

    :raises InvalidOptions: with every fault found.
    """
    options: MapOptions = structure(MAP, body, WHERE)
    return options


def search_options(body: object) -> SearchOptions:
    """Return the options of a body of ``POST /v2/search``.

    :raises InvalidOptions: with every fault found.
    """
    options: SearchOptions = structure(SEARCH, body, WHERE)
    return options


def crawl_options(body: object) -> CrawlOptions:
    """Return the options of a body of ``POST /v2/crawl``.

    :raises InvalidOptions: with every fault found.
    """
    options: CrawlOptions = structure(CRAWL, body, WHERE)
    return options


def derived_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by their names inside the service as a body of a crawl has them."""
    return {wire_name(name): value for name, value in values.items()}


def explain_request(body: object) -> ExplainRequest:
    """Return what a body of ``POST /v2/crawl/explain`` asks for.

    :raises InvalidOptions: with every fault found.
    """
    request: ExplainRequest = structure(EXPLAIN, body, WHERE)
    return request


def batch_options(body: object) -> BatchRequest:
    """Return what a body of ``POST /v2/batch/scrape`` asks for.

    :raises InvalidOptions: with every fault found.
    """
    request: BatchRequest = structure(BATCH, body, WHERE)
    return request


def extract_request(body: object) -> ExtractRequest:
    """Return what a body of ``POST /v2/extract`` asks for.

    :raises InvalidOptions: with every fault found.
    """
    request: ExtractRequest = structure(EXTRACT, body, WHERE)
    return request
