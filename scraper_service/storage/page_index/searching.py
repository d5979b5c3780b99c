"""A search in the pages that a team has scraped.

The words of a query weigh the more the fewer pages of the team have them, and count the
more often and the more prominently a page has them (BM25). All is computed here, from
the lists of the team alone, so that every database gives the same results.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray
from sqlalchemy import Connection, and_, or_, select

from scraper_service.content.text.search_entry import (
    FILE,
    IMAGE,
    KIND,
    NEWS,
    SITE,
    STEM,
    TITLE,
    URL,
    WORD,
    term,
)
from scraper_service.content.text.search_query import SearchQuery, phrase_pattern
from scraper_service.content.text.search_snippet import snippet
from scraper_service.content.text.search_terms import (
    COMMON,
    folded,
    stem,
    tokens_of,
    words_of,
)
from scraper_service.storage.frontier.transactions import now_of
from scraper_service.storage.job_records import SegmentState
from scraper_service.storage.page_index.postings import (
    Postings,
    find_all,
    find_term,
    piece_of,
)
from scraper_service.storage.page_index.rows import Segment, date_of
from scraper_service.storage.schema import search_list, search_page, search_segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scraper_service.content.text.search_query import Place
    from scraper_service.options.search import Source

MAX_WAITING = 1000  # pages that are not in a segment yet, the latest
MAX_CHECKED = 200  # pages of which the text is looked into, for one search
MORE = 3  # that are read at first beside those that are wanted
READ_ROWS = 64  # afterwards, in one statement
LEAST_SHARE = 0.34  # of the weight of all words, that a result has to have
FULL = 255
EQUAL = 1e-9
_KINDS = {"news": NEWS, "images": IMAGE}


@frozen(kw_only=True)
class OwnHit:
    """A page that was found; what is not known is None, or empty."""

    url: str
    title: str = ""
    snippet: str = ""
    date: str | None = None
    image_url: str | None = None
    image_width: int | None = None
    image_height: int | None = None


def search(
    connection: Connection,
    team_id: str,
    query: SearchQuery,
    source: Source,
    limit: int,
) -> list[OwnHit]:
    """Return pages that fit a query, the best first, at most ``limit``."""
    if query == SearchQuery():
        return []  # signs alone
    index = _Index.of_team(connection, team_id)
    if not index.size:
        return []
    ranking = _Ranking(index, _Terms(query, index.languages, source.kind))
    order = ranking.order(query, source, now_of(connection))
    reading = _Reading(connection, team_id, query, source)
    return reading.hits(index.ids[order], limit)


@define
class _Index:
    """All pages of a team side by side: those of segments, then those that wait."""

    connection: Connection
    segments: list[Segment]
    waiting: Postings
    ids: NDArray[np.int64]
    dates: NDArray[np.uint32]
    languages: frozenset[str]
    _found: dict[int, list[tuple[NDArray[Any], NDArray[np.uint8]]]] = field(
        factory=dict
    )

    @classmethod
    def of_team(cls, connection: Connection, team_id: str) -> _Index:
        segment, page = search_segment.c, search_page.c
        rows = connection.execute(
            select(segment.id, segment.pages, segment.bits, segment.languages)
            .where(segment.team_id == team_id, segment.state == SegmentState.LIVE)
            .order_by(segment.id)
        )
        segments = [Segment.of_row(*row) for row in rows]
        waiting = connection.execute(
            select(page.id, page.facts, page.fetched_at, page.terms)
            .where(page.team_id == team_id, page.terms.is_not(None))
            .order_by(page.id.desc())
            .limit(MAX_WAITING)
        ).all()
        facts = [json.loads(row.facts) for row in waiting]
        dates = [date_of(f, r.fetched_at) for f, r in zip(facts, waiting, strict=True)]
        ids = [part.ids for part in segments]
        ids.append(np.array([row.id for row in waiting], dtype="<i8"))
        all_dates = [part.dates for part in segments]
        all_dates.append(np.array(dates, dtype="<u4"))
        languages = {each.get("language", "") for each in facts}
        return cls(
            connection,
            segments,
            Postings.of_pages([row.terms for row in waiting]),
            np.concatenate(ids),
            np.concatenate(all_dates),
            frozenset(languages.union(*(part.languages for part in segments))),
        )

    @property
    def size(self) -> int:
        return len(self.ids)

    def read(self, numbers: Iterable[int]) -> None:
        """Read the lists of terms, all at once."""
        wanted = dict.fromkeys(numbers)
        self._found = {number: [] for number in wanted}
        cut = {part.id: part.bits for part in self.segments}
        asked = {s: {piece_of(n, bits) for n in wanted} for s, bits in cut.items()}
        bodies = self._pieces(asked)
        start = 0
        for part in self.segments:
            for number in wanted:
                body = bodies.get((part.id, piece_of(number, part.bits)))
                if body is not None:
                    pages, impacts = find_term(body, number)
                    self._take(number, start, pages, impacts)
            start += len(part.ids)
        for number, where in find_all(self.waiting, wanted).items():
            pages, impacts = self.waiting.pages[where], self.waiting.impacts[where]
            self._take(number, start, pages, impacts)

    def _pieces(self, asked: Mapping[int, set[int]]) -> dict[tuple[int, int], bytes]:
        if not any(asked.values()):
            return {}
        columns = search_list.c
        # Not pairs in one list: SQLite would look for them in the whole table.
        of_segments = [
            and_(columns.segment_id == segment, columns.piece.in_(sorted(pieces)))
            for segment, pieces in asked.items()
        ]
        rows = self.connection.execute(
            select(columns.segment_id, columns.piece, columns.body).where(
                or_(*of_segments)
            )
        )
        return {(row.segment_id, row.piece): row.body for row in rows}

    def _take(
        self,
        number: int,
        start: int,
        pages: NDArray[np.uint16],
        impacts: NDArray[np.uint8],
    ) -> None:
        if len(pages):
            self._found[number].append((pages.astype(np.int64) + start, impacts))

    def impacts(self, numbers: Iterable[int]) -> NDArray[np.uint8]:
        """Return for each page the highest impact of some terms, 0 for none of them."""
        found = np.zeros(self.size, dtype=np.uint8)
        for number in numbers:
            for pages, impacts in self._found.get(number, ()):
                found[pages] = np.maximum(found[pages], impacts)
        return found


class _Terms:
    """The terms that a query asks for; each word is a group of terms that stand for it.

    A word has a stem in each language that the team has pages in.
    """

    def __init__(self, query: SearchQuery, languages: frozenset[str], kind: str):
        self._languages = sorted({"", *languages})
        tokens = _all_tokens(query.words)
        telling = [token for token in tokens if folded(token) not in COMMON]
        self.words = [self._stems(token) for token in telling or tokens]
        self.exact = [
            self._exact(token) for text in query.phrases for token in tokens_of(text)
        ]
        # Of a word that is a stem, too, the text tells in which form a page has it.
        self.without = [
            {term(WORD, words[0])}
            for text in query.without
            if len(words := words_of(text)) == 1
        ]
        self.kinds = [{term(KIND, _KINDS[kind])}] if kind in _KINDS else []
        self.places = [self._places(group) for group in query.places]
        self.not_places = [self._places([place]) for place in query.not_places]
        self.in_title = [self._title(t) for t in _all_tokens(query.in_title)]
        self.not_in_title = [self._title(t) for t in _all_tokens(query.not_in_title)]
        self.in_url = [{term(URL, w)} for w in _all_words(query.in_url)]
        self.not_in_url = [{term(URL, w)} for w in _all_words(query.not_in_url)]

    def numbers(self) -> Iterator[int]:
        """Yield all of them."""
        for groups in vars(self).values():
            for group in groups:
                if isinstance(group, set):
                    yield from group

    def _stems(self, token: str) -> set[int]:
        return {term(STEM, stem(token, each)) for each in self._languages}

    def _exact(self, token: str) -> set[int]:
        """Return the terms that pages with just this word have."""
        [word] = words_of(token) or [token]
        is_stem = any(stem(token, each) == word for each in self._languages)
        return {term(WORD, word)} | ({term(STEM, word)} if is_stem else set())

    def _title(self, token: str) -> set[int]:
        [word] = words_of(token) or [token]
        return {term(TITLE, word)} | {
            term(TITLE, stem(token, each)) for each in self._languages
        }

    @staticmethod
    def _places(places: Iterable[Place]) -> set[int]:
        return {
            term(SITE, place.value.partition("/")[0])
            if place.kind == "site"
            else term(FILE, place.value)
            for place in places
        }


def _all_tokens(texts: Iterable[str]) -> list[str]:
    return [token for text in texts for token in tokens_of(text)]


def _all_words(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in words_of(text)]


class _Ranking:
    """Which pages of an index fit, and how well."""

    def __init__(self, index: _Index, terms: _Terms):
        self._index = index
        self._terms = terms
        index.read(terms.numbers())

    def order(
        self, query: SearchQuery, source: Source, now: float
    ) -> NDArray[np.int64]:
        """Return the places of the pages that may be results, the best first."""
        index, terms = self._index, self._terms
        fits = self._allowed(source, now)
        score = np.zeros(index.size)
        mass = np.zeros(index.size)
        weights = []
        groups = (*terms.words, *terms.exact, *terms.in_title)
        for group in groups:
            impacts = index.impacts(group)
            has = impacts > 0
            if count := int(np.count_nonzero(has)):
                weights.append(weight := self._weight(count))
                score += weight * (impacts / FULL)
                mass += weight * has
        if groups and not weights:
            return np.zeros(0, dtype=np.int64)
        # A word that no page has weighs as much as the others do on average.
        total = sum(weights) / len(weights) * len(groups) if groups else 0.0
        dates = index.dates.astype(np.float64)
        if total:
            share = mass / total
            fits &= share >= LEAST_SHARE
            score *= share
        by_date = source.when is not None and source.when.by_date
        if by_date and total:
            fits &= share >= share[fits].max(initial=0.0) - EQUAL
        places = np.flatnonzero(fits)
        first = dates[places] if by_date or not total else score[places]
        if len(first) > MAX_CHECKED:
            # No more are looked at: only the best of them need an order.
            least = np.partition(first, -MAX_CHECKED)[-MAX_CHECKED]
            places, first = places[first >= least], first[first >= least]
        # The latest of those that are equally good comes first, the same everywhere.
        order = np.lexsort((-index.ids[places], -first))
        return places[order]

    def _weight(self, count: int) -> float:
        """Return how much a word weighs that ``count`` pages have."""
        size = self._index.size
        return float(np.log(1 + (size - count + 0.5) / (count + 0.5)))

    def _allowed(self, source: Source, now: float) -> NDArray[np.bool_]:
        index, terms = self._index, self._terms
        fits = np.ones(index.size, dtype=bool)
        needed = [*terms.kinds, *terms.places, *terms.exact, *terms.in_title]
        for group in (*needed, *terms.in_url):
            fits &= index.impacts(group) > 0
        refused = [*terms.without, *terms.not_in_title, *terms.not_in_url]
        for group in refused:
            fits &= index.impacts(group) == 0
        if source.when is not None:
            first, last = source.when.bounds(now)
            if first is not None:
                fits &= index.dates >= first
            if last is not None:
                fits &= index.dates < last
        return fits


class _Reading:
    """Reads the pages that rank first, until enough of them are what was asked for."""

    def __init__(
        self, connection: Connection, team_id: str, query: SearchQuery, source: Source
    ):
        self._connection = connection
        self._team_id = team_id
        self._query = query
        self._source = source
        self._now = now_of(connection)
        self._phrases = [phrase_pattern(each) for each in query.phrases]
        self._without = [phrase_pattern(each) for each in query.without]
        self._words = _all_words((*query.words, *query.phrases, *query.in_title))

    def hits(self, ids: NDArray[np.int64], limit: int) -> list[OwnHit]:
        found: dict[str, OwnHit] = {}
        behind = 0
        while len(found) < limit and behind < min(len(ids), MAX_CHECKED):
            count = READ_ROWS if behind else limit + MORE
            some = [int(n) for n in ids[behind : behind + count]]
            behind += len(some)
            for row in self._rows(some):
                if len(found) < limit and (hit := self._hit(row)) is not None:
                    found.setdefault(row.key, hit)
        return list(found.values())

    def _rows(self, ids: list[int]) -> list[Any]:
        """Return the rows of pages that are still there, in their order."""
        page = search_page.c
        # By ids alone: with the team too, SQLite would go through all of its pages.
        rows = self._connection.execute(
            select(
                page.id,
                page.team_id,
                page.expires_at,
                *(page.key, page.url, page.facts, page.text),
            ).where(page.id.in_(ids))
        )
        by_id = {
            row.id: row
            for row in rows
            if row.team_id == self._team_id and row.expires_at > self._now
        }
        return [by_id[number] for number in ids if number in by_id]

    def _hit(self, row: Any) -> OwnHit | None:
        query, facts = self._query, json.loads(row.facts)
        if not _is_there(query, row.url):
            return None
        title, about = facts.get("title", ""), facts.get("description", "")
        text = zlib.decompress(row.text).decode()
        if query.phrases or query.without:
            whole = folded(f"{title}\n{about}\n{text}")
            if not all(pattern.search(whole) for pattern in self._phrases):
                return None
            if any(pattern.search(whole) for pattern in self._without):
                return None
        return OwnHit(
            url=row.url,
            title=title,
            snippet=snippet(text, about, self._words),
            date=facts.get("date"),
            image_url=facts.get("image") if self._source.kind != "web" else None,
            image_width=facts.get("width"),
            image_height=facts.get("height"),
        )


def _is_there(query: SearchQuery, url: str) -> bool:
    """Tell whether an address is in the sites asked for, paths included."""
    for group in query.places:
        if all(place.kind == "site" for place in group) and not any(
            place.has(url) for place in group
        ):
            return False
    return not any(place.has(url) for place in query.not_places)
