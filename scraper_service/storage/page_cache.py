"""The pages of earlier fetches: the page cache, and snapshots for change tracking.

The cache has raw responses of sites, per team. Its entries outlive their jobs. Its key has each
option that changes the response of a site, and no formats or tag filters, since pages are
converted again.

A tracked page is compared with its last snapshot outside of a transaction. The page and its new
snapshot are stored only if that snapshot is still the last one. Otherwise the page is compared
again. Functions run inside a transaction.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from attrs import asdict, frozen
from sqlalchemy import bindparam, select, update

from scraper_service.content.page_urls import is_route
from scraper_service.content.stored_pages import compress, decompress
from scraper_service.options.catalogue import cache_facts
from scraper_service.options.urls import url_parts
from scraper_service.storage.schema import snapshot, source
from scraper_service.storage.transactions import (
    dialect_insert,
    now_of,
    transaction,
    upsert,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from scraper_service.items import Snapshot
    from scraper_service.options.scrape import ScrapeOptions

DEFAULT_PORTS = {"http": ":80", "https": ":443"}


@frozen(kw_only=True)
class StoredSource:
    """A response of a site."""

    #: The final URL.
    url: str
    status: int
    content_type: str
    content_encoding: str
    refresh: str
    body: bytes
    #: ``X-Robots-Tag`` header.
    robots_tag: str = ""
    #: ``Last-Modified`` header.
    last_modified: str = ""
    #: ``ETag`` header.
    etag: str = ""
    engine: str = "http"
    #: Name of the screenshot's file.
    screenshot: str | None = None
    #: Seconds since 1970.
    fetched_at: float = 0.0


def page_address(url: str) -> str:
    """Return the part of ``url`` that identifies a page, for keys."""
    parts = url_parts(url)
    host = parts.netloc.lower().removesuffix(DEFAULT_PORTS.get(parts.scheme, ":"))
    host = host.removesuffix(".")
    route = script_route(parts.fragment)
    return f"{parts.scheme}://{host}{parts.path or '/'}?{parts.query}{route}"


def script_route(fragment: str) -> str:
    """Return the fragment with its ``#`` if it is a route of a script, else ""."""
    return f"#{fragment}" if is_route(fragment) else ""


def source_key(url: str, options: ScrapeOptions) -> str:
    """Return the key of the page at ``url`` with ``options``."""
    facts = [page_address(url), *cache_facts(url, options)]
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


def find_source(
    connection: Connection,
    team_id: str,
    key: str,
    max_age_s: float | None,
    min_age_s: float | None,
) -> StoredSource | None:
    """Return the response stored for ``key`` if its age is within the bounds."""
    row = connection.execute(
        select(source.c.fetched_at, source.c.facts, source.c.body).where(
            source.c.team_id == team_id, source.c.key == key
        )
    ).one_or_none()
    if row is None:
        return None
    age_s = now_of(connection) - row.fetched_at
    if max_age_s is not None and age_s >= max_age_s:
        return None
    if min_age_s is not None and age_s < min_age_s:
        return None
    facts = json.loads(row.facts)
    body = decompress(row.body)
    return StoredSource(body=body, fetched_at=row.fetched_at, **facts)


@transaction(row="{key}")
def store_source(
    connection: Connection,
    key: str,
    team_id: str,
    found: StoredSource,
    retention_s: float,
) -> None:
    """Store a response instead of the last one for ``key``."""
    now = now_of(connection)
    facts = asdict(found, filter=lambda a, _: a.name not in {"body", "fetched_at"})
    row = {
        "team_id": team_id,
        "key": key,
        "fetched_at": now,
        "expires_at": now + retention_s,
        "facts": json.dumps(facts),
        "body": compress(found.body),
    }
    upsert(connection, source, [row])


_READ_SNAPSHOT = select(snapshot.c.version, snapshot.c.at, snapshot.c.body).where(
    snapshot.c.team_id == bindparam("team"), snapshot.c.key == bindparam("key")
)
_LOCK_SNAPSHOT = _READ_SNAPSHOT.with_only_columns(snapshot.c.version).with_for_update()
_STORE_SNAPSHOT = (
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
    row = connection.execute(
        _READ_SNAPSHOT, {"team": team_id, "key": key}
    ).one_or_none()
    return Earlier(row.version, row.at, row.body) if row and row.version else Earlier()


def lock_snapshots(
    connection: Connection, wanted: Iterable[Snapshot]
) -> dict[tuple[str, str], int]:
    """Lock the snapshots of pages. Return the number of the last snapshot of each."""
    now = now_of(connection)
    found = {}
    add = dialect_insert(connection, snapshot).on_conflict_do_nothing()
    # Sorted, so that transactions never wait for each other in a circle.
    for team_id, key in sorted({(each.team_id, each.key) for each in wanted}):
        first = {"version": 0, "at": now, "expires_at": now, "body": b""}
        connection.execute(add, {"team_id": team_id, "key": key, **first})
        page_key = {"team": team_id, "key": key}
        found[team_id, key] = connection.execute(_LOCK_SNAPSHOT, page_key).scalar_one()
    return found


def is_last_snapshot(connection: Connection, new: Snapshot) -> bool:
    """Lock a page. Return True if it was compared with its last snapshot."""
    return lock_snapshots(connection, [new])[new.team_id, new.key] == new.version


def store_snapshots(connection: Connection, new: Iterable[Snapshot]) -> None:
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
        connection.execute(_STORE_SNAPSHOT, rows)
