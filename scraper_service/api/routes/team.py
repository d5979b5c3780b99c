"""What a team has used and has under way (interface document, 17), in both versions."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from scraper_service.api.application import asyncio_route
from scraper_service.api.page_json import encode, iso
from scraper_service.api.routes.jobs import argument, number
from scraper_service.errors import InvalidParameter
from scraper_service.options.limits import Mode
from scraper_service.storage.accounts.usage import Place, Used

if TYPE_CHECKING:
    from collections.abc import Callable

    from klein import Klein

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.version import Api
    from scraper_service.storage.accounts.credits import Call
    from scraper_service.storage.accounts.usage import Balance

UNLIMITED = 1_000_000_000
MAX_CALLS, USUAL_CALLS = 100, 50  # in one answer
ENDPOINTS = (
    *("scrape", "crawl", "batch_scrape", "map"),
    *("search", "extract", "llmstxt", "deep_research"),
)
EPOCH = date(1970, 1, 1)
_CURSOR = re.compile(r"(\d{1,10}\.\d{1,9})_([0-9a-f-]{36})", re.ASCII)


def add_team_routes(app: Klein, spell: Callable[[str], str]) -> None:
    """Give ``app`` the routes of a team; ``spell`` makes a key of ``remaining_credits``."""

    @app.route("/team/credit-usage", methods=["GET"])
    @asyncio_route
    async def credit_usage(api: Api, request: JsonRequest) -> bytes:
        team, _ = await api.edge.admit(request, Mode.CRAWL_STATUS)
        return _balance(await api.usage.balance(team), "credits", 1, spell)

    @app.route("/team/token-usage", methods=["GET"])
    @asyncio_route
    async def token_usage(api: Api, request: JsonRequest) -> bytes:
        team, _ = await api.edge.admit(request, Mode.EXTRACT_STATUS)
        rate = api.usage.tokens_per_credit
        return _balance(await api.usage.balance(team), "tokens", rate, spell)

    @app.route("/team/credit-usage/historical", methods=["GET"])
    @asyncio_route
    async def credit_history(api: Api, request: JsonRequest) -> bytes:
        team, _ = await api.edge.admit(request, Mode.CRAWL_STATUS)
        query = _history_asked(request)
        return _history(await api.usage.used(team), *query, "creditsUsed", 1)

    @app.route("/team/token-usage/historical", methods=["GET"])
    @asyncio_route
    async def token_history(api: Api, request: JsonRequest) -> bytes:
        team, _ = await api.edge.admit(request, Mode.EXTRACT_STATUS)
        query, rate = _history_asked(request), api.usage.tokens_per_credit
        return _history(await api.usage.used(team), *query, "tokensUsed", rate)

    @app.route("/team/queue-status", methods=["GET"])
    @asyncio_route
    async def queue_status(api: Api, request: JsonRequest) -> bytes:
        team, _ = await api.edge.admit(request, Mode.ACCOUNT)
        found = await api.usage.queue(team)
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

    @app.route("/concurrency-check", methods=["GET"])
    @asyncio_route
    async def concurrency(api: Api, request: JsonRequest) -> bytes:
        team, _ = await api.edge.admit(request, Mode.CRAWL_STATUS)
        members = {
            "success": True,
            "concurrency": await api.usage.concurrency(team),
            "maxConcurrency": team.concurrency or UNLIMITED,
        }
        return encode(members)

    @app.route("/team/activity", methods=["GET"])
    @asyncio_route
    async def activity(api: Api, request: JsonRequest) -> bytes:
        team, _ = await api.edge.admit(request, Mode.ACCOUNT)
        endpoint, after, limit = _activity_asked(request)
        found = await api.usage.activity(team, endpoint, after, limit)
        return _calls(found, limit)


def snake(name: str) -> str:
    """Return a name of ours as it is: the spelling of v1."""
    return name


def _balance(
    found: Balance, unit: str, rate: int, spell: Callable[[str], str]
) -> bytes:
    today = datetime.now(UTC).date()
    start = today.replace(day=1)
    data = {
        f"remaining_{unit}": _amount(found.remaining, rate),
        f"plan_{unit}": _amount(found.plan, rate),
        "billing_period_start": _midnight(start),
        "billing_period_end": _midnight(_month_after(start)),
    }
    spelled = {spell(name): value for name, value in data.items()}
    return encode({"success": True, "data": spelled})


def _amount(credits_left: int | None, rate: int) -> int:
    return UNLIMITED if credits_left is None else credits_left * rate


def _history_asked(request: JsonRequest) -> tuple[str, bool]:
    """Return the length of a period, and whether keys count apart."""
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


def _activity_asked(request: JsonRequest) -> tuple[str | None, Place | None, int]:
    endpoint = _choice(request, "endpoint", ENDPOINTS)
    limit = number(request, "limit", 1, MAX_CALLS) or USUAL_CALLS
    cursor = argument(request, "cursor")
    if cursor is None:
        return endpoint, None, limit
    place = _CURSOR.fullmatch(cursor)
    if place is None:
        raise InvalidParameter(
            f"Invalid cursor: must be that of an answer, got {cursor[:60]!r}"
        )
    return endpoint, Place(float(place[1]), place[2]), limit


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
