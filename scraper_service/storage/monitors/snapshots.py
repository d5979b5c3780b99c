"""The last snapshot of each URL of a monitor. Functions run inside a transaction.

Snapshots change only together with the pages of a check, under the lease of its process.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from attrs import frozen
from sqlalchemy import bindparam, delete, select, update

from scraper_service.storage.schema import monitor_snapshot as table
from scraper_service.storage.transactions import upsert

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy import Connection

    from scraper_service.options.monitors import TargetT

_TOUCH = (
    update(table)
    .where(
        table.c.monitor_id == bindparam("monitor"),
        table.c.target_id == bindparam("target"),
        table.c.key == bindparam("name"),
    )
    .values(check_id=bindparam("found_by"))
)
_REUSE = _TOUCH.values(scrape_id=bindparam("scrape"), at=bindparam("time"))


@frozen
class PageSnapshot:
    """The last snapshot of a URL."""

    key: str
    url: str
    #: The page that it was made of, None for a result of a search.
    scrape_id: str | None
    #: The compressed basis of the next comparison.
    body: bytes | None = None


def url_key(url: str) -> str:
    """Return the key of a URL among the snapshots of a target."""
    return hashlib.blake2b(url.encode(), digest_size=16).hexdigest()


def read_snapshots(
    connection: Connection, monitor_id: str, target_id: str, keys: Collection[str]
) -> dict[str, PageSnapshot]:
    """Return the last snapshots of some URLs, by key."""
    rows = connection.execute(
        select(table.c.key, table.c.url, table.c.scrape_id, table.c.body).where(
            table.c.monitor_id == monitor_id,
            table.c.target_id == target_id,
            table.c.key.in_(tuple(keys)),
        )
    )
    return {row.key: PageSnapshot(*row) for row in rows}


def store(
    connection: Connection,
    monitor_id: str,
    target_id: str,
    check_id: str,
    at: float,
    new: Sequence[PageSnapshot],
) -> None:
    """Store snapshots in place of the last ones of their URLs."""
    upsert(
        connection,
        table,
        [
            {
                "monitor_id": monitor_id,
                "target_id": target_id,
                "key": each.key,
                "url": each.url,
                "scrape_id": each.scrape_id,
                "check_id": check_id,
                "at": at,
                "body": each.body,
            }
            for each in new
        ],
    )


def keep(
    connection: Connection,
    monitor_id: str,
    target_id: str,
    check_id: str,
    at: float,
    found: Iterable[tuple[str, str | None]],
) -> None:
    """Note that a check has found URLs whose snapshots do not change.

    ``found`` has their keys, and the page that was equal; None for an error.
    """
    for key, scrape_id in found:
        place = {
            "monitor": monitor_id,
            "target": target_id,
            "name": key,
            "found_by": check_id,
        }
        if scrape_id is None:
            connection.execute(_TOUCH, place)
        else:
            connection.execute(_REUSE, {**place, "scrape": scrape_id, "time": at})


def drop(
    connection: Connection, monitor_id: str, target_id: str, keys: Collection[str]
) -> None:
    """Delete the snapshots of some URLs."""
    connection.execute(
        delete(table).where(
            table.c.monitor_id == monitor_id,
            table.c.target_id == target_id,
            table.c.key.in_(tuple(keys)),
        )
    )


def prune(connection: Connection, monitor_id: str, targets: Iterable[TargetT]) -> None:
    """Delete the snapshots of targets and URLs that a monitor does not have any more."""
    of_monitor = table.c.monitor_id == monitor_id
    known = {target.id: target for target in targets}
    connection.execute(
        delete(table).where(of_monitor, table.c.target_id.not_in(tuple(known)))
    )
    for target in known.values():
        if target.fixed_urls is not None:
            keys = tuple(map(url_key, target.fixed_urls))
            connection.execute(
                delete(table).where(
                    of_monitor,
                    table.c.target_id == target.id,
                    table.c.key.not_in(keys),
                )
            )


def forget(
    connection: Connection, monitor_id: str, target_id: str | None = None
) -> None:
    """Delete all snapshots of a monitor, or of one target."""
    query = delete(table).where(table.c.monitor_id == monitor_id)
    if target_id is not None:
        query = query.where(table.c.target_id == target_id)
    connection.execute(query)
