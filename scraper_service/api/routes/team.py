"""What a team has used, its running pages, and its sessions."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from scraper_service.api.parameters import argument, number
from scraper_service.api.responses import camel, encode, iso
from scraper_service.api.version import Routes
from scraper_service.errors import InvalidParameter
from scraper_service.options.limits import Mode
from scraper_service.options.scrape import profile_name
from scraper_service.storage.accounts.usage import CallPosition, Used

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.version import RouteT
    from scraper_service.storage.accounts.credits import Call
    from scraper_service.storage.accounts.usage import Balance
    from scraper_service.storage.sessions import SessionRow

UNLIMITED = 1_000_000_000
MAX_CALLS, USUAL_CALLS = 100, 50  # in one response
ENDPOINTS = (
    *("scrape", "crawl", "batch_scrape", "map"),
    *("search", "extract", "llmstxt", "deep_research"),
)
EPOCH = date(1970, 1, 1)
_CURSOR = re.compile(r"(\d{1,10}\.\d{1,9})_([0-9a-f-]{36})", re.ASCII)


class TeamRoutes(Routes):
    """Credits, tokens, concurrency and recent calls of the caller's team."""

    def routes(self) -> Iterable[RouteT]:
        return (
            ("GET", "/team/credit-usage", self.credit_usage),
            ("GET", "/team/token-usage", self.token_usage),
            ("GET", "/team/credit-usage/historical", self.credit_history),
            ("GET", "/team/token-usage/historical", self.token_history),
            ("GET", "/team/queue-status", self.queue_status),
            ("GET", "/concurrency-check", self.concurrency),
            ("GET", "/team/activity", self.activity),
        )

    async def credit_usage(self, request: JsonRequest) -> bytes:
        """Return the credits that are left."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        balance = await self.services.usage.balance(team)
        return _balance(balance, "credits", 1, self.api.version)

    async def token_usage(self, request: JsonRequest) -> bytes:
        """Return the tokens that are left: the credits in another unit."""
        team, _ = await self.checks.admit(request, Mode.EXTRACT_STATUS)
        rate = self.services.usage.tokens_per_credit
        balance = await self.services.usage.balance(team)
        return _balance(balance, "tokens", rate, self.api.version)

    async def credit_history(self, request: JsonRequest) -> bytes:
        """Return the credits used by day, week or month."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        query = _history_asked(request)
        used = await self.services.usage.used(team)
        return _history(used, *query, "creditsUsed", 1)

    async def token_history(self, request: JsonRequest) -> bytes:
        """Return the tokens used by day, week or month."""
        team, _ = await self.checks.admit(request, Mode.EXTRACT_STATUS)
        query, rate = _history_asked(request), self.services.usage.tokens_per_credit
        used = await self.services.usage.used(team)
        return _history(used, *query, "tokensUsed", rate)

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

    async def concurrency(self, request: JsonRequest) -> bytes:
        """Return how many pages run, and how many may run at a time."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        members = {
            "success": True,
            "concurrency": await self.services.usage.concurrency(team),
            "maxConcurrency": team.concurrency or UNLIMITED,
        }
        return encode(members)

    async def activity(self, request: JsonRequest) -> bytes:
        """Return the team's calls of the last day."""
        team, _ = await self.checks.admit(request, Mode.ACCOUNT)
        endpoint, after, limit = _activity_asked(request)
        found = await self.services.usage.activity(team, endpoint, after, limit)
        return _calls(found, limit)


class SessionRoutes(Routes):
    """The team's sessions, and what this installation can do."""

    def routes(self) -> Iterable[RouteT]:
        return (
            ("GET", "/sessions", self.sessions),
            ("DELETE", "/sessions/<path:name>", self.delete_session),
            ("GET", "/capabilities", self.capabilities),
        )

    async def sessions(self, request: JsonRequest) -> bytes:
        """Return the team's sessions, without their contents."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        return _sessions(await self.services.scraping.sessions(team))

    async def delete_session(self, request: JsonRequest, name: str) -> bytes:
        """Delete a session."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        await self.services.scraping.delete_session(_session_name(name), team)
        return encode({"success": True})

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
    length = _choice(request, "timeRange", ("day", "week", "month"))
    by_key = _choice(request, "byApiKey", ("true", "false"))
    return length or "month", by_key == "true"


def _choice(request: JsonRequest, name: str, allowed: tuple[str, ...]) -> str | None:
    text = argument(request, name)
    if text is not None and text not in allowed:
        raise InvalidParameter(
            f"Invalid {name}: must be one of {', '.join(allowed)}, got {text[:60]!r}"
        )
    return text


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
    endpoint = _choice(request, "endpoint", ENDPOINTS)
    limit = number(request, "limit", 1, MAX_CALLS) or USUAL_CALLS
    cursor = argument(request, "cursor")
    if cursor is None:
        return endpoint, None, limit
    place = _CURSOR.fullmatch(cursor)
    if place is None:
        raise InvalidParameter(
            f"Invalid cursor: must be the cursor of a response, got {cursor[:60]!r}"
        )
    return endpoint, CallPosition(float(place[1]), place[2]), limit


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
