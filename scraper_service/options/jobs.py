"""The options of pages and of jobs, the kinds of jobs, and the events of webhooks."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import cattrs
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
from cattrs.strategies import configure_tagged_union

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options.actions import Action
from scraper_service.options.formats import Format, Json, Links, Markdown
from scraper_service.options.parsing import short
from scraper_service.options.scrape import Parser, ScrapeOptions
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

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
class StoredOptions(Caller):
    """The options of all requests with stored results."""

    scrape: ScrapeOptions
    #: Days that the results are stored after the last change; None is the operator's.
    retention_days: float | None = field(default=None, validator=DAYS)


@frozen(kw_only=True)
class PageOptions(StoredOptions):
    """One URL and how to scrape it."""

    #: The URL of the caller; a missing scheme is added.
    url: str = field(validator=instance_of(str))


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
class CrawlOptions(StoredOptions):
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
    #: True keeps the response of each page with the job; None is the operator's.
    keep_sources: bool | None = field(default=None, validator=optional(_flag))
    #: The id of an earlier crawl, or a time (:func:`parse_since`): only pages that are new or
    #: have changed since are delivered.
    since: str | None = field(default=None, validator=optional(instance_of(str)))


@frozen(kw_only=True)
class BatchOptions(StoredOptions):
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
    #: True keeps the response of each page with the job; None is the operator's.
    keep_sources: bool | None = field(default=None, validator=optional(_flag))


MAX_REPROCESSED_URLS = 10_000
#: Options of a page that only shape its output, without the formats.
SHAPING = (
    *("only_main_content", "only_clean_content", "include_tags", "exclude_tags"),
    *("remove_base64_images", "parsers", "max_tokens"),
)


@frozen(kw_only=True)
class ReprocessRequest(StoredOptions):
    """A request to make other formats of the stored responses of a job."""

    #: URLs of pages of the job; empty for all pages.
    urls: tuple[str, ...] = field(
        default=(), validator=[max_len(MAX_REPROCESSED_URLS), _texts]
    )
    webhook: Webhook | None = None

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


MAX_EXTRACT_URLS = 10
MAX_AGENT_URLS = 100
MAX_MODEL_NAME = 256  # characters
EFFORTS = ("low", "medium", "high")
MAX_LLMS_URLS = 5000
MAX_DEPTH = 12
MAX_QUESTION = 10_000  # characters
MAX_RESEARCH_URLS = 1000
MIN_RESEARCH_S, MAX_RESEARCH_S = 30, 600
SITE = "/*"  # the end of a URL that stands for the pages below it

_text = optional(instance_of(str))


@frozen(kw_only=True)
class ExtractOptions(StoredOptions):
    """Pages to read, and the data to find in all of them together.

    Without ``urls`` a search for the ``prompt`` finds the pages.
    """

    kind: ClassVar[str] = "extract"

    #: A URL that ends in :data:`SITE` stands for the pages below it.
    urls: tuple[str, ...] = field(validator=[max_len(MAX_EXTRACT_URLS), _texts])
    prompt: str | None = field(validator=_text)
    system_prompt: str | None = field(validator=_text)
    schema: dict[str, Any] | None = field(validator=optional(instance_of(dict)))
    #: Pages of each URL that ends in :data:`SITE`; None is the operator's limit.
    limit: int | None = field(validator=optional(ge(1)))
    ignore_sitemap: bool = field(validator=_flag)
    include_subdomains: bool = field(validator=_flag)
    allow_external_links: bool = field(validator=_flag)
    #: True adds the pages of a search to ``urls``.
    enable_web_search: bool = field(validator=_flag)
    show_sources: bool = field(validator=_flag)
    #: Time for the whole job. Then the result is made from the pages read so far.
    timeout_ms: int | None = field(validator=optional(ge(1)))
    webhook: Webhook | None

    @property
    def target(self) -> str:
        """The job in the list of a team's jobs: its first URL or its prompt."""
        return next(iter(self.urls), self.prompt or "")

    def counts(self, site_pages: int, searched: int) -> Iterator[int]:
        """Yield the most pages of each source.

        ``site_pages`` is the number for a site without ``limit``, ``searched`` that for
        a search.
        """
        for url in self.urls:
            yield (self.limit or site_pages) if url.endswith(SITE) else 1
        if self.searches:
            yield searched

    @property
    def searches(self) -> bool:
        """Whether a search finds pages."""
        return self.enable_web_search or not self.urls


@frozen(kw_only=True)
class LlmsTextOptions(StoredOptions):
    """A site whose pages are listed for language models."""

    kind: ClassVar[str] = "llmstxt"
    webhook: ClassVar[None] = None

    url: str = field(validator=instance_of(str))
    max_urls: int = field(validator=[ge(1), le(MAX_LLMS_URLS)])
    #: True adds the text of the pages.
    show_full_text: bool = field(validator=_flag)
    #: False fetches each page again.
    use_cache: bool = field(validator=_flag)

    @property
    def target(self) -> str:
        return self.url


@frozen(kw_only=True)
class ResearchOptions(StoredOptions):
    """A question that is answered from the pages of several searches, with sources.

    An agent runs it: the class has the members of :class:`AgentOptions` that it reads.
    """

    kind: ClassVar[str] = "deep_research"
    webhook: ClassVar[None] = None
    urls: ClassVar[tuple[str, ...]] = ()
    only_urls: ClassVar[bool] = False
    schema: ClassVar[None] = None

    query: str = field(validator=min_len(1))
    #: Rounds of searches.
    max_depth: int = field(validator=[ge(1), le(MAX_DEPTH)])
    #: Pages to read.
    max_urls: int = field(validator=[ge(1), le(MAX_RESEARCH_URLS)])
    #: Seconds.
    time_limit_s: int = field(validator=[ge(MIN_RESEARCH_S), le(MAX_RESEARCH_S)])
    analysis_prompt: str | None = field(validator=_text)
    system_prompt: str | None = field(validator=_text)
    #: ``markdown`` for a text, ``json`` for structured data.
    formats: tuple[str, ...] = field(
        validator=deep_iterable(in_(("markdown", "json")), instance_of(tuple))
    )
    #: The structured data.
    json: Json

    @property
    def target(self) -> str:
        return self.query

    @property
    def prompt(self) -> str:
        return self.query

    @property
    def page_formats(self) -> tuple[Format, ...]:
        """The formats of the pages that it reads."""
        return (Markdown(), self.json) if "json" in self.formats else (Markdown(),)

    @property
    def instructions(self) -> str:
        """Instructions for the language model beside the prompt."""
        return " ".join(filter(None, [self.system_prompt, self.analysis_prompt]))


@frozen(kw_only=True)
class AgentOptions(StoredOptions):
    """A request in words, for which a language model searches and reads pages."""

    kind: ClassVar[str] = "agent"
    #: Instructions for the language model beside the prompt.
    instructions: ClassVar[str] = ""

    prompt: str = field(validator=min_len(1))
    #: Where to start.
    urls: tuple[str, ...] = field(validator=[max_len(MAX_AGENT_URLS), _texts])
    #: True fetches nothing but ``urls`` and redirects on their hosts.
    only_urls: bool = field(validator=_flag)
    #: The JSON Schema of the result; None for a text.
    schema: dict[str, Any] | None = field(validator=optional(instance_of(dict)))
    #: The run fails when it would cost more.
    max_credits: float = field(validator=gt(0))
    #: Any name; responses repeat it.
    model: str | None = field(validator=_text)
    #: Bounds pages and rounds; None is ``medium``.
    effort: str | None = field(validator=optional(in_(EFFORTS)))
    webhook: Webhook | None

    @property
    def target(self) -> str:
        """The run in the list of a team's jobs: its first URL or its prompt."""
        return next(iter(self.urls), self.prompt)

    @property
    def page_formats(self) -> tuple[Format, ...]:
        """The formats of the pages that it reads."""
        if self.schema is None:
            return Markdown(), Links()
        return Markdown(), Links(), Json(prompt=self.prompt, schema=self.schema)


ModelJobOptionsT: TypeAlias = (
    ExtractOptions | AgentOptions | LlmsTextOptions | ResearchOptions
)

#: What an agent runs.
RunOptionsT: TypeAlias = AgentOptions | ResearchOptions


# What a process takes of the work of all teams, each with a limit of its own.
JOBS = "jobs"  # crawls and batches
MODEL_JOBS = "operations"  # their name in the database and in lists of workers
CHECKS = "checks"  # of monitors
#: The settings with the most jobs of a process.
LIMITS = {
    JOBS: "MAX_RUNNING_JOBS",
    MODEL_JOBS: "MAX_RUNNING_OPERATIONS",
    CHECKS: "MONITOR_CONCURRENCY",
}


@frozen
class JobKind:
    """A kind of jobs."""

    #: In the database.
    name: str
    #: A key of :data:`LIMITS`. Spiders run :data:`JOBS`, in any number of processes. A
    #: coroutine runs another job, in one process at a time.
    work: str
    #: The class of its options, None for a check, whose options are those of its monitor.
    options: Any
    #: In the activity, and before the dot in the types of webhook events.
    endpoint: str
    #: In lists of jobs.
    listed: str


#: By :attr:`JobKind.name`.
KINDS = {
    name: JobKind(name, *facts)
    for name, *facts in (
        ("crawl", JOBS, CrawlOptions, "crawl", "crawl"),
        ("batch", JOBS, BatchOptions, "batch_scrape", "batch_scrape"),
        ("extract", MODEL_JOBS, ExtractOptions, "extract", "extract"),
        ("llmstxt", MODEL_JOBS, LlmsTextOptions, "llmstxt", "llmstxt"),
        (
            "deep_research",
            MODEL_JOBS,
            ResearchOptions,
            "deep_research",
            "deep_research",
        ),
        ("agent", MODEL_JOBS, AgentOptions, "agent", "agent"),
        ("monitor_check", CHECKS, None, "monitor", "monitor_check"),
    )
}
MONITOR_CHECK = "monitor_check"


def kinds_of(*work: str) -> tuple[str, ...]:
    """Return the names of the kinds of some work."""
    return tuple(name for name, kind in KINDS.items() if kind.work in work)


CRAWLED = kinds_of(JOBS)


T = TypeVar("T")

OptionsT: TypeAlias = PageOptions | CrawlOptions | BatchOptions

_UNIONS: tuple[Any, ...] = (Format, Action, Parser)


def unstructure(options: object) -> dict[str, Any]:
    """Return ``options`` of any kind as JSON values."""
    result: dict[str, Any] = _converter().unstructure(options)
    return result


def structure(value: Any, kind: type[T]) -> T:
    """Return the options of ``kind`` from JSON values.

    :raises InvalidOptions: for unknown keys, missing keys and wrong values.
    """
    try:
        return _converter().structure(value, kind)
    except (
        cattrs.ForbiddenExtraKeysError,
        ValueError,
        TypeError,
        LookupError,
    ) as error:
        raise InvalidOptions([Issue("custom", (), f"{error!r:.300}")]) from error


def options_from_json(kind: str, value: Mapping[str, Any]) -> Any:
    """Return options from the JSON values of :func:`unstructure`.

    ``kind`` is a key of :data:`KINDS`, or ``scrape`` for those of a page.

    :raises InvalidOptions: for unknown keys, missing keys and wrong values.
    """
    found: type[Any] = PageOptions if kind == "scrape" else KINDS[kind].options
    return structure(value, found)


@functools.cache
def _converter() -> cattrs.Converter:
    """Return a converter that converts no types and refuses unknown keys."""
    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=False)
    for kind in (bool, int, float, str):
        converter.register_structure_hook(kind, _exactly)
    for union in _UNIONS:
        configure_tagged_union(union, converter, tag_generator=_tag, tag_name="type")
    return converter


def _tag(kind: Any) -> str:
    return str(kind.type)


def _exactly(value: Any, kind: Any) -> Any:
    accepted = {int, float} if kind is float else {kind}
    if type(value) not in accepted:
        raise TypeError(f"must be of type {kind.__name__}, got {short(value)}")
    return value
