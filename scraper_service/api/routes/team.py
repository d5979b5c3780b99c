"""Routes of teams: credits, usage, the audit log, blocked sites; and what they may use here."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlencode

from scraper_service.api.openapi.route import Route
from scraper_service.api.parameters import (
    ChoiceParameter,
    CursorParameter,
    NumberParameter,
)
from scraper_service.api.routing import Routes
from scraper_service.api.schemas import (
    Id,
    JsonObject,
    Maybe,
    Success,
    Time,
    Url,
    array,
    encode,
    json_object,
    member,
    one_of,
    success,
)
from scraper_service.options.limits import KeyScope, Mode, SitePolicy
from scraper_service.options.page_requests import ignored_names
from scraper_service.options.values import LIST_MODES, TEAM_PROTECTION, team_protection
from scraper_service.storage.transactions import ListPosition

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.storage.accounts.credits import Call
    from scraper_service.storage.accounts.usage import Balance


_LIMIT = NumberParameter("limit", "At most N entries.", 1, 100, 50)
_POSITION = re.compile(r"([0-9]{1,10}\.[0-9]{1,9})_([0-9a-f-]{36})")
_AUDIT_CURSOR = CursorParameter("cursor", "that of `next`", _POSITION)
UNLIMITED = 1_000_000_000
ENDPOINTS = (
    *("scrape", "parse", "crawl", "batch_scrape", "map"),
    *("search", "extract", "llmstxt", "deep_research", "agent", "interact"),
    *("browser", "monitor"),
)
EPOCH = date(1970, 1, 1)
_ENDPOINT = ChoiceParameter("endpoint", "Only calls of this kind.", ENDPOINTS)
_CURSOR = CursorParameter("cursor", "the cursor of a response", _POSITION)
_TIME_RANGE = ChoiceParameter(
    "timeRange", "The length of a period.", ("day", "week", "month"), "month"
)
_BY_KEY = ChoiceParameter(
    "byApiKey", "List each API key separately.", ("true", "false"), "false"
)
_CONCURRENCY = success(concurrency=int, max_concurrency=int)
_DISK = success(data=json_object(used_bytes=int, limit_bytes=int | None))


class _Key(JsonObject):
    id: Id = member(source="key_id")
    name: str = member(source="key_name")


class AuditEntryJson(JsonObject):
    """An entry of the audit log."""

    id: Id
    at: Time
    action: str
    target: str | None
    key: _Key | None = member(source=lambda entry: entry if entry.key_id else None)
    peer: str
    result: str
    detail: Any


class _Audit(Success):
    data: list[AuditEntryJson]
    next: Maybe[Url]


class AuditRoutes(Routes):
    """The audit log: changes of the keys, settings and jobs of the caller's team."""

    @Route(
        "GET /team/audit",
        scope=KeyScope.ADMIN,
        returns=_Audit,
        parameters=(_LIMIT, _AUDIT_CURSOR),
        is_own=True,
    )
    async def audit(self, request: JsonRequest) -> bytes:
        """Return the team's audit log, the latest entry first."""
        team, _ = await self.checks.admit(request, Mode.ACCOUNT)
        limit, cursor = _LIMIT.read(request), _AUDIT_CURSOR.read(request)
        after = cursor and ListPosition(float(cursor[1]), cursor[2])
        found = await self.services.usage.audit(team, after, limit)
        following = None
        if len(found) > limit:
            last = found[limit - 1]
            terms = {"limit": str(limit), "cursor": f"{last.at!r}_{last.id}"}
            following = f"{self.url_of(request)}?{urlencode(terms)}"
        return _Audit.to_json(data=found[:limit], next=following)


class _Policy(JsonObject):
    mode: Annotated[str, one_of(*LIST_MODES)]
    blacklist: list[str] = member(source=lambda policy: policy.rules.blacklist)
    whitelist: list[str] = member(source=lambda policy: policy.rules.whitelist)
    blocked_tlds: list[str] = member(source=lambda policy: policy.rules.blocked_tlds)
    allow_request_overrides: bool = member(source="allows_overrides")


class _Protection(Success):
    data: _Policy
    warning: Maybe[str]


class ThreatProtectionRoutes(Routes):
    """The threat protection of the caller's team."""

    @Route("GET /team/threat-protection", returns=_Protection)
    async def threat_protection(self, request: JsonRequest) -> bytes:
        """Return the sites that the team's requests may fetch."""
        team, _ = await self.checks.admit(request, Mode.ACCOUNT)
        return _Protection.to_json(data=team.site_policy or SitePolicy())

    @Route(
        "PUT /team/threat-protection",
        scope=KeyScope.ADMIN,
        returns=_Protection,
        body=TEAM_PROTECTION,
        example={"mode": "manual-only", "blacklist": ["*.ads.example"]},
    )
    async def replace_threat_protection(self, request: JsonRequest) -> bytes:
        """Replace the sites that the team's requests may fetch."""
        team, body = await self.checks.admit(request, Mode.ACCOUNT)
        policy = await body.read(team_protection)
        warning = await body.warning(ignored_names(TEAM_PROTECTION.fields))
        await self.checks.accounts.set_site_policy(team, policy)
        return _Protection.to_json(data=policy, warning=warning)


class _Queue(Success):
    jobs_in_queue: int = member(source=lambda found: found.active + found.waiting)
    active_jobs_in_queue: int = member(source="active")
    waiting_jobs_in_queue: int = member(source="waiting")
    max_concurrency: int
    most_recent_success: Time | None = member(source="succeeded_at")


class _Call(JsonObject, spelled=str):
    id: Id
    endpoint: Annotated[str, one_of(*ENDPOINTS)]
    api_version: Literal["v1", "v2"] = member(source=lambda call: f"v{call.version}")
    created_at: Time = member(source="at")
    target: str | None


class _Activity(Success, spelled=str):
    data: list[_Call]
    cursor: str | None
    has_more: bool


class _Period(JsonObject):
    start_date: Time
    end_date: Time
    api_key: Maybe[str]


class _CreditsPeriod(_Period):
    used: int = member(key="creditsUsed")


class _TokensPeriod(_Period):
    used: int = member(key="tokensUsed")


class TeamRoutes(Routes):
    """Credits, tokens, concurrency and recent calls of the caller's team."""

    @Route("GET /team/credit-usage", returns="CREDITS")
    async def credit_usage(self, request: JsonRequest) -> bytes:
        """Return the credits that are left."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        balance = _balance(await self.services.usage.balance(team), "credits", 1)
        answer: bytes = self.api.responses.CREDITS.to_json(data=balance)
        return answer

    @Route("GET /team/token-usage", returns="TOKENS")
    async def token_usage(self, request: JsonRequest) -> bytes:
        """Return the tokens that are left: the credits in another unit."""
        team, _ = await self.checks.admit(request, Mode.EXTRACT_STATUS)
        rate = self.services.usage.tokens_per_credit
        balance = _balance(await self.services.usage.balance(team), "tokens", rate)
        answer: bytes = self.api.responses.TOKENS.to_json(data=balance)
        return answer

    @Route(
        "GET /team/credit-usage/historical",
        returns=success(periods=list[_CreditsPeriod]),
        parameters=(_TIME_RANGE, _BY_KEY),
    )
    async def credit_history(self, request: JsonRequest) -> bytes:
        """Return the credits used by day, week or month."""
        return await self._history(request, Mode.CRAWL_STATUS, _CreditsPeriod, 1)

    @Route(
        "GET /team/token-usage/historical",
        returns=success(periods=list[_TokensPeriod]),
        parameters=(_TIME_RANGE, _BY_KEY),
    )
    async def token_history(self, request: JsonRequest) -> bytes:
        """Return the tokens used by day, week or month."""
        rate = self.services.usage.tokens_per_credit
        return await self._history(request, Mode.EXTRACT_STATUS, _TokensPeriod, rate)

    async def _history(
        self, request: JsonRequest, mode: Mode, kind: type[_Period], rate: int
    ) -> bytes:
        team, _ = await self.checks.admit(request, mode)
        length, by_key = str(_TIME_RANGE.read(request)), _BY_KEY.read(request) == "true"
        sums: Counter[tuple[date, str | None, str | None]] = Counter()
        for day, key_id, name, credits_used in await self.services.usage.read_used(
            team
        ):
            key = (key_id, name) if by_key else (None, None)
            sums[(_start_of(EPOCH + timedelta(days=day), length), *key)] += credits_used
        periods = [
            kind.of(
                start_date=_midnight(start),
                end_date=_midnight(_end_of(start, length)),
                api_key=name,
                used=credits_used * rate,
            )
            for (start, _, name), credits_used in sums.items()
        ]
        return encode({"success": True, "periods": periods})

    @Route("GET /team/queue-status", returns=_Queue)
    async def queue_status(self, request: JsonRequest) -> bytes:
        """Return how many pages run and how many wait."""
        team, _ = await self.checks.admit(request, Mode.ACCOUNT)
        found = await self.services.usage.queue(team)
        return _Queue.to_json(found, max_concurrency=team.concurrency or UNLIMITED)

    @Route("GET /concurrency-check", returns=_CONCURRENCY)
    async def concurrency(self, request: JsonRequest) -> bytes:
        """Return how many pages run, and how many may run at a time."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        return _CONCURRENCY.to_json(
            concurrency=self.services.usage.concurrency(team),
            max_concurrency=team.concurrency or UNLIMITED,
        )

    @Route(
        "GET /team/activity", returns=_Activity, parameters=(_ENDPOINT, _LIMIT, _CURSOR)
    )
    async def activity(self, request: JsonRequest) -> bytes:
        """Return the team's calls of the last day."""
        team, _ = await self.checks.admit(request, Mode.ACCOUNT)
        endpoint, after, limit = _activity_asked(request)
        found = await self.services.usage.activity(team, endpoint, after, limit)
        return _calls(found, limit)


class _Feature(JsonObject):
    name: str
    available: bool
    reason: Maybe[str]


_CAPABILITIES = json_object(
    version=str,
    features=list[_Feature],
    formats=list[_Feature],
    exports=list[_Feature],
    search_engines=list[str],
    database=Literal["postgresql", "sqlite"],
    not_offered=array(json_object(name=str, reason=str).shape),
)


class CapabilityRoutes(Routes):
    """What this installation can do, and how much the team may store in it."""

    @Route("GET /capabilities", returns=success(data=_CAPABILITIES), is_own=True)
    async def capabilities(self, request: JsonRequest) -> bytes:
        """Return what this installation can do, and why it cannot do the rest."""
        await self.checks.admit(request, Mode.CRAWL_STATUS)
        return encode({"success": True, "data": self.services.capabilities()})

    @Route("GET /team/disk-usage", returns=_DISK, is_own=True)
    async def disk_usage(self, request: JsonRequest) -> bytes:
        """Return the bytes that the team has stored, and how many it may store."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        disk = self.services.usage.disk
        data = {
            "used_bytes": await disk.read_used(team),
            "limit_bytes": disk.limit(team),
        }
        return _DISK.to_json(data=data)


def _balance(found: Balance, unit: str, rate: int) -> dict[str, float]:
    start = datetime.now(UTC).date().replace(day=1)
    return {
        f"remaining_{unit}": _amount(found.remaining, rate),
        f"plan_{unit}": _amount(found.plan, rate),
        "billing_period_start": _midnight(start),
        "billing_period_end": _midnight(_month_after(start)),
    }


def _amount(credits_left: int | None, rate: int) -> int:
    return UNLIMITED if credits_left is None else credits_left * rate


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


def _midnight(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


def _activity_asked(
    request: JsonRequest,
) -> tuple[str | None, ListPosition | None, int]:
    endpoint, cursor = _ENDPOINT.read(request), _CURSOR.read(request)
    if endpoint == "browser":  # another path of the same sessions
        endpoint = "interact"
    after = cursor and ListPosition(float(cursor[1]), cursor[2])
    return endpoint, after, _LIMIT.read(request)


def _calls(found: list[Call], limit: int) -> bytes:
    has_more = len(found) > limit
    last = found[limit - 1] if has_more else None
    cursor = last and f"{last.at!r}_{last.id}"
    return _Activity.to_json(data=found[:limit], cursor=cursor, has_more=has_more)
