"""Lists of records: which of a page's groups has what the schema asks of an item."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.content.structured_data.fields.concepts import singular, words_of
from scraper_service.content.structured_data.fields.wishes import content_of, wish_of
from scraper_service.content.structured_data.matching.declared import property_name
from scraper_service.content.structured_data.results import Place, Value
from scraper_service.content.structured_data.run import lacks
from scraper_service.content.structured_data.sources import places, records
from scraper_service.content.structured_data.sources.records import RecordSet
from scraper_service.content.structured_data.sources.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.structured_data.run import Run
    from scraper_service.options.schemas import Field

MAX_ITEMS = 500
MAX_GROUPS = 24  # that are looked at closely
MOST_TEXT = 20_000  # characters
MAX_PLACED = 50  # records whose values have a place each
LEAST_FILLED = 0.34  # share of the fields that a group of records must have
LEAST_VARIED = 0.5  # share of different values, where they name the record
LEAST_ASKING = 0.5  # share of questions that end as such
MANY_WORDS = 400  # characters by which values are compared

_KINDS = {"table": 1.1, "nodes": 1.2}  # that were made to hold records
_NAMED = 0.3  # more for a group that is called like the field
_NAMING = frozenset("title body url author question".split())
# What a page either shows as such or has not: any other group would be taken for it.
_STRICT = frozenset("reviews questions".split())
_MORE_PATHS = {
    "answers": (
        "acceptedAnswer",
        "mainEntity.acceptedAnswer",
        "mainEntity.suggestedAnswer",
    ),
}


class RecordLists:
    """The lists of records of one extraction."""

    def __init__(self, run: Run):
        self.run = run
        self._sets: list[RecordSet] | None = None

    def find(self, wanted: Field, scope: Scope) -> Value | None:
        """Return the records of the group that has most of the fields."""
        item = wanted.items
        assert item is not None
        best: tuple[float, RecordSet] | None = None
        for group in self.groups(wanted, scope):
            if self.run.is_late:
                break
            score = self.score(group, wanted, item)
            if score > 0 and (best is None or score > best[0]):
                best = (score, group)
        return self._made(best[1], wanted, item) if best else None

    def groups(self, wanted: Field, scope: Scope) -> Iterator[RecordSet]:
        """Yield what may be the records: structured data, tables, repeated elements."""
        if scope.node is not None:
            yield from self._below(wanted, scope)
            return
        if scope.is_page:
            graph, main = self.run.page.graph, self.run.main
            for name, syntax, nodes in records.nodes(graph, main, _paths(wanted)):
                about = frozenset(words_of(name))
                yield RecordSet(_scopes(scope, name, nodes, syntax), "nodes", about)
        if self._sets is None:
            reading = self.run.page.scope.reading
            self._sets = [*records.tables(reading), *records.groups(reading)]
        likely = sorted(self._sets, key=lambda g: -_likely(g, wanted))[:MAX_GROUPS]
        for group in likely:
            if scope.is_page:
                yield group
                continue
            inside = [s for s in group.scopes if all(map(scope.holds, s.elements))]
            if inside and not set(inside[0].elements) & set(scope.elements):
                yield evolve(group, scopes=inside)

    def _below(self, wanted: Field, scope: Scope) -> Iterator[RecordSet]:
        graph = self.run.page.graph
        assert scope.node is not None
        found = [
            value
            for path in _paths(wanted)
            for value in graph.values(scope.node, path)
            if isinstance(value, dict)
        ]
        if found:
            name = f"{scope.name}.{wanted.name}"
            scopes = _scopes(scope, name, found, scope.syntax)
            yield RecordSet(scopes, "nodes", frozenset(words_of(wanted.name)))

    def score(self, group: RecordSet, wanted: Field, item: Field) -> float:
        """Return how well a group of records has the fields; 0 if it is none of them."""
        named = _named_share(group, wanted)
        what = wish_of(wanted).what
        if what in _STRICT and not _is_surely(what, group, named=named > 0):
            return 0.0
        coverage = self._coverage(group, item)
        if coverage < LEAST_FILLED:
            return 0.0
        size = min(1.0, 0.76 + 0.04 * math.log2(len(group.scopes)))
        if group.kind == "nodes" and len(group.scopes) < 2:
            size *= 0.8
        kind = _KINDS.get(group.kind, 1.0)
        return coverage * size * kind * group.shade * (1 + _NAMED * named)

    def _coverage(self, group: RecordSet, item: Field) -> float:
        """Return the share of the fields that a few of the records have."""
        middle = len(group.scopes) // 2
        places_of = dict.fromkeys((0, 1, middle, middle + 1))  # of both of two sorts
        sample = [group.scopes[n] for n in places_of if n < len(group.scopes)]
        found: dict[str, list[str]] = {below.name: [] for below in item.properties}
        for scope in sample:
            made = self.run.object(evolve(item, name=""), scope)
            for name, value in made.data.items() if made else ():
                if value is not None:
                    found[name].append(repr(value)[:MANY_WORDS])
        total = weight = 0.0
        for below in item.properties:
            values = found[below.name]
            share = len(values) / len(sample)
            if below.required and share < 0.5:
                return 0.0
            varied = len(set(values)) / max(1, len(values))
            is_naming = wish_of(below).what in _NAMING
            if is_naming and len(sample) > 2 and varied < LEAST_VARIED:
                share *= 0.3
            own = 2.0 if below.required else 1.0
            weight += own
            total += own * share
        return total / weight if weight else 0.0

    def _made(self, group: RecordSet, wanted: Field, item: Field) -> Value | None:
        data: list[Any] = []
        found: dict[str, Place] = {}
        missing: list[str] = []
        seen: set[str] = set()
        limit = min(wanted.max_items or MAX_ITEMS, MAX_ITEMS)
        for scope in group.scopes:
            if self.run.is_late or len(data) >= limit:
                break
            made = self.run.object(evolve(item, name=""), scope)
            if made is None or lacks(made.data, item):
                continue
            key = repr(made.data)
            if group.kind != "table" and key in seen:
                continue  # shown twice, for small and for large screens
            seen.add(key)
            pointer = f"/{len(data)}"
            if len(data) < MAX_PLACED:
                for at, place in made.places.items():
                    source = f"{scope.name}: {place.source}"
                    if place.source.startswith(scope.name):
                        source = place.source
                    found[pointer + at] = Place(source, place.snippet)
            missing += [pointer + at for at in made.missing]
            data.append(made.data)
        return Value(data, found, tuple(missing)) if data else None


def _paths(wanted: Field) -> tuple[str, ...]:
    """Return the properties of structured data that may hold the records."""
    wish = wish_of(wanted)
    name = property_name(wish.phrases[0]) if wish.phrases else ""
    paths = wish.concept.paths if wish.concept else ()
    named = (name, singular(name)) if name else ()
    return tuple(dict.fromkeys((*_MORE_PATHS.get(wish.what, ()), *paths, *named)))


def _scopes(scope: Scope, name: str, nodes: list[Any], syntax: str) -> list[Scope]:
    return [
        Scope(scope.reading, (), name, node=node, syntax=syntax)
        for node in nodes[:MAX_ITEMS]
    ]


def _named_share(group: RecordSet, wanted: Field) -> float:
    """Return how much of the field's name stands around a group, from 0 to 1.

    Of the words that a field of its meaning may have one is enough for the half.
    """
    wish = wish_of(wanted)
    about = {singular(word) for word in group.about}
    own = [content_of(phrase) for phrase in wish.phrases[: wish.own]]
    share = max((len(w & about) / len(w) for w in own if w), default=0.0)
    others = content_of(" ".join(wish.phrases[wish.own :]))
    return max(share, 0.0 if others.isdisjoint(about) else 0.5)


def _likely(group: RecordSet, wanted: Field) -> float:
    """Return how likely a group is worth a close look: its text, its name."""
    size = MOST_TEXT if group.kind == "table" else group.text_size
    return size * group.shade * (1 + 3 * _named_share(group, wanted))


def _is_surely(what: str, group: RecordSet, *, named: bool) -> bool:
    """Tell whether records are what only a group made for it is: reviews, questions."""
    if group.kind == "nodes":
        return named
    if what == "questions":
        first = (next(places.titles(scope), None) for scope in group.scopes)
        asking = sum(1 for t in first if t and t.text.rstrip().endswith("?"))
        return asking >= LEAST_ASKING * len(group.scopes)
    return named
