"""Request bodies that start crawls, batches and extracts, and change, retry or reprocess jobs.

The keys are those of the catalogue, with further keys of each version.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import attrs
from attrs import evolve, field, frozen

from scraper_service.errors import FAILURE_CODES, OTHER_CODES
from scraper_service.options import catalogue, page_requests, urls
from scraper_service.options.formats import Json
from scraper_service.options.jobs import (
    CHANGEABLE,
    MAX_REPROCESSED_URLS,
    REPLACEABLE,
    SHAPING,
    SITE,
    BatchOptions,
    Caller,
    ChangeRequest,
    CrawlOptions,
    ExtractOptions,
    ReprocessRequest,
    RetryRequest,
    path_depth,
)
from scraper_service.options.parsing import (
    INVALID,
    NO_DEFAULT,
    PROMPT,
    Array,
    Bool,
    Key,
    KeysT,
    Object,
    Position,
    Text,
    Then,
    ValueKind,
    choice,
    integer,
    short,
)
from scraper_service.options.urls import MAX_URL
from scraper_service.options.values import NO_EFFECT, STORED_FORMATS, some

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scraper_service.options.catalogue import TableT
    from scraper_service.options.parsing import MakeT


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
        **page_requests.REQUEST_KEYS,
        **catalogue.keys(catalogue.CRAWL, version),
        **catalogue.keys(rules, version),
        **page_requests.CALLER_KEYS,
    }


def batch_keys(version: Literal["v1", "v2"]) -> KeysT:
    """Return the keys of a body that starts a batch, without those of its pages."""
    return {
        **catalogue.keys(catalogue.BATCH, version),
        "zeroDataRetention": page_requests.REQUEST_KEYS["zeroDataRetention"],
        "appendToId": Key(
            Then(Text(), _job_id, {"format": "uuid"}),
            "append_to",
            help="Add the pages to this batch.",
        ),
        **_ignore_invalid_urls(version),
    }


def _ignore_invalid_urls(version: Literal["v1", "v2"]) -> KeysT:
    return {
        "ignoreInvalidURLs": Key(
            Bool(),
            "ignore_invalid_urls",
            help="Leave out URLs that are not valid.",
            default=version == "v2",
        )
    }


def split_urls(
    given: tuple[str, ...], read: Callable[[str], str] = urls.caller_url
) -> tuple[tuple[str, ...], dict[int, str]]:
    """Return what ``read`` makes of the valid URLs, and the error of others by index."""
    good = []
    bad = {}
    for index, text in enumerate(given):
        try:
            good.append(read(text))
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
    return page_requests.whole_body(keys, make)


def crawl_options(
    values: dict[str, Any],
    at: Position,
    scrape_kind: ValueKind,
    defaults: Mapping[str, Any],
) -> Any:
    """Return ``CrawlOptions`` from complete ``values``, or report a broken rule."""
    if (scrape := _scrape_of_job(values, at, scrape_kind)) is INVALID:
        return INVALID
    if values.pop("zero_data_retention", False):
        scrape = evolve(scrape, zero_data_retention=True)
    complete = {**defaults, **values}
    url, deepest = complete["url"], complete["max_path_depth"]
    if deepest is not None and (depth := path_depth(url)) > deepest:
        text = f"the path depth of url, {depth}, must not exceed maxDepth, {deepest}"
        return (at / "url").report("custom", text)
    return CrawlOptions(scrape=scrape, **complete)


def _scrape_of_job(values: dict[str, Any], at: Position, scrape_kind: ValueKind) -> Any:
    """Return ``scrapeOptions``, with the ``threatProtection`` of the job."""
    scrape = values.pop("scrape", None) or scrape_kind.read({}, at / "scrapeOptions")
    return scrape if scrape is INVALID else page_requests.protect(scrape, values, at)


def batch_kind(
    version: Literal["v1", "v2"], scrape_keys: KeysT, read_scrape: MakeT
) -> Object:
    """Return the kind of a body that starts a batch, with the keys of its pages."""
    defaults = catalogue.defaults(catalogue.BATCH, "v2")
    names = {a.name for a in attrs.fields(BatchOptions)} - {"scrape", "urls"}

    def make(values: dict[str, Any], at: Position) -> Any:
        if (scrape := read_scrape(values, at)) is INVALID:
            return INVALID
        lenient = values.get("ignore_invalid_urls", version == "v2")
        given = values["urls"]
        good, bad = split_urls(given)
        if bad and not lenient:
            return _report_urls(bad, at)
        if not good:
            first = next(iter(bad.values()))
            text = f"No valid URLs provided: {len(bad)} given, the first one: {first}"
            return (at / "urls").report("custom", text)
        if values.get("append_to") and values.get("keep_sources") is not None:
            text = (
                "must be left out with appendToId: the batch decides for all its pages"
            )
            return (at / "keepSources").report("custom", text)
        own = {name: values[name] for name in names & values.keys()}
        options = BatchOptions(urls=good, scrape=scrape, **{**defaults, **own})
        left_out = tuple(given[index] for index in bad) if lenient else None
        return BatchRequest(options, values.get("append_to"), left_out)

    return page_requests.whole_body({**scrape_keys, **batch_keys(version)}, make)


def _report_urls(bad: Mapping[int, str], at: Position) -> Any:
    """Report invalid URLs by their index in ``urls``."""
    for index, message in bad.items():
        (at / "urls" / index).report("custom", message)
    return INVALID


# Keys that the catalogue lacks, in both versions. The agent's model has no effect,
# its prompt has.
_EXTRACT_KEYS: KeysT = {
    "agent": Key(
        Object(
            {
                "model": Key(choice("FIRE-1", "v3-beta"), help=NO_EFFECT),
                "prompt": Key(
                    PROMPT, "prompt", help="What to find, in a request without prompt."
                ),
            }
        ),
        "agent",
        help="The former key of a prompt.",
    ),
    "urlTrace": Key(Bool(), help=NO_EFFECT),
    **catalogue.keys(catalogue.select(catalogue.SCRAPE, "site_rules"), "v2"),
    **page_requests.CALLER_KEYS,
}


@frozen
class ExtractRequest:
    """A request that starts an extract. ``invalid_urls`` are those of a batch."""

    options: ExtractOptions
    invalid_urls: tuple[str, ...] | None = None


def extract_kind(
    version: Literal["v1", "v2"], scrape_keys: KeysT, read_scrape: MakeT
) -> Object:
    """Return the kind of a body that starts an extract."""
    whole = page_requests.scrape_kind(scrape_keys, read_scrape, only_main_content=False)
    defaults = catalogue.defaults(catalogue.EXTRACT, version)

    def make(values: dict[str, Any], at: Position) -> Any:
        lenient = values.pop("ignore_invalid_urls", version == "v2")
        agent = values.pop("agent", {})
        values.setdefault("prompt", agent.get("prompt"))
        if (scrape := _scrape_of_job(values, at, whole)) is INVALID:
            return INVALID
        given = values.get("urls", ())
        if not given and not values.get("prompt"):
            return at.report("custom", "urls or prompt is required")
        good, bad = split_urls(given, _url_or_site)
        if bad and not (lenient and good):
            return _report_urls(bad, at)
        # The extraction gives the page more time.
        wanted = Json(
            prompt=values.get("prompt"),
            schema=values.get("schema"),
            system_prompt=values.get("system_prompt"),
        )
        scrape = page_requests.patient(evolve(scrape, formats=(wanted,)))
        values["urls"] = tuple(dict.fromkeys(good))
        options = ExtractOptions(scrape=scrape, **{**defaults, **values})
        left_out = tuple(given[index] for index in bad) if lenient else None
        return ExtractRequest(options, left_out)

    keys = {
        **catalogue.keys(catalogue.EXTRACT, version),
        **_ignore_invalid_urls(version),
        **_EXTRACT_KEYS,
        "scrapeOptions": Key(whole, "scrape", help="How each page is scraped."),
    }
    return page_requests.whole_body(keys, make)


def _url_or_site(text: str) -> str:
    """Return a URL, or the URL of a site with :data:`SITE` at its end."""
    whole = text.rstrip()
    if not whole.endswith(SITE):
        return urls.caller_url(text)
    return urls.caller_url(whole[: -len(SITE)]).rstrip("/") + SITE


MAX_FILTER = 1000  # entries


def caller_host(text: str) -> str:
    """Return a host name in lower case; raise ValueError for anything else."""
    host = text.strip().lower().rstrip(".")
    if not host or set(host) & set("/:@?# ") - set(":" if host[0] == "[" else ""):
        raise ValueError(
            f"must be a host name without port and path, got {short(text)}"
        )
    return host.strip("[]")


_FILTERS: KeysT = {
    "codes": Key(
        Array(choice(*FAILURE_CODES, *OTHER_CODES), MAX_FILTER),
        "codes",
        help="Only pages with these error codes.",
    ),
    "statusCodes": Key(
        Array(integer(100, 999), MAX_FILTER),
        "statuses",
        help="Only pages with these statuses of the site.",
    ),
    "hosts": Key(
        Array(Then(Text(), caller_host), MAX_FILTER),
        "hosts",
        help="Only pages of these hosts.",
    ),
    "urls": Key(
        Array(Text(MAX_URL), MAX_FILTER),
        "urls",
        help="Only these URLs, as the list of errors has them.",
    ),
}


def _some(kind: ValueKind) -> Then:
    return some(kind, "must have at least 1 item; leave it out for all pages")


# Options that null switches off.
_NULLABLE = {"delay_s", "max_concurrency"}
# Rules of a crawl, which may not change while it runs.
_RULES = ("includePaths", "excludePaths", "maxDiscoveryDepth")


@frozen
class _CrawlChange(Object):
    """The keys of a crawl that may change. A rule is refused with what to do instead."""

    def read(self, value: Any, at: Position) -> Any:
        for name in _RULES:
            if isinstance(value, dict) and name in value:
                return (at / name).report(
                    "custom",
                    f"{name} cannot change while a crawl runs: cancel the crawl, and start"
                    " another one with the new rules and its id as since",
                )
        return super().read(value, at)


@frozen(kw_only=True)
class JobChangeRequest(Caller):
    """A request that changes an active job."""

    change: ChangeRequest


def change_kind(kind: str) -> Object:
    """Return the kind of a body that changes a job: a crawl or a batch."""
    rows = catalogue.select(catalogue.CRAWL, *CHANGEABLE[kind])
    options = {
        name: evolve(key, nullable=key.to in _NULLABLE, default=NO_DEFAULT)
        for name, key in catalogue.keys(rows, "v2").items()
    }
    pause = "Pause the job (true), or let it go on (false)."
    keys = {"paused": Key(Bool(), "paused", help=pause, is_own=True), **options}

    def make(values: dict[str, Any], at: Position) -> Any:
        changed = {
            key.to: values.pop(key.to) for key in keys.values() if key.to in values
        }
        if not changed:
            text = f"{at.name} must have at least one of {', '.join(keys)}"
            return at.report("too_small", text, minimum=1)
        paused = changed.pop("paused", None)
        return JobChangeRequest(
            change=ChangeRequest(paused=paused, options=changed), **values
        )

    body = _CrawlChange if kind == "crawl" else Object
    return body({**keys, **page_requests.CALLER_KEYS}, make, page_requests.EXPERIMENTAL)


@frozen(kw_only=True)
class JobRetryRequest(Caller):
    """A request that fetches failed pages of a job again."""

    retry: RetryRequest


def retry_kind() -> Object:
    """Return the kind of a body that retries failed pages."""
    rows = catalogue.select(catalogue.SCRAPE, *REPLACEABLE)
    replaced = {
        name: evolve(key, default=NO_DEFAULT)
        for name, key in catalogue.keys(rows, "v2").items()
    }
    keys = {
        name: evolve(key, kind=Then(_some(key.kind), frozenset), is_own=True)
        for name, key in _FILTERS.items()
    }
    options = Key(
        Object(replaced),
        "scrape",
        help="Options that replace those of these pages.",
    )

    def make(values: dict[str, Any], at: Position) -> Any:
        chosen = {
            name: values.pop(name)
            for name in (*(key.to for key in keys.values()), "scrape")
            if name in values
        }
        return JobRetryRequest(retry=RetryRequest(**chosen), **values)

    fields = {**keys, "scrapeOptions": options, **page_requests.CALLER_KEYS}
    return page_requests.whole_body(fields, make)


@frozen
class _Reprocessing(Object):
    """A body that makes other formats. Other options of a page are refused."""

    #: The keys of a page.
    page_keys: KeysT = field(kw_only=True)

    def read(self, value: Any, at: Position) -> Any:
        others = [
            name
            for name, given in (value.items() if isinstance(value, dict) else ())
            if name in self.page_keys and name not in self.fields and given is not None
        ]
        for name in others:
            text = f"{name} must be left out: no page is fetched again,"
            (at / name).report("custom", f"{text} got {short(value[name])}")
        return INVALID if others else super().read(value, at)


def reprocess_kind(page_keys: KeysT, read_scrape: MakeT, table: TableT) -> Object:
    """Return the kind of a body that makes other formats of stored responses.

    ``page_keys`` are the keys of a page, and ``table`` is that of the kind of job.
    """
    shaping = catalogue.select(catalogue.SCRAPE, *SHAPING)
    of_job = catalogue.select(table, "webhook", "retention_days")
    keys = {
        "formats": evolve(
            page_keys["formats"],
            kind=some(STORED_FORMATS, "must have at least 1 item"),
            required=True,
            default=NO_DEFAULT,
        ),
        **catalogue.keys(shaping, "v2"),
        "redactPII": page_keys["redactPII"],
        "urls": Key(
            _some(Array(Text(MAX_URL), MAX_REPROCESSED_URLS)),
            "urls",
            help="Only these pages, by sourceURL or url of their metadata.",
        ),
        **catalogue.keys(of_job, "v2"),
        **page_requests.CALLER_KEYS,
    }

    def make(values: dict[str, Any], at: Position) -> Any:
        names = ("urls", "webhook", "retention_days", *page_requests.CALLER)
        own = {name: values.pop(name) for name in names if name in values}
        scrape = read_scrape(values, at)
        return scrape if scrape is INVALID else ReprocessRequest(scrape=scrape, **own)

    return _Reprocessing(keys, make, page_requests.EXPERIMENTAL, page_keys=page_keys)
