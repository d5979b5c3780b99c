"""The last known states of pages of monitors, and pages that a check has not seen again."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from attrs import frozen
from sqlalchemy import bindparam, delete, select, update

from scraper_service.content.formats.change_tracking import GONE, is_outage
from scraper_service.content.stored_pages import decompress
from scraper_service.discovery.canonical_urls import crawl_key
from scraper_service.discovery.scope_rules import Reason
from scraper_service.discovery.sitemap import absent
from scraper_service.storage.frontier.refused_links import is_listed
from scraper_service.storage.job_records import RowState
from scraper_service.storage.jobs.model_jobs import step_id
from scraper_service.storage.schema import frontier, page
from scraper_service.storage.schema import monitor_snapshot as table
from scraper_service.storage.transactions import number_of, upsert

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy import Connection

    from scraper_service.options.jobs import CrawlOptions
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
MAX_STEPS = 100  # from a page towards the start of its crawl
_GONE_FILES = frozenset(absent(status).message for status in GONE)


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
    """Store snapshots instead of the last ones of their URLs."""
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
        key_row = {
            "monitor": monitor_id,
            "target": target_id,
            "name": key,
            "found_by": check_id,
        }
        if scrape_id is None:
            connection.execute(_TOUCH, key_row)
        else:
            connection.execute(_REUSE, {**key_row, "scrape": scrape_id, "time": at})


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


@frozen
class MissingPages:
    """Some of the pages that a crawl has not found, without their bodies."""

    removed: tuple[PageSnapshot, ...]
    #: The number of those that may still be there.
    unsure: int
    #: The key of the last page; None if there are no more.
    last: str | None


def read_missing(
    connection: Connection,
    monitor_id: str,
    target_id: str,
    check_id: str,
    options: CrawlOptions,
    after: str,
    limit: int,
) -> MissingPages:
    """Return pages with a snapshot that a check has not found, after the key ``after``."""
    rows = connection.execute(
        select(table.c.key, table.c.url, table.c.scrape_id, table.c.check_id)
        .where(
            table.c.monitor_id == monitor_id,
            table.c.target_id == target_id,
            table.c.check_id != check_id,
            table.c.key > after,
        )
        .order_by(table.c.key)
        .limit(limit)
    ).all()
    own = step_id(check_id, target_id)
    known: dict[int, bool] = {}
    removed = []
    for row in rows:
        earlier = step_id(row.check_id, target_id)
        key = crawl_key(options, row.url)
        found = _row(connection, earlier, key)
        is_refused = _is_refused(_row(connection, own, key))
        if not is_refused and not _is_unsure(connection, own, found, known):
            removed.append(PageSnapshot(row.key, row.url, row.scrape_id))
    last = rows[-1].key if rows else None
    return MissingPages(tuple(removed), len(rows) - len(removed), last)


def _row(connection: Connection, job_id: str, key: int) -> Any:
    columns = frontier.c
    query = select(
        *(columns.id, columns.found_on, columns.state),
        *(columns.code, columns.status, columns.error),
    )
    return connection.execute(
        query.where(columns.job_number == number_of(job_id), columns.key == key)
    ).one_or_none()


def _is_refused(row: Any) -> bool:
    """Return True if robots.txt refuses a URL of a crawl. ``row`` is None without the URL."""
    if row is None:
        return False
    return bool(row.state == RowState.SKIPPED and row.code == Reason.ROBOTS)


def _has_failed(connection: Connection, row: Any) -> bool:
    """Return True if a URL was not read, and may be read again later."""
    if _is_refused(row):
        return True
    if row.state == RowState.FAILED:
        return not (row.status in GONE or row.error in _GONE_FILES)
    body = connection.scalar(select(page.c.body).where(page.c.frontier_id == row.id))
    return body is not None and is_outage(decompress(body))


def _is_unsure(
    connection: Connection, own: str, found: Any, known: dict[int, bool]
) -> bool:
    """Return True if what led to a page in an earlier crawl failed in the crawl ``own``.

    ``known`` has the results for earlier rows.
    """
    passed: list[int] = []
    result = False
    while found is not None and found.found_on is not None and len(passed) < MAX_STEPS:
        if (before := known.get(found.found_on)) is not None:
            result = before
            break
        passed.append(found.found_on)
        found = connection.execute(
            select(frontier.c.key, frontier.c.found_on).where(
                frontier.c.id == found.found_on
            )
        ).one_or_none()
        if found is None:
            break
        if (now := _row(connection, own, found.key)) is not None:
            result = _has_failed(connection, now)
            break
        if is_listed(connection, own, found.key):
            break
    known.update(dict.fromkeys(passed, result))
    return result
