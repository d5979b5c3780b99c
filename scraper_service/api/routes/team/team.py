"""What a team has used, its running pages, and its sessions."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from scraper_service.api.openapi.described import Described
from scraper_service.api.parameters import (
    ChoiceParameter,
    CursorParameter,
    NumberParameter,
    PathParameter,
)
from scraper_service.api.responses import camel, encode, iso
from scraper_service.api.schemas import (
    BOOL,
    COUNT,
    ID,
    TEXT,
    TIME,
    ShapeT,
    array,
    one_of,
    or_null,
    shape,
    success,
)
from scraper_service.api.version import Routes
from scraper_service.errors import InvalidParameter, JobNotFound
from scraper_service.options.limits import KeyScope, Mode
from scraper_service.options.scrape import MAX_NAME, profile_name
from scraper_service.storage.accounts.usage import CallPosition, Used

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.version import RouteT
    from scraper_service.storage.accounts.credits import Call
    from scraper_service.storage.accounts.sessions import SessionRow
    from scraper_service.storage.accounts.usage import Balance

UNLIMITED = 1_000_000_000
MAX_CALLS, USUAL_CALLS = 100, 50  # in one response
ENDPOINTS = (
    *("scrape", "parse", "crawl", "batch_scrape", "map"),
    *("search", "extract", "llmstxt", "deep_research", "agent", "interact"),
    *("browser", "monitor"),
)
EPOCH = date(1970, 1, 1)
_ENDPOINT = ChoiceParameter("endpoint", "Only calls of this kind.", ENDPOINTS)
_LIMIT = NumberParameter("limit", "At most N calls.", 1, MAX_CALLS, USUAL_CALLS)
_CURSOR = CursorParameter(
    "cursor",
    "the cursor of a response",
    re.compile(r"([0-9]{1,10}\.[0-9]{1,9})_([0-9a-f-]{36})"),
)
_TIME_RANGE = ChoiceParameter(
    "timeRange", "The length of a period.", ("day", "week", "month"), "month"
)
_BY_KEY = ChoiceParameter(
    "byApiKey", "List each API key separately.", ("true", "false"), "false"
)
_NAME = PathParameter(
    "name",
    "The name of the session.",
    {"type": "string", "minLength": 1, "maxLength": MAX_NAME},
)
_QUEUE = success(
    {
        "jobsInQueue": COUNT,
        "activeJobsInQueue": COUNT,
        "waitingJobsInQueue": COUNT,
        "maxConcurrency": COUNT,
        "mostRecentSuccess": or_null(TIME),
    }
)
_ACTIVITY = success(
    {
        "data": array(
            shape(
                {
                    "id": ID,
                    "endpoint": one_of(*ENDPOINTS),
                    "api_version": one_of("v1", "v2"),
                    "created_at": TIME,
                    "target": or_null(TEXT),
                }
            )
        ),
        "cursor": or_null(TEXT),
        "has_more": BOOL,
    }
)
_SESSIONS = success(
    {
        "sessions": array(
            shape(
                {"name": TEXT, "cookies": COUNT, "createdAt": TIME, "updatedAt": TIME}
            )
        )
    }
)
_DISK = success({"data": shape({"usedBytes": COUNT, "limitBytes": or_null(COUNT)})})
_FEATURES = array(shape({"name": TEXT, "available": BOOL, "reason?": TEXT}))
_CAPABILITIES = success(
    {
        "data": shape(
            {
                "version": TEXT,
                "features": _FEATURES,
                "formats": _FEATURES,
                "exports": _FEATURES,
                "searchEngines": array(TEXT),
                "database": one_of("postgresql", "sqlite"),
                "notOffered": array(shape({"name": TEXT, "reason": TEXT})),
            }
        )
    }
)


def _history_of(unit: str) -> ShapeT:
    period = {"startDate": TIME, "endDate": TIME, "apiKey?": TEXT, unit: COUNT}
    return success({"periods": array(shape(period))})


class TeamRoutes(Routes):
    """Credits, tokens, concurrency and recent calls of the caller's team."""

    def routes(self) -> Iterable[RouteT]:
        return (
            ("GET", "/team/credit-usage", KeyScope.READ, self.credit_usage),
            ("GET", "/team/token-usage", KeyScope.READ, self.token_usage),
            (
                "GET",
                "/team/credit-usage/historical",
                KeyScope.READ,
                self.credit_history,
            ),
            ("GET", "/team/token-usage/historical", KeyScope.READ, self.token_history),
            ("GET", "/team/queue-status", KeyScope.READ, self.queue_status),
            ("GET", "/concurrency-check", KeyScope.READ, self.concurrency),
            ("GET", "/team/activity", KeyScope.READ, self.activity),
        )

    @Described(returns="CREDITS")
    async def credit_usage(self, request: JsonRequest) -> bytes:
        """Return the credits that are left."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        balance = await self.services.usage.balance(team)
        return _balance(balance, "credits", 1, self.api.version)

    @Described(returns="TOKENS")
    async def token_usage(self, request: JsonRequest) -> bytes:
        """Return the tokens that are left: the credits in another unit."""
        team, _ = await self.checks.admit(request, Mode.EXTRACT_STATUS)
        rate = self.services.usage.tokens_per_credit
        balance = await self.services.usage.balance(team)
        return _balance(balance, "tokens", rate, self.api.version)

    @Described(returns=_history_of("creditsUsed"), parameters=(_TIME_RANGE, _BY_KEY))
    async def credit_history(self, request: JsonRequest) -> bytes:
        """Return the credits used by day, week or month."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        query = _history_asked(request)
        used = await self.services.usage.used(team)
        return _history(used, *query, "creditsUsed", 1)

    @Described(returns=_history_of("tokensUsed"), parameters=(_TIME_RANGE, _BY_KEY))
    async def token_history(self, request: JsonRequest) -> bytes:
        """Return the tokens used by day, week or month."""
        team, _ = await self.checks.admit(request, Mode.EXTRACT_STATUS)
        query, rate = _history_asked(request), self.services.usage.tokens_per_credit
        used = await self.services.usage.used(team)
        return _history(used, *query, "tokensUsed", rate)

    @Described(returns=_QUEUE)
    async def queue_status(self, request: JsonRequest) -> bytes:
        """Return how many pages run and how many wait."""
        team, _ = await self.checks.admit(request, Mode.ACCOUNT)
        found = await self.services.usage.queue(team)
        last = found.succeeded_at
        members = {
            "success": True,
            "jobsInQueue": found.active + found.waiting,
            "activeJobsInQueue": found.active,
            "waitingJobsInQueue": found.waiting,
            "maxConcurrency": team.concurrency or UNLIMITED,
            "mostRecentSuccess": None if last is None else iso(last),
        }
        return encode(members)

    @Described(returns=success({"concurrency": COUNT, "maxConcurrency": COUNT}))
    async def concurrency(self, request: JsonRequest) -> bytes:
        """Return how many pages run, and how many may run at a time."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        members = {
            "success": True,
            "concurrency": self.services.usage.concurrency(team),
            "maxConcurrency": team.concurrency or UNLIMITED,
        }
        return encode(members)

    @Described(returns=_ACTIVITY, parameters=(_ENDPOINT, _LIMIT, _CURSOR))
    async def activity(self, request: JsonRequest) -> bytes:
        """Return the team's calls of the last day."""
        team, _ = await self.checks.admit(request, Mode.ACCOUNT)
        endpoint, after, limit = _activity_asked(request)
        found = await self.services.usage.activity(team, endpoint, after, limit)
        return _calls(found, limit)


class SessionRoutes(Routes):
    """The team's sessions and room on the disk, and what this installation can do."""

    def routes(self) -> Iterable[RouteT]:
        return (
            ("GET", "/sessions", KeyScope.READ, self.sessions),
            ("DELETE", "/sessions/<path:name>", KeyScope.SCRAPE, self.delete_session),
            ("GET", "/team/disk-usage", KeyScope.READ, self.disk_usage),
            ("GET", "/capabilities", KeyScope.READ, self.capabilities),
        )

    @Described(returns=_SESSIONS, is_own=True)
    async def sessions(self, request: JsonRequest) -> bytes:
        """Return the team's sessions, without their contents."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        return _sessions(await self.services.scraping.sessions(team))

    @Described(
        returns=success({}), parameters=(_NAME,), errors=(JobNotFound,), is_own=True
    )
    async def delete_session(self, request: JsonRequest, name: str) -> bytes:
        """Delete a session."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        await self.services.scraping.delete_session(_session_name(name), team)
        return encode({"success": True})

    @Described(returns=_DISK, is_own=True)
    async def disk_usage(self, request: JsonRequest) -> bytes:
        """Return the bytes that the team has stored, and how many it may store."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        disk = self.services.usage.disk
        data = {"usedBytes": await disk.used(team), "limitBytes": disk.limit(team)}
        return encode({"success": True, "data": data})

    @Described(returns=_CAPABILITIES, is_own=True)
    async def capabilities(self, request: JsonRequest) -> bytes:
        """Return what this installation can do, and why it cannot do the rest."""
        await self.checks.admit(request, Mode.CRAWL_STATUS)
        return encode({"success": True, "data": self.services.capabilities()})


def _balance(found: Balance, unit: str, rate: int, version: int) -> bytes:
    """Return a balance as JSON; /v1 spells its keys in snake case."""
    today = datetime.now(UTC).date()
    start = today.replace(day=1)
    data = {
        f"remaining_{unit}": _amount(found.remaining, rate),
        f"plan_{unit}": _amount(found.plan, rate),
        "billing_period_start": _midnight(start),
        "billing_period_end": _midnight(_month_after(start)),
    }
    if version > 1:
        data = {camel(name): value for name, value in data.items()}
    return encode({"success": True, "data": data})


def _amount(credits_left: int | None, rate: int) -> int:
    return UNLIMITED if credits_left is None else credits_left * rate


def _history_asked(request: JsonRequest) -> tuple[str, bool]:
    """Return the length of a period, and True to list API keys separately."""
    return str(_TIME_RANGE.read(request)), _BY_KEY.read(request) == "true"


def _history(
    used: list[Used], length: str, by_key: bool, member: str, rate: int
) -> bytes:
    sums: Counter[tuple[date, str | None, str]] = Counter()
    for day, key_id, key_name, credits_used in used:
        start = _start_of(EPOCH + timedelta(days=day), length)
        key = (key_id, key_name) if by_key else (None, "")
        sums[(start, *key)] += credits_used
    periods = []
    for (start, _, key_name), credits_used in sums.items():
        period: dict[str, Any] = {
            "startDate": _midnight(start),
            "endDate": _midnight(_end_of(start, length)),
        }
        if by_key:
            period["apiKey"] = key_name
        periods.append({**period, member: credits_used * rate})
    return encode({"success": True, "periods": periods})


def _start_of(day: date, length: str) -> date:
    match length:
        case "month":
            return day.replace(day=1)
        case "week":
            return day - timedelta(days=day.weekday())
        case _:
            return day


def _end_of(start: date, length: str) -> date:
    if length == "month":
        return _month_after(start)
    return start + timedelta(days=7 if length == "week" else 1)


def _month_after(start: date) -> date:
    return (start + timedelta(days=31)).replace(day=1)


def _midnight(day: date) -> str:
    return iso(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


def _activity_asked(
    request: JsonRequest,
) -> tuple[str | None, CallPosition | None, int]:
    endpoint, place = _ENDPOINT.read(request), _CURSOR.read(request)
    if endpoint == "browser":  # another path of the same sessions
        endpoint = "interact"
    after = place and CallPosition(float(place[1]), place[2])
    return endpoint, after, _LIMIT.read(request)


def _calls(found: list[Call], limit: int) -> bytes:
    data = [
        {
            "id": each.id,
            "endpoint": each.endpoint,
            "api_version": f"v{each.version}",
            "created_at": iso(each.at),
            "target": each.target,
        }
        for each in found[:limit]
    ]
    has_more = len(found) > limit
    last = found[limit - 1] if has_more else None
    cursor = last and f"{last.at!r}_{last.id}"
    return encode(
        {"success": True, "data": data, "cursor": cursor, "has_more": has_more}
    )


def _session_name(text: str) -> str:
    """Return the name in a path; raise :exc:`InvalidParameter` for an invalid name."""
    try:
        return profile_name(text)
    except ValueError as error:
        raise InvalidParameter(str(error)) from None


def _sessions(found: list[SessionRow]) -> bytes:
    rows = [
        {
            "name": row.name,
            "cookies": row.cookies,
            "createdAt": iso(row.created_at),
            "updatedAt": iso(row.updated_at),
        }
        for row in found
    ]
    return encode({"success": True, "sessions": rows})
