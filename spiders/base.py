"""What every spider of the service does with a page: ask, convert, fail as data."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import scrapy
from attrs import evolve
from scrapy import Request
from scrapy.settings import get_settings_priority
from scrapy.utils.misc import load_object

from scraper_service.errors import InvalidOptions, Issue, ServiceUnavailable
from scraper_service.items import (
    DATA_LOSS,
    Fetch,
    FoundLink,
    Lease,
    PageContent,
    PageSource,
)
from scraper_service.llm.model import language_model, text_limit
from scraper_service.options.engine import BROWSER, HTTP
from scraper_service.options.model import asks_model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings
    from twisted.python.failure import Failure

    from scraper_service.options.scrape import ScrapeOptions


T = TypeVar("T")

ADDON = "scraper_service.addon.ServiceAddon"
_OF_AN_ANSWER = frozenset(
    {"download_latency", "download_slot", "rendered", "transport_warnings"}
)


class ConverterPool(Protocol):
    """What the setting ``CONVERTER`` names; made by its ``shared(settings)``."""

    async def convert(
        self,
        source: PageSource,
        options: ScrapeOptions,
        timeout_s: float,
        team_id: str | None = None,
        job_id: str = "",
    ) -> PageContent:
        """Return the content of a page, or the error why there is none."""
        ...

    async def read_sitemap(
        self,
        source: PageSource,
        timeout_s: float,
        choose: Any = None,
        read: Callable[..., Any] = ...,
        team_id: str | None = None,
        job_id: str = "",
    ) -> Any:
        """Return what a sitemap lists, or the error why nothing."""
        ...

    async def run(
        self,
        function: Callable[..., T],
        *args: object,
        timeout_s: float = ...,
        team_id: str | None = None,
    ) -> T:
        """Return what an importable function returns in a process of the pool."""
        ...

    def has_capacity(
        self, team_id: str | None, wake: Callable[[], None] | None = None
    ) -> bool:
        """Return True if a team may queue another page."""
        ...


class RobotsPolicy(Protocol):
    """What the setting ``ROBOTS_POLICY`` names; made by its ``shared(settings)``."""

    def agents(self, robots_user_agent: str | None = None) -> tuple[str, ...]:
        """Return whose rules count, best first."""
        ...

    def known(self, url: str) -> Any:
        """Return the rules of the site of ``url``, None if they are not known yet."""
        ...


class Engines(Protocol):
    """What the setting ``ENGINES`` names; made by its ``shared(settings)``."""

    @property
    def missing(self) -> str | None:
        """Why there is no browser, None if there is one."""
        ...

    def looks_for_shells(self, options: ScrapeOptions) -> bool:
        """Tell whether an empty page may be fetched again by the browser."""
        ...

    def remember_shell(self, url: str) -> None:
        """Note that the pages of a site are empty before their scripts run."""
        ...


class PageSpider(scrapy.Spider):
    """One page request in, exactly one :class:`PageContent` out.

    ``request.meta`` of a page: ``options`` (frozen), ``scrape_id``, ``source_url``
    (the address as the caller wrote it), ``cookiejar``, ``deadline``
    (:func:`time.monotonic`), ``lease`` in a job, ``team_id`` and ``account`` (of the
    key) in the service.
    """

    pool: ConverterPool
    max_bytes: int
    max_hops: int
    max_refresh_s: float
    robots: RobotsPolicy
    engines: Engines
    job_id = ""
    text_limit: int  # characters of a page that a language model may read; 0 for none
    find_links = False
    find_blocks = False
    keeps_search = False

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Switch on what our spiders are made of, whatever add-ons a project has."""
        super().update_settings(settings)
        addons = {**settings.getdict("ADDONS"), ADDON: 1000}
        # Above what the process has: that is set once more when the crawl begins.
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
        spider.text_limit = text_limit(settings) if language_model(settings) else 0
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
        """Return the request for a page; its cookies are its own or its job's."""
        return Request(
            url,
            callback=self.parse,
            errback=self.failed,
            dont_filter=True,
            meta={
                "options": options,
                "scrape_id": scrape_id,
                "source_url": url,
                "cookiejar": scrape_id if lease is None else None,
                "deadline": deadline,
                "download_fail_on_dataloss": False,  # it tells, in the flags
                "lease": lease,
                "team_id": team_id,
            },
        )

    async def parse(self, response: Response) -> AsyncIterator[PageContent | Request]:
        """Yield the content of a page, or the request for what it refreshes to.

        Or the request for the same page by the browser, where it is an empty shell.
        """
        content = await self.convert(response)
        refresh = content.refresh
        assert response.request is not None
        if content.shell is not None:
            self.engines.remember_shell(response.url)
            meta = {**_asked(response.meta), "engine": BROWSER}
            yield response.request.replace(meta=meta, cookies=None)
        elif (
            refresh is None
            or "upload" in response.meta  # which leads nowhere
            or response.meta.get("engine") == BROWSER  # which has followed it
            or (refresh.url == response.url and not _is_new_visitor(response))
            or refresh.delay_s > self.max_refresh_s
        ):
            yield content
        elif (hops := response.meta.get("redirect_times", 0) + 1) > self.max_hops:
            remark = f"The page goes on refreshing after {self.max_hops} hops."
            yield evolve(content, warnings=(*content.warnings, remark))
        else:
            meta = {**_asked(response.meta), "redirect_times": hops}
            yield response.request.replace(url=refresh.url, meta=meta, cookies=None)

    async def convert(self, response: Response) -> PageContent:
        """Let the pool understand an answer; an error is part of the content."""
        request = response.request
        assert request is not None
        options, engine = request.meta["options"], request.meta.get("engine")
        may_be_shell = engine == HTTP and self.engines.looks_for_shells(options)
        source = self.page_source(
            response,
            find_shell=may_be_shell,
            find_search=self._is_searched(response),
            find_text=self.text_limit if asks_model(options) else 0,
            **self.source_facts(response),
        )
        if "upload" in response.meta:  # held to a limit of its own
            most = max(self.max_bytes, len(response.body))
            source = evolve(source, max_bytes=most)
        headers = response.headers
        time_left = request.meta["deadline"] - time.monotonic()
        content = await self.pool.convert(
            source, options, time_left, **self.owner(response)
        )
        return evolve(
            content,
            fetch=_fetch(
                request,
                url=response.url,
                status=response.status,
                content_type=source.content_type,
                robots_tag=", ".join(map(_text, headers.getlist("X-Robots-Tag"))),
            ),
        )

    def owner(self, response: Response) -> dict[str, Any]:
        """Return whose converter time a page uses, as arguments of the pool."""
        meta = response.meta
        is_of_job = meta.get("lease") is not None
        return {
            "team_id": meta.get("converter_team") or meta.get("team_id"),
            "job_id": (self.job_id or "local") if is_of_job else "",
        }

    def _is_searched(self, response: Response) -> bool:
        """Tell whether a page is for the index of its team."""
        meta = response.meta
        is_new = meta.get("cache_state") != "hit" and response.status < 400
        is_kept = bool(meta.get("team_id")) and meta["options"].is_shared
        is_whole = DATA_LOSS not in response.flags
        return self.keeps_search and is_new and is_kept and is_whole

    def source_facts(self, response: Response) -> dict[str, Any]:
        """Return what else the pool is to find out about a page."""
        return {}

    def page_source(self, response: Response, **facts: Any) -> PageSource:
        """Return an answer as the pool takes it; ``facts`` are further fields."""
        headers = response.headers
        encodings = b",".join(headers.getlist("Content-Encoding")).decode("latin-1")
        known: dict[str, Any] = {
            "url": response.url,
            "status": response.status,
            "body": response.body,
            "content_type": _text(headers.get("Content-Type")),
            "refresh": _text(headers.get("Refresh")),
            "content_encodings": tuple(
                name.strip().lower() for name in encodings.split(",") if name.strip()
            ),
            "is_cut": DATA_LOSS in response.flags,
            "max_bytes": self.max_bytes,
            "find_links": self.find_links,
            "find_blocks": self.find_blocks,
        }
        return PageSource(**{**known, **facts})

    def failed(self, failure: Failure) -> Iterator[PageContent]:
        """Yield the content of a page that could not be fetched.

        Raises :exc:`ServiceUnavailable` where that is no matter of the page.
        """
        if isinstance(failure.value, ServiceUnavailable):
            raise failure.value
        request = failure.request  # type: ignore[attr-defined]
        yield PageContent(fetch=_fetch(request, url=request.url, cause=failure.value))


def _is_new_visitor(response: Response) -> bool:
    """Tell whether a site gave us its first cookie, for which it may show another page."""
    assert response.request is not None
    return "Set-Cookie" in response.headers and "Cookie" not in response.request.headers


def _asked(meta: dict[str, Any]) -> dict[str, Any]:
    """Return what a request was made with, without what its answer added."""
    return {name: value for name, value in meta.items() if name not in _OF_AN_ANSWER}


def _fetch(request: Request, **facts: Any) -> Fetch:
    return Fetch(
        scrape_id=request.meta["scrape_id"],
        source_url=request.meta["source_url"],
        options=request.meta["options"],
        lease=request.meta.get("lease"),
        cache_state=request.meta.get("cache_state"),
        cached_at=request.meta.get("cached_at"),
        queued_s=request.meta.get("queued_s"),
        team_id=request.meta.get("team_id"),
        is_asked_for=request.meta.get("is_asked_for", True),
        is_upload="upload" in request.meta,
        deadline=request.meta.get("deadline"),
        account=request.meta.get("account", ""),
        engine=request.meta.get("engine", HTTP),
        proxy=request.meta.get("proxy_used", "basic"),
        rendered=request.meta.get("rendered"),
        warnings=request.meta.get("transport_warnings", ()),
        **facts,
    )


def _text(header: bytes | None) -> str:
    return (header or b"").decode("latin-1")


class JobSpider(PageSpider):
    """A spider whose addresses come from a job's frontier.

    With the argument ``job_id`` it works on a job of the database, whose options it
    takes; without, on one of its own.
    """

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
            return super().from_crawler(crawler, *args, **kwargs)
        others = {k for k in kwargs if not k.startswith("_")} - {"job_id"}
        if others:
            text = f"job_id goes with no other argument, got {', '.join(others)}"
            raise InvalidOptions([Issue("custom", ("job_id",), text)])
        join_job = load_object(crawler.settings["JOB_SOURCE"])
        options = join_job(crawler, kwargs["job_id"], kwargs.get("_job", ""))
        return super().from_crawler(crawler, *args, options=options)

    async def start(self) -> AsyncIterator[Request]:
        """Yield nothing: the frontier has the first addresses."""
        return
        yield

    def key_of(self, url: str) -> int | None:
        """Return the key under which the job knows ``url``; None for no duplicates."""
        return None

    def remember(self, link: FoundLink) -> None:
        """Take note that a link is stored."""


def given(arguments: dict[str, Any]) -> Any:
    """Return options that were made already; ``-a options={...}`` is text."""
    options = arguments.get("options")
    return None if isinstance(options, str) else options
