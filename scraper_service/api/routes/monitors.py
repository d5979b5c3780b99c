"""Monitors, their checks and pages, see docs/api/monitors.md, Monitors."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias
from urllib.parse import urlencode

from scraper_service.api.events import summary_json
from scraper_service.api.openapi.route import Route
from scraper_service.api.parameters import (
    MAX_SKIP,
    ChoiceParameter,
    NumberParameter,
    parse_job_id,
)
from scraper_service.api.requests.monitors import (
    CHANGED,
    CREATED,
    FOREVER,
    RUN,
    USUAL_RETENTION_DAYS,
    monitor_change,
    monitor_request,
    run_request,
)
from scraper_service.api.routing import Routes
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
    success,
)
from scraper_service.crawling.page_errors import SITE_BLOCKED
from scraper_service.errors import (
    CheckRunning,
    JobNotFound,
    MonitorLimit,
    OptionUnavailable,
    OutOfCredits,
    SiteBlocked,
)
from scraper_service.options.limits import KeyScope, Mode
from scraper_service.services.monitoring.monitors import (
    PageQuery,
    monthly_credits,
    new_id,
)
from scraper_service.storage.monitors.checks import STATES
from scraper_service.storage.monitors.monitors import Definition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.requests.monitors import MonitorRequest
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


_LIMIT = NumberParameter("limit", "At most N entries.", 1, 100, 25)
_OFFSET = NumberParameter("offset", "Leave out the newest N.", 0, MAX_SKIP, 0)
_SKIP = NumberParameter("skip", "Leave out the first N pages.", 0, MAX_SKIP, 0)
_STATUS = ChoiceParameter("status", "Only checks in this state.", CHECK_STATES)
_PAGE_STATUS = ChoiceParameter("status", "Only pages in this state.", STATES)
_EXAMPLE = {
    "name": "Prices",
    "schedule": {"text": "every 30 minutes", "timezone": "Europe/Berlin"},
    "targets": [{"type": "scrape", "urls": ["https://example.com/pricing"]}],
}
_STARTED = success(id=Id, data=CheckJson)
_TESTED = success(data=list[ChannelTest])


class MonitorRoutes(Routes):
    """Monitors and their checks."""

    @Route(
        "POST /monitor",
        returns=StoredMonitor,
        body=CREATED,
        example=_EXAMPLE,
        errors=(OptionUnavailable, SiteBlocked, OutOfCredits, MonitorLimit),
    )
    async def create(self, request: JsonRequest) -> bytes:
        """Create a monitor.

        Its first check runs at the next time of the schedule.
        """
        team, body, _ = await self.checks.admit_work(request, Mode.CRAWL)
        found = await body.read(monitor_request)
        await asyncio.to_thread(self._check_sites, found)
        monitor_id = new_id()
        values = _values(found, monitor_id)
        values.setdefault("retention_days", USUAL_RETENTION_DAYS)
        definition = Definition(
            targets=found.values["targets"],
            shown=found.shown,
            hook=found.values.get("webhook"),
            shown_hook=found.hook,
        )
        answer = await self.services.monitors.create(
            {"id": monitor_id, **values}, definition, team
        )
        return await asyncio.to_thread(
            StoredMonitor.to_json, data=answer.monitor, warning=answer.warning
        )

    @Route("GET /monitor", returns=MonitorList, parameters=(_LIMIT, _OFFSET))
    async def monitors(self, request: JsonRequest) -> bytes:
        """Return the team's monitors, the newest first."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        limit, offset = _LIMIT.read(request), _OFFSET.read(request)
        return await self.services.monitors.all(
            team,
            offset,
            limit,
            lambda found, total: MonitorList.to_json(data=found, total=total),
        )

    @Route(
        "GET /monitor/<monitor_id>",
        returns=success(data=MonitorJson),
        errors=(JobNotFound,),
    )
    async def monitor(self, request: JsonRequest, monitor_id: str) -> bytes:
        """Return a monitor."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        return await self.services.monitors.get(
            _id(monitor_id), team, lambda found: StoredMonitor.to_json(data=found)
        )

    @Route(
        "PATCH /monitor/<monitor_id>",
        returns=StoredMonitor,
        body=CHANGED,
        example={"status": "paused"},
        errors=(OptionUnavailable, SiteBlocked, JobNotFound),
    )
    async def change(self, request: JsonRequest, monitor_id: str) -> bytes:
        """Change, pause or resume a monitor."""
        team, body = await self.checks.admit(request, Mode.CRAWL_STATUS)
        monitor_id = _id(monitor_id)
        found = await body.read(monitor_change)
        await asyncio.to_thread(self._check_sites, found)
        definition: dict[str, Any] = {}
        if "targets" in found.values:
            definition |= {"targets": found.values["targets"], "shown": found.shown}
        if "webhook" in found.values:
            hook = found.values["webhook"]
            definition |= {"hook": hook, "shown_hook": found.hook}
        answer = await self.services.monitors.change(
            monitor_id, team, _values(found, monitor_id), definition
        )
        return await asyncio.to_thread(
            StoredMonitor.to_json, data=answer.monitor, warning=answer.warning
        )

    @Route(
        "DELETE /monitor/<monitor_id>",
        scope=KeyScope.ADMIN,
        returns=Success,
        errors=(JobNotFound,),
    )
    async def delete(self, request: JsonRequest, monitor_id: str) -> bytes:
        """Delete a monitor with its checks."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        await self.services.monitors.delete(_id(monitor_id), team)
        return Success.to_json()

    @Route(
        "POST /monitor/<monitor_id>/run",
        returns=_STARTED,
        body=RUN,
        example={},
        errors=(JobNotFound, CheckRunning, OutOfCredits),
    )
    async def run(self, request: JsonRequest, monitor_id: str) -> bytes:
        """Run a check now."""
        team, body = await self.checks.admit(request, Mode.CRAWL)
        await body.read(run_request)
        found = await self.services.monitors.run(_id(monitor_id), team)
        return _STARTED.to_json(id=found.id, data=found)

    @Route(
        "POST /monitor/<monitor_id>/notification/test",
        returns=_TESTED,
        errors=(JobNotFound,),
        is_own=True,
    )
    async def notify(self, request: JsonRequest, monitor_id: str) -> bytes:
        """Send a test message to the channels and the recipients of mail of a monitor."""
        team, _ = await self.checks.admit(request, Mode.CRAWL)
        found = await self.services.monitors.notify(_id(monitor_id), team)
        return _TESTED.to_json(data=found)

    @Route(
        "GET /monitor/<monitor_id>/checks",
        returns=CheckList,
        parameters=(_LIMIT, _OFFSET, _STATUS),
        errors=(JobNotFound,),
    )
    async def checks_of(self, request: JsonRequest, monitor_id: str) -> bytes:
        """Return the checks of a monitor, the newest first."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        limit, offset = _LIMIT.read(request), _OFFSET.read(request)
        found, total = await self.services.monitors.checks(
            _id(monitor_id), team, _STATUS.read(request), offset, limit
        )
        return await asyncio.to_thread(checks_response, found, total)

    @Route(
        "GET /monitor/<monitor_id>/checks/<check_id>",
        returns=CheckResponse,
        parameters=(_LIMIT, _SKIP, _PAGE_STATUS),
        errors=(JobNotFound,),
    )
    async def check(
        self, request: JsonRequest, monitor_id: str, check_id: str
    ) -> bytes:
        """Return a check with its pages, in the order of completion."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        limit, skip = _LIMIT.read(request), _SKIP.read(request)
        status = _PAGE_STATUS.read(request)
        url = self.url_of(request)

        def shape(found: CheckRow, pages: CheckPages) -> bytes:
            if not pages.has_more:
                return check_response(found, pages, None)
            terms: dict[str, Any] = {"limit": limit, "skip": skip + len(pages.rows)}
            terms |= {"status": status} if status else {}
            return check_response(found, pages, f"{url}?{urlencode(terms)}")

        query = PageQuery(status, skip, limit)
        return await self.services.monitors.check(
            _id(monitor_id), _id(check_id, "that of the check "), team, query, shape
        )

    def _check_sites(self, found: MonitorRequest) -> None:
        """Raise :exc:`SiteBlocked` for a target on a site that the operator has blocked."""
        urls = [
            url
            for target in found.shown
            for url in (target.get("url"), *target.get("urls", ()))
        ]
        if self.checks.sites.first_of(urls) is not None:
            raise SiteBlocked(SITE_BLOCKED)


def _values(found: MonitorRequest, monitor_id: str) -> dict[str, Any]:
    values = dict(found.values)
    for name in ("targets", "webhook"):
        values.pop(name, None)
    if (schedule := values.pop("schedule", None)) is not None:
        values |= {
            "cron": schedule.cron_for(monitor_id),
            "timezone": schedule.timezone,
        }
    if (notification := values.get("notification")) is not None:
        values["notification"] = _notification_members(notification)
    return values


def _notification_members(given: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(given)
    if (email := given.get("email")) is not None:
        found["email"] = {
            "enabled": email.get("enabled", False),
            "recipients": list(email.get("recipients", ())),
            "includeDiffs": email.get("include_diffs", False),
        }
    return found


def _id(text: str, what: str = "") -> str:
    return parse_job_id(text, "monitor", what)
