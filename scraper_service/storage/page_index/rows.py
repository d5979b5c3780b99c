"""Pages in the index: added, gathered into segments, expired.

New pages wait in their rows, which searches read as they are, until there are enough
for a segment. Functions take a connection inside a transaction.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np
from attrs import frozen
from numpy.typing import NDArray
from sqlalchemy import delete, func, insert, select, text, update

from scraper_service.content.text.search_entry import unpacked
from scraper_service.storage.frontier.transactions import now_of
from scraper_service.storage.job_records import SegmentState
from scraper_service.storage.page_cache import script_route
from scraper_service.storage.page_index.postings import Postings
from scraper_service.storage.schema import search_list, search_page, search_segment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

GATHERED = 64  # pages that wait, before they become a segment
MOST_GATHERED = 128  # of which 8 * 8 * 8 merged are no more than a segment may have


@frozen
class NewPage:
    """A page of a team for the index; ``entry`` is a packed ``SearchEntry``."""

    url: str
    entry: bytes


def page_key(url: str) -> str:
    """Return the number of an address: schemes, ``www.`` and final slashes are one.

    Routes in a script (a fragment with a slash) are told apart, as in the cache.
    """
    parts = urlsplit(url)
    host = parts.netloc.lower().removeprefix("www.")
    route = script_route(parts.fragment)
    text = f"{host}{parts.path.rstrip('/')}?{parts.query}{route}"
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()


def lock_index(connection: Connection, team_id: str) -> None:
    """Let no other process change the index of a team before the transaction ends.

    For :meth:`Database.write_locking` with :func:`index_name` as the name. Only one
    process at a time writes into SQLite.
    """
    if connection.dialect.name == "postgresql":
        digest = hashlib.blake2b(index_name(team_id).encode(), digest_size=8).digest()
        key = int.from_bytes(digest, signed=True)
        connection.execute(_LOCK_INDEX, {"key": key})


_LOCK_INDEX = text("SELECT pg_advisory_xact_lock(:key)")


def index_name(team_id: str) -> str:
    """Return the name under which the index of a team is locked."""
    return f"search:{team_id}"


def add_pages(
    connection: Connection, team_id: str, pages: Sequence[NewPage], retention_s: float
) -> bool:
    """Put pages in place of what the index has of them; tell whether segments grew.

    Locks the index of the team.
    """
    lock_index(connection, team_id)
    now = now_of(connection)
    rows = {}
    for page in pages:
        entry = unpacked(page.entry)
        rows[page_key(page.url)] = {
            "team_id": team_id,
            "key": page_key(page.url),
            "url": page.url,
            "fetched_at": now,
            "expires_at": now + retention_s,
            "facts": entry.facts,
            "text": entry.text,
            "terms": entry.terms,
        }
    keys = sorted(rows)
    of_team = search_page.c.team_id == team_id
    connection.execute(delete(search_page).where(of_team, search_page.c.key.in_(keys)))
    connection.execute(insert(search_page), [rows[key] for key in keys])
    count = connection.scalar(
        select(func.count())
        .select_from(search_page)
        .where(of_team, search_page.c.terms.is_not(None))
    )
    if (count or 0) < GATHERED:
        return False
    return _gather(connection, team_id, now)


def _gather(connection: Connection, team_id: str, now: float) -> bool:
    """Make a segment of the pages that wait and that nobody else gathers."""
    rows = connection.execute(
        select(
            search_page.c.id,
            search_page.c.facts,
            search_page.c.fetched_at,
            search_page.c.expires_at,
            search_page.c.terms,
        )
        .where(search_page.c.team_id == team_id, search_page.c.terms.is_not(None))
        .order_by(search_page.c.id)
        .limit(MOST_GATHERED)
        .with_for_update(skip_locked=True)
    ).all()
    if len(rows) < GATHERED:
        return False
    facts = [json.loads(row.facts) for row in rows]
    postings = Postings.of_pages([row.terms for row in rows])
    segment = Segment(
        ids=np.array([row.id for row in rows], dtype="<i8"),
        dates=np.array(
            [
                date_of(each, row.fetched_at)
                for each, row in zip(facts, rows, strict=True)
            ],
            dtype="<u4",
        ),
        bits=postings.bits,
        languages=frozenset(each.get("language", "") for each in facts),
    )
    expires_at = max(row.expires_at for row in rows)
    segment_id = add_segment(connection, team_id, segment, 0, expires_at, now)
    add_pieces(connection, segment_id, postings.pieces(segment.bits))
    set_state(connection, segment_id, SegmentState.LIVE)
    ids = [row.id for row in rows]
    connection.execute(
        update(search_page).where(search_page.c.id.in_(ids)).values(terms=None)
    )
    return True


def date_of(facts: Mapping[str, str], fetched_at: float) -> int:
    """Return when a page was published, else fetched, in seconds since 1970."""
    found = fetched_at
    with suppress(ValueError):
        moment = datetime.fromisoformat(facts.get("date", ""))
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        found = aware.timestamp()
    return int(min(max(0.0, found), 2**32 - 1))


@frozen(eq=False)
class Segment:
    """What a row of a segment says: its pages' ids and dates, in their order in it."""

    ids: NDArray[np.int64]
    dates: NDArray[np.uint32]
    bits: int
    languages: frozenset[str]
    id: int = 0

    def packed_pages(self) -> bytes:
        """Return the pages as they are stored."""
        return self.ids.astype("<i8").tobytes() + self.dates.astype("<u4").tobytes()

    @classmethod
    def of_row(
        cls, segment_id: int, pages: bytes, bits: int, languages: str
    ) -> Segment:
        """Return a segment as it was stored."""
        count = len(pages) // 12
        ids = np.frombuffer(pages, "<i8", count)
        dates = np.frombuffer(pages, "<u4", count, 8 * count)
        return cls(ids, dates, bits, frozenset(languages.split(",")), segment_id)


def add_segment(
    connection: Connection,
    team_id: str,
    segment: Segment,
    level: int,
    expires_at: float,
    now: float,
) -> int:
    """Store a segment that is not ready yet; return its id."""
    found = connection.scalar(
        insert(search_segment)
        .values(
            team_id=team_id,
            state=SegmentState.BUILDING,
            level=level,
            bits=segment.bits,
            languages=",".join(sorted(segment.languages)),
            pages=segment.packed_pages(),
            created_at=now,
            expires_at=expires_at,
        )
        .returning(search_segment.c.id)
    )
    assert found is not None
    return int(found)


def add_pieces(
    connection: Connection, segment_id: int, pieces: Mapping[int, bytes]
) -> None:
    """Store pieces of the lists of a segment."""
    rows = [
        {"segment_id": segment_id, "piece": number, "body": body}
        for number, body in pieces.items()
    ]
    if rows:
        connection.execute(insert(search_list), rows)


def set_state(connection: Connection, segment_id: int, state: SegmentState) -> None:
    """Change the state of a segment."""
    connection.execute(
        update(search_segment)
        .where(search_segment.c.id == segment_id)
        .values(state=state)
    )
