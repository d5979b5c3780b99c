"""Request bodies of /v2 to options: the keys of the catalogue, and those of v2 alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options import catalogue, job_requests, page_requests
from scraper_service.options.formats import Json
from scraper_service.options.job_requests import (
    BatchRequest,
    ExtractRequest,
    JobChangeRequest,
    JobRetryRequest,
)
from scraper_service.options.jobs import (
    AgentOptions,
    Caller,
    CrawlOptions,
    PageOptions,
    ReprocessRequest,
)
from scraper_service.options.map_search import MapOptions, SearchOptions
from scraper_service.options.parsing import (
    INVALID,
    MAX_PROMPT,
    WHERE,
    Anything,
    Array,
    BodyReader,
    Key,
    KeysT,
    Pairs,
    Position,
    Text,
    Then,
    choice,
    integer,
    need,
    short,
    structure,
)
from scraper_service.options.urls import MAX_URL, caller_url
from scraper_service.options.values import NO_EFFECT, some_urls

if TYPE_CHECKING:
    from collections.abc import Mapping


MAX_EXPLAINED = 1000  # URLs
MAX_REF = 100  # characters of an uploadRef

DEFAULTS: Mapping[str, Any] = catalogue.defaults(catalogue.SCRAPE, "v2")

SCRAPE_KEYS = page_requests.scrape_keys("v2")
PAGE_KEYS: KeysT = {
    **page_requests.REQUEST_KEYS,
    **page_requests.SINGLE_KEYS,
    **catalogue.keys((catalogue.RETENTION,), "v2"),
    **SCRAPE_KEYS,
}
CRAWL_KEYS = job_requests.crawl_keys("v2")

_WIRE_NAMES = page_requests.wire_names(
    {**job_requests.batch_keys("v2"), **CRAWL_KEYS, **PAGE_KEYS}
)


def wire_name(attribute: str) -> str:
    """Return the JSON name of an attribute of the options or of a format."""
    return _WIRE_NAMES.get(attribute) or page_requests.camel_case(attribute)


def scrape_options(values: dict[str, Any], at: Position) -> Any:
    """Return ``ScrapeOptions`` from ``values``, or report an issue and return INVALID."""
    return page_requests.scrape_options({**DEFAULTS, **values}, at, wire_name)


def _page(values: dict[str, Any], at: Position) -> Any:
    scrape = scrape_options(values, at)
    return scrape if scrape is INVALID else page_requests.page_options(values, scrape)


def _map(values: dict[str, Any], at: Position) -> Any:
    return page_requests.map_options(values, at, scrape_options)


SCRAPE_OPTIONS = page_requests.whole_body(SCRAPE_KEYS, scrape_options)
PAGE = page_requests.whole_body(PAGE_KEYS, _page)
CRAWL = job_requests.crawl_kind("v2", {}, SCRAPE_OPTIONS)
BATCH = job_requests.batch_kind("v2", SCRAPE_KEYS, scrape_options)
CHANGED_CRAWL = job_requests.change_kind("crawl")
CHANGED_BATCH = job_requests.change_kind("batch")
RETRY = job_requests.retry_kind()
REPROCESSED_CRAWL = job_requests.reprocess_kind(
    PAGE_KEYS, scrape_options, catalogue.CRAWL
)
REPROCESSED_BATCH = job_requests.reprocess_kind(
    PAGE_KEYS, scrape_options, catalogue.BATCH
)
MAP = page_requests.whole_body(page_requests.map_keys("v2"), _map)
EXTRACT = job_requests.extract_kind("v2", SCRAPE_KEYS, scrape_options)

# Options of all pages that the run reads.
_PAGE = ("location", "zero_data_retention", "site_rules")
_NO_THREADS = (
    "must be absent: runs have no threads, so that no earlier one is known here"
)
_DECISIONS = ("approve", "decline")


def _no_thread(value: str) -> Any:
    raise ValueError(f"threadId {_NO_THREADS}; got {short(value)}")


def _mode(value: str) -> str:
    if value != "extract":
        text = "mode must be 'extract': there are no threads to chat in, got"
        raise ValueError(f"{text} {short(value)}")
    return value


def _without_decision(given: tuple[tuple[str, Any], ...]) -> Any:
    """Return the pairs of ``exchange``; refuse what would decide on a payment."""
    issues = [
        Issue(
            "custom",
            (name,),
            f"exchange.{name} must be absent: this service buys no data,"
            f" got {short(value)}",
        )
        for name, value in given
        if name in _DECISIONS
    ]
    if issues:
        raise InvalidOptions(issues)
    return given


_AGENT_KEYS: KeysT = {
    "mode": Key(
        Then(choice("extract", "chat"), _mode, {"enum": ["extract"]}),
        "mode",
        help="Only extract.",
        default="extract",
    ),
    "threadId": Key(
        Then(Text(), _no_thread, {"not": {}}),
        "thread",
        help="Not available: runs have no threads.",
    ),
    "exchange": Key(
        Then(
            Pairs(Anything()),
            _without_decision,
            {"not": {"anyOf": [{"required": [name]} for name in _DECISIONS]}},
        ),
        help=NO_EFFECT,
    ),
    **catalogue.keys(catalogue.select(catalogue.SCRAPE, *_PAGE), "v2"),
    **page_requests.CALLER_KEYS,
}


def _agent(values: dict[str, Any], at: Position) -> Any:
    values.pop("mode", None)
    page = {name: values.pop(name) for name in _PAGE if name in values}
    scrape = scrape_options({"only_main_content": False, "formats": (), **page}, at)
    if scrape is INVALID:
        return INVALID
    values = {**catalogue.defaults(catalogue.AGENT, "v2"), **values}
    values["urls"] = tuple(dict.fromkeys(values["urls"]))
    if values["only_urls"] and not values["urls"]:
        text = "strictConstrainToURLs needs urls, got true without any"
        return (at / "strictConstrainToURLs").report("custom", text)
    if values["schema"] is not None:
        # The model that reads a page gives it more time.
        wanted = Json(prompt=values["prompt"], schema=values["schema"])
        scrape = page_requests.patient(evolve(scrape, formats=(wanted,)))
    return AgentOptions(scrape=scrape, **values)


AGENT = page_requests.whole_body(
    {**catalogue.keys(catalogue.AGENT, "v2"), **_AGENT_KEYS}, _agent
)


def _search(values: dict[str, Any], at: Position) -> Any:
    common = page_requests.pop_common(values)
    given = [each for each in values.pop("sources", ()) if each is not None]
    sources = [page_requests.make_source(each, common) for each in given or [{}]]
    values["sources"] = tuple(dict.fromkeys(sources))
    return page_requests.search_options(values, at)


SEARCH = page_requests.whole_body(
    {
        **page_requests.search_keys("v2"),
        "scrapeOptions": page_requests.pages_of_results(SCRAPE_KEYS, scrape_options),
        **{
            key: Key(Anything(), help=NO_EFFECT)
            for key in ("highlights", "safe", "enterprise", "domainTools", "toolDetail")
        },
    },
    _search,
)


@frozen
class ExplainRequest:
    """A request that explains which URLs a crawl would fetch."""

    options: CrawlOptions
    urls: tuple[str, ...]
    #: Links from the start URL to ``urls``.
    depth: int


def _explain(values: dict[str, Any], at: Position) -> Any:
    urls, depth = values.pop("urls"), values.pop("depth", 0)
    options = CRAWL.make(values, at)
    return options if options is INVALID else ExplainRequest(options, urls, depth)


# Keys of an explanation, without those of a crawl.
EXPLAIN_ONLY: KeysT = {
    "urls": need(
        some_urls(
            Array(Text(MAX_URL), MAX_EXPLAINED), "urls must have at least 1 item"
        ),
        "urls",
        "The URLs to explain.",
    ),
    "depth": Key(
        integer(0), "depth", help="Links from the start URL to urls.", default=0
    ),
}
EXPLAIN = page_requests.whole_body({**CRAWL.fields, **EXPLAIN_ONLY}, _explain)


@frozen
class PreviewRequest(Caller):
    """A body of ``POST /v2/crawl/params-preview``."""

    url: str
    prompt: str


def _whole_url(text: str) -> str:
    if not text.lower().startswith(("http://", "https://")):
        raise ValueError(f"url must begin with http:// or https://, got {short(text)}")
    return caller_url(text)


PREVIEW = page_requests.whole_body(
    {
        "url": need(Then(Text(), _whole_url), "url", "The start URL, with http(s)://."),
        "prompt": need(
            Text(MAX_PROMPT, minimum=1), "prompt", "What to fetch, in words."
        ),
        **page_requests.CALLER_KEYS,
    },
    lambda values, _: PreviewRequest(**values),
)


def _parse(values: dict[str, Any], at: Position) -> Any:
    scrape = scrape_options(values, at)
    if scrape is INVALID:
        return scrape
    # An uploaded file is never stored (docs/api/scrape.md, Uploads).
    scrape = evolve(scrape, max_age_ms=0, min_age_ms=None, store_in_cache=False)
    return page_requests.page_options({"url": "upload", **values}, scrape)


PARSE = page_requests.whole_body(
    {name: kind for name, kind in PAGE_KEYS.items() if name != "url"}, _parse
)


def parse_options(options: object) -> PageOptions:
    """Return the options of the field ``options`` of ``POST /v2/parse``.

    The caller of this function sets their ``url`` to the name of the file.

    :raises InvalidOptions: with every issue.
    """
    if isinstance(options, dict) and "uploadRef" in options:
        text = "uploadRef and a file exclude each other"
        raise InvalidOptions([Issue("custom", ("uploadRef",), text)])
    found: PageOptions = structure(PARSE, options, WHERE)
    return found


@frozen
class ParseUpload:
    """A request that parses a file that was sent before."""

    ref: str
    options: PageOptions


def _parse_upload(values: dict[str, Any], at: Position) -> Any:
    upload = values.pop("upload")
    options = _parse(values, at)
    return options if options is INVALID else ParseUpload(upload, options)


UPLOADED_FILE = page_requests.whole_body(
    {
        "uploadRef": need(
            Text(MAX_REF, minimum=1),
            "upload",
            "The file: from the response of POST /v2/parse/upload-url.",
        ),
        **PARSE.fields,
    },
    _parse_upload,
)


parse_upload = BodyReader[ParseUpload](__name__, "parse_upload", UPLOADED_FILE)
page_options = BodyReader[PageOptions](__name__, "page_options", PAGE)
map_options = BodyReader[MapOptions](__name__, "map_options", MAP)
search_options = BodyReader[SearchOptions](__name__, "search_options", SEARCH)
crawl_options = BodyReader[CrawlOptions](__name__, "crawl_options", CRAWL)


def crawl_body(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a crawl from options by attribute."""
    return {wire_name(name): value for name, value in values.items()}


def fill(values: Mapping[str, Any], body: Any) -> CrawlOptions:
    """Return the options of a crawl: those of the body, then ``values``."""
    given = {
        key: value
        for key, value in body.items()
        if value is not None and key not in EXPLAIN_ONLY
    }
    return crawl_options({**crawl_body(values), **given})


preview_request = BodyReader[PreviewRequest](__name__, "preview_request", PREVIEW)
explain_request = BodyReader[ExplainRequest](__name__, "explain_request", EXPLAIN)
batch_options = BodyReader[BatchRequest](__name__, "batch_options", BATCH)
crawl_change = BodyReader[JobChangeRequest](__name__, "crawl_change", CHANGED_CRAWL)
batch_change = BodyReader[JobChangeRequest](__name__, "batch_change", CHANGED_BATCH)


job_retry = BodyReader[JobRetryRequest](__name__, "job_retry", RETRY, may_be_empty=True)


crawl_reprocess = BodyReader[ReprocessRequest](
    __name__, "crawl_reprocess", REPROCESSED_CRAWL
)
batch_reprocess = BodyReader[ReprocessRequest](
    __name__, "batch_reprocess", REPROCESSED_BATCH
)
extract_request = BodyReader[ExtractRequest](__name__, "extract_request", EXTRACT)
agent_options = BodyReader[AgentOptions](__name__, "agent_options", AGENT)
