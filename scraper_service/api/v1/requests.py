"""Bodies of v1 to options: the interface document, parts 3.2, 3.3, 5, 11.2, 12.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.api.fields import common, jobs, maps, operations, search
from scraper_service.api.fields.actions import action_kinds
from scraper_service.api.page_json import camel
from scraper_service.options import formats
from scraper_service.options.scrape import OVERALL_TIMEOUT_MS, Parser, PdfParser
from scraper_service.options.search import Source
from scraper_service.options.structure import (
    INVALID,
    Array,
    Field,
    Object,
    Place,
    Then,
    structure,
)
from scraper_service.options.values import (
    Bool,
    Choice,
    Number,
    Refused,
    Schema,
    Text,
    choice,
    integer,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.api.fields.common import FieldsT
    from scraper_service.api.fields.jobs import BatchRequest
    from scraper_service.api.fields.operations import ExtractRequest
    from scraper_service.options.jobs import CrawlOptions, MapOptions, PageOptions
    from scraper_service.options.operations import LlmsTextOptions, ResearchOptions
    from scraper_service.options.search import SearchOptions

WHERE = "body (v1)"

MAX_DEPTH = 10  # of the path of a page, when the caller sets none
EXTRACT_TIMEOUT_MS = 60_000
CACHE_MS = 14_400_000  # 4 h, what __experimental_cache stands for

DEFAULTS: Mapping[str, Any] = {
    "actions": (),
    "block_ads": True,
    "check_prompt_injection": False,
    "exclude_tags": (),
    "fast_mode": False,
    "headers": (),
    "include_tags": (),
    "location": None,
    "lockdown": False,
    "max_age_ms": 0,
    "min_age_ms": None,
    "mobile": False,
    "only_clean_content": False,
    "only_main_content": True,
    "parsers": (PdfParser(),),
    "profile": None,
    "proxy": "basic",
    "session": None,
    "remove_base64_images": True,
    "site_rules": None,
    "skip_tls_verification": False,
    "store_in_cache": True,
    "timeout_ms": 30_000,
    "wait_for_ms": 0,
    "zero_data_retention": False,
}

FORMATS = Choice(
    {
        **common.PLAIN_FORMATS,
        "content": formats.Markdown(),
        "screenshot": formats.Screenshot(),
        "screenshot@fullPage": formats.Screenshot(full_page=True),
        "json": formats.Json(),
        "extract": formats.Json(key="extract"),
        "changeTracking": formats.ChangeTracking(),
    }
)

# Formats to add when no list is given.
INCLUDE_FLAGS: Mapping[str, formats.Format] = {
    "includeMarkdown": formats.Markdown(),
    "includeHtml": formats.Html(),
    "includeRawHtml": formats.RawHtml(),
    "includeLinks": formats.Links(),
    "includeScreenshot": formats.Screenshot(),
}

_PROMPT = Text(common.MAX_PROMPT)


# Result of a format, the key that holds its options, and whether that is required.
COMPANIONS = (
    ("json", "jsonOptions", True),
    ("extract", "extract", True),
    ("change_tracking", "changeTrackingOptions", False),
)

_EXTRACTION = Object(
    {
        "mode": Field(choice("llm")),
        "schema": Field(Schema(), "schema"),
        "systemPrompt": Field(_PROMPT, "system_prompt"),
        "prompt": Field(_PROMPT, "prompt"),
        "temperature": Field(Number(0, 2)),
        "agent": Field(
            Object({"model": Field(Text(256)), "prompt": Field(_PROMPT)}),
        ),
        "checkPromptInjection": Field(Bool(), "check_prompt_injection"),
    }
)
_CHANGE_TRACKING = Object(
    {
        "prompt": Field(_PROMPT, "prompt"),
        "schema": Field(Schema(), "schema"),
        "modes": Field(Array(choice("json", "git-diff"), 10), "modes"),
        "tag": Field(Text(256), "tag"),
    }
)


def _capped_ms(timeout_ms: int) -> int:
    return min(timeout_ms, OVERALL_TIMEOUT_MS)


def _parsers(wanted: bool) -> tuple[Parser, ...]:
    return (PdfParser(),) if wanted else ()


def _cache_ms(wanted: bool) -> int:
    return CACHE_MS if wanted else 0


def _sitemap(ignored: bool) -> str:
    return "skip" if ignored else "include"


def _map(values: dict[str, Any], at: Place) -> Any:
    if values.pop("sitemap_only", False):
        values["sitemap"] = "only"
    return maps.map_options(values, at, scrape_options)


SCRAPE_FIELDS: FieldsT = {
    **common.SCRAPE_FIELDS,
    "formats": Field(Array(FORMATS, 100), "formats"),
    "timeout": Field(Then(integer(1), _capped_ms), "timeout_ms"),
    "actions": Field(
        # The Python client's model of the action has a quality, too.
        action_kinds(
            {key: common.SCREENSHOT_FIELDS[key] for key in ("fullPage", "quality")}
        ),
        "actions",
    ),
    "jsonOptions": Field(_EXTRACTION, "jsonOptions"),
    "extract": Field(_EXTRACTION, "extract"),
    "changeTrackingOptions": Field(_CHANGE_TRACKING, "changeTrackingOptions"),
    "parsePDF": Field(Then(Bool(), _parsers), "parsers"),
    "geolocation": Field(common.LOCATION, "location", alias=True),
    "agent": Field(Refused("there is no agent", objects=True)),
    "__experimental_cache": Field(Then(Bool(), _cache_ms), "max_age_ms", alias=True),
    **{key: Field(Bool(), key) for key in INCLUDE_FLAGS},
}
PAGE_FIELDS: FieldsT = {**common.REQUEST_FIELDS, **SCRAPE_FIELDS}

# Beside those of both versions; the aliases give way to crawlEntireDomain.
CRAWL_FIELDS: FieldsT = {
    "maxDepth": Field(integer(0), "max_path_depth"),
    "ignoreSitemap": Field(Then(Bool(), _sitemap), "sitemap"),
    "allowBackwardLinks": Field(Bool(), "crawl_entire_domain", alias=True),
    "allowBackwardCrawling": Field(Bool(), "crawl_entire_domain", alias=True),
}

# Crawl keys of this version that a map takes and does not read, beside its own.
MAP_FIELDS: FieldsT = {
    **maps.unread(CRAWL_FIELDS, "maxDepth", "allowBackwardLinks"),
    **maps.unread(CRAWL_FIELDS, "allowBackwardCrawling"),
    "ignoreSitemap": Field(Then(Bool(), _sitemap), "sitemap"),
    "sitemapOnly": Field(Bool(), "sitemap_only"),
}

_WIRE_NAMES = common.wire_names({**jobs.NAMED_FIELDS, **CRAWL_FIELDS, **PAGE_FIELDS})


def wire_name(attribute: str) -> str:
    """Return the JSON spelling of an attribute of the options, or of a format."""
    return _WIRE_NAMES.get(attribute) or common.camel_case(attribute)


def scrape_options(values: dict[str, Any], at: Place) -> Any:
    """Return ``ScrapeOptions`` of the ``values`` read, or report and return INVALID."""
    chosen = _formats(values, at)
    if chosen is INVALID:
        return INVALID
    complete = {**DEFAULTS, **values, "formats": chosen}
    return common.scrape_options(complete, at, wire_name)


def _formats(values: Mapping[str, Any], at: Place) -> Any:
    """Return the formats with the options that stand beside them in v1."""
    given = values.get("formats")
    chosen = _included(values) if given is None else given
    results = {_result(item) for item in chosen}
    valid = True
    for result, key, required in COMPANIONS:
        asked, given = result in results, key in values
        if (required and asked != given) or (given and not asked):
            text = f"the format {camel(result)} and {key} are allowed only together"
            if not required:
                text = f"{key} is allowed only with the format {camel(result)}"
            (at / key).report("custom", text)
            valid = False
    if not valid:
        return INVALID
    options = {result: values.get(key, {}) for result, key, _ in COMPANIONS}
    return tuple(evolve(f, **options.get(_result(f), {})) for f in chosen)


def _included(values: Mapping[str, Any]) -> tuple[formats.Format, ...]:
    flags = {"includeMarkdown": True, **values}
    return tuple(f for key, f in INCLUDE_FLAGS.items() if flags.get(key))


def _result(item: formats.Format) -> str:
    return item.key if isinstance(item, formats.Json) else item.type


def _page(values: dict[str, Any], at: Place) -> Any:
    scrape = scrape_options(values, at)
    return scrape if scrape is INVALID else common.page_options(values, scrape)


def _search(values: dict[str, Any], at: Place) -> Any:
    source = Source(**search.common_of(values))
    return search.search_options({**values, "sources": (source,)}, at)


SCRAPE_OPTIONS = Object(SCRAPE_FIELDS, scrape_options, common.EXPERIMENTAL)
PAGE = Object(PAGE_FIELDS, _page, common.EXPERIMENTAL)
CRAWL = jobs.crawl_kind(CRAWL_FIELDS, SCRAPE_OPTIONS, {"max_path_depth": MAX_DEPTH})
BATCH = jobs.batch_kind(SCRAPE_FIELDS, scrape_options, ignores_invalid=False)
MAP = Object({**maps.MAP_FIELDS, **MAP_FIELDS}, _map, common.EXPERIMENTAL)
EXTRACT = operations.extract_kind(
    {}, SCRAPE_OPTIONS, {"timeout_ms": EXTRACT_TIMEOUT_MS}, ignores_invalid=False
)
LLMS_TEXT = operations.llms_text_kind(SCRAPE_OPTIONS)
RESEARCH = operations.research_kind(_EXTRACTION, SCRAPE_OPTIONS)

SEARCH = Object(
    {
        **search.SEARCH_FIELDS,
        "scrapeOptions": Field(
            Object(
                SCRAPE_FIELDS,
                # Without formats the list is all that is asked for.
                search.pages_of_results(scrape_options, formats=()),
                common.EXPERIMENTAL,
            ),
            "scrape",
        ),
    },
    _search,
    common.EXPERIMENTAL,
)


def page_options(body: object) -> PageOptions:
    """Return the options of a body of ``POST /v1/scrape``.

    :raises InvalidOptions: with every fault found.
    """
    options: PageOptions = structure(PAGE, body, WHERE)
    return options


def map_options(body: object) -> MapOptions:
    """Return the options of a body of ``POST /v1/map``.

    :raises InvalidOptions: with every fault found.
    """
    options: MapOptions = structure(MAP, body, WHERE)
    return options


def search_options(body: object) -> SearchOptions:
    """Return the options of a body of ``POST /v1/search``.

    :raises InvalidOptions: with every fault found.
    """
    options: SearchOptions = structure(SEARCH, body, WHERE)
    return options


def crawl_options(body: object) -> CrawlOptions:
    """Return the options of a body of ``POST /v1/crawl``.

    :raises InvalidOptions: with every fault found.
    """
    options: CrawlOptions = structure(CRAWL, body, WHERE)
    return options


def batch_options(body: object) -> BatchRequest:
    """Return what a body of ``POST /v1/batch/scrape`` asks for.

    :raises InvalidOptions: with every fault found.
    """
    request: BatchRequest = structure(BATCH, body, WHERE)
    return request


def extract_request(body: object) -> ExtractRequest:
    """Return what a body of ``POST /v1/extract`` asks for.

    :raises InvalidOptions: with every fault found.
    """
    request: ExtractRequest = structure(EXTRACT, body, WHERE)
    return request


def llms_text_options(body: object) -> LlmsTextOptions:
    """Return the options of a body of ``POST /v1/llmstxt``.

    :raises InvalidOptions: with every fault found.
    """
    options: LlmsTextOptions = structure(LLMS_TEXT, body, WHERE)
    return options


def research_options(body: object) -> ResearchOptions:
    """Return the options of a body of ``POST /v1/deep-research``.

    :raises InvalidOptions: with every fault found.
    """
    options: ResearchOptions = structure(RESEARCH, body, WHERE)
    return options
