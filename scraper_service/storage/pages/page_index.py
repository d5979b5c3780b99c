"""The index of scraped pages: one per team, searched without a network."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, text

from scraper_service.content.search.index_entry import SearchEntry, unpack_entry
from scraper_service.options.urls import url_parts
from scraper_service.storage.database import reading, writing
from scraper_service.storage.pages.page_cache import script_route
from scraper_service.storage.pages.page_search import search, team_prefix
from scraper_service.storage.schema import search_page
from scraper_service.storage.statements import Insertion, Statement
from scraper_service.storage.transactions import delete_some, now_of, transaction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from scraper_service.storage.database import Database

EXPIRE_ROWS = 50  # deleted in one transaction, with all their words

_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")
_DELETE = Statement(
    delete(search_page).where(
        search_page.c.team_id == bindparam("team_id"),
        search_page.c.key == bindparam("key"),
    )
)
_ADD = Insertion(
    search_page,
    *("team_id", "key", "language", "date", "expires_at", "url", "facts", "text"),
)
# Not with INSERT ... SELECT, for which FTS5 writes its lists at each row.
_ADD_WORDS = {
    "sqlite": Statement(
        text("""
INSERT INTO search_index (rowid, title, about, body, marks) VALUES (
  (SELECT id FROM search_page WHERE team_id = :team_id AND key = :key),
  :title, :about, :body, :marks)""")
    ),
    "postgresql": Statement(
        text("""
INSERT INTO search_index (rowid, terms) VALUES (
  (SELECT id FROM search_page WHERE team_id = :team_id AND key = :key),
  CAST(:terms AS tsvector))""")
    ),
}


def page_key(url: str) -> str:
    """Return the number of a URL. Scheme, ``www.`` and a final slash make no difference.

    Routes of scripts are different pages, as in the page cache.
    """
    parts = url_parts(url)
    host = parts.netloc.lower().removeprefix("www.").removesuffix(".")
    route = script_route(parts.fragment)
    text = f"{host}{parts.path.rstrip('/')}?{parts.query}{route}"
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()


@transaction(row="search:{team_id}")
def add_pages(
    connection: Connection,
    team_id: str,
    pages: Sequence[tuple[str, bytes]],
    retention_s: float,
) -> None:
    """Add pages in place of older versions."""
    dialect = connection.dialect.name
    if dialect == "postgresql":  # SQLite has one writer anyway
        connection.execute(_LOCK, {"name": f"search:{team_id}"})
    now = now_of(connection)
    new = {page_key(url): (url, unpack_entry(entry)) for url, entry in pages}
    rows = []
    for key, (url, entry) in new.items():
        facts = json.loads(entry.facts)
        rows.append(
            {
                "team_id": team_id,
                "key": key,
                "language": facts.get("language", ""),
                "date": _date_of(facts, now),
                "expires_at": now + retention_s,
                "url": url,
                "facts": entry.facts,
                "text": entry.text,
            }
        )
    columns = _text_columns if dialect == "sqlite" else _vector
    prefix = team_prefix(team_id)
    places = [{"team_id": team_id, "key": key} for key in new]
    words = [
        {**place, **columns(prefix, entry)}
        for place, (_, entry) in zip(places, new.values(), strict=True)
    ]
    _DELETE.run_many(connection, places)
    _ADD.run_many(connection, rows)
    _ADD_WORDS[dialect].run_many(connection, words)


def _text_columns(prefix: str, entry: SearchEntry) -> dict[str, str]:
    """Return the words of a page as columns of FTS5."""
    bags = {name: getattr(entry, name) for name in ("title", "about", "body", "marks")}
    return {
        name: prefix + bag.rstrip().replace(" ", f" {prefix}") if bag else ""
        for name, bag in bags.items()
    }


def _vector(prefix: str, entry: SearchEntry) -> dict[str, str]:
    """Return the words of a page as a tsvector with weights, but without real positions.

    Positions only count the occurrences. A word without one counts once.
    """
    words = [f"'{prefix}{word}':1A" for word in entry.title.split()]
    words += [f"'{prefix}{word}':2B" for word in entry.about.split()]
    for word, times in Counter(entry.body.split()).items():
        places = f":{_PLACES[: 2 * times - 1]}" if times > 1 else ""
        words.append(f"'{prefix}{word}'{places}")
    words += [f"'{prefix}{each}'" for each in entry.marks.split()]
    return {"terms": " ".join(words)}


_PLACES = "3,4,5,6,7,8,9"


def _date_of(facts: Mapping[str, Any], fetched_at: float) -> float:
    """Return the time of publication, else of the fetch, in seconds since 1970."""
    with suppress(ValueError):
        moment = datetime.fromisoformat(facts.get("date", ""))
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return aware.timestamp()
    return fetched_at


def expire(connection: Connection) -> int:
    """Delete a slice of expired pages. Return the number of rows, 0 at the end."""
    is_old = search_page.c.expires_at <= now_of(connection)
    return delete_some(
        connection, search_page, is_old, limit=EXPIRE_ROWS, skips_locked=True
    )


class PageIndex:
    """The index of scraped pages in a database, with one part per team.

    :meth:`add` adds pages, and replaces older versions of the same URL. :meth:`search`
    finds them at once, and returns the best pages for a query. :meth:`expire` deletes old
    pages in slices: call it until it returns 0. Several processes may call all methods at
    the same time.
    """

    def __init__(self, database: Database):
        self._database = database

    async def add(
        self, team_id: str, pages: Sequence[tuple[str, bytes]], retention_s: float
    ) -> None:
        """Add pages, as (URL, packed ``SearchEntry``), a moment later."""
        await self._database.write_later(add_pages, team_id, pages, retention_s)

    search = reading(search)
    expire = writing(expire)
