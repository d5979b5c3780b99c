"""Monitors, their checks and pages to JSON, see docs/api/monitors.md, Monitors."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from scraper_service.api.requests.monitors import FOREVER
from scraper_service.api.schemas import (
    NULL,
    TEXT,
    Id,
    Integer,
    JsonObject,
    Maybe,
    Success,
    Time,
    Url,
    encode,
    iso,
    json_object,
    member,
    one_of,
    or_null,
)
from scraper_service.services.monitoring.monitors import monthly_credits
from scraper_service.storage.monitors.checks import STATES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scraper_service.storage.job_records import PageRow
    from scraper_service.storage.monitors.checks import (
        CheckPages,
        CheckRow,
    )
    from scraper_service.storage.monitors.monitors import Monitor

LISTED_JOBS = 100  # ids of pages of a target, in a list of checks
CHECK_STATES = (
    *("queued", "running", "completed", "partial", "failed"),
    *("skipped_overlap", "skipped_no_credits"),
)


# -- monitors ----------------------------------------------------------------------------


def summary_json(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the number of pages by state, and their sum."""
    return {"totalPages": sum(counts.values()), **counts}


_COUNTS = json_object(**dict.fromkeys(("total_pages", *STATES), int)).shape
_Summary: TypeAlias = Annotated[Any, _COUNTS, summary_json]


class _Schedule(JsonObject):
    cron: str
    timezone: str


def _mute_end(found: Monitor) -> str | None:
    """Return until when a monitor is muted; None if that is over."""
    if not found.is_muted(time.time()):
        return None
    assert found.muted_until is not None
    return FOREVER if math.isinf(found.muted_until) else iso(found.muted_until)


class MonitorJson(JsonObject):
    """A monitor."""

    id: Id
    name: str
    status: Literal["active", "paused"] = member(source="state")
    schedule: _Schedule
    next_run_at: Time | None = member(source="next_at")
    last_run_at: Time | None = member(source="last_at")
    current_check_id: Id | None = member(
        source=lambda monitor: monitor.check_id if monitor.is_checked else None
    )
    last_check_summary: _Summary | None = member(source="summary")
    goal: str | None
    webhook: dict[str, Any] | None = member(source="definition.shown_hook")
    notification: dict[str, Any] | None
    targets: list[dict[str, Any]] = member(source="definition.shown")
    judge_enabled: bool = member(source="judge")
    retention_days: int
    muted_until: str | None = member(
        "A time, or forever. Mail and channels get nothing before.",
        source=_mute_end,
        own=True,
    )
    estimated_credits_per_month: int = member(source=monthly_credits)
    created_at: Time
    updated_at: Time


class StoredMonitor(Success):
    """The response to a change of a monitor."""

    data: MonitorJson
    warning: Maybe[str]


class MonitorList(Success):
    """A list of monitors. It may be long, so it is made in a thread."""

    data: list[MonitorJson]
    total: int = member(own=True)


class ChannelTest(JsonObject):
    """A test message."""

    name: str = member("The name of the channel; email for mail.")
    delivered: bool = member(source=lambda message: message.error is None)
    error: str | None


# -- checks ------------------------------------------------------------------------------


def _of(kind: str, name: str, default: Any) -> Callable[[Mapping[str, Any]], Any]:
    """Return a function that returns a value of the results of one kind of target."""

    def value(result: Mapping[str, Any]) -> Any:
        found = result.get(name)
        return None if result["type"] != kind else default if found is None else found

    return value


def _reason(result: Mapping[str, Any]) -> Any:
    """Return why a result is degraded. Results of a search have null instead."""
    found = result.get("degraded")
    return NULL if found is None and result["type"] == "search" else found


class _Result(JsonObject):
    """The result of a target, of what a check stores of it."""

    target_id: Id
    type: Literal["scrape", "crawl", "search"]
    expected_jobs: Maybe[list[Id]] = member(
        "The ids of the scraped pages.", source=_of("scrape", "scrape_ids", [])
    )
    crawl_id: Maybe[Id] = member(source=_of("crawl", "crawl_id", NULL))
    search_completed: Maybe[bool] = member(source=_of("search", "is_complete", False))
    result_count: Maybe[int] = member(source=_of("search", "results", 0))
    matches: Maybe[int] = member(source=_of("search", "matches", 0))
    judge_degraded: Maybe[bool] = member(
        source=lambda each: _reason(each) and _reason(each) is not NULL
    )
    degraded_reason: Maybe[Annotated[str, or_null(TEXT)]] = member(source=_reason)
    search_credits: Maybe[int] = member(source=_of("search", "search_credits", 0))
    judge_credits: Maybe[int] = member(source=_of("search", "judge_credits", 0))
    results_judged: Maybe[int] = member(source=_of("search", "judged", 0))
    warning: Maybe[str] = member(own=True)
    error: Maybe[str] = member(own=True)


def _sent(found: CheckRow) -> dict[str, str] | None:
    """Return what became of deliveries and messages; None without any."""
    if found.deliveries is None and found.messages is None:
        return None
    hook = "none"
    if (sent := found.deliveries) is not None:
        if sent.waiting or found.finished_at is None:
            hook = "pending"
        elif sent.has_any:
            hook = "failed" if sent.failed else "delivered"
    waiting, failed = found.messages or (0, 0)
    channels = "pending" if waiting else "failed" if failed else "delivered"
    return {
        "webhook": hook,
        "channels": "none" if found.messages is None else channels,
    }


class CheckJson(JsonObject):
    """A check without its pages."""

    id: Id
    monitor_id: Id
    status: Annotated[str, one_of(*CHECK_STATES)]
    trigger: Literal["scheduled", "manual"]
    scheduled_for: Time | None
    started_at: Time | None
    finished_at: Time | None
    error: str | None
    estimated_credits: int | None = member(source="estimate")
    actual_credits: int | None = member(source="credits")
    reserved_credits: None = member(source=lambda _: None)
    billing_status: Literal["not_applicable"]
    summary: _Summary = member(source="counts")
    target_results: list[_Result] = member(source="results")
    notification_status: (
        Annotated[Any, json_object(webhook=str, channels=str)] | None
    ) = member(source=_sent)
    created_at: Time
    updated_at: Time


class CheckList(Success):
    """A list of checks. It may be long, so it is made in a thread."""

    data: list[CheckJson]
    total: int = member(own=True)


def _metadata(page: Mapping[str, Any]) -> dict[str, Any] | None:
    facts = {
        "title": page.get("title"),
        "description": page.get("description"),
        "creditsUsed": page.get("credits"),
        "searchStatus": page.get("search_status"),
        "verdict": page.get("verdict"),
    }
    return {name: value for name, value in facts.items() if value is not None} or None


class _Diff(JsonObject):
    text: Maybe[str]
    json: Maybe[Any]
    truncated: Maybe[bool] = member(own=True)


class _Page(JsonObject):
    """A page of a check, of its stored facts."""

    id: Id
    target_id: Id
    url: str
    status: Annotated[str, one_of(*STATES)]
    previous_scrape_id: Id | None = member(source="previous")
    current_scrape_id: Id | None = member(source="current")
    status_code: Integer | None
    error: str | None
    metadata: dict[str, Any] | None = member(source=_metadata)
    diff: Maybe[_Diff]
    snapshot: Maybe[Annotated[Any, json_object(json=dict[str, Any])]]
    judgment: Maybe[dict[str, Any]]
    created_at: Time = member(source="at")


class _CheckWithPages(CheckJson):
    pages: list[_Page]
    next: Maybe[Url]


class CheckResponse(Success):
    """A check with some of its pages."""

    data: _CheckWithPages
    next: Maybe[Url]


def _page(row: PageRow) -> bytes:
    """Return a page of a check. Its diff and data are inserted as stored."""
    parts = [encode(_Page.of(row.facts, diff=None, snapshot=None))[:-1]]
    if row.diff is not None:
        parts.append(b',"diff":' + row.diff)
    if row.data is not None:
        parts.append(b',"snapshot":{"json":' + row.data + b"}")
    return b"".join((*parts, b"}"))


def checks_response(found: list[CheckRow], total: int) -> bytes:
    """Return a list of checks.

    Each target has the ids of its first :data:`LISTED_JOBS` pages only.
    """
    members = CheckList.of(data=found, total=total)
    for check in members["data"]:
        for result in check["targetResults"]:
            if "expectedJobs" in result:
                result["expectedJobs"] = result["expectedJobs"][:LISTED_JOBS]
    return encode(members)


def check_response(found: CheckRow, pages: CheckPages, following: str | None) -> bytes:
    """Return a :class:`CheckResponse`; made in a thread.

    ``following`` is the URL of the next pages, None at the end.
    """
    front = encode(CheckJson.of(found))[:-1]
    end = b"}" if following is None else b',"next":' + encode(following) + b"}"
    listed = b",".join(map(_page, pages.rows))
    return b'{"success":true,"data":%s,"pages":[%s]%s%s' % (front, listed, end, end)


def event_members(check_id: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of an event of a check."""
    ids = {"monitorId": facts["monitor_id"], "checkId": check_id}
    page = facts.get("page")
    if page is None:
        summary = summary_json(facts["counts"])
        return {**ids, "status": facts["status"], "summary": summary}
    found: dict[str, Any] = {
        **ids,
        "targetId": page["target_id"],
        "url": page["url"],
        "status": page["status"],
        "previousScrapeId": page.get("previous"),
        "currentScrapeId": page.get("current"),
        "error": page.get("error"),
    }
    if (diff := page.get("diff")) is not None:
        # The JSON of a text is long, and can be read with the check.
        is_data = page.get("data") is not None
        found["diff"] = {k: v for k, v in diff.items() if k != "json" or is_data}
    if (judgment := page.get("judgment")) is not None:
        found |= {"isMeaningful": judgment["meaningful"], "judgment": judgment}
    return found
