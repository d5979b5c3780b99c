"""The list of a team's jobs of all kinds: an addition to /v2."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from attrs import evolve

from scraper_service.api.parameters import argument, number
from scraper_service.api.responses import encode, iso
from scraper_service.api.version import Routes
from scraper_service.errors import InvalidParameter
from scraper_service.options.limits import Mode
from scraper_service.options.urls import caller_domain
from scraper_service.storage.jobs.job_history import (
    CALLS,
    JOBS,
    PAUSED,
    STATES,
    HistoryQuery,
    JobPosition,
    JobSummary,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.version import RouteT

MAX_JOBS, USUAL_JOBS = 100, 25  # in one response
MAX_TEXT = 200  # characters of ``q``
# The usual kinds. This service makes no jobs of the last two.
_JOB_KINDS = (*JOBS.values(), "agent", "monitor_check")
KINDS = (*_JOB_KINDS, *CALLS)
STATE_NAMES = (*STATES.values(), PAUSED)
FILTERS = ("kind", "state", "site", "q", "since", "until", "limit")

_CURSOR = re.compile(r"(\d{1,10}\.\d{1,9})_([0-9a-f-]{36})_([0-9a-f]{12})", re.ASCII)
#: Paths of the status by kind, below the version.
_PATHS = {
    "crawl": "crawl",
    "batch_scrape": "batch/scrape",
    "extract": "extract",
    "llmstxt": "llmstxt",
    "deep_research": "deep-research",
}


class JobHistoryRoutes(Routes):
    """Jobs of all kinds."""

    def routes(self) -> Iterable[RouteT]:
        return (("GET", "/jobs", self.jobs),)

    async def jobs(self, request: JsonRequest) -> bytes:
        """Return the team's jobs, the newest first."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        query = _history_query(request)
        found, behind = await self.services.jobs.history(team, query)
        base = self.base_url(request)
        members: dict[str, Any] = {
            "success": True,
            "jobs": [job_members(each, base) for each in found],
        }
        if behind is not None:
            given = {name: argument(request, name) for name in FILTERS}
            terms = {name: text for name, text in given.items() if text is not None}
            cursor = f"{behind.at!r}_{behind.id}_{_digest(query)}"
            terms["cursor"] = cursor
            members["next"] = f"{self.url_of(request)}?{urlencode(terms)}"
        return encode(members)


def job_members(job: JobSummary, base: str) -> dict[str, Any]:
    """Return the members of a job. ``base`` is the URL of this service."""
    members: dict[str, Any] = {
        "id": job.id,
        "kind": job.kind,
        "apiVersion": f"v{job.version}",
        "state": job.state,
        "target": job.target,
        "site": job.site,
        "url": f"{base}/{_path(job)}",
        "createdAt": iso(job.created_at),
        "startedAt": _iso(job.started_at),
        "completedAt": _iso(job.completed_at),
        "expiresAt": iso(job.expires_at),
        "duration": round(job.duration_s, 3),
    }
    if job.counts is not None:
        members["counts"] = job.counts
    members |= {
        "total": job.total,
        "completed": job.completed,
        "creditsUsed": job.credits,
        "limit": job.limit,
        "origin": job.origin,
        "key": job.key,
    }
    facts = {"error": job.error, "warning": job.warning}
    members.update((name, text) for name, text in facts.items() if text is not None)
    return members


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else iso(seconds)


def _path(job: JobSummary) -> str:
    """Return the path of the status of a job."""
    version = f"v{job.version}"
    if job.kind in _PATHS:
        return f"{version}/{_PATHS[job.kind]}/{job.id}"
    if job.has_page:
        return f"v2/scrape/{job.id}"
    return f"v2/jobs/{job.id}"


# -- query ---------------------------------------------------------------------------


def _history_query(request: JsonRequest) -> HistoryQuery:
    """Return the filters and the position of a query.

    Raises :exc:`InvalidParameter` for a bad value, and for a cursor of other filters.
    """
    kinds = _choices(request, "kind", KINDS)
    query = HistoryQuery(
        kinds=frozenset(_JOB_KINDS if kinds is None else kinds),
        states=_choices(request, "state", STATE_NAMES),
        site=_site(request),
        text=_text(request),
        since=_time(request, "since"),
        until=_time(request, "until"),
        after=None,
        limit=number(request, "limit", 1, MAX_JOBS) or USUAL_JOBS,
    )
    return _at_cursor(request, query)


def _choices(
    request: JsonRequest, name: str, allowed: tuple[str, ...]
) -> frozenset[str] | None:
    text = argument(request, name)
    if text is None:
        return None
    chosen = frozenset(each.strip() for each in text.split(","))
    if not chosen <= set(allowed):
        raise InvalidParameter(
            f"Invalid {name}: must be a list of {', '.join(allowed)}, separated by"
            f" commas, got {text[:60]!r}"
        )
    return chosen


def _site(request: JsonRequest) -> str | None:
    text = argument(request, "site")
    if text is None:
        return None
    try:
        return caller_domain(text)
    except ValueError:
        raise InvalidParameter(
            f"Invalid site: must be a host such as docs.example.com, got {text[:60]!r}"
        ) from None


def _text(request: JsonRequest) -> str | None:
    text = argument(request, "q")
    if text is not None and not 1 <= len(text) <= MAX_TEXT:
        raise InvalidParameter(
            f"Invalid q: must have 1 to {MAX_TEXT} characters, got {len(text)}:"
            f" {text[:60]!r}"
        )
    return text


def _time(request: JsonRequest, name: str) -> float | None:
    text = argument(request, name)
    if text is None:
        return None
    # An unescaped + in a query stands for a space.
    escaped = text.replace(" ", "+") if "T" in text else text
    try:
        moment = datetime.fromisoformat(escaped)
    except ValueError:
        raise InvalidParameter(
            f"Invalid {name}: must be a time in ISO 8601 such as"
            f" 2026-01-31T12:00:00Z, got {text[:60]!r}"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def _at_cursor(request: JsonRequest, query: HistoryQuery) -> HistoryQuery:
    """Return the query with the position of its cursor."""
    cursor = argument(request, "cursor")
    if cursor is None:
        return query
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise InvalidParameter(
            f"Invalid cursor: must be the cursor in next, got {cursor[:60]!r}"
        )
    if found[3] != _digest(query):
        raise InvalidParameter(
            "Invalid cursor: must be used with the filters of its list (kind, state,"
            f" site, q, since, until), got {cursor[:60]!r} with others"
        )
    return evolve(query, after=JobPosition(float(found[1]), found[2]))


def _digest(query: HistoryQuery) -> str:
    """Return a short hash of the filters of a query."""
    filters = [
        sorted(query.kinds),
        None if query.states is None else sorted(query.states),
        *(query.site, query.text, query.since, query.until),
    ]
    return hashlib.sha256(json.dumps(filters).encode()).hexdigest()[:12]
