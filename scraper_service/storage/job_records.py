"""Records that crawlers, services and the job database exchange."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple, Self

from attrs import field, frozen

from scraper_service.content.stored_pages import StoredResponse
from scraper_service.discovery.scope_rules import Reason
from scraper_service.items import KeptResponse, Snapshot
from scraper_service.options.jobs import Webhook


class JobState(StrEnum):
    """State of a job. ``queued`` and ``scraping`` are active, the others are final.

    A paused job is active, and has a time in ``paused_at``.
    """

    QUEUED = "queued"
    SCRAPING = "scraping"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


# The team of jobs that a command runs without a service.
LOCAL_TEAM = "local"
ACTIVE = (JobState.QUEUED, JobState.SCRAPING)
REPROCESS = "reprocess"  # the spider of jobs of both kinds that fetch nothing
MAX_LIMIT = 2**31 - 1  # pages of a job, the most that its column stores


class RowState(IntEnum):
    """State of a URL in a job's frontier.

    ``HELD`` URLs wait until the page limit allows them. ``SKIPPED`` URLs were refused
    before the fetch, with a reason in ``code``. An ``ALIAS`` is the target of a redirect
    of a delivered page. ``LISTED`` URLs were refused too, and stand in
    :mod:`scraper_service.storage.frontier.refused_links`: no row of the frontier has this
    state. These four states are not in the total of the job.
    """

    HELD = 0
    PENDING = 1
    LEASED = 2
    DONE = 3
    FAILED = 4
    SKIPPED = 5
    ALIAS = 6
    LISTED = 7


class UrlKind(IntEnum):
    """Kind of a URL in a frontier. Sitemaps are not in the total of the job."""

    PAGE = 0
    SITEMAP = 1


class RunState(IntEnum):
    """State of a run, which is the lease of a process on a job.

    ``REQUESTED`` until the process of a scrapyd node has joined the job; a run of this service
    begins as ``RUNNING``.
    """

    REQUESTED = 0
    RUNNING = 1
    ENDED = 2


LOST = "lost"  # why a run ended, whose process is dead


class DeliveryState(IntEnum):
    """State of a webhook delivery. ``FAILED`` deliveries are not retried."""

    PENDING = 0
    DELIVERED = 1
    FAILED = 2


@frozen(kw_only=True)
class Job:
    """A row of the job table. Times are seconds since 1970, UTC.

    ``open + done + failed`` is the number of URLs accepted so far.
    """

    id: str
    team_id: str
    #: A key of :data:`~scraper_service.options.jobs.KINDS`.
    kind: str
    #: Version of the API that started the job.
    version: int
    state: JobState
    url: str
    #: Options as JSON, without secrets.
    options: str
    #: The largest number of pages, None for any number.
    page_limit: int | None
    #: URLs that are pending or leased.
    open: int
    done: int
    failed: int
    #: Delivered pages.
    pages: int
    #: URLs that wait until ``page_limit`` allows them.
    held: int
    #: URLs that were refused before a fetch, and targets of redirects of other URLs.
    skipped: int
    #: Sitemap files still to be read.
    sitemaps: int
    #: All sitemap files.
    sitemap_files: int
    #: Credits charged so far.
    credits: int
    #: Credits reserved per page, None for an unlimited team.
    page_price: int | None
    #: Target of the start URL's redirect if the scope of the crawl follows the redirect.
    base: str | None
    #: Sentences, made of the codes in the row.
    warning: str | None
    error: str | None
    created_at: float
    completed_at: float | None
    expires_at: float
    #: The start of a pause, None for a job that is not paused.
    paused_at: float | None = None
    #: The number of changes by the caller.
    revision: int = 0
    #: The job whose stored responses this job reads; None for a job that fetches.
    source_job_id: str | None = None
    #: The earlier job whose unchanged pages this job repeats; None for a job of its own.
    base_job_id: str | None = None

    @property
    def since(self) -> str | None:
        """The earlier crawl of the option ``since``; None without the option."""
        if self.base_job_id is None or not json.loads(self.options).get("since"):
            return None  # the base of a check of a monitor
        return self.base_job_id

    @property
    def spider(self) -> str:
        """The name of the spider that runs the job."""
        return self.kind if self.source_job_id is None else REPROCESS

    @property
    def total(self) -> int:
        return self.open + self.done + self.failed

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE


@frozen
class ClaimedRow:
    """A URL that is leased to this process."""

    id: int
    kind: int
    key: int
    url: str
    depth: int
    #: Fencing token of the lease.
    token: int
    #: Options of the page as JSON, None for the options of the job.
    options: str | None = None
    #: ``lastmod`` of a sitemap.
    lastmod: str | None = None


@frozen
class Claim:
    """The result of a claim: the leased rows, and facts of the job row."""

    rows: tuple[ClaimedRow, ...]
    state: JobState
    base: str | None = None
    page_price: int | None = None
    #: The ``revision`` of the job.
    revision: int = 0
    #: How far a look beyond some sites went, None for all pending URLs.
    last: int | None = None


class Link(NamedTuple):
    """A URL for a frontier. A named tuple, since a page may have hundreds of links."""

    #: Key of the URL in its job. Equal keys are duplicates.
    key: int
    url: str
    depth: int
    #: Options of the page as JSON, None for the options of the job.
    options: str | None = None
    kind: UrlKind = UrlKind.PAGE
    #: Row of the page with the link.
    found_on: int | None = None
    #: Reason for a URL that is listed and not fetched.
    code: str | None = None
    error: str | None = None
    #: ``lastmod`` of a sitemap.
    lastmod: str | None = None


@frozen(kw_only=True)
class CountedPage:
    """What the counts of a job need of a delivered page."""

    #: The status of the site, None for a page without one.
    status: int | None
    #: Links from the start.
    depth: int
    verdict: str | None
    #: JSON of the data by a schema or prompt, None for a page without data.
    data: bytes | None
    #: How many parts of each kind the page lost.
    losses: Mapping[str, int] = field(factory=dict)


@frozen(kw_only=True)
class Outcome:
    """The end of the fetch of a leased URL. One transaction stores an outcome."""

    row_id: int
    key: int
    #: Fencing token of the lease.
    token: int
    #: Id of the process with the lease.
    owner: str
    page_id: str
    kind: UrlKind = UrlKind.PAGE
    #: True if the URL is done without a page, for example a sitemap.
    is_done: bool = False
    #: JSON of the page, None for a failure.
    page: bytes | None = None
    #: JSON of the page with its whole Markdown, if ``page`` has a part of it.
    whole: bytes | None = None
    #: None for a page that is not counted.
    facts: CountedPage | None = None
    credits: int = 0
    #: Reason of a failure, and the status of the site.
    code: str | None = None
    error: str | None = None
    status: int | None = None
    #: The hashes of the texts of the page in an earlier crawl, if no page is delivered.
    text_hashes: str | None = None
    #: Key and URL after redirects.
    final: tuple[int, str] | None = None
    #: Links of the page. Iterated more than once.
    links: Iterable[Link] = ()
    #: True if the outcome only adds links, and the lease goes on.
    goes_on: bool = False
    #: New ``base`` of the job.
    base: str | None = None
    #: Texts about a sitemap, added to the warnings of the job.
    warnings: tuple[str, ...] = ()
    #: A :class:`~scraper_service.storage.frontier.job_counts.DeliveredText` for the search of
    #: duplicates, or None.
    text: Any = None
    #: Snapshot of a tracked page.
    snapshot: Snapshot | None = None
    #: The response that the page was made of, if the job keeps it.
    kept: KeptResponse | StoredResponse | None = None

    @property
    def redirected_to(self) -> tuple[int, str] | None:
        """Key and URL of another URL that the fetch ended at, None without one."""
        return self.final if self.final and self.final[0] != self.key else None

    @property
    def end_state(self) -> RowState:
        """State of the URL: a page that robots.txt refuses is skipped."""
        if self.page is not None or self.is_done:
            return RowState.DONE
        is_refused = self.kind is UrlKind.PAGE and self.code == Reason.ROBOTS
        return RowState.SKIPPED if is_refused else RowState.FAILED

    @property
    def has_failed(self) -> bool:
        """Return True if the errors of the job list this outcome."""
        is_page = self.kind is UrlKind.PAGE and not self.goes_on
        return is_page and self.end_state is RowState.FAILED

    @property
    def loss_kinds(self) -> str | None:
        """The kinds of the page's losses with a space around each; None without any."""
        kinds = self.facts.losses if self.facts is not None else ()
        return f" {' '.join(kinds)} " if kinds else None


@frozen
class Commit:
    """The result of storing an outcome."""

    #: False if the lease was lost or the job had ended. Nothing was stored.
    accepted: bool
    #: False for failures and duplicates.
    delivered: bool
    state: JobState
    #: URLs to fetch from all outcomes of the same transaction.
    new_links: int = 0
    #: The ``revision`` of the job.
    revision: int = 0
    #: True if the page was compared with a snapshot that is no longer the last one.
    #: Nothing was stored, and the lease is still valid.
    is_stale: bool = False


@frozen
class Effect:
    """The number of URLs that a change of a job has moved."""

    #: From held to pending.
    admitted: int = 0


@frozen
class JobChange:
    """A change of a job by its caller."""

    #: Options that callers may change, as they are now in force, by attribute.
    options: Mapping[str, Any]
    effect: Effect = Effect()


@frozen
class PageErrorRow:
    """A page of a job that failed."""

    id: str
    url: str
    code: str
    error: str
    at: float


def event_id(job_id: str, seq: int) -> str:
    """Return the id of an event, a UUID that is the same at each attempt."""
    return str(uuid.uuid5(uuid.UUID(job_id), str(seq)))


def event_error(
    kind: str, has_page: bool, page_error: str | None, job_error: str | None
) -> str | None:
    """Return the error text of an event, None for a success."""
    if kind == "page" and not has_page:
        return page_error or "The page could not be fetched."
    if kind in {"failed", "cancelled"}:
        return job_error or f"The job was {kind}."
    return None


def failure_of(kind: str, detail: str | None) -> str | None:
    """Return the error of a failed page that was fetched again later, else None.

    ``detail`` is that of the event of the failure.
    """
    if kind != "page" or detail is None:
        return None
    return event_error(kind, False, detail, None)


@frozen
class Due:
    """An event of a job that is due for its ``attempt``-th delivery."""

    seq: int
    kind: str
    attempt: int


@frozen(kw_only=True)
class DeliveryLease:
    """The lease on the due deliveries of a job."""

    job_id: str
    job_kind: str
    team_id: str
    #: Host and port of the webhook.
    receiver: str
    #: Fencing token of the lease.
    token: int
    #: The webhook with its headers, None if ``trouble`` says why it cannot be read.
    hook: Webhook | None
    #: Deliveries in the order of sending.
    due: tuple[Due, ...]
    #: Error that keeps this process from sending, or None.
    trouble: str | None = None


@frozen(kw_only=True)
class Event:
    """An event of a job for webhooks and streams."""

    job_id: str
    job_kind: str
    #: Number of the event in its job.
    seq: int
    kind: str
    #: JSON of a delivered page.
    page: bytes | None
    #: None for a success.
    error: str | None
    #: JSON of the result of a model job, in its last event.
    result: bytes | None = None
    #: Number of pages that the result was read from.
    pages: int = 0
    #: JSON of a :class:`JobChange`, in the event of a change by the caller; the facts of
    #: an event of a :data:`MONITOR_CHECK`; else None.
    detail: str | None = None


@frozen(kw_only=True)
class DeliveryResult:
    """The result of one delivery attempt: a ``status`` of the receiver or an ``error``."""

    seq: int
    #: Seconds since 1970.
    at: float
    duration_ms: int = 0
    status: int | None = None
    error: str | None = None
    #: True if the delivery is not retried.
    is_final: bool = False
    #: The start of the response's body, without NUL; None without a response.
    response: str | None = None

    @property
    def is_ok(self) -> bool:
        return self.error is None

    def as_json(self, attempt: int) -> dict[str, Any]:
        """Return the log entry of the attempt with this number."""
        facts = {
            "attempt": attempt,
            "at": self.at,
            "duration_ms": self.duration_ms,
            "status": self.status,
            "error": self.error,
        }
        return {name: value for name, value in facts.items() if value is not None}


@frozen(kw_only=True)
class Delivery:
    """A webhook delivery in the outbox."""

    seq: int
    kind: str
    at: float
    state: DeliveryState
    #: Log entries of :meth:`Answer.as_json`.
    attempts: tuple[dict[str, Any], ...]
    #: Time of the next attempt, None if no attempt is planned.
    due_at: float | None
    page_url: str | None
    #: The start of the body of the last response, None before the first one.
    response: str | None = None
    #: The body that is sent; None in lists, and after the end of the job's retention.
    body: bytes | None = None


@frozen
class PageRow:
    """A page of a check, as it is stored: facts, diff and data, each a line of JSON.

    Diffs are long. They are only passed on between the converter pool, the database and
    responses, and never parsed by the event loop.
    """

    #: Facts as JSON values: ``status``, ``url``, and others that callers read.
    facts: dict[str, Any]
    #: JSON in one line; None without a diff, and without data.
    diff: bytes | None = None
    data: bytes | None = None

    def encode(self, **facts: Any) -> bytes:
        """Return the row with further facts, for :meth:`read`."""
        head = json.dumps({**facts, **self.facts}).encode()
        return b"\n".join((head, self.diff or b"", self.data or b""))

    @classmethod
    def read(cls, text: bytes) -> Self:
        """Return the row from the result of :meth:`encode`."""
        head, diff, data = text.split(b"\n")
        return cls(json.loads(head), diff or None, data or None)
