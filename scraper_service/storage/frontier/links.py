"""URLs of a frontier: the first URLs of a job, new links, their ends, and URLs known to a team."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from attrs import frozen
from sqlalchemy import bindparam, case, or_, select, update

from scraper_service.discovery.canonical_urls import (
    crawl_key,
    normalize_url,
    parse_url,
    plain_host,
    site_of,
    sitemap_key,
)
from scraper_service.discovery.scope_rules import CrawlScope
from scraper_service.discovery.sitemap import (
    first_base,
    reads_sitemaps,
    starts_with_sitemap,
)
from scraper_service.items import KnownPage
from scraper_service.options.jobs import BatchOptions, CrawlOptions, options_from_json
from scraper_service.options.urls import join_url
from scraper_service.storage.frontier.refused_links import is_listed
from scraper_service.storage.job_records import (
    MAX_LIMIT,
    JobState,
    Link,
    RowState,
    UrlKind,
)
from scraper_service.storage.schema import frontier, job, page
from scraper_service.storage.transactions import (
    IN_ORDER,
    Statement,
    arrays,
    constant,
    execute,
    execute_many,
    inline,
    now_of,
    number_of,
    rows_in,
    run_together,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection, Row

    from scraper_service.storage.job_records import Outcome


INSERT_ROWS = 1000  # per statement
# Codes of URLs that another page may let in: where they are less deep, or on a page that
# is not marked nofollow.
PASSING = ("discovery_depth", "nofollow")
_CONFLICT = f"""
ON CONFLICT (job_number, key) DO UPDATE SET state = excluded.state, code = NULL,
  error = NULL, depth = excluded.depth, found_on = excluded.found_on
WHERE frontier.state = {RowState.SKIPPED:d} AND frontier.code IN {PASSING}
  AND excluded.state IN ({RowState.HELD:d}, {RowState.PENDING:d})
"""
_COLUMNS = (
    "job_number, state, kind, key, url, depth, options, found_on, code, error, lastmod"
)
# Raw SQL: the drivers insert rows many times faster than through SQLAlchemy, and a crawl
# spends most of its database time here.
_SQLITE = f"""
INSERT INTO frontier ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) {_CONFLICT}
"""  # noqa: S608  # of constants
# A conflict locks the known row, which writes its page, and after a checkpoint the log has this
# page as a whole. OFFSET keeps PostgreSQL from reading all rows of the job for a join.
_POSTGRESQL = f"""
INSERT INTO frontier ({_COLUMNS}) SELECT %s, %s, given.* FROM unnest(
  %s::smallint[], %s::bigint[], %s::text[], %s::integer[], %s::text[], %s::bigint[],
  %s::text[], %s::text[], %s::text[]) AS given (kind, key)
WHERE NOT EXISTS (SELECT FROM frontier WHERE job_number = %s AND key = given.key
  AND (state <> {RowState.SKIPPED:d} OR code IS NULL OR code NOT IN {PASSING}) OFFSET 0)
{_CONFLICT}
"""  # noqa: S608
# Filtered by the caller: with the code here, SQLite would read all rows of this code.
_READ_KNOWN = select(frontier.c.state, frontier.c.code).where(
    frontier.c.job_number == bindparam("job_number"),
    frontier.c.key.in_(bindparam("keys", expanding=True)),
)
_READ_PASSING = Statement(
    select(frontier.c.id)
    .where(
        frontier.c.job_number == bindparam("job_number"),
        frontier.c.state == constant(RowState.SKIPPED),
        or_(*(frontier.c.code == code for code in PASSING)),
    )
    .limit(constant(1))
)
_READ_LEASES = f"""
SELECT id, token, owner FROM frontier WHERE state = {RowState.LEASED:d} AND id IN
"""  # noqa: S608  # of constants
_ENDED = (
    *("state", "page_id", "code", "error", "status", "losses", "text_hashes"),
    "ended_at",
)
_END = Statement(
    update(frontier)
    .where(frontier.c.id == bindparam("row_id"))
    .values({name: bindparam(name) for name in _ENDED})
    .values(owner=None)
)
_ADD_TIME = """
UPDATE frontier SET lastmod = ? WHERE job_number = ? AND key = ? AND lastmod IS NULL
"""
_ADD_TIMES = """
UPDATE frontier SET lastmod = given.lastmod
FROM unnest(%s::text[], %s::bigint[]) AS given (lastmod, key)
WHERE job_number = %s AND frontier.key = given.key AND frontier.lastmod IS NULL
"""


def insert_links(
    connection: Connection, job_number: int, links: Sequence[Link], state: RowState
) -> int:
    """Insert URLs with keys that are new to the job. Return the number of new URLs.

    A URL that was skipped for a :data:`PASSING` reason counts as new.
    """
    added = 0
    for first in range(0, len(links), INSERT_ROWS):
        unique: dict[int, Link] = {}
        for link in links[first : first + INSERT_ROWS]:
            unique.setdefault(link[0], link)
        new = _insert(connection, job_number, int(state), list(unique.values()))
        added += new
        if new < len(unique):
            _add_times(connection, job_number, unique.values())
    return added


def _add_times(connection: Connection, job_number: int, links: Iterable[Link]) -> None:
    """Store what a sitemap says of URLs that were found without it."""
    times = [(link.lastmod, link.key) for link in links if link.lastmod is not None]
    if connection.dialect.name == "sqlite":
        rows = [(lastmod, job_number, key) for lastmod, key in times]
        execute_many(connection, _ADD_TIME, rows)
    elif times:
        columns = (list(column) for column in zip(*times, strict=True))
        execute(connection, _ADD_TIMES, (*columns, job_number))


def _insert(
    connection: Connection, job_number: int, state: int, links: list[Link]
) -> int:
    rows: list[tuple[Any, ...]] = [
        (job_number, state, int(kind), key, url, depth, options, *facts)
        for key, url, depth, options, kind, *facts in links
    ]
    if connection.dialect.name == "postgresql":
        columns = (list(column) for column in list(zip(*rows, strict=True))[2:])
        values = (job_number, state, *columns, job_number)
        changed = execute(connection, _POSTGRESQL, values)
        return int(changed.rowcount)
    return execute_many(connection, _SQLITE, rows)


def count_passing(
    connection: Connection, job_number: int, links: Sequence[Link]
) -> int:
    """Return how many URLs were skipped for a :data:`PASSING` reason before."""
    of_job = {"job_number": job_number}
    if not links or _READ_PASSING.one(connection, of_job) is None:
        return 0
    keys = list({link.key for link in links})
    count = 0
    for start in range(0, len(keys), INSERT_ROWS):
        some = {**of_job, "keys": keys[start : start + INSERT_ROWS]}
        for row in connection.execute(_READ_KNOWN, some):
            count += row.state == RowState.SKIPPED and row.code in PASSING
    return count


def outcomes_with_lease(
    connection: Connection, outcomes: Sequence[Outcome]
) -> list[Outcome]:
    """Return the outcomes with a valid lease.

    The job row is locked, and rows of a job change only under its lock.
    """
    # Numbers in the text: a list as a parameter would need a form for each database.
    ids = ",".join(str(int(outcome.row_id)) for outcome in outcomes)
    leased = set(execute(connection, f"{_READ_LEASES} ({ids})").fetchall())
    return [
        outcome
        for outcome in outcomes
        if (outcome.row_id, outcome.token, outcome.owner) in leased
    ]


def end_rows(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """End leased URLs, whose leases are gone then. ``rows`` have the columns to write."""
    if len(rows) < 2 or connection.dialect.name == "sqlite":
        _END.run_many(connection, [{**row, "row_id": row["id"]} for row in rows])
        return
    columns = ("id", *_ENDED)
    given = arrays(connection, frontier, columns)
    values = ", ".join(f"{name} = ended.{name}" for name in _ENDED)
    text = (
        f"UPDATE frontier SET owner = NULL, {values}"  # noqa: S608  # of constants
        f" FROM unnest({given}) AS ended ({', '.join(columns)})"
        " WHERE frontier.id = ended.id"
    )
    run_together(connection, text, columns, rows)


@frozen
class Seed:
    """The first URLs of a job. ``page_limit`` is None for no limit."""

    kind: str
    url: str
    page_limit: int | None
    links: tuple[Link, ...]


def seed_of(options: CrawlOptions | BatchOptions) -> Seed:
    """Return the seed for ``options``.

    The key of a batch entry is its number, so equal URLs are separate entries.
    """
    if isinstance(options, CrawlOptions):
        limit = min(options.limit, MAX_LIMIT)
        return Seed("crawl", options.url, limit, tuple(_first(options)))
    links = tuple(Link(n, url, 0) for n, url in enumerate(options.urls))
    return Seed("batch", options.urls[0], None, links)


def _first(options: CrawlOptions) -> Iterator[Link]:
    if not starts_with_sitemap(options):
        yield Link(crawl_key(options, options.url), options.url, 0)
    if reads_sitemaps(options):
        robots = join_url(options.url, "/robots.txt")
        yield Link(sitemap_key(robots), robots, 0, kind=UrlKind.SITEMAP)


MAX_LOOKED_AT = 1000  # latest crawls of a team
MAX_CRAWLS = 20  # of one site
MAX_KNOWN = 100_000  # URLs
SLICE_ROWS = 1000  # in one transaction
MAX_BODIES = 1000  # pages that are read for their titles
BODY_ROWS = 50  # of these, in one transaction
MAX_BODY_BYTES = 512 * 1024  # of one page, uncompressed

_STATES = (RowState.DONE, RowState.PENDING, RowState.LEASED, RowState.HELD)


def crawls_of(connection: Connection, team_id: str, url: str) -> list[str]:
    """Return ids of a team's unexpired crawls of a site, the latest first.

    Crawls with zero data retention are left out.
    """
    kept = (
        row.id
        for row in _crawls(connection, team_id, url, job.c.created_at)
        if not json.loads(row.options)["scrape"]["zero_data_retention"]
    )
    return list(islice(kept, MAX_CRAWLS))


def _crawls(
    connection: Connection,
    team_id: str,
    url: str,
    order: ColumnElement[Any],
    *where: ColumnElement[bool],
) -> Iterator[Row[*tuple[Any, ...]]]:
    site = _site(url)
    rows = connection.execute(
        select(job.c.id, job.c.url, job.c.options, job.c.base, job.c.failed, job.c.held)
        .where(
            job.c.team_id == team_id,
            job.c.kind == "crawl",
            job.c.source_job_id.is_(None),
            job.c.expires_at > now_of(connection),
            *where,
        )
        .order_by(order.desc())
        .limit(MAX_LOOKED_AT)
    )
    return (row for row in rows if _site(row.url) == site)


def _site(url: str) -> str:
    parsed = parse_url(url)
    return "" if parsed is None else site_of(plain_host(parsed.host))


class KnownUrlReader:
    """Reads the URLs of some crawls in slices, delivered pages first."""

    def __init__(self, job_ids: Sequence[str]):
        self._sources = [(job_id, state) for state in _STATES for job_id in job_ids]
        self._behind = 0
        self._rows = 0
        self._bodies = 0

    def next(self, connection: Connection) -> list[KnownPage]:
        """Return the next slice, an empty list at the end."""
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
                frontier.c.kind == UrlKind.PAGE,
                frontier.c.code.is_(None),
            )
            .order_by(*IN_ORDER)
            .limit(inline(BODY_ROWS if opens else SLICE_ROWS))
        ).all()
        if rows:
            self._behind = rows[-1].id
        found = [KnownPage(row.url, row.body if opens else None) for row in rows]
        self._bodies += sum(each.body is not None for each in found)
        return found


def is_hidden_url(connection: Connection, team_id: str, url: str) -> bool:
    """Return True if the site of ``url`` is known to have no link to it.

    Decided by the team's latest crawl that would have found the link: a crawl that read all
    its pages and sitemaps, and whose scope allows the URL.
    """
    is_over = job.c.state == JobState.COMPLETED
    found = _crawls(connection, team_id, url, job.c.completed_at, is_over)
    for row in islice(found, MAX_CRAWLS):
        options = options_from_json("crawl", json.loads(row.options))
        assert isinstance(options, CrawlOptions)
        if _would_find(row, options, url):
            key = crawl_key(options, normalize_url(url))
            known = select(frontier.c.id).where(
                frontier.c.job_number == number_of(row.id),
                frontier.c.key == key,
            )
            if connection.scalar(known) is not None:
                return False
            return not is_listed(connection, row.id, key)
    return False


def _would_find(row: Row[tuple[object, ...]], options: CrawlOptions, url: str) -> bool:
    if row.failed or row.held or options.sitemap != "include":
        return False
    if options.max_discovery_depth is not None or options.scrape.zero_data_retention:
        return False
    scope = CrawlScope(options, row.base or first_base(options))
    return scope.refusal(url) is None
