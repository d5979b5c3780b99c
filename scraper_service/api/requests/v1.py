"""Request bodies of /v1 to options: the keys of the catalogue, and those of v1 alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.api.schemas import camel
from scraper_service.options import catalogue, formats, job_requests, page_requests
from scraper_service.options.formats import CHANGE_TRACKING, JSON
from scraper_service.options.job_requests import BatchRequest, ExtractRequest
from scraper_service.options.jobs import (
    MAX_QUESTION,
    CrawlOptions,
    LlmsTextOptions,
    PageOptions,
    ResearchOptions,
)
from scraper_service.options.map_search import MapOptions, ResultList, SearchOptions
from scraper_service.options.parsing import (
    INVALID,
    NO_DEFAULT,
    PROMPT,
    BodyReader,
    Bool,
    Key,
    KeysT,
    Number,
    Object,
    Position,
    Refused,
    Text,
    Then,
    choice,
)
from scraper_service.options.values import LOCATION, NO_EFFECT, query_text

if TYPE_CHECKING:
    from collections.abc import Mapping


WHERE = "body (v1)"

CACHE_MS = 14_400_000  # 4 h, the age that __experimental_cache accepts
LLMS_CACHE_MS = 172_800_000  # 2 days, as a scrape of v2

DEFAULTS: Mapping[str, Any] = catalogue.defaults(catalogue.SCRAPE, "v1")

# Switches that add a format to a request without the list ``formats``.
INCLUDE_FLAGS: Mapping[str, formats.Format] = {
    "includeMarkdown": formats.Markdown(),
    "includeHtml": formats.Html(),
    "includeRawHtml": formats.RawHtml(),
    "includeLinks": formats.Links(),
    "includeScreenshot": formats.Screenshot(),
}

# Result of a format, the key of its options, and whether that key is required.
COMPANIONS = (
    ("json", "jsonOptions", True),
    ("extract", "extract", True),
    ("change_tracking", "changeTrackingOptions", False),
)

_EXTRACTION = Object(
    {
        "mode": Key(choice("llm"), help=NO_EFFECT),
        "schema": JSON["schema"],
        **catalogue.respell(
            catalogue.EXTRACT, "system_prompt", "v1", default=NO_DEFAULT
        ),
        "prompt": JSON["prompt"],
        "selectors": JSON["selectors"],
        "temperature": Key(Number(0, 2), help=NO_EFFECT),
        "agent": Key(
            Object(
                {
                    "model": Key(Text(256), help=NO_EFFECT),
                    "prompt": Key(PROMPT, help=NO_EFFECT),
                }
            ),
            help=NO_EFFECT,
        ),
        "checkPromptInjection": JSON["checkPromptInjection"],
    }
)


def _cache_ms(wanted: bool) -> int:
    return CACHE_MS if wanted else 0


def _map(values: dict[str, Any], at: Position) -> Any:
    if values.pop("sitemap_only", False):
        values["sitemap"] = "only"
    return page_requests.map_options(values, at, scrape_options)


SCRAPE_KEYS: KeysT = {
    **page_requests.scrape_keys("v1"),
    "jsonOptions": Key(
        _EXTRACTION, "jsonOptions", help="The options of the format json."
    ),
    "extract": Key(_EXTRACTION, "extract", help="The options of the format extract."),
    "changeTrackingOptions": Key(
        Object(CHANGE_TRACKING),
        "changeTrackingOptions",
        help="The options of the format changeTracking.",
    ),
    "geolocation": Key(
        LOCATION, "location", alias=True, help="The old name of location."
    ),
    "agent": Key(Refused("there is no agent", objects=True)),
    "__experimental_cache": Key(
        Then(Bool(), _cache_ms),
        "max_age_ms",
        alias=True,
        help="The old name of a maxAge of 4 hours.",
    ),
    **{
        key: Key(Bool(), key, help="Add a format, in a request without formats.")
        for key in INCLUDE_FLAGS
    },
}
PAGE_KEYS: KeysT = {
    **page_requests.REQUEST_KEYS,
    **page_requests.SINGLE_KEYS,
    **SCRAPE_KEYS,
}
CRAWL_KEYS = job_requests.crawl_keys("v1")

# Old names of crawlEntireDomain, which wins over them.
_BACKWARD: KeysT = {
    name: Key(
        Bool(),
        "crawl_entire_domain",
        alias=True,
        help="The old name of crawlEntireDomain.",
    )
    for name in ("allowBackwardLinks", "allowBackwardCrawling")
}

_WIRE_NAMES = page_requests.wire_names(
    {**job_requests.batch_keys("v1"), **CRAWL_KEYS, **PAGE_KEYS}
)


def wire_name(attribute: str) -> str:
    """Return the JSON name of an attribute of the options or of a format."""
    return _WIRE_NAMES.get(attribute) or page_requests.camel_case(attribute)


def scrape_options(values: dict[str, Any], at: Position) -> Any:
    """Return ``ScrapeOptions`` from ``values``, or report an issue and return INVALID."""
    chosen = _formats(values, at)
    if chosen is INVALID:
        return INVALID
    complete = {**DEFAULTS, **values, "formats": chosen}
    return page_requests.scrape_options(complete, at, wire_name)


def _formats(values: Mapping[str, Any], at: Position) -> Any:
    """Return the formats with their options, which stand under other keys in v1."""
    given = values.get("formats")
    chosen = _included_formats(values) if given is None else given
    results = {_result(item) for item in chosen}
    valid = True
    for result, key, required in COMPANIONS:
        requested, given = result in results, key in values
        if (required and requested != given) or (given and not requested):
            text = f"the format {camel(result)} needs the option {key} of the body"
            if given:
                text = (
                    f"{key} is allowed only with the format {camel(result)} in formats"
                )
            (at / key).report("custom", text)
            valid = False
    if not valid:
        return INVALID
    options = {result: values.get(key, {}) for result, key, _ in COMPANIONS}
    return tuple(evolve(f, **options.get(_result(f), {})) for f in chosen)


def _included_formats(values: Mapping[str, Any]) -> tuple[formats.Format, ...]:
    flags = {"includeMarkdown": True, **values}
    return tuple(f for key, f in INCLUDE_FLAGS.items() if flags.get(key))


def _result(item: formats.Format) -> str:
    return item.key if isinstance(item, formats.Json) else item.type


def _page(values: dict[str, Any], at: Position) -> Any:
    scrape = scrape_options(values, at)
    return scrape if scrape is INVALID else page_requests.page_options(values, scrape)


def _search(values: dict[str, Any], at: Position) -> Any:
    source = ResultList(**page_requests.pop_common(values))
    return page_requests.search_options({**values, "sources": (source,)}, at)


def _llms_text(values: dict[str, Any], at: Position) -> Any:
    values = {**catalogue.defaults(catalogue.LLMS_TEXT, "v1"), **values}
    max_age_ms = LLMS_CACHE_MS if values["use_cache"] else 0
    scrape = SCRAPE_OPTIONS.read({}, at)
    scrape = evolve(scrape, formats=(formats.Markdown(),), max_age_ms=max_age_ms)
    return LlmsTextOptions(scrape=scrape, **values)


def _research(values: dict[str, Any], at: Position) -> Any:
    topic = values.pop("topic", None)
    query = values.pop("query", topic)
    if query is None:
        return (at / "query").missing("string")
    if topic not in {None, query}:
        text = "topic is the old name of query: only one of them is allowed"
        return (at / "topic").report("custom", text)
    given = values.pop("json", None)
    chosen = tuple(dict.fromkeys(values.pop("formats", ("markdown",))))
    if given is not None and "json" not in chosen:
        text = "jsonOptions is allowed only with the format json"
        return (at / "jsonOptions").report("custom", text)
    wanted = formats.Json(**{"prompt": query, **(given or {})})
    scrape = evolve(SCRAPE_OPTIONS.read({}, at), formats=(formats.Markdown(),))
    defaults = catalogue.defaults(catalogue.RESEARCH, "v1")
    values = {**defaults, **values, "formats": chosen}
    return ResearchOptions(query=query, scrape=scrape, json=wanted, **values)


SCRAPE_OPTIONS = page_requests.whole_body(SCRAPE_KEYS, scrape_options)
PAGE = page_requests.whole_body(PAGE_KEYS, _page)
CRAWL = job_requests.crawl_kind("v1", _BACKWARD, SCRAPE_OPTIONS)
BATCH = job_requests.batch_kind("v1", SCRAPE_KEYS, scrape_options)
MAP = page_requests.whole_body(
    {
        **page_requests.map_keys("v1"),
        **page_requests.unread(_BACKWARD),
        "sitemapOnly": Key(
            Bool(),
            "sitemap_only",
            help="List the URLs of sitemaps only.",
            default=False,
        ),
    },
    _map,
)
EXTRACT = job_requests.extract_kind("v1", SCRAPE_KEYS, scrape_options)
LLMS_TEXT = page_requests.whole_body(
    {**catalogue.keys(catalogue.LLMS_TEXT, "v1"), **page_requests.CALLER_KEYS},
    _llms_text,
)
RESEARCH = page_requests.whole_body(
    {
        **catalogue.keys(catalogue.RESEARCH, "v1"),
        "topic": Key(
            Then(Text(MAX_QUESTION), query_text, {"pattern": r"\S"}),
            "topic",
            help="The old name of query.",
        ),
        "jsonOptions": Key(_EXTRACTION, "json", help="The options of the format json."),
        **page_requests.CALLER_KEYS,
    },
    _research,
)

SEARCH = page_requests.whole_body(
    {
        **page_requests.search_keys("v1"),
        # Without formats the pages of the results are not scraped.
        "scrapeOptions": page_requests.pages_of_results(
            SCRAPE_KEYS, scrape_options, formats=()
        ),
    },
    _search,
)


page_options = BodyReader[PageOptions](__name__, "page_options", PAGE, WHERE)
map_options = BodyReader[MapOptions](__name__, "map_options", MAP, WHERE)
search_options = BodyReader[SearchOptions](__name__, "search_options", SEARCH, WHERE)
crawl_options = BodyReader[CrawlOptions](__name__, "crawl_options", CRAWL, WHERE)
batch_options = BodyReader[BatchRequest](__name__, "batch_options", BATCH, WHERE)
extract_request = BodyReader[ExtractRequest](
    __name__, "extract_request", EXTRACT, WHERE
)
llms_text_options = BodyReader[LlmsTextOptions](
    __name__, "llms_text_options", LLMS_TEXT, WHERE
)
research_options = BodyReader[ResearchOptions](
    __name__, "research_options", RESEARCH, WHERE
)
