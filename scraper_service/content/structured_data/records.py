"""Lists of objects: finds the records of a page that match the items of a schema.

Records are rows of tables, cards, posts, sections or nodes of structured data.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attrs import define, evolve

from scraper_service.content.structured_data.candidates import property_name
from scraper_service.content.structured_data.page import (
    Origin,
    Scope,
    Value,
    is_foreign,
)
from scraper_service.content.structured_data.reading import VisibleText, name_words
from scraper_service.content.structured_data.requested_fields import (
    content_words_of,
    interpret_field,
    singular,
    words_of,
)
from scraper_service.content.structured_data.run import ExtractionRun, is_incomplete
from scraper_service.content.structured_data.unlabelled import titles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.structured_data.nodes import Graph, Node
    from scraper_service.options.json_schema import Field

MAX_ITEMS = 500
MAX_SCORED = 24  # groups that are scored
MAX_PLACED = 50  # records whose values have an origin each
FOREIGN = 0.6  # weight of a group in a part about other things
LEAST_FILLED = 0.34  # share of the fields that a group of records needs
LEAST_VARIED = 0.5  # share of different values in fields that identify a record
LEAST_ASKING = 0.5  # share of titles that end with a question mark
MANY_WORDS = 400  # characters of a value for comparison
MAX_RECORDS = 1000
MAX_GROUPS = 300
MAX_PARTS = 40  # elements of a section
MOST_TEXT = 20_000  # characters
LEAST_MEMBERS = 2
LEAST_TEXT = 8  # average characters of a member

_STATES = re.compile(
    r"\d|^(?:first|last|odd|even|active|selected|new|is-|js-)", re.IGNORECASE
)
_MEMBERS = frozenset(
    "li article div tr section a dt dd p tbody td figure details span h2 h3 h4 h5 table blockquote dl".split()
)
_HEADS = frozenset({"h2", "h3", "h4", "h5", "dt"})

_KINDS = {"table": 1.1, "nodes": 1.2}  # factors of groups that are made for records
_NAMED = 0.3  # bonus of a group with the field's name
_NAMING = frozenset("title body url author question".split())
# Concepts that need a group made for them, because any other group would match.
_STRICT = frozenset("reviews questions".split())
_POSTS = frozenset({"posts", "messages"})  # of a thread, its first post included
_TEXTS = ("text", "articleBody")
# Concepts whose records stand in parts such as comments, which are foreign otherwise.
_OF_VISITORS = frozenset({"answers", "reviews"})
_OF_ANSWERS = (
    "acceptedAnswer",
    "mainEntity.acceptedAnswer",
    "mainEntity.suggestedAnswer",
)


@define(eq=False)
class RecordSet:
    """Records of the same kind."""

    #: A scope for each record.
    scopes: list[Scope]
    #: ``table``, ``nodes`` or a description such as ``repeated li``.
    kind: str
    #: Words of the names and headings around the records.
    about: frozenset[str]
    #: Factor of the score, below 1 in the frame and in foreign parts of the page.
    weight: float = 1.0
    #: Characters of text, at most ``MOST_TEXT``.
    text_size: int = MOST_TEXT


def tables(reading: VisibleText) -> Iterator[RecordSet]:
    """Yield the rows of tables with a header.

    Tables with the same header form a single set.
    """
    found: dict[tuple[str, ...], RecordSet] = {}
    for table, names, rows in reading.tables:
        about = frozenset(_words_around(reading, table)).union(*map(str.split, names))
        known = found.setdefault(names, RecordSet([], "table", about))
        for number, row in enumerate(rows[:MAX_RECORDS], 1):
            cells = [
                (name, c) for name, c in zip(names, row, strict=True) if c is not None
            ]
            parts = tuple(cell for _, cell in cells)
            named = {name: cell for name, cell in cells if name}
            known.scopes.append(Scope(reading, parts, f"table row {number}", named))
    yield from (group for group in found.values() if group.scopes)


def groups(reading: VisibleText) -> list[RecordSet]:
    """Return repeated elements; groups with much text outside the frame come first."""
    by_sign: dict[Any, list[Any]] = {}
    for element in reading.elements:
        if element.tag in _MEMBERS and element not in reading.columns:
            parent = element.getparent()
            own, above = _first_class(element), _first_class(parent)
            by_sign.setdefault((element.tag, parent), []).append(element)
            if own:
                by_sign.setdefault((element.tag, own, parent.tag, above), []).append(
                    element
                )
    found: dict[Any, RecordSet | None] = {}
    for sign, members in by_sign.items():
        kept = _without_nested(reading, members)
        key = (kept[0], kept[-1], len(kept))
        if key not in found:
            parts = [(element,) for element in kept]
            found[key] = _group(reading, parts, f"repeated {sign[0]}")
    made = [group for group in found.values() if group is not None]
    made += _sections(reading)
    return sorted(made, key=lambda g: -g.text_size * g.weight)[:MAX_GROUPS]


def _without_nested(reading: VisibleText, members: list[Any]) -> list[Any]:
    """Return the members that stand inside no other member."""
    kept: list[Any] = []
    end = -1
    for element in members[: 3 * MAX_RECORDS]:
        if reading.order[element] > end:
            kept.append(element)
            end = reading.last[element]
    return kept[:MAX_RECORDS]


def _group(
    reading: VisibleText, members: list[tuple[Any, ...]], kind: str
) -> RecordSet | None:
    """Return the members with text as records, None if there is too little text."""
    sizes = {
        parts: sum(
            len(reading.lines[n].text) for e in parts for n in range(*reading.span(e))
        )
        for parts in members
    }
    with_text = [parts for parts, size in sizes.items() if size]
    size = sum(sizes.values())
    if len(with_text) < LEAST_MEMBERS or size < LEAST_TEXT * len(with_text):
        return None
    middle = with_text[len(with_text) // 2][0]
    frame = reading.lines[reading.span(middle)[0]].frame
    weight = FOREIGN if frame or is_foreign(middle) else 1.0
    if frame in {"nav", "footer"}:
        weight = 0.3
    about = frozenset(_words_around(reading, with_text[0][0]))
    scopes = [Scope(reading, p, f"{kind} {n}") for n, p in enumerate(with_text, 1)]
    return RecordSet(scopes, kind, about, weight, min(size, MOST_TEXT))


def _sections(reading: VisibleText) -> Iterator[RecordSet]:
    """Yield runs of siblings that each start with the same kind of element.

    Such an element is, for example, a heading or a row.
    """
    parents: dict[Any, list[Any]] = {}
    for element in reading.elements[1:]:
        parents.setdefault(element.getparent(), []).append(element)
    for children in parents.values():
        signs = [(c.tag, _first_class(c)) for c in children]
        counts = Counter(signs)
        if len(children) < 4 or len(counts) < 2:
            continue
        heads = [s for s in counts if s[0] in _HEADS and counts[s] >= 2]
        regular = [s for s in counts if counts[s] >= 3 and s not in heads]
        for start in [*heads[:2], *regular[:1]]:
            starts = [n for n, sign in enumerate(signs) if sign == start]
            if starts[-1] - starts[0] + 1 == len(starts):
                continue  # the elements are adjacent
            ends = [*starts[1:], starts[-1] + 2 * (starts[1] - starts[0])]
            members = [
                tuple(children[a : min(b, a + MAX_PARTS)])
                for a, b in zip(starts, ends, strict=True)
            ]
            if made := _group(reading, members[:MAX_RECORDS], f"section {start[0]}"):
                yield made


def nodes_of(
    graph: Graph, main: Node | None, paths: tuple[str, ...], *, has_first: bool = False
) -> Iterator[tuple[str, list[Any]]]:
    """Yield lists of nodes, each with its name.

    Nodes below the main node come first, then the items of lists, then all nodes of a
    type. With ``has_first``, a main node with a text is the first of the nodes below it,
    as the first post of a thread is.
    """
    if main is not None:
        named = {id(x): (x, p) for p in paths for x in graph.nodes_at(main.data, p)}
        if below := list(named.values()):
            first = [main.data] if has_first and graph.text(main.data, *_TEXTS) else []
            nodes = [node for node, _ in below]
            yield f"{main.name}.{below[0][1]}", [*first, *nodes]
    by_type: dict[str, list[Any]] = {}
    for node in graph.nodes:
        by_type.setdefault(node.name, []).append(node.data)
        if node.type in {"ItemList", "CollectionPage", "OfferCatalog"}:
            for path in ("itemListElement", "mainEntity.itemListElement", "hasPart"):
                items = [
                    _item(graph, value) for value in graph.nodes_at(node.data, path)
                ]
                if len(items) >= LEAST_MEMBERS:
                    yield f"{node.name}.{path}", items
    yield from ((n, same) for n, same in by_type.items() if len(same) >= LEAST_MEMBERS)


def _item(graph: Graph, value: Any) -> Any:
    """Return the thing that an element of a list describes."""
    inner = graph.whole(value.get("item"))
    if isinstance(inner, dict):
        return {**inner, "position": value.get("position")}
    return {"url": inner, **value} if isinstance(inner, str) else value


@lru_cache(maxsize=20_000)
def _first_name(names: str) -> str:
    """Return the first class name that describes no state."""
    return next((name for name in names.split()[:3] if not _STATES.search(name)), "")


def _first_class(element: Any) -> str:
    return (
        _first_name((element.get("class") or "")[:300]) if element is not None else ""
    )


def _words_around(reading: VisibleText, element: Any) -> set[str]:
    """Return the words of the names around an element and of the heading before it."""
    words: set[str] = set()
    for parent in [element, *element.iterancestors()][:4]:
        if parent.tag == "body":
            break
        names = f"{parent.get('class') or ''} {parent.get('id') or ''}"[:300]
        words.update(name_words(names))
    start = reading.span(element)[0]
    for line in reversed(reading.lines[max(0, start - 5) : start]):
        if line.heading or line.block.tag in {"caption", "figcaption"}:
            words.update(words_of(line.text[:200]))
            break
    return words


def find_records(run: ExtractionRun, field: Field, scope: Scope) -> Value | None:
    """Return the records of the group that matches the fields best."""
    best, most = None, 0.0
    for group in _groups_for(run, field, scope):
        if run.is_late:
            break
        if (score := _score(run, group, field)) > most:
            best, most = group, score
    return _read_records(run, best, field) if best else None


def _groups_for(run: ExtractionRun, field: Field, scope: Scope) -> Iterator[RecordSet]:
    """Yield possible records: structured data, tables and repeated elements."""
    graph, paths = run.page.graph, _paths(field)
    if scope.node is not None:
        if below := graph.nodes_at(scope.node, *paths):
            yield _nodes(scope, f"{scope.name}.{field.name}", below)
        return
    if scope.is_page:
        is_thread = not _POSTS.isdisjoint(interpret_field(field).own_phrases)
        for name, nodes in nodes_of(graph, run.main, paths, has_first=is_thread):
            yield _nodes(scope, name, nodes)
    if run.record_sets is None:
        reading = run.page.scope.reading
        run.record_sets = [*tables(reading), *groups(reading)]

    def likely(group: RecordSet) -> float:
        """Return the priority of a group, from its text and its name."""
        return group.text_size * group.weight * (1 + 3 * _named_share(group, field))

    for group in sorted(run.record_sets, key=likely, reverse=True)[:MAX_SCORED]:
        if scope.is_page:
            yield group
            continue
        inside = [s for s in group.scopes if all(map(scope.holds, s.elements))]
        if inside and not set(inside[0].elements) & set(scope.elements):
            yield evolve(group, scopes=inside)


def _score(run: ExtractionRun, group: RecordSet, field: Field) -> float:
    """Return how well a group of records matches the fields, 0 for no match."""
    named = _named_share(group, field)
    concept_name = interpret_field(field).concept_name
    if concept_name in _STRICT and not _is_surely(concept_name, group, named > 0):
        return 0.0
    coverage = _coverage(run, group, field)
    if coverage < LEAST_FILLED:
        return 0.0
    size = min(1.0, 0.7 + 0.05 * math.log2(len(group.scopes)))
    if group.kind == "nodes" and len(group.scopes) < 2:
        size *= 0.8
    kind = _KINDS.get(group.kind, 1.0)
    weight = group.weight
    if named and concept_name in _OF_VISITORS and weight == FOREIGN:
        weight = 1.0
    return coverage * size * kind * weight * (1 + _NAMED * named)


def _read(run: ExtractionRun, field: Field, scope: Scope) -> Value:
    """Return a record as an object."""
    assert field.items is not None
    return run.object(evolve(field.items, name=""), scope) or Value({})


def _coverage(run: ExtractionRun, group: RecordSet, field: Field) -> float:
    """Return the share of the fields that a sample of the records has.

    Required fields count twice. The share is 0 if most of the sample lacks a
    required field.
    """
    middle = len(group.scopes) // 2
    # neighbours, because two sorts of records may alternate
    numbers = dict.fromkeys((0, 1, middle, middle + 1))
    sample = [group.scopes[n] for n in numbers if n < len(group.scopes)]
    records = [_read(run, field, scope).data for scope in sample]
    total = weight = 0.0
    for below in field.items.properties if field.items else ():
        found = (record.get(below.name) for record in records)
        texts = [repr(value)[:MANY_WORDS] for value in found if value is not None]
        share = len(texts) / len(sample)
        if below.required and share < 0.5:
            return 0.0
        varied = len(set(texts)) / max(1, len(texts))
        is_naming = interpret_field(below).concept_name in _NAMING
        if is_naming and len(sample) > 2 and varied < LEAST_VARIED:
            share *= 0.3
        own = 2.0 if below.required else 1.0
        weight += own
        total += own * share
    return total / weight


def _read_records(run: ExtractionRun, group: RecordSet, field: Field) -> Value | None:
    """Return the data of a group's records without copies and incomplete records."""
    data: list[Any] = []
    found: dict[str, Origin] = {}
    missing: list[str] = []
    seen: set[str] = set()
    limit = min(field.max_items or MAX_ITEMS, MAX_ITEMS)
    for scope in group.scopes:
        if run.is_late or len(data) >= limit:
            break
        made, key = _read(run, field, scope), ""
        if field.items is None or is_incomplete(made.data, field.items):
            continue
        if group.kind != "table" and (key := repr(made.data)) in seen:
            continue  # a copy for another screen size
        seen.add(key)
        pointer = f"/{len(data)}"
        for at, place in made.places.items() if len(data) < MAX_PLACED else ():
            is_named = place.source.startswith(scope.name)
            name = place.source if is_named else f"{scope.name}: {place.source}"
            found[pointer + at] = Origin(name, place.snippet)
        missing += [pointer + at for at in made.missing]
        data.append(made.data)
    return Value(data, found, tuple(missing)) if data else None


def _paths(field: Field) -> tuple[str, ...]:
    """Return the properties of structured data that may hold the records."""
    requested = interpret_field(field)
    name = property_name(requested.phrases[0]) if requested.phrases else ""
    paths = requested.concept.paths if requested.concept else ()
    more = _OF_ANSWERS if requested.concept_name == "answers" else ()
    return tuple(filter(None, dict.fromkeys((*more, *paths, name, singular(name)))))


def _nodes(scope: Scope, name: str, nodes: list[Any]) -> RecordSet:
    """Return nodes of structured data as records."""
    scopes = [Scope(scope.reading, (), name, node=node) for node in nodes[:MAX_ITEMS]]
    return RecordSet(scopes, "nodes", frozenset(words_of(name)))


def _named_share(group: RecordSet, field: Field) -> float:
    """Return the share of the field's name that stands around a group, from 0 to 1.

    A word from another phrase of the field's concept counts as one half.
    """
    requested = interpret_field(field)
    about = {singular(word) for word in group.about}
    own = map(content_words_of, requested.own_phrases)
    share = max((len(w & about) / len(w) for w in own if w), default=0.0)
    others = content_words_of(" ".join(requested.phrases[requested.own_count :]))
    return max(share, 0.0 if others.isdisjoint(about) else 0.5)


def _is_surely(concept_name: str, group: RecordSet, named: bool) -> bool:
    """Return True if a group is made for a strict concept: reviews or questions."""
    if concept_name == "questions" and group.kind != "nodes":
        first = (next(titles(scope), None) for scope in group.scopes)
        asking = sum(1 for t in first if t and t.text.rstrip().endswith("?"))
        return asking >= LEAST_ASKING * len(group.scopes)
    return named
