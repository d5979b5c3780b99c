"""What no search may find any more is deleted from the index, slice by slice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, select, update

from scraper_service.jobs.model import SegmentState
from scraper_service.jobs.rows import now_of
from scraper_service.jobs.tables import (
    search_list,
    search_page,
    search_segment,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

EXPIRE_ROWS = 500  # deleted in one transaction
BUILDING_S = 3600  # after which nobody is at work on a segment that is not ready


def expire(connection: Connection) -> int:
    """Delete a slice of what no search may find any more; return how many rows."""
    now = now_of(connection)
    old = (
        select(search_page.c.id)
        .where(search_page.c.expires_at <= now)
        .limit(EXPIRE_ROWS)
    )
    removed = connection.execute(
        delete(search_page).where(search_page.c.id.in_(old))
    ).rowcount
    segment = search_segment.c
    connection.execute(
        update(search_segment)
        .where(segment.state == SegmentState.LIVE, segment.expires_at <= now)
        .values(state=SegmentState.DEAD)
    )
    connection.execute(
        update(search_segment)
        .where(
            segment.state == SegmentState.BUILDING,
            segment.created_at <= now - BUILDING_S,
        )
        .values(state=SegmentState.DEAD)
    )
    dead = connection.scalar(
        select(segment.id).where(segment.state == SegmentState.DEAD).limit(1)
    )
    if dead is None:
        return removed
    pieces = (
        select(search_list.c.piece)
        .where(search_list.c.segment_id == dead)
        .limit(EXPIRE_ROWS)
    )
    found = connection.execute(
        delete(search_list).where(
            search_list.c.segment_id == dead, search_list.c.piece.in_(pieces)
        )
    ).rowcount
    if found < EXPIRE_ROWS:
        connection.execute(delete(search_segment).where(segment.id == dead))
    return removed + found + 1
