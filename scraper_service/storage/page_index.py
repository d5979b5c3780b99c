"""The index of a team's pages: their entries, and searches in them."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from itertools import combinations, islice
from typing import TYPE_CHECKING, Any

from attrs import frozen
from sqlalchemy import TextClause, bindparam, delete, select, text

from scraper_service.content.search import (
    FACT,
    FILE,
    IMAGE,
    NEWS,
    PAGE,
    SITE,
    TITLE,
    URL,
    SearchEntry,
    SearchQuery,
    mark,
    phrase_pattern,
    snippet,
    unpack_entry,
)
from scraper_service.content.stored_pages import decompress
from scraper_service.content.words import COMMON, fold, stem, tokens_of, words_of
from scraper_service.items import Hit
from scraper_service.options.urls import url_parts
from scraper_service.storage.database import reading, writing
from scraper_service.storage.page_cache import script_route
from scraper_service.storage.schema import search_page
from scraper_service.storage.transactions import (
    Insertion,
    Statement,
    delete_some,
    now_of,
    transaction,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from scraper_service.content.search import UrlCondition
    from scraper_service.options.map_search import ResultList
    from scraper_service.storage.database import Database


MAX_WORDS = 32  # of a query; further words are dropped
# Pages that one statement ranks; on SQLite the latest. PostgreSQL reads all words of each.
MAX_RANKED = {"sqlite": 1000, "postgresql": 400}
MAX_CHECKED = 200  # pages whose text one search reads
MORE = 3  # additional pages in the first read
READ_ROWS = 64  # in each further read
LEAST_SHARE = 0.34  # of the words of a query, for a result
MAX_COMBINED = 5  # words of which a result may miss some; the longest ones
_KINDS = {"news": NEWS, "images": IMAGE}

# The languages of a team, each by one look into the index.
_LANGUAGES = text("""
    WITH RECURSIVE found(language) AS (
      SELECT min(language) FROM search_page WHERE team_id = :team
      UNION ALL
      SELECT (SELECT min(language) FROM search_page
              WHERE team_id = :team AND language > found.language)
      FROM found WHERE found.language IS NOT NULL
    ) SELECT language FROM found WHERE language IS NOT NULL""")
_ALLOWED = "team_id = :team AND expires_at > :now AND date >= :first AND date < :last"
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
_PLACES = "3,4,5,6,7,8,9"


def team_prefix(team_id: str) -> str:
    """Return what all words of a team begin with, so that each team has its own lists.

    Few teams share a prefix. Searches therefore check the team of a page, too.
    """
    return hashlib.blake2b(team_id.encode(), digest_size=2).hexdigest()[:3]


def search(
    connection: Connection,
    team_id: str,
    query: SearchQuery,
    source: ResultList,
    limit: int,
) -> list[Hit]:
    """Return at most ``limit`` pages that match a query, the best first."""
    if query == SearchQuery():
        return []  # no word
    languages = connection.scalars(_LANGUAGES, {"team": team_id}).all()
    if not languages:
        return []
    conditions = _Conditions(query, languages, source.kind)
    ids = _find(connection, team_id, conditions, source)
    return _Reading(connection, query, source).hits(ids, limit)


class _Conditions:
    """What the index checks. A group is a set of terms of which a page needs one.

    The stems of a word are a group: its stem in each language of the team's pages.
    """

    def __init__(self, query: SearchQuery, languages: Sequence[str], kind: str):
        self._languages = sorted({"", *languages})
        tokens = _all_tokens(query.words)
        telling = [token for token in tokens if fold(token) not in COMMON]
        self.words = self._groups(telling or tokens)
        self.needed = self._groups(_all_tokens(query.phrases))
        self.has_words = bool(self.words or self.needed)
        self.needed += [self._title(token) for token in _all_tokens(query.in_title)]
        self.needed += [{mark(URL, word)} for word in _all_words(query.in_url)]
        self.needed += [
            {_condition_mark(each) for each in group} for group in query.conditions
        ]
        if kind in _KINDS:
            self.needed.append({mark(FACT, _KINDS[kind])})
        if not self.words and not self.needed:
            self.needed.append({mark(FACT, PAGE)})
        self.refused = {mark(URL, word) for word in _all_words(query.not_in_url)}
        self.refused.update(*map(self._title, _all_tokens(query.not_in_title)))
        # A path is checked later.
        self.refused |= {
            _condition_mark(p) for p in query.not_conditions if "/" not in p.value
        }

    def matches(self) -> Iterator[list[list[set[str]]]]:
        """Yield lists of groups: of all words, then of fewer words."""
        yield [self.needed + self.words]
        count = math.ceil(LEAST_SHARE * len(self.words))
        longest = sorted(self.words, key=lambda group: -max(map(len, group)))
        some = longest[:MAX_COMBINED]
        if count < len(some):
            yield [self.needed + list(each) for each in combinations(some, count)]

    def _groups(self, tokens: Iterable[str]) -> list[set[str]]:
        some = list(dict.fromkeys(tokens))[:MAX_WORDS]
        return [{stem(token, each) for each in self._languages} for token in some]

    def _title(self, token: str) -> set[str]:
        return {mark(TITLE, each) for each in (fold(token), *self._groups([token])[0])}


def _condition_mark(condition: UrlCondition) -> str:
    if condition.kind == "site":
        return mark(SITE, condition.value.partition("/")[0])
    return mark(FILE, condition.value)


def _all_tokens(texts: Iterable[str]) -> list[str]:
    return [token for text in texts for token in tokens_of(text)]


def _all_words(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in words_of(text)]


@frozen
class _Dialect:
    term: str
    both: str
    either: str
    without: str
    #: The latest pages that match, with id, date and score.
    ranked: str

    def match(self, prefix: str, groups: list[set[str]], refused: set[str]) -> str:
        """Return the condition that a page has a term of each group and none refused."""
        found = self.both.join(self.any_of(prefix, group) for group in groups)
        if refused:
            found = f"({found}){self.without}{self.any_of(prefix, refused)}"
        return found

    def any_of(self, prefix: str, terms: set[str]) -> str:
        """Return the condition that a page has one of some terms."""
        quoted = (self.term.format(prefix + each) for each in sorted(terms))
        return f"({self.either.join(quoted)})"


_DIALECTS = {
    "sqlite": _Dialect(
        *('"{}"', " AND ", " OR ", " NOT "),
        # CROSS JOIN: the full-text index is read first.
        """SELECT id, date, -bm25(search_index, 6.0, 2.0, 1.0, 0.0) AS score
        FROM search_index CROSS JOIN search_page ON id = search_index.rowid
        WHERE search_index MATCH :match{n} AND {allowed}
        ORDER BY search_index.rowid DESC LIMIT {limit}""",
    ),
    "postgresql": _Dialect(
        *("'{}'", " & ", " | ", " & !"),
        # Without statistics, the planner would read all pages of the team first: neither
        # a materialized WITH nor OFFSET 0 is merged into the outer query.
        """SELECT id, date, ts_rank(
            '{{0.1, 0.1, 0.3, 1}}', terms, CAST(:rank AS tsquery), 1) AS score
        FROM (WITH matched AS MATERIALIZED (SELECT rowid, terms FROM search_index
                WHERE terms @@ CAST(:match{n} AS tsquery))
            SELECT id, date, terms FROM matched CROSS JOIN LATERAL (
                SELECT id, date FROM search_page
                WHERE id = matched.rowid AND {allowed} OFFSET 0) AS page
            LIMIT {limit}) AS ranked""",
    ),
}


@lru_cache
def _statement(dialect: str, lists: int, *, by_date: bool) -> TextClause:
    """Return the statement for ids of pages that are in lists, the best first.

    A page of several lists, which has more of the words, comes before one of a single list.
    """
    limit = MAX_RANKED[dialect] // lists
    ranked = _DIALECTS[dialect].ranked
    parts = [ranked.format(n=n, allowed=_ALLOWED, limit=limit) for n in range(lists)]
    found = " UNION ALL ".join(f"SELECT * FROM ({part}) AS list" for part in parts)  # noqa: S608  # constants
    first = "max(date)" if by_date else "sum(score)"
    return text(
        f"SELECT id FROM ({found}) AS found GROUP BY id"  # noqa: S608  # constants
        f" ORDER BY {first} DESC, id DESC LIMIT {MAX_CHECKED}"
    )


def _find(
    connection: Connection,
    team_id: str,
    conditions: _Conditions,
    source: ResultList,
) -> Iterator[int]:
    name = connection.dialect.name
    dialect, prefix, now = _DIALECTS[name], team_prefix(team_id), now_of(connection)
    first, last = source.when.bounds(now) if source.when else (None, None)
    is_dated = source.when is not None and source.when.by_date
    facts = {
        "team": team_id,
        "now": now,
        "first": -math.inf if first is None else first,
        "last": math.inf if last is None else last,
    }
    if name == "postgresql":
        terms = set().union(*conditions.words, *conditions.needed)
        facts["rank"] = dialect.any_of(prefix, terms)
    seen: set[int] = set()
    for lists in conditions.matches():
        matches = [dialect.match(prefix, each, conditions.refused) for each in lists]
        by_date = is_dated or not conditions.has_words
        found = connection.scalars(
            _statement(name, len(lists), by_date=by_date),
            {**facts, **{f"match{n}": each for n, each in enumerate(matches)}},
        ).all()
        yield from (each for each in found if each not in seen)
        seen.update(found)
        if found and is_dated:
            return  # a later page with fewer words would come after all


class _Reading:
    def __init__(self, connection: Connection, query: SearchQuery, source: ResultList):
        self._connection = connection
        self._query = query
        self._source = source
        self._phrases = [phrase_pattern(each) for each in query.phrases]
        self._without = [phrase_pattern(each) for each in query.without]
        self._words = _all_words((*query.words, *query.phrases, *query.in_title))

    def hits(self, ids: Iterator[int], limit: int) -> list[Hit]:
        """Return at most ``limit`` results of the first :data:`MAX_CHECKED` pages."""
        found: list[Hit] = []
        ids = islice(ids, MAX_CHECKED)
        while len(found) < limit:
            some = list(islice(ids, READ_ROWS if found else limit + MORE))
            if not some:
                break
            hits = map(self._hit, self._rows(some))
            found += [hit for hit in hits if hit is not None]
        return found[:limit]

    def _rows(self, ids: list[int]) -> list[Any]:
        page = search_page.c
        rows = self._connection.execute(
            select(page.id, page.url, page.facts, page.text).where(page.id.in_(ids))
        )
        by_id = {row.id: row for row in rows}
        return [by_id[number] for number in ids]

    def _hit(self, row: Any) -> Hit | None:
        query, facts = self._query, json.loads(row.facts)
        if not _is_there(query, row.url):
            return None
        title, about = facts.get("title", ""), facts.get("description", "")
        text = decompress(row.text).decode()
        if query.phrases or query.without:
            whole = fold(f"{title}\n{about}\n{text}")
            if not all(pattern.search(whole) for pattern in self._phrases):
                return None
            if any(pattern.search(whole) for pattern in self._without):
                return None
        return Hit(
            url=row.url,
            title=title,
            description=snippet(text, about, self._words),
            date=facts.get("date"),
            image_url=facts.get("image") if self._source.kind != "web" else None,
            image_width=facts.get("width"),
            image_height=facts.get("height"),
        )


def _is_there(query: SearchQuery, url: str) -> bool:
    """Return True if a URL is in the sites and paths of the query."""
    for group in query.conditions:
        if all(each.kind == "site" for each in group) and not any(
            each.has(url) for each in group
        ):
            return False
    return not any(each.has(url) for each in query.not_conditions)


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
    """Add pages instead of older versions."""
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
    keys = [{"team_id": team_id, "key": key} for key in new]
    words = [
        {**of_page, **columns(prefix, entry)}
        for of_page, (_, entry) in zip(keys, new.values(), strict=True)
    ]
    _DELETE.run_many(connection, keys)
    _ADD.run_many(connection, rows)
    _ADD_WORDS[dialect].run_many(connection, words)


def _text_columns(prefix: str, entry: SearchEntry) -> dict[str, str]:
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
        positions = f":{_PLACES[: 2 * times - 1]}" if times > 1 else ""
        words.append(f"'{prefix}{word}'{positions}")
    words += [f"'{prefix}{each}'" for each in entry.marks.split()]
    return {"terms": " ".join(words)}


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
    return delete_some(connection, search_page, is_old, limit=EXPIRE_ROWS)


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
