"""Every address of a crawl and why it was fetched or not: additions of ours to /v2."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from scraper_service.api.page_json import encode
from scraper_service.api.routes.jobs import argument, number
from scraper_service.errors import InvalidParameter
from scraper_service.storage.job_listing import STATES, AddressQuery, Cursor
from scraper_service.storage.job_records import RowState

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.services.scope_explanation import Explanation
    from scraper_service.storage.job_listing import Address, Listing

MAX_ADDRESSES = 1000  # in one answer
DEFAULT_ADDRESSES = 100
MAX_SKIPPED = 10**9

_CURSOR = re.compile(r"([0-6])\.(\d{1,18})", re.ASCII)
_NAMES = tuple(dict.fromkeys(STATES.values()))


def asked(request: JsonRequest) -> AddressQuery:
    """Return what the query asks for; raise :exc:`InvalidParameter`."""
    state, after = argument(request, "state"), argument(request, "after")
    if state is not None and state not in _NAMES:
        allowed = ", ".join(_NAMES)
        raise InvalidParameter(
            f"Invalid state: must be one of {allowed}, got {state[:60]!r}"
        )
    place = _CURSOR.fullmatch(after) if after is not None else None
    if after is not None and place is None:
        raise InvalidParameter(
            f"Invalid after: must be that of a next address, got {after[:60]!r}"
        )
    return AddressQuery(
        state=state,
        reason=argument(request, "reason"),
        after=place and Cursor(RowState(int(place[1])), int(place[2])),
        skip=number(request, "skip", 0, MAX_SKIPPED) or 0,
        limit=number(request, "limit", 1, MAX_ADDRESSES) or DEFAULT_ADDRESSES,
    )


def listed(found: Listing, query: AddressQuery, path: str) -> bytes:
    """Answer a part of the list; ``path`` is its absolute address."""
    members: dict[str, Any] = {
        "success": True,
        "total": found.total,
        "urls": [_members(address) for address in found.addresses],
    }
    if (behind := found.behind) is not None:
        facts = {
            "state": query.state,
            "reason": query.reason,
            "limit": query.limit,
            "after": f"{behind.state:d}.{behind.row_id}",
        }
        terms = (f"{k}={quote(str(v))}" for k, v in facts.items() if v is not None)
        members["next"] = f"{path}?{'&'.join(terms)}"
    return encode(members)


def explained(found: list[Explanation]) -> bytes:
    """Answer which addresses a crawl would fetch."""
    results = []
    for each in found:
        facts = {
            "url": each.url,
            "allowed": each.refusal is None,
            "reason": each.refusal and each.refusal.reason.value,
            "detail": each.refusal and each.refusal.rule,
            "robots": each.robots,
        }
        results.append({k: v for k, v in facts.items() if v is not None})
    return encode({"success": True, "results": results})


def _members(address: Address) -> dict[str, Any]:
    facts = {
        "url": address.url,
        "kind": address.kind,
        "state": address.state,
        "reason": address.reason,
        "detail": address.detail,
        "depth": address.depth,
        "foundOn": address.found_on,
        "scrapeId": address.page_id,
        "lastModified": address.lastmod,
    }
    return {name: value for name, value in facts.items() if value is not None}
