"""Extraction by a schema, a prompt or the kind of the page, without a language model.

A run finds a value for each field: single values, objects and lists of records.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.content.structured_data.candidates import (
    candidates,
    of_a_node,
    property_name,
)
from scraper_service.content.structured_data.lists import (
    FOREIGN,
    RecordSet,
    groups,
    nodes_of,
    plain_list,
    tables,
)
from scraper_service.content.structured_data.merging import (
    NOT_UNDERSTOOD,
    fields_without_value,
    is_empty,
)
from scraper_service.content.structured_data.nodes import FRAME, SUBJECT, Node, plain
from scraper_service.content.structured_data.page import (
    Candidate,
    Extraction,
    ExtractionPage,
    Scope,
    Value,
    is_foreign,
    one_line,
)
from scraper_service.content.structured_data.prompts import fields_of, key_facts
from scraper_service.content.structured_data.requested_fields import (
    RequestedField,
    content_words_of,
    interpret_field,
    singular,
    words_of,
)
from scraper_service.content.structured_data.unlabelled import titles
from scraper_service.content.structured_data.values import GAP
from scraper_service.options.json_schema import Field, field_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


TIME_S = 3.0  # CPU seconds for a page; values not found by then are left out
ENOUGH = 0.9  # trust that ends the search
LEAST = 0.4  # trust that a value needs
MANY = 3  # nodes of a type, which are then not the subject of the page
MAX_NODES = 60  # nodes that are compared
MAX_FACTS = 200
MAX_DEPTH = 3  # levels of fields that may be columns of a table
MAX_NAME = 80  # characters of the name of a fact
LEAST_FACTS = 2

MAX_ITEMS = 500
MAX_SCORED = 24  # groups that are scored
LEAST_FILLED = 0.34  # share of the fields that a group of records needs
LEAST_VARIED = 0.5  # share of different values in fields that identify a record
LEAST_ASKING = 0.5  # share of titles that end with a question mark
MANY_WORDS = 400  # characters of a value for comparison
_KINDS = {"table": 1.1, "nodes": 1.2}  # factors of groups that are made for records
_NAMED = 0.3  # bonus of a group with the field's name
_NAMING = frozenset("title body url author question".split())
# Concepts that need a group made for them, because any other group would match.
_STRICT = frozenset("reviews questions".split())
_POSTS = frozenset({"posts", "messages"})  # of a thread, its first post included
# Concepts whose records stand in parts such as comments, which are foreign otherwise.
_OF_VISITORS = frozenset({"answers", "reviews"})
_OF_ANSWERS = (
    "acceptedAnswer",
    "mainEntity.acceptedAnswer",
    "mainEntity.suggestedAnswer",
)

# Fields of a nested object that are vague without the object's name.
_VAGUE = frozenset("title url description body image count published".split())
_TITLES = frozenset({"title", "question"})
_OWNED = frozenset("name person place".split())
_NOT_OF_MAKERS = frozenset("title price author published".split())
# Properties of nested objects in addition to those of their concept.
_INNER = {"rating": ("aggregateRating", "reviewRating"), "price": ("offers",)}


def extract(
    page: ExtractionPage,
    schema: Mapping[str, Any] | None = None,
    prompt: str | None = None,
) -> Extraction:
    """Return the data of a page for a schema or a prompt.

    Without a schema, the prompt names the fields. Without both, the data are the key
    facts of the page. A value that the page does not show is left out, or null where
    the schema requires it. No value is invented. If the prompt names a list and the
    page is about a single such thing, this thing is the only item of the list.

    :raises SchemaRefused: if :func:`field_of` does not support the schema.
    """
    ends = time.thread_time() + TIME_S
    named = () if schema else fields_of(prompt or "")
    field = Field(kind="object", properties=named or key_facts(page))
    if schema:
        field = field_of(schema)
    run = ExtractionRun(page, field, ends)
    found = run.result(field, run.value(field, page.scope))
    if len(named) == 1 and (item := named[0].items) and item.properties:
        run = ExtractionRun(page, item, ends)
        one = run.one_thing(named[0])
        if one and (
            run.is_of_one or _count_filled(one.data) > _count_filled(found.data)
        ):
            found = run.result(field, one)
    if schema or named:
        names = fields_without_value(field, found.data, has_required=False)
        return evolve(found, unfound=tuple(names))
    if prompt and prompt.strip():
        return evolve(found, warnings=(NOT_UNDERSTOOD, *found.warnings))
    return found


def _count_filled(data: Mapping[str, list[dict[str, Any]]]) -> int:
    """Return how many fields have a value in at least a single item of the list."""
    items = (item.items() for found in data.values() for item in found)
    return len({name for item in items for name, v in item if not is_empty(v)})


class ExtractionRun:
    """A single extraction: its page, the page's subject and the deadline."""

    def __init__(
        self,
        page: ExtractionPage,
        field: Field,
        ends: float,
    ):
        self.page = page
        self.ends = ends
        #: The groups of records of the page, None before the first search.
        self.record_sets: list[RecordSet] | None = None
        self.main = self._main(field)
        page.scope.reading.read_tables(frozenset(_phrases_of(field)))

    @property
    def is_late(self) -> bool:
        """True after the deadline."""
        return time.thread_time() > self.ends

    @property
    def is_of_one(self) -> bool:
        """True if the page declares that it is about a single thing."""
        nodes = self.page.graph.nodes
        if self.main is None:
            return self.page.is_of_a_product and all(node.rank for node in nodes)
        same = sum(node.type == self.main.type for node in nodes)
        return same == 1 and self.main.rank <= SUBJECT

    def one_thing(self, field: Field) -> Value | None:
        """Return a list whose only item is the page's subject, None without data.

        If the page declares no single subject, the item needs more than vague values
        such as a title.
        """
        item = field.items
        if item is None or interpret_field(field).concept is not None:
            # a known concept such as authors is a part of the page, not its subject
            return None
        found = self.object(item, self.page.scope)
        if found is None or not found.data:
            return None
        below = [interpret_field(f) for f in item.properties if f.name in found.data]
        is_vague = _VAGUE.issuperset(requested.concept_name for requested in below)
        if not self.is_of_one and (is_vague or is_incomplete(found.data, item)):
            return None
        return Value({field.name: [found.data]})

    def result(self, field: Field, found: Value | None) -> Extraction:
        """Return the extraction with warnings about parts that were not searched."""
        warnings = []
        found = found or Value.empty(field.kind)
        if self.is_late:
            warnings.append("The page took too long to search: values may be missing.")
        if self.page.scope.reading.is_cut:
            warnings.append("The page is very large: only its first part was searched.")
        return Extraction(found.data, found.missing, tuple(warnings))

    def _main(self, field: Field) -> Node | None:
        """Return the node with most of the fields, on a tie the likelier subject."""
        graph = self.page.graph
        kinds = Counter(node.type for node in graph.nodes)
        fields = [interpret_field(f) for f in field.properties][:MAX_NODES]
        best, most = None, 0.0
        for node in graph.nodes[:MAX_NODES]:
            if node.type in FRAME or (kinds[node.type] >= MANY and node.rank <= 10):
                continue
            count = sum(
                any(of_a_node(graph, node.data, "", requested, 1.0))
                for requested in fields
                if requested.field.kind != "object" or requested.concept
            )
            score = count + max(0.0, 1.5 - 0.15 * node.rank)
            if node.is_maker:
                score -= any(r.concept_name in _NOT_OF_MAKERS for r in fields)
            if score > most and (node.rank <= SUBJECT or count > 1):
                best, most = node, score
        return best

    # -- values ----------------------------------------------------------------------

    def value(self, field: Field, scope: Scope, around: str = "") -> Value | None:
        """Return the value of a field in a scope, None without a value."""
        for choice in (field, *field.others):
            found = None if self.is_late else self._one(choice, scope, around)
            if found is not None:
                return found
        return None

    def _one(self, field: Field, scope: Scope, around: str) -> Value | None:
        if field.kind == "object":
            has_names = bool(field.properties)
            return self.object(field, scope) if has_names else self._facts(field, scope)
        if field.kind == "array":
            if field.items is not None and field.items.properties:
                return find_records(self, field, scope)
            return plain_list(self.page, self.main, field, scope, around)
        return self.scalar(interpret_field(field, around), scope)

    def scalar(self, requested: RequestedField, scope: Scope) -> Value | None:
        """Return the most trusted value that has the type of the field."""
        best, most = None, 0.0
        for found in candidates(self.page, scope, requested, self.main):
            if found.trust <= most or found.trust < LEAST:
                continue
            data = self.convert(requested, found)
            if data is not None:
                best, most = Value(data), found.trust
                if most >= ENOUGH:
                    break
        return best

    def convert(self, requested: RequestedField, found: Candidate) -> Any:
        """Return a candidate as a value of the field's type; a link becomes its URL."""
        text, shape, element = found.text, requested.shape, found.element
        if shape == "url" and element is not None and "link" not in found.source:
            text = _link_of(element) or text
        elif shape == "image" and element is not None and found.source != "image":
            image = next(element.iter("img"), None)
            text = (image.get("src") or "") if image is not None else text
        elif shape in {"name", "code", "word"}:
            text = text.split("\n")[0]
        elif shape == "text":
            text = text.replace("\n", ", ")
        elif shape == "date" and found.parts and not requested.field.format:
            text = found.parts[0]  # the date as the page shows it
        is_cell = found.source.startswith("table row")
        has_unit = requested.unit in map(singular, words_of(found.source))
        return self.page.typing.value(
            requested, text, is_cell=is_cell, has_unit=has_unit
        )

    # -- objects ---------------------------------------------------------------------

    def object(self, field: Field, scope: Scope) -> Value | None:
        """Return an object with the values that were found.

        A nested object without values is None.
        """
        inner = self._inner(interpret_field(field), scope) if field.name else scope
        values = {
            f.name: self._property(f, field, inner, scope) for f in field.properties
        }
        if field.name and not any(values.values()):
            return None
        self._name_record(field, inner, values)
        if not inner.is_page:
            _drop_copies(field, values)
        return Value.of_object(field, values)

    def _name_record(
        self, field: Field, scope: Scope, values: dict[str, Value | None]
    ) -> None:
        """Use a record's title for the first text field if no field requests the title."""
        texts = [f for f in field.properties if f.kind == "string"]
        if scope.is_page or scope.node is not None or scope.cells or not texts:
            return
        below = [interpret_field(f, field.name) for f in field.properties]
        is_titled = any(r.concept_name in _TITLES or r.is_subject for r in below)
        shape = interpret_field(texts[0], field.name).shape
        if is_titled or values[texts[0].name] or shape not in {"name", "code", "text"}:
            return
        title = interpret_field(evolve(texts[0], name="title", description=""))
        found = self.scalar(title, scope)
        known = [value.data for value in values.values() if value]
        if found and found.data not in known:
            values[texts[0].name] = found

    def _property(
        self, below: Field, field: Field, inner: Scope, scope: Scope
    ) -> Value | None:
        """Return the value of a property.

        Outside structured data, a vague property needs an object whose name gives it a
        meaning.
        """
        if inner.node is None and field.name:
            name, of = interpret_field(below).concept_name, interpret_field(field)
            if name in _VAGUE and of.concept is not None:
                if name != "title" or of.shape not in _OWNED:
                    return None
                own = interpret_field(Field(name=field.name, kind="string"))
                return self.scalar(own, scope)
        return self.value(below, inner, field.name)

    def _inner(self, requested: RequestedField, scope: Scope) -> Scope:
        node = scope.node
        if node is None and scope.is_page and self.main is not None:
            node = self.main.data
        paths = [*(requested.concept.paths if requested.concept else ())]
        paths += map(property_name, requested.phrases[:1])
        paths += _INNER.get(requested.concept_name, ())
        if {"offer", "pricing"}.intersection(requested.phrases):
            paths.append("offers")
        for path in paths if node is not None else ():
            for value in self.page.graph.nodes_at(node or {}, path):
                return evolve(scope, name=path, node=value, is_page=False)
        return scope

    # -- facts -----------------------------------------------------------------------

    def _facts(self, field: Field, scope: Scope) -> Value | None:
        """Return names and values from structured data or the largest table of facts."""
        node, graph = scope.node, self.page.graph
        if node is None and scope.is_page and self.main is not None:
            node = self.main.data
        data: dict[str, str] = {}
        concept = interpret_field(field).concept
        for path in concept.paths if concept else ():
            for value in graph.nodes_at(node or {}, path):
                named = {plain(value.get("name")): plain(value.get("value"))}
                texts = {k: plain(v) for k, v in value.items() if not k.startswith("@")}
                data |= named if path == "additionalProperty" else texts
        data = data or _shown_facts(scope)
        kept = [(name, text) for name, text in data.items() if name and text]
        return Value(dict(kept[:MAX_FACTS])) if kept else None


def _phrases_of(field: Field, depth: int = 0) -> Iterator[str]:
    yield from interpret_field(field).own_phrases
    for below in (*field.properties, *([field.items] if field.items else ())):
        if depth < MAX_DEPTH:
            yield from _phrases_of(below, depth + 1)


def _shown_facts(scope: Scope) -> dict[str, str]:
    """Return the pairs of the largest table or definition list."""
    best: dict[str, str] = {}
    for holder in scope.all("table", "dl"):
        pairs = [[c for c in row if c.tag in {"td", "th"}] for row in holder.iter("tr")]
        pairs += [[term, term.getnext()] for term in holder.iter("dt")]
        found = {
            one_line(scope, pair[0]).rstrip(": "): scope.reading.text(pair[1])
            for pair in pairs
            if len(pair) == 2 and pair[1] is not None
            if pair[0] not in scope.reading.columns
        }
        found = {
            name: text.replace(GAP, " ")
            for name, text in found.items()
            if text and len(name) <= MAX_NAME
        }
        if len(found) > len(best) and not is_foreign(holder):
            best = found
    return best if len(best) >= LEAST_FACTS else {}


def _drop_copies(field: Field, values: dict[str, Value | None]) -> None:
    """Delete texts that are only the value of another field, such as a date."""
    given = [value.data for value in values.values() if value]
    for below in field.properties:
        value = values[below.name]
        is_copy = value is not None and given.count(value.data) > 1
        if is_copy and interpret_field(below).shape == "prose":
            values[below.name] = None


def _link_of(element: Any) -> str:
    links = (element, *list(element.iterancestors("a"))[:1], *element.iter("a"))
    hrefs = (link.get("href") for link in links if link.tag == "a")
    return next(filter(None, hrefs), "")


def is_incomplete(data: dict[str, Any], item: Field) -> bool:
    """Return True if a record lacks essential values.

    These are the first required field or, without required fields, at least two values.
    """
    given = sum(value not in (None, [], {}) for value in data.values())
    required = [below.name for below in item.properties if below.required]
    if required:
        return not given or data.get(required[0]) is None
    return given < min(2, len(item.properties))


# -- records ---------------------------------------------------------------------------


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
        missing += [f"/{len(data)}{pointer}" for pointer in made.missing]
        data.append(made.data)
    return Value(data, tuple(missing)) if data else None


def _paths(field: Field) -> tuple[str, ...]:
    requested = interpret_field(field)
    name = property_name(requested.phrases[0]) if requested.phrases else ""
    paths = requested.concept.paths if requested.concept else ()
    more = _OF_ANSWERS if requested.concept_name == "answers" else ()
    return tuple(filter(None, dict.fromkeys((*more, *paths, name, singular(name)))))


def _nodes(scope: Scope, name: str, nodes: list[Any]) -> RecordSet:
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
