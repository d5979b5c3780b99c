"""Links that a crawl only lists, such as those to other sites: one list for a page and reason.

A page has many of them, and nobody fetches them. So they have no rows in the frontier: a list
has their URLs, compressed, and a row with two numbers for each keeps it from being listed
twice. Links that another page may let in are rows of the frontier, and so are those that have
lists of their own (:data:`AS_ROWS`). Lists change only while the row of the job is
locked.
"""

from __future__ import annotations

import json
from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen
from sqlalchemy import bindparam, delete, func, insert, select, update

from scraper_service.content.stored_pages import compress, decompress
from scraper_service.discovery.scope_rules import Reason
from scraper_service.storage.schema import frontier, refused_key, refused_list
from scraper_service.storage.transactions import (
    Insertion,
    Statement,
    arrays,
    execute,
    inline,
    number_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sqlalchemy import ColumnElement, Connection

    from scraper_service.storage.job_records import Link

#: Reasons of refused links that are rows of the frontier.
AS_ROWS: Final = frozenset(
    {Reason.DISCOVERY_DEPTH, Reason.NOFOLLOW, Reason.ROBOTS, Reason.EXTERNAL_HOME}
)
MAX_URLS: Final = 1000  # of a list
READ_LISTS = 200  # in one statement

_COLUMNS = ("job_number", "found_on", "urls", "depth", "code", "body")
_ADD_LIST = Statement(
    insert(refused_list)
    .values({name: bindparam(name) for name in _COLUMNS})
    .returning(refused_list.c.id)
)
_ADD_KEYS = Insertion(refused_key, "job_number", "key", "list_id")
_KNOWN_SQLITE = """
SELECT key, 1 FROM refused_key
  WHERE job_number = ? AND key IN (SELECT value FROM json_each(?))
UNION ALL SELECT key, 0 FROM frontier
  WHERE job_number = ? AND key IN (SELECT value FROM json_each(?))
"""
# With LIMIT each key is looked up in the index. By a condition on the whole array, PostgreSQL
# reads all keys of the job, since it takes arrays for short.
_KNOWN_POSTGRESQL = """
SELECT given.key, 1 FROM unnest(%s::bigint[]) AS given (key), LATERAL
  (SELECT FROM refused_key WHERE job_number = %s AND key = given.key LIMIT 1) AS found
UNION ALL SELECT given.key, 0 FROM unnest(%s::bigint[]) AS given (key), LATERAL
  (SELECT FROM frontier WHERE job_number = %s AND key = given.key LIMIT 1) AS found
"""


@frozen
class RefusedLink:
    """A URL in a list. ``position`` orders all URLs of a job."""

    position: int
    url: str
    code: str
    #: The detail of the reason.
    error: str | None
    depth: int
    #: The URL of the page with the link.
    found_on: str | None


def add(
    connection: Connection,
    job_number: int,
    pages: list[Link],
    refused: list[Link],
    *,
    lists: bool,
) -> tuple[list[Link], list[Link], int]:
    """List those of the ``refused`` links of a job that nothing lets in.

    Returns the ``pages`` to fetch that are in no list, the other refused links, and the number
    of URLs that are new in lists. ``lists`` is False if the job has too many.
    """
    listed, rows = _known_keys(connection, job_number, pages, refused)
    pages = [link for link in pages if link.key not in listed]
    known = listed | {link.key for link in pages}
    refused = [link for link in refused if link.key not in known]
    as_rows = [link for link in refused if link.code in AS_ROWS]
    if not lists:
        return pages, as_rows, 0
    known = rows | {link.key for link in as_rows}
    new: dict[int, Link] = {}
    for link in refused:
        if link.key not in known:
            new.setdefault(link.key, link)
    _store(connection, job_number, new.values())
    return pages, as_rows, len(new)


def _known_keys(
    connection: Connection, job_number: int, pages: list[Link], refused: list[Link]
) -> tuple[set[int], set[int]]:
    """Return the keys of links that are in lists of a job, and the refused in its frontier."""
    own = list({link.key for link in refused})
    keys = list({*own, *(link.key for link in pages)})
    if not keys:
        return set(), set()
    if connection.dialect.name == "postgresql":
        text = _KNOWN_POSTGRESQL
        values: tuple[Any, ...] = sorted(keys), job_number, sorted(own), job_number
    else:
        text = _KNOWN_SQLITE
        values = job_number, json.dumps(keys), job_number, json.dumps(own)
    rows = execute(connection, text, values).fetchall()
    return {key for key, found in rows if found}, {k for k, found in rows if not found}


def _store(connection: Connection, job_number: int, links: Iterable[Link]) -> None:
    lists: dict[tuple[str, int, int | None], list[Link]] = {}
    for link in links:
        found_at = str(link.code), link.depth, link.found_on
        lists.setdefault(found_at, []).append(link)
    rows, keys_of = [], []
    for (code, depth, found_on), all_of_it in lists.items():
        for first in range(0, len(all_of_it), MAX_URLS):
            some = all_of_it[first : first + MAX_URLS]
            body = _pack([(link.url, link.error) for link in some])
            row = (job_number, found_on, len(some), depth, code, body)
            rows.append(dict(zip(_COLUMNS, row, strict=True)))
            keys_of.append([link.key for link in some])
    keys = [
        {"job_number": job_number, "key": key, "list_id": list_id}
        for list_id, some in zip(_store_lists(connection, rows), keys_of, strict=True)
        for key in some
    ]
    # In their order, the entries of a page of the index are made one after the other.
    _ADD_KEYS.run_many(connection, sorted(keys, key=itemgetter("key")))


def _store_lists(connection: Connection, rows: list[dict[str, Any]]) -> list[int]:
    if len(rows) < 2 or connection.dialect.name == "sqlite":
        return [_ADD_LIST.one(connection, row)[0] for row in rows]
    text = (
        f"INSERT INTO refused_list ({', '.join(_COLUMNS)}) SELECT * FROM"  # noqa: S608
        f" unnest({arrays(connection, refused_list, _COLUMNS)}) RETURNING id"
    )
    values = {name: [row[name] for row in rows] for name in _COLUMNS}
    # Ids rise by the order of the rows, but results have no order.
    return sorted(row[0] for row in execute(connection, text, values).fetchall())


def take_out(
    connection: Connection, job_number: int, key: int, key_of: Callable[[str], int]
) -> bool:
    """Take a URL from its list. Return False if it is in none.

    ``key_of`` returns the key of a URL.
    """
    where = refused_key.c.job_number == job_number, refused_key.c.key == key
    list_id = connection.scalar(select(refused_key.c.list_id).where(*where))
    if list_id is None:
        return False
    connection.execute(delete(refused_key).where(*where))
    its = refused_list.c.id == list_id
    body = connection.execute(select(refused_list.c.body).where(its)).scalar_one()
    left = [(url, error) for url, error in _unpack(body) if key_of(url) != key]
    if left:
        values = {"body": _pack(left), "urls": len(left)}
        connection.execute(update(refused_list).where(its).values(values))
    else:
        connection.execute(delete(refused_list).where(its))
    return True


def is_listed(connection: Connection, job_id: str, key: int) -> bool:
    """Return True if the URL with a key is in a list of a job."""
    query = select(refused_key.c.key).where(
        refused_key.c.job_number == number_of(job_id), refused_key.c.key == key
    )
    return connection.scalar(query) is not None


def count(connection: Connection, job_id: str, reason: str | None = None) -> int:
    """Return the number of URLs in the lists of a job, of a reason or of all."""
    query = select(func.sum(refused_list.c.urls)).where(*_of(job_id, reason))
    return int(connection.scalar(query) or 0)


def counts(connection: Connection, job_id: str) -> Counter[str]:
    """Return the number of URLs in the lists of a job by reason."""
    rows = connection.execute(
        select(refused_list.c.code, func.sum(refused_list.c.urls))
        .where(*_of(job_id, None))
        .group_by(refused_list.c.code)
    )
    return Counter({code: int(number) for code, number in rows})


def first_counts(connection: Connection, job_id: str, most: int) -> Counter[str]:
    """Return the reasons of the first ``most`` URLs in the lists of a job."""
    rows = connection.execute(
        select(refused_list.c.code, refused_list.c.urls)
        .where(*_of(job_id, None))
        .order_by(refused_list.c.id)
        .limit(inline(most))
    )
    found: Counter[str] = Counter()
    for code, number in rows:
        found[code] += min(number, most - found.total())
    return +found


def an_error(connection: Connection, job_id: str, reason: str) -> str | None:
    """Return the detail of one of the URLs that a reason refused."""
    newest = select(func.max(refused_list.c.id)).where(*_of(job_id, reason))
    body = connection.scalar(
        select(refused_list.c.body).where(refused_list.c.id == newest.scalar_subquery())
    )
    return None if body is None else _unpack(body)[-1][1]


def read(
    connection: Connection,
    job_id: str,
    reason: str | None,
    after: int,
    skip: int,
    limit: int,
) -> tuple[list[RefusedLink], int]:
    """Return up to ``limit`` URLs in the lists of a job after the position ``after``.

    Leaves out the first ``skip``, and returns how many of these there were not.
    """
    first, begin = divmod(after + 1, MAX_URLS)
    if skip:
        first, begin, skip = _behind(connection, job_id, reason, first, begin, skip)
    found: list[RefusedLink] = []
    while not skip and len(found) < limit:
        rows = connection.execute(
            select(refused_list, frontier.c.url)
            .outerjoin(frontier, frontier.c.id == refused_list.c.found_on)
            .where(*_of(job_id, reason), refused_list.c.id >= first)
            .order_by(refused_list.c.id)
            .limit(inline(min(READ_LISTS, limit - len(found))))
        ).all()
        if not rows:
            break
        for row in rows:
            start = begin if row.id == first else 0
            for number, (url, error) in enumerate(_unpack(row.body)):
                if number >= start:
                    position = row.id * MAX_URLS + number
                    each = (position, url, row.code, error, row.depth, row.url)
                    found.append(RefusedLink(*each))
        first, begin = rows[-1].id + 1, 0
    return found[:limit], skip


def _behind(
    connection: Connection,
    job_id: str,
    reason: str | None,
    first: int,
    begin: int,
    skip: int,
) -> tuple[int, int, int]:
    """Return the list and the number in it after ``skip`` URLs, and what is left to skip."""
    rows = connection.execute(
        select(refused_list.c.id, refused_list.c.urls)
        .where(*_of(job_id, reason), refused_list.c.id >= first)
        .order_by(refused_list.c.id)
    ).all()
    for row in rows:
        start = begin if row.id == first else 0
        if skip < row.urls - start:
            return row.id, start + skip, 0
        skip -= max(0, row.urls - start)
    return (rows[-1].id + 1 if rows else first), 0, skip


def _of(job_id: str, reason: str | None) -> list[ColumnElement[bool]]:
    of_job = refused_list.c.job_number == number_of(job_id)
    return [of_job] if reason is None else [of_job, refused_list.c.code == reason]


def _pack(urls: list[tuple[str, str | None]]) -> bytes:
    return compress(json.dumps(urls, separators=(",", ":")).encode())


def _unpack(body: bytes) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = json.loads(decompress(bytes(body)))
    return found
