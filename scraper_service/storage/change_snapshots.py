"""What tracked pages were like when they were last scraped, per team, address and tag.

A page is compared with a snapshot outside of any transaction, and stored together with
its own one only if that snapshot is still the last: who comes second compares again.
Functions take a connection inside a transaction.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from attrs import frozen
from sqlalchemy import bindparam, select, update

from scraper_service.discovery import CrawlScope, crawl_key, followed
from scraper_service.discovery.sitemap_locations import first_base
from scraper_service.options.job_arguments import options_from_json
from scraper_service.options.jobs import CrawlOptions
from scraper_service.storage.frontier.known_urls import latest_crawls
from scraper_service.storage.frontier.transactions import dialect_insert, now_of
from scraper_service.storage.page_cache import page_address
from scraper_service.storage.schema import frontier, snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection, Row

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
    """The last snapshot: its number, its time in seconds, its ``body``.

    Number 0 is none, without time and body.
    """

    version: int = 0
    at: float | None = None
    body: bytes | None = None


def snapshot_key(url: str, tag: str | None) -> str:
    """Return the key of a page's history; the address counts as for the cache."""
    facts = json.dumps([page_address(url), tag])
    return hashlib.blake2b(facts.encode(), digest_size=16).hexdigest()


def read_earlier(connection: Connection, team_id: str, key: str) -> Earlier:
    """Return the last snapshot of a page."""
    row = connection.execute(_READ, {"team": team_id, "key": key}).one_or_none()
    return Earlier(row.version, row.at, row.body) if row and row.version else Earlier()


def lock(
    connection: Connection, wanted: Iterable[Snapshot]
) -> dict[tuple[str, str], int]:
    """Let nobody else store snapshots of these pages; return the number of the last."""
    now = now_of(connection)
    found = {}
    add = dialect_insert(connection, snapshot).on_conflict_do_nothing()
    # In their order: who locks several waits for others, and never in a circle.
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
        place = {"team": team_id, "key": key}
        found[team_id, key] = connection.execute(_LOCK, place).scalar_one()
    return found


def is_last(connection: Connection, new: Snapshot) -> bool:
    """Lock a page; tell whether it was compared with its last snapshot."""
    return lock(connection, [new])[new.team_id, new.key] == new.version


def store(connection: Connection, new: Iterable[Snapshot]) -> None:
    """Store snapshots of pages that are locked, in place of the last ones."""
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


def is_hidden(connection: Connection, team_id: str, url: str) -> bool:
    """Tell whether the site of ``url`` has no link to it, as far as is known.

    The team's latest crawl that would have found one decides: one that has read all
    pages and sitemaps it found, by the rules of which the address is to be fetched.
    """
    for row in latest_crawls(connection, team_id, url):
        options = options_from_json("crawl", json.loads(row.options))
        assert isinstance(options, CrawlOptions)
        if _would_find(row, options, url):
            known = select(frontier.c.id).where(
                frontier.c.job_id == row.id,
                frontier.c.key == crawl_key(options, followed(url)),
            )
            return connection.scalar(known) is None
    return False


def _would_find(row: Row[tuple[object, ...]], options: CrawlOptions, url: str) -> bool:
    if row.failed or row.held or options.sitemap != "include":
        return False
    if options.max_discovery_depth is not None or options.scrape.zero_data_retention:
        return False
    scope = CrawlScope(options, row.base or first_base(options))
    return scope.refusal(url) is None
