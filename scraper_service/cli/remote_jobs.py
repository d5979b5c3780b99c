"""Jobs of a service: those that its team has started of late, and what became of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from scraper_service.cli.remote import RemoteError

if TYPE_CHECKING:
    from scraper_service.cli.remote import Remote

KINDS = {"crawl": "crawl", "batch_scrape": "batch"}  # by the endpoint that starts them
AT_ONCE = 4  # calls
NOT_THERE = {404, 405}  # of a service that has no such path, or no such job


async def recent(remote: Remote, most: int) -> list[dict[str, Any]]:
    """Return ``id``, ``kind``, ``created`` and ``url`` of jobs, the newest first.

    At most ``most``, of the last 24 hours.
    """
    calls = await asyncio.gather(*(_calls(remote, each, most) for each in KINDS))
    found = [row for rows in calls for row in rows]
    found.sort(key=lambda row: str(row["created"]), reverse=True)
    return found[:most]


async def _calls(remote: Remote, endpoint: str, most: int) -> list[dict[str, Any]]:
    query = urlencode({"endpoint": endpoint, "limit": most})
    found = await remote.call("GET", f"/v2/team/activity?{query}")
    return [
        {
            "id": str(each["id"]),
            "kind": KINDS[endpoint],
            "created": each.get("created_at"),
            "url": each.get("target"),
        }
        for each in found.get("data") or ()
    ]


async def listed(remote: Remote, most: int) -> list[dict[str, Any]]:
    """Return :func:`recent` jobs with ``state`` and ``pages``; not expired ones."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def with_state(row: dict[str, Any]) -> dict[str, Any] | None:
        async with slots:
            try:
                found = await remote.get(f"/v2/crawl/{row['id']}?limit=1")
            except RemoteError as error:
                if error.status in NOT_THERE:
                    return None
                raise
        facts = {"state": str(found.get("status")), "pages": found.get("completed", 0)}
        return {"id": row["id"], "kind": row["kind"], **facts, **row}

    rows = await asyncio.gather(*map(with_state, await recent(remote, most)))
    return [row for row in rows if row is not None]
