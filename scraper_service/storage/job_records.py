"""Jobs, and what passes between a crawler and the job database."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

from attrs import frozen

from scraper_service.items import Snapshot
from scraper_service.options.jobs import Webhook


class JobState(StrEnum):
    """``queued`` and ``scraping`` go on; the three others are for ever."""

    QUEUED = "queued"
    SCRAPING = "scraping"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


# Whom jobs belong to that no service runs, but the command that made them.
LOCAL_TEAM = "local"
ACTIVE = (JobState.QUEUED, JobState.SCRAPING)
CRAWLED = ("crawl", "batch")  # kinds of jobs that crawlers run


class RowState(IntEnum):
    """State of an address in a job's frontier.

    ``HELD`` waits for room under the limit; ``ALIAS`` is where a delivered page was
    redirected to; ``SKIPPED`` was refused before it was fetched, its ``code`` says why.
    These three are not in the total of the job.
    """

    HELD = 0
    PENDING = 1
    LEASED = 2
    DONE = 3
    FAILED = 4
    SKIPPED = 5
    ALIAS = 6


class Kind(IntEnum):
    """What an address of a frontier leads to; sitemaps are in no total of the job."""

    PAGE = 0
    SITEMAP = 1


class DeliveryState(IntEnum):
    """State of an event on its way; a ``FAILED`` one was given up."""

    PENDING = 0
    DELIVERED = 1
    FAILED = 2


class SegmentState(IntEnum):
    """State of a part of the index of scraped pages: only ``LIVE`` ones are searched."""

    BUILDING = 0
    LIVE = 1
    DEAD = 2


@frozen(kw_only=True)
class Job:
    """A row of the job table. Times are seconds since 1970, UTC.

    ``open + done + failed`` are the addresses accepted so far; ``pages`` of the done
    ones were delivered, ``held`` wait for room under ``page_limit`` (None: no limit).
    ``skipped`` are those ever refused before a fetch, ``sitemaps`` the sitemap files
    that are still to be read, of ``sitemap_files`` in all. ``base`` is the address that
    the start page was redirected to, if that is what the crawl's scope is about.
    ``page_price`` are the credits that were reserved for each page, None where none are.
    """

    id: str
    team_id: str
    kind: str
    version: int
    state: JobState
    url: str
    options: str
    page_limit: int | None
    open: int
    done: int
    failed: int
    pages: int
    held: int
    skipped: int
    sitemaps: int
    sitemap_files: int
    credits: int
    page_price: int | None
    base: str | None
    warning: str | None
    error: str | None
    created_at: float
    completed_at: float | None
    expires_at: float

    @property
    def total(self) -> int:
        return self.open + self.done + self.failed

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE


@frozen
class ClaimedRow:
    """An address that was leased to this process.

    ``options`` are those of its page as JSON, None for those of its job.
    """

    id: int
    kind: int
    key: int
    url: str
    depth: int
    token: int
    options: str | None = None


@frozen
class Claim:
    """What a claim brought; the others are of the row of the job."""

    rows: tuple[ClaimedRow, ...]
    state: JobState
    base: str | None = None
    page_price: int | None = None


class Link(NamedTuple):
    """An address for a frontier: its key there, as it is fetched, and its depth.

    ``found_on`` is the row of the page that has it, ``lastmod`` what a sitemap says of
    it. One with a ``code`` is refused: it is listed with the reason and not fetched.
    A tuple, as a page may bring a hundred of them.
    """

    key: int
    url: str
    depth: int
    options: str | None = None
    kind: Kind = Kind.PAGE
    found_on: int | None = None
    code: str | None = None
    error: str | None = None
    lastmod: str | None = None


@frozen(kw_only=True)
class Outcome:
    """How the fetch of a leased address ended; stored in one transaction.

    ``page`` is the page's JSON, None for a failed one, whose reason are ``code`` and
    ``error``; with ``is_done`` it needs no page, as a sitemap. ``final`` is the key and
    the address that it was redirected to. One that ``goes_on`` brings links and keeps
    its lease. ``base`` becomes that of the job, ``warnings`` are added to its own.
    ``text`` is the :class:`~scraper_service.storage.frontier.duplicates.PageText` of a page, if later
    ones are compared with it.
    ``snapshot`` is what to keep of a tracked page.
    ``links`` may be read more than once.
    """

    row_id: int
    key: int
    token: int
    owner: str
    page_id: str
    kind: Kind = Kind.PAGE
    is_done: bool = False
    page: bytes | None = None
    credits: int = 0
    code: str | None = None
    error: str | None = None
    final: tuple[int, str] | None = None
    links: Iterable[Link] = ()
    goes_on: bool = False
    base: str | None = None
    warnings: tuple[str, ...] = ()
    text: Any = None
    snapshot: Snapshot | None = None


@frozen
class Commit:
    """What became of an outcome.

    ``accepted`` is False when the lease was lost or the job had ended: nothing of it
    was stored. ``delivered`` is False for failures and duplicates. ``new_links`` are
    those to be fetched of all outcomes that were stored together. With ``is_stale``
    nothing was stored either, as the page was compared with a snapshot that is not the
    last one any more; the lease holds.
    """

    accepted: bool
    delivered: bool
    state: JobState
    new_links: int = 0
    is_stale: bool = False


@frozen
class PageErrorRow:
    """A page of a job that failed."""

    id: str
    url: str
    code: str
    error: str
    at: float


def event_id(job_id: str, seq: int) -> str:
    """Return the id of an event: a UUID, the same at every attempt."""
    return str(uuid.uuid5(uuid.UUID(job_id), str(seq)))


def event_error(
    kind: str, has_page: bool, page_error: str | None, job_error: str | None
) -> str | None:
    """Return what an event says went wrong, None for nothing."""
    if kind == "page" and not has_page:
        return page_error or "The page could not be fetched."
    if kind in {"failed", "cancelled"}:
        return job_error or f"The job was {kind}."
    return None


@frozen
class Due:
    """An event of a job that is to be sent now, for the ``attempt``-th time."""

    seq: int
    kind: str
    attempt: int


@frozen(kw_only=True)
class Turn:
    """The right to send what is ``due`` of a job, in this order.

    ``receiver`` is host and port of the webhook; ``token`` the fencing token.
    ``trouble`` is why this process can send nothing of it, None where it can.
    """

    job_id: str
    job_kind: str
    team_id: str
    receiver: str
    token: int
    hook: Webhook
    due: tuple[Due, ...]
    trouble: str | None = None


@frozen(kw_only=True)
class Event:
    """What happened to a job, as it is told: ``page`` is the JSON of a delivered one.

    ``error`` is None for what went well. ``result`` is the JSON of what an operation
    came to, in its last event, read from ``pages`` pages.
    """

    job_id: str
    job_kind: str
    seq: int
    kind: str
    page: bytes | None
    error: str | None
    result: bytes | None = None
    pages: int = 0


@frozen(kw_only=True)
class Answer:
    """What came of an attempt: the ``status`` of the answer, or an ``error``.

    ``at`` are seconds since 1970. After one that ``is_final`` nobody tries again.
    """

    seq: int
    at: float
    duration_ms: int = 0
    status: int | None = None
    error: str | None = None
    is_final: bool = False

    @property
    def is_ok(self) -> bool:
        return self.error is None

    def as_json(self, attempt: int) -> dict[str, Any]:
        """Return what is remembered of the attempt with this number."""
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
    """An event in the outbox and its ``attempts``, as :meth:`Answer.as_json` has them.

    ``due_at`` is None where no time is set for a further one.
    """

    seq: int
    kind: str
    at: float
    state: DeliveryState
    attempts: tuple[dict[str, Any], ...]
    due_at: float | None
    page_url: str | None
