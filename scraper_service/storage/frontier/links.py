"""Addresses into the frontier, many in one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.storage.job_records import RowState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from scraper_service.storage.job_records import Link

INSERT_ROWS = 1000  # per statement

# An address that was too deep where it was first seen may be near enough elsewhere.
_CONFLICT = f"""
ON CONFLICT (job_id, key) DO UPDATE SET state = excluded.state, code = NULL,
  error = NULL, depth = excluded.depth, found_on = excluded.found_on
WHERE frontier.state = {RowState.SKIPPED:d} AND frontier.code = 'discovery_depth'
  AND excluded.state IN ({RowState.HELD:d}, {RowState.PENDING:d})
"""
_COLUMNS = (
    "job_id, state, kind, key, url, depth, options, found_on, code, error, lastmod"
)
# Written out: the drivers take rows many times faster so than through the statements of
# SQLAlchemy, and this is where a crawl spends its time.
_SQLITE = f"""
INSERT INTO frontier ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) {_CONFLICT}
"""  # noqa: S608  # of constants
_POSTGRESQL = f"""
INSERT INTO frontier ({_COLUMNS}) SELECT %s, %s, * FROM unnest(
  %s::smallint[], %s::bigint[], %s::text[], %s::integer[], %s::text[], %s::bigint[],
  %s::text[], %s::text[], %s::text[]) {_CONFLICT}
"""  # noqa: S608


def insert_links(
    connection: Connection, job_id: str, links: Sequence[Link], state: RowState
) -> int:
    """Insert addresses whose key the job does not have yet; return how many.

    One that was skipped for its depth counts as new.
    """
    added = 0
    for first in range(0, len(links), INSERT_ROWS):
        unique: dict[int, Link] = {}
        for link in links[first : first + INSERT_ROWS]:
            unique.setdefault(link[0], link)
        added += _insert(connection, job_id, int(state), list(unique.values()))
    return added


def _insert(connection: Connection, job_id: str, state: int, links: list[Link]) -> int:
    rows: list[tuple[Any, ...]] = [
        (job_id, state, int(kind), key, url, depth, options, *facts)
        for key, url, depth, options, kind, *facts in links
    ]
    if connection.dialect.name == "postgresql":
        columns = (list(column) for column in list(zip(*rows, strict=True))[2:])
        return connection.exec_driver_sql(
            _POSTGRESQL, (job_id, state, *columns)
        ).rowcount
    return connection.exec_driver_sql(_SQLITE, rows).rowcount
