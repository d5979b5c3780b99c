"""Snapshots of tracked pages for change tracking, per team, URL and tag.

A page is compared with the last snapshot outside of a transaction. The page and its new
snapshot are stored only if that snapshot is still the last one. Otherwise the page is
compared again. Functions run inside a transaction.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from attrs import frozen
from sqlalchemy import bindparam, select, update

from scraper_service.storage.pages.page_cache import page_address
from scraper_service.storage.schema import snapshot
from scraper_service.storage.transactions import dialect_insert, now_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from scraper_service.items import Snapshot

_READ = select(snapshot.c.version, snapshot.c.at, snapshot.c.body).where(
    snapshot.c.team_id == bindparam("team"), snapshot.c.key == bindparam("key")
)
_LOCK = (
    select(snapshot.c.version)
    .where(snapshot.c.team_id == bindparam("team"), snapshot.c.key == bindparam("key"))
    .with_for_update()
)
_STORE = (
    update(snapshot)
    .where(snapshot.c.team_id == bindparam("team"), snapshot.c.key == bindparam("name"))
    .values({name: bindparam(name) for name in ("version", "at", "expires_at", "body")})
)


@frozen
class Earlier:
    """The last snapshot of a page."""

    #: Number of the snapshot, 0 if there is none.
    version: int = 0
    #: Seconds since 1970.
    at: float | None = None
    body: bytes | None = None


def snapshot_key(url: str, tag: str | None) -> str:
    """Return the key of a page's snapshots. URLs count as for the page cache."""
    facts = json.dumps([page_address(url), tag])
    return hashlib.blake2b(facts.encode(), digest_size=16).hexdigest()


def read_earlier(connection: Connection, team_id: str, key: str) -> Earlier:
    """Return the last snapshot of a page."""
    row = connection.execute(_READ, {"team": team_id, "key": key}).one_or_none()
    return Earlier(row.version, row.at, row.body) if row and row.version else Earlier()


def lock(
    connection: Connection, wanted: Iterable[Snapshot]
) -> dict[tuple[str, str], int]:
    """Lock the snapshots of pages. Return the number of the last snapshot of each."""
    now = now_of(connection)
    found = {}
    add = dialect_insert(connection, snapshot).on_conflict_do_nothing()
    # Sorted, so that transactions never wait for each other in a circle.
    for team_id, key in sorted({(each.team_id, each.key) for each in wanted}):
        row = {
            "team_id": team_id,
            "key": key,
            "version": 0,
            "at": now,
            "expires_at": now,
            "body": b"",
        }
        connection.execute(add, row)
        page_key = {"team": team_id, "key": key}
        found[team_id, key] = connection.execute(_LOCK, page_key).scalar_one()
    return found


def is_last(connection: Connection, new: Snapshot) -> bool:
    """Lock a page. Return True if it was compared with its last snapshot."""
    return lock(connection, [new])[new.team_id, new.key] == new.version


def store(connection: Connection, new: Iterable[Snapshot]) -> None:
    """Store snapshots of locked pages instead of their last ones."""
    now = now_of(connection)
    rows = [
        {
            "team": each.team_id,
            "name": each.key,
            "version": each.version + 1,
            "at": now,
            "expires_at": now + each.keep_s,
            "body": each.body,
        }
        for each in new
    ]
    if rows:
        connection.execute(_STORE, rows)
