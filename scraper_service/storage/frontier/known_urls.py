"""What a team's crawls have found of a site: addresses, and pages for their titles."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import case, select

from scraper_service.discovery.canonical_urls import parsed, plain_host, site_of
from scraper_service.items import KnownPage
from scraper_service.storage.frontier.transactions import (
    IN_ORDER,
    now_of,
    rows_in,
    written,
)
from scraper_service.storage.job_records import JobState, Kind, RowState
from scraper_service.storage.schema import frontier, job, page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

MAX_LOOKED_AT = 1000  # crawls, the latest
MAX_CRAWLS = 20  # of the site
MAX_KNOWN = 100_000  # addresses
SLICE_ROWS = 1000  # in one transaction
MAX_BODIES = 1000  # pages that are opened for their titles
BODY_ROWS = 50  # of those, in one transaction
MAX_BODY_BYTES = 512 * 1024  # of one, uncompressed

_STATES = (RowState.DONE, RowState.PENDING, RowState.LEASED, RowState.HELD)


def crawls_of(connection: Connection, team_id: str, url: str) -> list[str]:
    """Return the ids of a team's unexpired crawls of the site of ``url``, latest first.

    Those that may keep nothing are left out.
    """
    site = _site(url)
    rows = connection.execute(
        select(job.c.id, job.c.url, job.c.options)
        .where(
            job.c.team_id == team_id,
            job.c.kind == "crawl",
            job.c.expires_at > now_of(connection),
        )
        .order_by(job.c.created_at.desc())
        .limit(MAX_LOOKED_AT)
    )
    found: list[str] = []
    for row in rows:
        if len(found) < MAX_CRAWLS and _site(row.url) == site:
            scrape = json.loads(row.options)["scrape"]
            if not scrape["zero_data_retention"]:
                found.append(row.id)
    return found


def latest_crawls(
    connection: Connection, team_id: str, url: str
) -> list[Row[*tuple[Any, ...]]]:
    """Return a team's completed crawls of the site of ``url``, the latest first.

    Rows of the table with ``id``, ``url``, ``options``, ``base``, ``failed``, ``held``.
    """
    site = _site(url)
    rows = connection.execute(
        select(job.c.id, job.c.url, job.c.options, job.c.base, job.c.failed, job.c.held)
        .where(
            job.c.team_id == team_id,
            job.c.kind == "crawl",
            job.c.state == JobState.COMPLETED,
            job.c.expires_at > now_of(connection),
        )
        .order_by(job.c.completed_at.desc())
        .limit(MAX_LOOKED_AT)
    )
    return [row for row in rows if _site(row.url) == site][:MAX_CRAWLS]


def _site(url: str) -> str:
    address = parsed(url)
    return "" if address is None else site_of(plain_host(address.host))


class Reading:
    """Read the addresses of some crawls, slice by slice, those delivered first."""

    def __init__(self, job_ids: Sequence[str]):
        self._sources = [(job_id, state) for state in _STATES for job_id in job_ids]
        self._behind = 0
        self._rows = 0
        self._bodies = 0

    def next(self, connection: Connection) -> list[KnownPage]:
        """Return the next slice; an empty one is the end."""
        while self._sources and self._rows < MAX_KNOWN:
            if found := self._slice(connection, *self._sources[0]):
                self._rows += len(found)
                return found
            self._sources.pop(0)
            self._behind = 0
        return []

    def _slice(
        self, connection: Connection, job_id: str, state: RowState
    ) -> list[KnownPage]:
        opens = state is RowState.DONE and self._bodies < MAX_BODIES
        body = case((page.c.size <= MAX_BODY_BYTES, page.c.body), else_=None)
        query = select(frontier.c.id, frontier.c.url)
        if opens:
            query = query.add_columns(body.label("body")).outerjoin(
                page, page.c.frontier_id == frontier.c.id
            )
        rows = connection.execute(
            query.where(
                *rows_in(job_id, state, self._behind),
                frontier.c.kind == Kind.PAGE,
                frontier.c.code.is_(None),
            )
            .order_by(*IN_ORDER)
            .limit(written(BODY_ROWS if opens else SLICE_ROWS))
        ).all()
        if rows:
            self._behind = rows[-1].id
        found = [KnownPage(row.url, row.body if opens else None) for row in rows]
        self._bodies += sum(each.body is not None for each in found)
        return found
