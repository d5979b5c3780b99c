"""Monitors, their checks and pages to JSON, see docs/api.md, Monitors."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from scraper_service.api.requests.monitors import FOREVER
from scraper_service.api.responses import json_array
from scraper_service.api.schemas import (
    ANY,
    BOOL,
    COUNT,
    ID,
    INTEGER,
    TEXT,
    TIME,
    URL,
    array,
    encode,
    iso,
    mapping,
    old_shape,
    one_of,
    or_null,
    own,
    said,
)
from scraper_service.services.monitoring.monitors import SentMessage, monthly_credits
from scraper_service.storage.monitors.check_records import STATES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.storage.monitors.check_records import (
        CheckPages,
        CheckRow,
        PageRow,
    )
    from scraper_service.storage.monitors.monitors import Monitor

#: A test message.
MESSAGE = old_shape(
    {
        "name": said(TEXT, "The name of the channel; email for mail."),
        "delivered": BOOL,
        "error": or_null(TEXT),
    }
)
LISTED_JOBS = 100  # ids of pages of a target, in a list of checks
CHECK_STATES = (
    *("queued", "running", "completed", "partial", "failed"),
    *("skipped_overlap", "skipped_no_credits"),
)
_SUMMARY = old_shape(dict.fromkeys(("totalPages", *STATES), COUNT))
MONITOR = old_shape(
    {
        "id": ID,
        "name": TEXT,
        "status": one_of("active", "paused"),
        "schedule": old_shape({"cron": TEXT, "timezone": TEXT}),
        "nextRunAt": or_null(TIME),
        "lastRunAt": or_null(TIME),
        "currentCheckId": or_null(ID),
        "lastCheckSummary": or_null(_SUMMARY),
        "goal": or_null(TEXT),
        "webhook": or_null(mapping(ANY)),
        "notification": or_null(mapping(ANY)),
        "targets": array(mapping(ANY)),
        "judgeEnabled": BOOL,
        "retentionDays": COUNT,
        "mutedUntil": own(
            or_null(
                said(TEXT, "A time, or forever. Mail and channels get nothing before.")
            )
        ),
        "estimatedCreditsPerMonth": COUNT,
        "createdAt": TIME,
        "updatedAt": TIME,
    }
)
_RESULT = old_shape(
    {
        "targetId": ID,
        "type": one_of("scrape", "crawl", "search"),
        "expectedJobs?": said(array(ID), "The ids of the scraped pages."),
        "crawlId?": ID,
        "searchCompleted?": BOOL,
        "resultCount?": COUNT,
        "matches?": COUNT,
        "judgeDegraded?": BOOL,
        "degradedReason?": or_null(TEXT),
        "searchCredits?": COUNT,
        "judgeCredits?": COUNT,
        "resultsJudged?": COUNT,
        "warning?": own(TEXT),
        "error?": own(TEXT),
    }
)
_CHECK: dict[str, Any] = {
    "id": ID,
    "monitorId": ID,
    "status": one_of(*CHECK_STATES),
    "trigger": one_of("scheduled", "manual"),
    "scheduledFor": or_null(TIME),
    "startedAt": or_null(TIME),
    "finishedAt": or_null(TIME),
    "error": or_null(TEXT),
    "estimatedCredits": or_null(COUNT),
    "actualCredits": or_null(COUNT),
    "reservedCredits": {"type": "null"},
    "billingStatus": one_of("not_applicable"),
    "summary": _SUMMARY,
    "targetResults": array(_RESULT),
    "notificationStatus": or_null(old_shape({"webhook": TEXT, "channels": TEXT})),
    "createdAt": TIME,
    "updatedAt": TIME,
}
CHECK = old_shape(_CHECK)
_PAGE = old_shape(
    {
        "id": ID,
        "targetId": ID,
        "url": TEXT,
        "status": one_of(*STATES),
        "previousScrapeId": or_null(ID),
        "currentScrapeId": or_null(ID),
        "statusCode": or_null(INTEGER),
        "error": or_null(TEXT),
        "metadata": or_null(mapping(ANY)),
        "diff?": old_shape({"text?": TEXT, "json?": ANY, "truncated?": own(BOOL)}),
        "snapshot?": old_shape({"json": mapping(ANY)}),
        "judgment?": mapping(ANY),
        "createdAt": TIME,
    }
)
CHECK_WITH_PAGES = old_shape({**_CHECK, "pages": array(_PAGE), "next?": URL})


def monitor_json(found: Monitor) -> dict[str, Any]:
    """Return a monitor."""
    return {
        "id": found.id,
        "name": found.name,
        "status": found.state,
        "schedule": {"cron": found.cron, "timezone": found.timezone},
        "nextRunAt": _time(found.next_at),
        "lastRunAt": _time(found.last_at),
        "currentCheckId": found.check_id if found.is_checked else None,
        "lastCheckSummary": found.summary and summary_json(found.summary),
        "goal": found.goal,
        "webhook": found.definition.shown_hook,
        "notification": found.notification,
        "targets": list(found.definition.shown),
        "judgeEnabled": found.judge,
        "retentionDays": found.retention_days,
        "mutedUntil": _muted(found),
        "estimatedCreditsPerMonth": monthly_credits(found),
        "createdAt": iso(found.created_at),
        "updatedAt": iso(found.updated_at),
    }


def _muted(found: Monitor) -> str | None:
    """Return until when a monitor is muted; None if that is over."""
    if not found.is_muted(time.time()):
        return None
    assert found.muted_until is not None
    return FOREVER if math.isinf(found.muted_until) else iso(found.muted_until)


def summary_json(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the number of pages by state, and their sum."""
    return {"totalPages": sum(counts.values()), **counts}


def check_json(found: CheckRow) -> dict[str, Any]:
    """Return a check without its pages."""
    return {
        "id": found.id,
        "monitorId": found.monitor_id,
        "status": found.status,
        "trigger": found.trigger,
        "scheduledFor": _time(found.scheduled_for),
        "startedAt": _time(found.started_at),
        "finishedAt": _time(found.finished_at),
        "error": found.error,
        "estimatedCredits": found.estimate,
        "actualCredits": found.credits,
        "reservedCredits": None,
        "billingStatus": "not_applicable",
        "summary": summary_json(found.counts),
        "targetResults": [_result(each) for each in found.results],
        "notificationStatus": _told(found),
        "createdAt": iso(found.created_at),
        "updatedAt": iso(found.updated_at),
    }


def message_json(found: SentMessage) -> dict[str, Any]:
    """Return a test message as its caller reads it."""
    return {"name": found.name, "delivered": found.error is None, "error": found.error}


def _told(found: CheckRow) -> dict[str, str] | None:
    """Return what has become of deliveries and messages; None without any."""
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


def _result(found: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {"targetId": found["target_id"], "type": found["type"]}
    if found["type"] == "scrape":
        result["expectedJobs"] = found.get("scrape_ids", [])
    elif found["type"] == "crawl":
        result["crawlId"] = found.get("crawl_id")
    else:
        result |= {
            "searchCompleted": found.get("is_complete", False),
            "resultCount": found.get("results", 0),
            "matches": found.get("matches", 0),
            "judgeDegraded": found.get("degraded") is not None,
            "degradedReason": found.get("degraded"),
            "searchCredits": found.get("search_credits", 0),
            "judgeCredits": found.get("judge_credits", 0),
            "resultsJudged": found.get("judged", 0),
        }
    if found["type"] != "search" and found.get("degraded") is not None:
        result |= {"judgeDegraded": True, "degradedReason": found["degraded"]}
    for name in ("warning", "error"):
        if found.get(name) is not None:
            result[name] = found[name]
    return result


def page_json(row: PageRow) -> bytes:
    """Return a page of a check. Its diff and data are inserted as stored."""
    page = row.facts
    found = {
        "id": page["id"],
        "targetId": page["target_id"],
        "url": page["url"],
        "status": page["status"],
        "previousScrapeId": page.get("previous"),
        "currentScrapeId": page.get("current"),
        "statusCode": page.get("status_code"),
        "error": page.get("error"),
        "metadata": _metadata(page),
        "createdAt": iso(page["at"]),
    }
    if page.get("judgment") is not None:
        found["judgment"] = page["judgment"]
    parts = [encode(found)[:-1]]
    if row.diff is not None:
        parts.append(b',"diff":' + row.diff)
    if row.data is not None:
        parts.append(b',"snapshot":{"json":' + row.data + b"}")
    return b"".join((*parts, b"}"))


def monitor_response(found: Monitor, more: Mapping[str, Any] | None = None) -> bytes:
    """Return the response with a monitor. It may be long, so it is made in a thread."""
    return encode({"success": True, "data": monitor_json(found), **(more or {})})


def monitors_response(found: list[Monitor], total: int) -> bytes:
    """Return a list of monitors. It may be long, so it is made in a thread."""
    data = [monitor_json(each) for each in found]
    return encode({"success": True, "data": data, "total": total})


def checks_response(found: list[CheckRow], total: int) -> bytes:
    """Return a list of checks. It may be long, so it is made in a thread.

    Each target has the ids of its first :data:`LISTED_JOBS` pages only.
    """
    data = [check_json(each) for each in found]
    for check in data:
        for result in check["targetResults"]:
            if "expectedJobs" in result:
                result["expectedJobs"] = result["expectedJobs"][:LISTED_JOBS]
    return encode({"success": True, "data": data, "total": total})


def check_response(found: CheckRow, pages: CheckPages, following: str | None) -> bytes:
    """Return the response with a check and its pages; made in a thread.

    ``following`` is the URL of the next pages, None at the end.
    """
    more = {} if following is None else {"next": following}
    front = encode(check_json(found))[:-1]
    back = encode(more)[1:]
    listed = json_array([page_json(row) for row in pages.rows])
    data = b'%s,"pages":%s%s' % (front, listed, b"," + back if more else b"}")
    return b'{"success":true,"data":%s%s' % (data, b"," + back if more else b"}")


def _metadata(page: Mapping[str, Any]) -> dict[str, Any] | None:
    facts = {
        "title": page.get("title"),
        "description": page.get("description"),
        "creditsUsed": page.get("credits"),
        "searchStatus": page.get("search_status"),
        "verdict": page.get("verdict"),
    }
    return {name: value for name, value in facts.items() if value is not None} or None


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


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else iso(seconds)
