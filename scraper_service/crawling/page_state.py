"""What a page carries on its way, from the request of its spider to its content."""

from __future__ import annotations

import math
from enum import Enum, auto
from typing import TYPE_CHECKING

from attrs import Factory, define

from scraper_service.discovery.scope_rules import LinkCheck
from scraper_service.items import KeptResponse, Lease, Rendered, TakenPage, Upload
from scraper_service.options.scrape import ScrapeOptions
from scraper_service.options.urls import OriginT
from scraper_service.storage.accounts.sessions import StateT
from scraper_service.storage.jobs.earlier_pages import BasePage

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

#: The key of ``request.meta``. All others are those of Scrapy.
STATE = "page_state"

#: A ``retry_at``: the page returns to the job without a request.
PUT_OFF = -math.inf


class FetchKind(Enum):
    """The kind of file that is fetched."""

    PAGE = auto()
    #: A sitemap file. It is never rendered, and not stored in the page cache.
    SITEMAP = auto()
    #: The list of sitemaps in a robots.txt, as JSON.
    SITEMAP_URLS = auto()


@define(kw_only=True, eq=False)
class FetchLimits:
    """The limits of a fetch: all that the request for a robots.txt carries."""

    #: When the file has to be there, after all redirects (:func:`time.monotonic`).
    deadline: float = math.inf
    #: Bytes of the body. The rest of a longer one is not read.
    cut_bytes: float = math.inf
    #: Receives the URLs of all requests, in order.
    hops: list[str] | None = None

    @staticmethod
    def of(request: Request) -> FetchLimits:
        """Return the limits of a request; those of another project have none."""
        found: FetchLimits = request.meta.get(STATE, NO_LIMITS)
        return found


NO_LIMITS = FetchLimits()


@define(kw_only=True, eq=False)
class PageState(FetchLimits):
    """What a page or a sitemap file carries on its way, as ``request.meta["page_state"]``.

    A spider makes the state with the first request for a page. Middlewares, the download
    handler, the scheduler and the spider fill in the other fields, in the order below, and
    each of them reads what it needs. The state ends when the spider makes the content of the
    page: :class:`~scraper_service.items.Fetch` has what the pipelines need of it.

    The state belongs to the page. A redirect, a retry and :meth:`fetch_again` make another
    request of the same page. Scrapy copies ``meta`` for it, and with it the reference to this
    object. A page has one request at a time, so no two requests write to one state. The
    document that a page embeds is fetched while the page waits, and has a state of its own.

    Requests with a state are neither stored nor sent to another process: the scheduler of jobs
    stores rows, and a claim makes a new state.
    """

    # -- The spider, with the first request. The service adds ``account``, and the scheduler
    # -- or the service ``queued_s``.
    options: ScrapeOptions
    #: The id of the page.
    scrape_id: str
    #: The URL as the caller or a link wrote it.
    source_url: str
    #: Only in jobs.
    lease: Lease | None = None
    #: None outside of the service.
    team_id: str | None = None
    #: The id of the caller's key or team; empty in local runs.
    account: str = ""
    #: Seconds that the team's limit delayed the page; None without delay.
    queued_s: float | None = None
    kind: FetchKind = FetchKind.PAGE
    #: The user agents whose robots.txt rules apply, best first; empty for no rules.
    robots_agents: tuple[str, ...] = ()
    #: Seconds of each attempt of a page of a job.
    time_s: float = Factory(lambda self: self.options.deadline_ms / 1000, True)
    #: A file or a page of a session, instead of a fetch.
    given: Upload | TakenPage | None = None

    # -- Downloader middlewares, before the fetch.
    #: ``hit`` or ``miss``; None if the page cache was not read.
    cache_state: str | None = None
    #: Time of the cached response in seconds since 1970.
    cached_at: float | None = None
    #: ``http`` or ``browser``; None before the choice. The download handler writes ``http`` for
    #: a page that the browser could not open.
    engine: str | None = None
    #: The origin of the first request, which gets the headers of the caller.
    first_origin: OriginT | None = None
    #: True once ``base_page`` was read.
    has_base: bool = False
    #: The page of the base of the job; None without one.
    base_page: BasePage | None = None

    # -- The download handler, in each request.
    #: When the first request of the page started (:func:`time.monotonic`).
    began_at: float | None = None
    #: ``basic`` or ``stealth``.
    proxy: str = "basic"
    #: The pause that the site requested, in seconds.
    retry_after_s: float = 0.0
    #: Cookies and storage of the browser, for the request after its redirect.
    browser_state: StateT | None = None

    # -- What has come with the last response, until :meth:`fetch_again`.
    rendered: Rendered | None = None
    warnings: tuple[str, ...] = ()
    #: Status line and fields, as they were received.
    response_head: bytes | None = None
    #: The base page with its response, if nothing has changed.
    unchanged: BasePage | None = None

    # -- The wait of a page of a job for its next attempt: written by the retry middleware, and
    # -- deleted by the queue of the scheduler.
    #: When it may start (:func:`time.monotonic`), :data:`PUT_OFF`, or None for no wait.
    retry_at: float | None = None
    #: The part of the wait that no site requested, in seconds.
    backoff_s: float = 0.0
    #: When the wait began (:func:`time.monotonic`).
    held_at: float = 0.0

    # -- A job that reads the responses of another job, instead of a fetch.
    kept: KeptResponse | None = None
    #: The page that ``kept`` was stored for.
    source_scrape_id: str | None = None

    # -- The spider of a crawl, before the conversion.
    #: The rules that the links of the page are checked by.
    link_check: LinkCheck | None = None

    @staticmethod
    def of(carrier: Request | Response) -> PageState:
        """Return the state of the page of a request or response, which must have one."""
        found: PageState = carrier.meta[STATE]
        return found

    @staticmethod
    def find(request: Request) -> PageState | None:
        """Return the state of the page of a request.

        None for a robots.txt, and for requests of another project.
        """
        found = request.meta.get(STATE)
        return found if isinstance(found, PageState) else None

    @property
    def is_of_job(self) -> bool:
        """True for a page of a job."""
        return self.lease is not None

    @property
    def job_lease(self) -> Lease:
        """The lease of a page of a job, which always has one."""
        assert self.lease is not None
        return self.lease

    @property
    def is_upload(self) -> bool:
        """True for an uploaded file."""
        return isinstance(self.given, Upload)

    def warn(self, text: str) -> None:
        """Add a warning, once."""
        self.warnings = tuple(dict.fromkeys((*self.warnings, text)))

    def fetch_again(self) -> None:
        """Forget what has come with the last response: the page needs another one."""
        self.rendered = self.response_head = self.unchanged = None
        self.warnings = ()
