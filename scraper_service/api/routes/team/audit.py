"""The audit log of the caller's team."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from scraper_service.api.openapi.described import Described
from scraper_service.api.parameters import CursorParameter, NumberParameter
from scraper_service.api.responses import encode, iso
from scraper_service.api.schemas import (
    ANY,
    ID,
    TEXT,
    TIME,
    URL,
    array,
    or_null,
    shape,
    success,
)
from scraper_service.api.version import Routes
from scraper_service.options.limits import KeyScope, Mode
from scraper_service.storage.accounts.audit import AuditPosition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.version import RouteT
    from scraper_service.storage.accounts.audit import AuditEntry

MAX_ENTRIES, USUAL_ENTRIES = 100, 50  # in one response
_LIMIT = NumberParameter("limit", "At most N entries.", 1, MAX_ENTRIES, USUAL_ENTRIES)
_CURSOR = CursorParameter(
    "cursor",
    "that of `next`",
    re.compile(r"([0-9]{1,10}\.[0-9]{1,9})_([0-9a-f-]{36})"),
)
_ENTRY = shape(
    {
        "id": ID,
        "at": TIME,
        "action": TEXT,
        "target": or_null(TEXT),
        "key": or_null(shape({"id": ID, "name": TEXT})),
        "peer": TEXT,
        "result": TEXT,
        "detail": ANY,
    }
)


class AuditRoutes(Routes):
    """Who has changed the keys, settings and jobs of the caller's team."""

    def routes(self) -> Iterable[RouteT]:
        return (("GET", "/team/audit", KeyScope.ADMIN, self.audit),)

    @Described(
        returns=success({"data": array(_ENTRY), "next?": URL}),
        parameters=(_LIMIT, _CURSOR),
        is_own=True,
    )
    async def audit(self, request: JsonRequest) -> bytes:
        """Return the team's audit log, the latest entry first."""
        team, _ = await self.checks.admit(request, Mode.ACCOUNT)
        limit, place = _LIMIT.read(request), _CURSOR.read(request)
        after = place and AuditPosition(float(place[1]), place[2])
        found = await self.services.usage.audit(team, after, limit)
        members = {"success": True, "data": [audit_members(x) for x in found[:limit]]}
        if len(found) > limit:
            last = found[limit - 1]
            terms = {"limit": str(limit), "cursor": f"{last.at!r}_{last.id}"}
            members["next"] = f"{self.url_of(request)}?{urlencode(terms)}"
        return encode(members)


def audit_members(entry: AuditEntry) -> dict[str, Any]:
    """Return an entry as JSON."""
    key = entry.key_id and {"id": entry.key_id, "name": entry.key_name}
    return {
        "id": entry.id,
        "at": iso(entry.at),
        "action": entry.action,
        "target": entry.target,
        "key": key,
        "peer": entry.peer,
        "result": entry.result,
        "detail": entry.detail,
    }
