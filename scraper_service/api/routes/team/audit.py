"""The audit log of the caller's team."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from scraper_service.api.openapi.route import Route
from scraper_service.api.parameters import CursorParameter, NumberParameter
from scraper_service.api.schemas import (
    Id,
    JsonObject,
    Maybe,
    Success,
    Time,
    Url,
    member,
)
from scraper_service.api.version import Routes
from scraper_service.options.limits import KeyScope, Mode
from scraper_service.storage.accounts.audit import AuditPosition

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest

MAX_ENTRIES, USUAL_ENTRIES = 100, 50  # in one response
_LIMIT = NumberParameter("limit", "At most N entries.", 1, MAX_ENTRIES, USUAL_ENTRIES)
_CURSOR = CursorParameter(
    "cursor",
    "that of `next`",
    re.compile(r"([0-9]{1,10}\.[0-9]{1,9})_([0-9a-f-]{36})"),
)


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
    """Who has changed the keys, settings and jobs of the caller's team."""

    @Route(
        "GET /team/audit",
        scope=KeyScope.ADMIN,
        returns=_Audit,
        parameters=(_LIMIT, _CURSOR),
        is_own=True,
    )
    async def audit(self, request: JsonRequest) -> bytes:
        """Return the team's audit log, the latest entry first."""
        team, _ = await self.checks.admit(request, Mode.ACCOUNT)
        limit, place = _LIMIT.read(request), _CURSOR.read(request)
        after = place and AuditPosition(float(place[1]), place[2])
        found = await self.services.usage.audit(team, after, limit)
        following = None
        if len(found) > limit:
            last = found[limit - 1]
            terms = {"limit": str(limit), "cursor": f"{last.at!r}_{last.id}"}
            following = f"{self.url_of(request)}?{urlencode(terms)}"
        return _Audit.to_json(data=found[:limit], next=following)
