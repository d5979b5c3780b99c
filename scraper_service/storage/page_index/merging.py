"""Many small segments of the index become a large one, piece by piece.

Each step is a short transaction; until the last one nothing changes for searches, and
what a process leaves half done is deleted later. The segment that is being built is the
lease of the process that builds it: one process at a time merges the index of a team.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen
from numpy.typing import NDArray
from sqlalchemy import select, update

from scraper_service.storage.frontier.transactions import now_of
from scraper_service.storage.job_records import SegmentState
from scraper_service.storage.page_index.postings import Postings, read_piece
from scraper_service.storage.page_index.rows import (
    Segment,
    add_pieces,
    add_segment,
    index_name,
    lock_index,
    set_state,
)
from scraper_service.storage.schema import search_list, search_page, search_segment

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from scraper_service.storage.database import Database

LEASE_S = 60.0  # after its last step, until a merge counts as left half done
TOGETHER = 8  # segments of one level become one of the next
TOP_LEVEL = 3  # of which 32,768 pages are one, or a few more; 65,536 are the most
_LISTS_BITS = 3  # more than its largest part has: it has so many times the postings


@frozen(eq=False)
class Merge:
    """Segments that become one: ``numbers`` are the new ones of the pages of each.

    Those of pages that are no more are negative. ``bits`` tells the steps apart.
    """

    parts: tuple[Segment, ...]
    numbers: tuple[NDArray[np.int64], ...]
    whole: Segment
    level: int
    expires_at: float

    @property
    def bits(self) -> int:
        return min(part.bits for part in self.parts)


async def merge_segments(database: Database, team_id: str) -> bool:
    """Do one merge for a team if there is one to be done; tell whether it was.

    It is not where another process merges, or where parts of it have expired meanwhile.
    """
    merge = await database.read(plan, team_id)
    if merge is None:
        return False
    name = index_name(team_id)
    segment_id = await database.write_locking(_begin, name, team_id, merge)
    if segment_id is None:
        return False
    for step in range(2**merge.bits):
        pieces = await database.read(_pieces, merge, step)
        if not await database.write(_add, segment_id, pieces):
            return False
    return await database.write_locking(_finish, name, team_id, segment_id, merge)


def plan(connection: Connection, team_id: str) -> Merge | None:
    """Return the merge that is to be done next, None for none."""
    segment = search_segment.c
    is_live = (segment.team_id == team_id, segment.state == SegmentState.LIVE)
    levels = Counter(
        connection.scalars(
            select(segment.level).where(*is_live, segment.level < TOP_LEVEL)
        )
    )
    level = next((n for n in sorted(levels) if levels[n] >= TOGETHER), None)
    if level is None:
        return None
    rows = connection.execute(
        select(
            segment.id,
            segment.pages,
            segment.bits,
            segment.languages,
            segment.expires_at,
        )
        .where(*is_live, segment.level == level)
        .order_by(segment.id)
        .limit(TOGETHER)
    ).all()
    parts = tuple(
        Segment.of_row(row.id, row.pages, row.bits, row.languages) for row in rows
    )
    ids = np.concatenate([part.ids for part in parts])
    alive = np.isin(ids, _alive(connection, team_id, ids))
    numbers = np.where(alive, np.cumsum(alive) - 1, -1)
    ends = np.cumsum([len(part.ids) for part in parts])[:-1]
    dates = np.concatenate([part.dates for part in parts])
    whole = Segment(
        ids=ids[alive],
        dates=dates[alive],
        bits=max(part.bits for part in parts) + _LISTS_BITS,
        languages=frozenset().union(*(part.languages for part in parts)),
    )
    return Merge(
        parts,
        tuple(np.split(numbers, ends)),
        whole,
        level + 1,
        max(row.expires_at for row in rows),
    )


def _alive(
    connection: Connection, team_id: str, ids: NDArray[np.int64]
) -> NDArray[np.int64]:
    page = search_page.c
    found = connection.scalars(
        select(page.id).where(
            page.team_id == team_id,
            page.id.between(int(ids.min()), int(ids.max())),
            page.expires_at > now_of(connection),
        )
    )
    return np.fromiter(found, dtype=np.int64)


def _begin(connection: Connection, _: str, team_id: str, merge: Merge) -> int | None:
    """Return the id of the new segment, None if another process was faster."""
    lock_index(connection, team_id)
    now, segment = now_of(connection), search_segment.c
    under_way = select(segment.id).where(
        segment.team_id == team_id,
        segment.state == SegmentState.BUILDING,
        segment.created_at > now - LEASE_S,
    )
    if connection.scalar(under_way.limit(1)) is not None:
        return None
    if not _are_live(connection, merge):
        return None
    return add_segment(
        connection, team_id, merge.whole, merge.level, merge.expires_at, now
    )


def _are_live(connection: Connection, merge: Merge) -> bool:
    """Lock the parts of a merge; return True if searches still read all of them."""
    ids = [part.id for part in merge.parts]
    segment = search_segment.c
    found = connection.scalars(
        select(segment.id)
        .where(segment.id.in_(ids), segment.state == SegmentState.LIVE)
        .order_by(segment.id)
        .with_for_update()
    )
    return len(found.all()) == len(ids)


def _pieces(connection: Connection, merge: Merge, step: int) -> dict[int, bytes]:
    """Return the new pieces of the terms that begin with the bits of ``step``."""
    parts = []
    for part, numbers in zip(merge.parts, merge.numbers, strict=True):
        width = 1 << (part.bits - merge.bits)
        bodies = connection.scalars(
            select(search_list.c.body)
            .where(
                search_list.c.segment_id == part.id,
                search_list.c.piece >= step * width,
                search_list.c.piece < (step + 1) * width,
            )
            .order_by(search_list.c.piece)
        )
        parts += [(read_piece(body), numbers) for body in bodies]
    return Postings.merged(parts).pieces(merge.whole.bits)


def _add(connection: Connection, segment_id: int, pieces: dict[int, bytes]) -> bool:
    """Store pieces and renew the lease; return False if the segment was given up."""
    segment = search_segment.c
    renewed = connection.execute(
        update(search_segment)
        .where(segment.id == segment_id, segment.state == SegmentState.BUILDING)
        .values(created_at=now_of(connection))
    )
    if not renewed.rowcount:
        return False
    add_pieces(connection, segment_id, pieces)
    return True


def _finish(
    connection: Connection, _: str, team_id: str, segment_id: int, merge: Merge
) -> bool:
    """Let the new segment stand for its parts; return False if some are gone."""
    lock_index(connection, team_id)
    if not _are_live(connection, merge):
        set_state(connection, segment_id, SegmentState.DEAD)
        return False
    for part in merge.parts:
        set_state(connection, part.id, SegmentState.DEAD)
    set_state(connection, segment_id, SegmentState.LIVE)
    return True
