"""Records of checks of monitors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import field, frozen

from scraper_service.options.limits import SitePolicy
from scraper_service.storage.job_records import PageRow
from scraper_service.storage.monitors.monitors import Definition
from scraper_service.storage.monitors.snapshots import PageSnapshot
from scraper_service.storage.webhooks.subscriptions import OpenDeliveries

STATES = ("same", "changed", "new", "removed", "error")  # of pages


@frozen(kw_only=True)
class CheckRow:
    """A check of a monitor. Times are seconds since 1970."""

    id: str
    monitor_id: str
    #: ``queued``, ``running``, ``completed``, ``partial``, ``failed``, ``skipped_overlap`` or
    #: ``skipped_no_credits``.
    status: str
    #: ``scheduled`` or ``manual``.
    trigger: str
    #: The number of pages by state.
    counts: dict[str, int]
    #: The results of the targets, by their attributes.
    results: list[dict[str, Any]]
    #: The number of stored pages.
    pages: int
    estimate: int | None
    credits: int | None
    error: str | None
    scheduled_for: float | None
    started_at: float | None
    finished_at: float | None
    created_at: float
    updated_at: float
    #: None without a webhook.
    deliveries: OpenDeliveries | None = None
    #: The same for messages to channels.
    messages: tuple[int, int] | None = None


@frozen(kw_only=True)
class CheckPlan:
    """What a process needs to run a check."""

    monitor_id: str
    team_id: str
    key_id: str | None
    goal: str | None
    #: Whether the language model judges changes.
    judge: bool
    #: Seconds since the start of the check.
    age_s: float
    #: The sites that the team may fetch.
    site_policy: SitePolicy | None
    #: The time of the last complete check, None before.
    last_at: float | None
    #: The last check with pages, None before the first.
    last_check_id: str | None
    definition: Definition


@frozen(kw_only=True)
class CheckedPages:
    """Pages of one target, and what changes with them."""

    target_id: str
    rows: Sequence[PageRow] = ()
    #: New snapshots.
    new: Sequence[PageSnapshot] = ()
    #: Keys of found URLs whose snapshots stay, and the page that was equal; None for errors.
    kept: Sequence[tuple[str, str | None]] = ()
    #: Keys of snapshots to delete.
    dropped: Sequence[str] = ()


@frozen(kw_only=True)
class CheckEnd:
    """The end of a check."""

    status: str
    error: str | None
    results: Sequence[dict[str, Any]]
    #: Credits that the check itself charges: pages of scrape targets, and searches.
    price: int
    #: All credits, with those of its crawls.
    credits: int
    #: The price of the next check.
    estimate: int | None = None
    #: Whether a page is new, removed or failed, or has a change that matters.
    has_news: bool = True


@frozen
class CheckPages:
    """Some pages of a check, and whether there are more behind them."""

    rows: list[PageRow] = field(factory=list)
    has_more: bool = False
