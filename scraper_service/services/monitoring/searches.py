"""Search targets of monitors: the results that no earlier check has seen."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from scraper_service.discovery.canonical_urls import page_key
from scraper_service.options.map_search import (
    MAX_RESULTS,
    ResultList,
    SearchOptions,
    TimeFilter,
)
from scraper_service.options.monitors import WINDOWS
from scraper_service.storage.job_records import PageRow
from scraper_service.storage.monitors import snapshots
from scraper_service.storage.monitors.checks import CheckedPages
from scraper_service.storage.monitors.snapshots import PageSnapshot

if TYPE_CHECKING:
    from scraper_service.items import Hit
    from scraper_service.options.monitors import SearchTarget
    from scraper_service.search_engines.web_search import Searches
    from scraper_service.services.monitoring.judge import ChangeJudge
    from scraper_service.storage.database import Database
    from scraper_service.storage.monitors.checks import CheckPlan

SEARCH_S = 60.0  # of one query
# The window that engines know, by seconds of the window of a target.
_UNITS = ((3600, "h"), (86_400, "d"), (7 * 86_400, "w"))
_AGO = re.compile(r"(\d{1,4}) (minute|hour|day|week|month|year)s? ago")
_SECONDS = {
    "minute": 60,
    "hour": 3600,
    "day": 86_400,
    "week": 7 * 86_400,
    "month": 30 * 86_400,
    "year": 365 * 86_400,
}


@frozen
class FoundResults:
    """The results of a search target."""

    pages: CheckedPages
    #: ``results``, ``matches``, ``judged`` and ``is_complete``.
    facts: dict[str, Any]
    warning: str | None


async def search_target(
    searches: Searches,
    database: Database,
    target: SearchTarget,
    plan: CheckPlan,
    judge: ChangeJudge,
    until: float,
) -> FoundResults:
    """Return the results of all queries of a target, without duplicates.

    Raises the errors of :meth:`Searches.find`.
    """
    hits: dict[str, Hit] = {}
    warnings: dict[str, None] = {}
    for query in target.queries:
        left_s = max(1.0, min(SEARCH_S, until - time.monotonic()))
        found = await searches.find(_options(target, query, left_s), plan.team_id)
        warnings |= dict.fromkeys(found.warnings)
        for hit in found.groups["web"]:
            if is_within(hit.date, WINDOWS[target.window], time.time()):
                hits.setdefault(result_key(hit.url), hit)
    chosen = dict(list(hits.items())[: target.max_results])
    known = await database.read(
        snapshots.read_snapshots, plan.monitor_id, target.id, tuple(chosen)
    )
    rows, new, matches = [], [], 0
    for key, hit in chosen.items():
        row = _row(hit, is_known=key in known)
        if key not in known:
            text = f"{hit.url}\n{hit.title}\n{hit.description}"
            judgment = await judge.of_result(hit.url, text)
            if judgment is not None:
                row["judgment"] = judgment
                if not judgment["meaningful"]:
                    row |= {"status": "same", "search_status": "ignored"}
            new.append(PageSnapshot(key, hit.url, None))
        matches += row["status"] == "new"
        rows.append(PageRow(row))
    return FoundResults(
        CheckedPages(
            target_id=target.id,
            rows=rows,
            new=new,
            kept=[(key, None) for key in known],
        ),
        {
            "is_complete": True,
            "results": len(chosen),
            "matches": matches,
            "judged": judge.judged,
        },
        " ".join(warnings) or None,
    )


def _row(hit: Hit, *, is_known: bool) -> dict[str, Any]:
    return {
        "url": hit.url,
        "status": "same" if is_known else "new",
        "search_status": "already_seen" if is_known else "alert",
        "title": hit.title,
        "description": hit.description,
    }


def _options(target: SearchTarget, query: str, timeout_s: float) -> SearchOptions:
    window_s = WINDOWS[target.window]
    unit = next(name for seconds, name in _UNITS if window_s <= seconds)
    return evolve(
        SearchOptions(query=query, limit=min(MAX_RESULTS, target.max_results)),
        sources=(ResultList(when=TimeFilter(unit=unit)),),
        include_domains=target.include_domains,
        exclude_domains=target.exclude_domains,
        timeout_ms=round(timeout_s * 1000),
    )


def result_key(url: str) -> str:
    """Return the key of a result; URLs that show the same page have the same key.

    Scheme, ``www.``, fragments (``#part``), tracking parameters and a final slash do not count.
    """
    return f"{page_key(url) % 2**64:016x}"


def is_within(date: str | None, window_s: float, now: float) -> bool:
    """Return True unless the date of a result is known and older than a window.

    A date without a time counts to its end.
    """
    if date is None:
        return True
    if (ago := _AGO.fullmatch(date.strip().lower())) is not None:
        return int(ago[1]) * _SECONDS[ago[2]] <= window_s
    try:
        moment = datetime.fromisoformat(date.strip())
    except ValueError:
        return True
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    is_day = len(date.strip()) == 10
    return now - moment.timestamp() - (86_400 if is_day else 0) <= window_s
