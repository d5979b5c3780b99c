"""What no search may find any more is deleted from the index, slice by slice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, or_, select, update

from scraper_service.storage.frontier.transactions import delete_some, now_of
from scraper_service.storage.job_records import SegmentState
from scraper_service.storage.schema import (
    search_list,
    search_page,
    search_segment,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

EXPIRE_ROWS = 500  # deleted in one transaction
BUILDING_S = 3600  # after which nobody is at work on a segment that is not ready


def expire(connection: Connection) -> int:
    """Delete a slice of what no search may find any more; return how many rows.

    Several services may do so at once: each segment is one service's at a time.
    """
    now = now_of(connection)
    segment = search_segment.c
    is_old = search_page.c.expires_at <= now
    removed = delete_some(
        connection, search_page, is_old, limit=EXPIRE_ROWS, skips_locked=True
    )
    over = (
        select(segment.id)
        .where(
            or_(
                and_(segment.state == SegmentState.LIVE, segment.expires_at <= now),
                and_(
                    segment.state == SegmentState.BUILDING,
                    segment.created_at <= now - BUILDING_S,
                ),
            )
        )
        .with_for_update(skip_locked=True)
    )
    connection.execute(
        update(search_segment)
        .where(segment.id.in_(over))
        .values(state=SegmentState.DEAD)
    )
    # Locked, so that no other service takes part of its pieces at the same time: this
    # one would find few and take them for the last.
    dead = connection.scalar(
        select(segment.id)
        .where(segment.state == SegmentState.DEAD)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    if dead is None:
        return removed
    of_segment = search_list.c.segment_id == dead
    found = delete_some(connection, search_list, of_segment, limit=EXPIRE_ROWS)
    if found < EXPIRE_ROWS:
        connection.execute(delete(search_segment).where(segment.id == dead))
    return removed + found + 1
