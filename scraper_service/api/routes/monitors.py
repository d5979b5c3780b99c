"""Monitors: watch pages, sites and searches by a schedule."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

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
    RUN,
    USUAL_RETENTION_DAYS,
    monitor_change,
    monitor_request,
    run_request,
)
from scraper_service.api.schemas import Id, Success, success
from scraper_service.api.v2.monitor_responses import (
    CHECK_STATES,
    ChannelTest,
    CheckJson,
    CheckList,
    CheckResponse,
    MonitorJson,
    MonitorList,
    StoredMonitor,
    check_response,
    checks_response,
)
from scraper_service.api.version import Routes
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
from scraper_service.services.monitoring.monitors import PageQuery, new_id
from scraper_service.storage.monitors.checks import STATES
from scraper_service.storage.monitors.monitors import Definition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.requests.monitors import MonitorRequest
    from scraper_service.storage.monitors.checks import CheckPages, CheckRow

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
    """Return the attributes of a monitor that a body sets."""
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
