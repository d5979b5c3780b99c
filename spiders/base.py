"""The base classes of the spiders: request a page, convert it, return errors as data."""

from __future__ import annotations

import functools
import time
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import scrapy
from attrs import evolve
from scrapy import Request
from scrapy.settings import get_settings_priority
from scrapy.utils.misc import load_object

from scraper_service.content.decode import encoding_names
from scraper_service.content.formats.change_tracking import repeated_content
from scraper_service.content.page_status import EMPTY_SHELL, NO_BYTES
from scraper_service.crawling.page_state import STATE, PageState
from scraper_service.errors import (
    ConverterDied,
    InvalidOptions,
    Issue,
    ServiceUnavailable,
)
from scraper_service.items import (
    DATA_LOSS,
    PRICE_HEADERS,
    Fetch,
    KeptResponse,
    Lease,
    PageContent,
    PageSource,
)
from scraper_service.llm.model import language_model, text_limit
from scraper_service.options.jobs import CHANGEABLE
from scraper_service.options.limits import (
    BROWSER,
    HTTP,
    asks_model,
    why_not_rendered,
)
from scraper_service.options.urls import request_url
from scraper_service.spiders.embedded_documents import with_document

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings
    from twisted.python.failure import Failure

    from scraper_service.items import LinkRowT
    from scraper_service.options.scrape import ScrapeOptions

T = TypeVar("T")

STILL_EMPTY = (
    "The browser waited for the page's scripts, which showed hardly any text: waitFor"
    " waits longer."
)
NOT_RENDERED = "No browser has rendered it: {}."
MAX_HEADER = 4000  # characters of a header that names a price
ADDON = "scraper_service.addon.ServiceAddon"


class ConverterProtocol(Protocol):
    """The interface of the class in ``CONVERTER``, built by its ``shared(settings)``."""

    async def convert(
        self,
        source: PageSource,
        options: ScrapeOptions,
        timeout_s: float,
        team_id: str | None = None,
        job_id: str = "",
    ) -> PageContent:
        """Return the content of a page, or a content with an ``error``."""
        ...

    async def read_sitemap(
        self,
        source: PageSource,
        timeout_s: float,
        choice: Callable[..., Any] = ...,
        team_id: str | None = None,
        job_id: str = "",
    ) -> Any:
        """Return the content of a sitemap, or a content with an ``error``."""
        ...

    async def run(
        self,
        function: Callable[..., T],
        *args: object,
        timeout_s: float = ...,
        team_id: str | None = None,
        job_id: str = ...,
    ) -> T:
        """Call an importable function in a process of the pool and return its result."""
        ...

    def has_capacity(
        self, team_id: str | None, wake: Callable[[], None] | None = None
    ) -> bool:
        """Return True if a team may queue another page."""
        ...

    def is_contended(self, team_id: str | None) -> bool:
        """Return True if pages of other teams wait for a process."""
        ...


class RobotsProtocol(Protocol):
    """The interface of the class in ``ROBOTS_POLICY``, built by ``shared(settings)``."""

    def agents(self, robots_user_agent: str | None = None) -> tuple[str, ...]:
        """Return the user agents whose rules apply, best first."""
        ...

    def find_cached(self, url: str) -> Any:
        """Return the cached rules of the site of ``url``, or None."""
        ...


class EnginesProtocol(Protocol):
    """The interface of the class in ``ENGINES``, built by its ``shared(settings)``."""

    @property
    def missing(self) -> str | None:
        """The reason why no browser is available; None if a browser is."""
        ...

    def looks_for_shells(self, options: ScrapeOptions) -> bool:
        """Return True if the browser may refetch an empty page."""
        ...

    def note_page(self, url: str, *, is_shell: bool) -> None:
        """Note if a page that came over HTTP is empty before its scripts run."""
        ...


class PageSpider(scrapy.Spider):
    """A spider that yields exactly one :class:`PageContent` per page request.

    The requests of a page share its
    :class:`~scraper_service.crawling.page_state.PageState`.
    """

    pool: ConverterProtocol
    max_bytes: int
    max_hops: int
    max_refresh_s: float
    robots: RobotsProtocol
    engines: EnginesProtocol
    job_id = ""
    #: True if the caller names the URLs of all pages: no link leads to them.
    is_asked_for: ClassVar[bool] = True
    find_links = False
    find_blocks = False
    keeps_search = False
    keeps_sources = False

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Enable the add-on of the service in addition to those of the project."""
        super().update_settings(settings)
        addons = {**settings.getdict("ADDONS"), ADDON: 1000}
        # The settings of the process are set again when the crawl begins. A higher
        # priority keeps this value.
        above = (settings.getpriority("ADDONS") or 0) + 1
        settings.set("ADDONS", addons, max(above, get_settings_priority("spider")))

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        settings = crawler.settings
        spider.pool = load_object(settings["CONVERTER"]).shared(settings)
        spider.robots = load_object(settings["ROBOTS_POLICY"]).shared(settings)
        spider.engines = load_object(settings["ENGINES"]).shared(settings)
        spider.job_id = settings.get("JOB_ID") or ""
        spider.max_bytes = settings.getint("DOWNLOAD_MAXSIZE")
        spider.max_hops = settings.getint("REDIRECT_MAX_TIMES")
        spider.keeps_search = settings.getbool("SEARCH_INDEX")
        spider.max_refresh_s = settings.getfloat("METAREFRESH_MAXDELAY")
        return spider

    def page_request(
        self,
        url: str,
        options: ScrapeOptions,
        scrape_id: str,
        deadline: float,
        lease: Lease | None = None,
        team_id: str | None = None,
    ) -> Request:
        """Return the request for a page.

        Pages of a job share their cookies. Any other page has a cookie jar of its own.
        """
        return Request(
            request_url(url),
            callback=self.parse,
            errback=self.on_failure,
            dont_filter=True,
            meta={
                STATE: PageState(
                    options=options,
                    scrape_id=scrape_id,
                    source_url=url,
                    deadline=deadline,
                    lease=lease,
                    team_id=team_id,
                ),
                "cookiejar": scrape_id if lease is None else None,
                "download_fail_on_dataloss": False,  # only flags the response
            },
        )

    async def parse(self, response: Response) -> AsyncIterator[PageContent | Request]:
        """Yield the content of a page, or the next request for the page.

        The next request follows a refresh, or fetches an empty shell with the browser. The
        content of a page without text is that of the document that it embeds.
        """
        content = await self.convert(response)
        state, refresh = PageState.of(response), content.refresh
        is_rendered = state.engine == BROWSER
        if self._may_be_shell(state):
            self.engines.note_page(response.url, is_shell=content.shell is not None)
        if content.shell is not None:
            state.engine = BROWSER
            yield _next_request(response)
        elif (
            refresh is None
            or state.is_upload  # uploaded files have no URL to refresh to
            or is_rendered  # the browser follows refreshes
            or (refresh.url == response.url and not _is_new_visitor(response))
            or refresh.delay_s > self.max_refresh_s
        ):
            if content.embedded and not state.is_upload:
                content = await with_document(self, content, response)
            if content.known.get("verdict") == EMPTY_SHELL:
                reason = self._why_empty(content, state)
                content = evolve(content, warnings=(*content.warnings, *reason))
            yield content
        elif (hops := response.meta.get("redirect_times", 0) + 1) > self.max_hops:
            warning = f"The page goes on refreshing after {self.max_hops} hops."
            yield evolve(content, warnings=(*content.warnings, warning))
        else:
            url = request_url(refresh.url)
            yield _next_request(response, url, redirect_times=hops)

    def _why_empty(self, content: PageContent, state: PageState) -> Iterator[str]:
        """Yield why an empty shell is none that its scripts have filled."""
        if state.engine == BROWSER:
            yield STILL_EMPTY
        elif content.known.get("verdict_evidence") == NO_BYTES:
            return  # scripts have no part in it
        elif state.is_upload:
            yield NOT_RENDERED.format("no script of an uploaded file is run")
        elif reason := why_not_rendered(state.options, self.engines.missing):
            yield NOT_RENDERED.format(reason.removesuffix("."))

    async def convert(self, response: Response) -> PageContent:
        """Convert a response in the pool; errors are part of the content."""
        request = response.request
        assert request is not None
        state = PageState.of(request)
        facts = {
            "find_shell": self._may_be_shell(state),
            **self.text_facts(response),
            **self.source_facts(response),
        }
        source = self.page_source(response, **facts)
        if state.is_upload:  # uploads have their own size limit
            most = max(self.max_bytes, len(response.body))
            source = evolve(source, max_bytes=most)
        headers = response.headers
        time_left = state.deadline - time.monotonic()
        owner, content = self.owner(state), None
        if state.unchanged is not None and state.unchanged.body:
            content = await content_again(
                self.pool,
                state.unchanged.body,
                source,
                state.options,
                time_left,
                is_asked=source.find_text > 0,
                **owner,
            )
        is_unchanged = content is not None
        if content is None:
            content = await self.pool.convert(source, state.options, time_left, **owner)
        return evolve(
            content,
            packed=b"",
            fetch=self._fetch(
                request,
                # The source of a page without text is that of its embedded document.
                url=request.url
                if is_unchanged and content.known.get("embeddedUrl") == response.url
                else response.url,
                status=response.status,
                content_type=source.content_type,
                is_unchanged=is_unchanged,
                robots_tag=", ".join(map(_text, headers.getlist("X-Robots-Tag"))),
                kept=self.kept_response(response, source, content.packed)
                if self._is_kept(state)
                else None,
            ),
        )

    def text_facts(self, response: Response) -> dict[str, Any]:
        """Return what to compute of the text of a page in addition to its formats."""
        state = PageState.of(response)
        return {
            "find_search": self._is_searched(response, state),
            "finds_search_later": not state.is_of_job,
            "find_text": self.text_limit if asks_model(state.options) else 0,
            "pack_body": self._is_kept(state),
        }

    @functools.cached_property
    def text_limit(self) -> int:
        """The characters of a page for the language model; 0 without a model."""
        settings = self.crawler.settings
        return text_limit(settings) if language_model(settings) else 0

    def _may_be_shell(self, state: PageState) -> bool:
        """Return True if the browser may fetch a page again."""
        is_plain = state.engine == HTTP
        return is_plain and self.engines.looks_for_shells(state.options)

    def _is_kept(self, state: PageState) -> bool:
        """Return True if the job of a page keeps its response."""
        is_of_job = self.keeps_sources and state.is_of_job
        return is_of_job and not state.options.zero_data_retention

    def kept_response(
        self, response: Response, source: PageSource, packed: bytes
    ) -> KeptResponse:
        """Return the response of a page for its job, which keeps it."""
        state = PageState.of(response)
        if state.unchanged is not None:
            stored = state.unchanged.kept
            assert stored is not None
            return stored
        head = state.response_head
        return KeptResponse(
            url=response.url,
            at=state.cached_at or time.time(),
            engine=state.engine or HTTP,
            head=_head_of(response) if head is None else head,
            body=response.body,
            content_type=source.content_type,
            is_cut=source.is_cut,
            packed=packed,
        )

    def owner(self, state: PageState) -> dict[str, Any]:
        """Return the team and job of a page, as arguments of the pool."""
        return {
            "team_id": state.team_id,
            "job_id": (self.job_id or "local") if state.is_of_job else "",
        }

    def _is_searched(self, response: Response, state: PageState) -> bool:
        """Return True if a page goes into the search index of its team."""
        is_new = state.cache_state != "hit" and response.status < 400
        is_kept = bool(state.team_id) and state.options.is_shared
        is_whole = DATA_LOSS not in response.flags
        return self.keeps_search and is_new and is_kept and is_whole

    def source_facts(self, response: Response) -> dict[str, Any]:
        """Return further fields of the :class:`PageSource` of a page."""
        return {}

    def page_source(self, response: Response, **facts: Any) -> PageSource:
        """Return the :class:`PageSource` of a response; ``facts`` override fields."""
        headers = response.headers
        known: dict[str, Any] = {
            "url": response.url,
            "status": response.status,
            "body": response.body,
            "content_type": _text(headers.get("Content-Type")),
            "refresh": _text(headers.get("Refresh")),
            "last_modified": _text(headers.get("Last-Modified")),
            "content_encodings": encoding_names(headers.getlist("Content-Encoding")),
            "price_headers": _price_headers(response),
            "is_cut": DATA_LOSS in response.flags,
            "max_bytes": self.max_bytes,
            "find_links": self.find_links,
            "find_blocks": self.find_blocks,
        }
        return PageSource(**{**known, **facts})

    def on_failure(self, failure: Failure) -> Iterator[PageContent]:
        """Yield the content of a page that could not be fetched.

        Raises :exc:`ServiceUnavailable` if the service itself caused the failure.
        """
        if isinstance(failure.value, ServiceUnavailable):
            raise failure.value
        request = failure.request  # type: ignore[attr-defined]
        yield PageContent(
            fetch=self._fetch(request, url=request.url, cause=failure.value)
        )

    def _fetch(self, request: Request, **facts: Any) -> Fetch:
        state = PageState.of(request)
        base = state.base_page
        return Fetch(
            scrape_id=state.scrape_id,
            source_url=state.source_url,
            options=state.options,
            lease=state.lease,
            cache_state=state.cache_state,
            cached_at=state.cached_at,
            queued_s=state.queued_s,
            team_id=state.team_id,
            is_asked_for=self.is_asked_for,
            is_upload=state.is_upload,
            deadline=state.deadline,
            began_at=state.began_at,
            source_scrape_id=state.source_scrape_id,
            account=state.account,
            base_page=(base.body or base.text_hashes) if base else None,
            engine=state.engine or HTTP,
            proxy=state.proxy,
            rendered=state.rendered,
            warnings=state.warnings,
            **facts,
        )


def _is_new_visitor(response: Response) -> bool:
    """Return True if a response sets the first cookie of its site.

    Such a site may return another page when the cookie is sent.
    """
    assert response.request is not None
    return "Set-Cookie" in response.headers and "Cookie" not in response.request.headers


def _next_request(response: Response, url: str | None = None, **meta: int) -> Request:
    """Return another request for the page of a response, by default to the same URL."""
    request = response.request
    assert request is not None
    PageState.of(request).fetch_again()
    meta = {**request.meta, **meta}
    meta.pop("download_slot", None)  # another host has another one
    return request.replace(url=url or request.url, meta=meta, cookies=None)


def _head_of(response: Response) -> bytes:
    """Return the head of a response that the service has stored or made."""
    try:
        phrase = HTTPStatus(response.status).phrase
    except ValueError:
        phrase = ""
    first = f"HTTP/1.1 {response.status} {phrase}".strip().encode()
    fields = (
        b"%s: %s" % (name, value)
        for name, values in dict.items(response.headers)
        for value in values
    )
    return b"\r\n".join((first, *fields, b"", b""))


def _text(header: bytes | None) -> str:
    return (header or b"").decode("latin-1")


def _price_headers(response: Response) -> tuple[tuple[str, str], ...]:
    """Return the headers that name a price, of a response that asks for payment."""
    if response.status != HTTPStatus.PAYMENT_REQUIRED:
        return ()
    named = ((name, _text(response.headers.get(name))) for name in PRICE_HEADERS)
    return tuple((name, value[:MAX_HEADER]) for name, value in named if value)


class JobSpider(PageSpider):
    """A spider whose URLs come from the frontier of a job.

    The argument ``job_id`` selects a job of the database and its options. Without it,
    the spider works on a job of its own.
    """

    options: Any
    #: The options that the caller may change; empty for those of the kind of job.
    changeable: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        super().update_settings(settings)
        values = {
            "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
            "SCHEDULER": "scraper_service.crawling.scheduler.LeasedScheduler",
        }
        settings.setdict(values, priority="spider")

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        if "job_id" not in kwargs:
            return cls._of_job(crawler, *args, **kwargs)
        others = {k for k in kwargs if not k.startswith("_")} - {"job_id"}
        if others:
            text = f"job_id goes with no other argument, got {', '.join(others)}"
            raise InvalidOptions([Issue("custom", ("job_id",), text)])
        join_job = load_object(crawler.settings["JOB_SOURCE"])
        options = join_job(crawler, kwargs["job_id"], kwargs.get("_job", ""))
        return cls._of_job(crawler, *args, options=options)

    @classmethod
    def _of_job(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        keeps = spider.options.keep_sources
        if keeps is None:
            keeps = crawler.settings.getbool("KEEP_SOURCES")
        # A job in memory keeps nothing.
        spider.keeps_sources = keeps and bool(spider.job_id)
        return spider

    def change_options(self, options: Any) -> None:
        """Apply the options that the caller of the job has changed."""
        names = self.changeable or CHANGEABLE[self.name]
        changed = {name: getattr(options, name) for name in names}
        self.options = evolve(self.options, **changed)

    async def start(self) -> AsyncIterator[Request]:
        """Yield nothing: the frontier has the start URLs."""
        return
        yield

    def key_of(self, url: str) -> int | None:
        """Return the key of ``url`` in the job; None if duplicates are allowed."""
        return None

    def remember(self, links: Sequence[LinkRowT], depth: int) -> None:
        """Record that the frontier has stored links, with their depth."""


def options_object(arguments: dict[str, Any]) -> Any:
    """Return ``options`` if it is an object; text from ``-a options={...}`` gives None."""
    options = arguments.get("options")
    return None if isinstance(options, str) else options


async def content_again(
    pool: Any,
    page: bytes,
    source: PageSource,
    options: ScrapeOptions,
    timeout_s: float,
    *,
    is_asked: bool,
    **owner: Any,
) -> PageContent | None:
    """Return the content of the compressed ``page`` for its response that has not changed.

    ``pool`` is the converter pool, and ``owner`` the team and the job. Links are found again,
    because another page may have found them first. None for a page that has to be converted:
    its text depends on other pages, or on the moment, see :func:`repeated_content`.
    """
    if source.find_blocks or timeout_s <= 0:
        return None
    again = partial(repeated_content, is_asked=is_asked)
    try:
        content: PageContent | None = await pool.run(
            again, page, timeout_s=timeout_s, **owner
        )
    except (ConverterDied, MemoryError, TimeoutError):
        return None
    if content is None or not source.find_links:
        return content
    plain = evolve(
        source, find_search=False, find_shell=False, find_text=0, pack_body=False
    )
    bare = evolve(options, formats=())
    found = await pool.convert(plain, bare, timeout_s, **owner)
    if found.error is not None:
        return None
    return evolve(
        content,
        found=found.found,
        links=found.links,
        canonical=found.canonical,
        fingerprint=found.fingerprint,
    )
