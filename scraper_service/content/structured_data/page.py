"""The page of an extraction: its parts, the labelled values in them, and the result.

The elements around the main heading belong to the subject of the page. Parts about other
things do not.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from attrs import define, field, frozen

from scraper_service.content.metadata.evidence import Evidence
from scraper_service.content.metadata.facts import metadata
from scraper_service.content.structured_data.nodes import Graph, NodeT, plain
from scraper_service.content.structured_data.reading import (
    TextLine,
    VisibleText,
    collapse,
    join_texts,
)
from scraper_service.content.structured_data.requested_fields import phrase_of, words_of
from scraper_service.content.structured_data.values import GAP, Typing
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scraper_service.content.html.document import Document
    from scraper_service.options.json_schema import Field

_NEXT_LABEL = re.compile(r"\s(?=[A-Z]\w*(?: \w+){0,2}: )")
# Trust that a value loses in a part of the page's frame.
_FRAME_PENALTIES = {"nav": 0.35, "aside": 0.2, "header": 0.1, "footer": 0.1}
# Marks between the items of a line, whose first item is no label of the others.
_SEPARATORS = "\u2022\u00b7|/"
NEAR = 4  # levels up to an element that contains both a label and its value
MAX_LABELS = 40  # lines with the same label that are read
LEAD_LINES = 20  # lines after the main heading that belong to it
LINES_BEFORE = 4
LEAD_LEVELS = 4  # levels above the heading that are searched for lines before it
MAX_NAMES = 300  # characters of a class attribute
ENOUGH_SHARED = 0.6
_FOREIGN = frozenset(
    "related recommended recommendations upsell crosssell similar sponsored recently carousel "
    "comments sidebar bundle also alsobought bought together accessories footer popular trending "
    "newsletter".split()
)
_FRAME = frozenset({"nav", "footer", "aside"})
_BUTTON = frozenset({"button"})
_NUMBERS = re.compile(r"(?<=\d)\n(?=\d)")  # on two lines
_PARTS = re.compile(r"\s+(?:[|/\u00b7\u2022\u2013\u2014\u00bb:-]|::)\s+")


@frozen
class Candidate:
    """A possible value as the page writes it, with its origin."""

    #: The value as the page writes it.
    text: str
    #: Name of the origin, such as ``json-ld Product.offers.price``, ``meta og:title``
    #: or ``table row 3``.
    source: str
    #: Confidence between 0 and 1.
    trust: float = 0.5
    #: The element that contains the value, if known.
    element: Any = None
    #: Pieces of the value, such as list items or links.
    parts: tuple[str, ...] = ()


@define(eq=False)
class Scope:
    """The elements of a thing: the whole page, a record of a list or a table row."""

    #: The lines of the whole page.
    reading: VisibleText
    #: The top elements of the scope.
    elements: tuple[Any, ...]
    #: Name of the scope in the origins of its values.
    name: str = ""
    #: Cells of a table row by the words of their column.
    cells: dict[str, Any] = field(factory=dict)
    #: Structured data about the thing.
    node: NodeT | None = None
    #: True for the whole page.
    is_page: bool = False
    #: Titles of the page other than its headings.
    titles: tuple[str, ...] = ()
    #: Cache of :func:`~scraper_service.content.structured_data.unlabelled.digit_texts`.
    digit_texts: list[tuple[str, Any]] | None = None
    #: Cache of the main heading; empty before the first search.
    heading: list[Any] = field(factory=list)
    _ranges: list[tuple[int, int]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        order, last = self.reading.order, self.reading.last
        self._ranges = [(order[e], last[e]) for e in self.elements if e in order]

    @cached_property
    def lines(self) -> list[TextLine]:
        """The lines of all elements, each once: inline elements may share a line."""
        spans = map(self.reading.span, self.elements)
        lines = (line for a, b in spans for line in self.reading.lines[a:b])
        return list(dict.fromkeys(lines))

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)

    def holds(self, element: Any) -> bool:
        """Return True if an element is inside the scope."""
        number = self.reading.order.get(element, -1)
        return any(a <= number <= b for a, b in self._ranges)

    def all(self, *tags: str) -> Iterator[Any]:
        """Yield the elements with these tags, in document order."""
        for element in self.elements:
            for found in element.iter(*tags):
                if found in self.reading.order:
                    yield found

    def elements_named(self, words: tuple[str, ...]) -> Iterator[Any]:
        """Yield the elements that have a name with all these words.

        Names are classes, ids and similar attributes.
        """
        for first, last in self._ranges if words else ():
            for element in self.reading.with_word(words[0], first, last):
                if len(words) == 1 or _has_name(element, set(words)):
                    yield element

    def labelled_values(self, phrase: str) -> Iterator[Candidate]:
        """Yield the values after a label with these words."""
        numbers = self.reading.labels.get(phrase, [])
        chosen: list[int] = []
        for start, end in map(self.reading.span, self.elements):
            first, last = bisect_left(numbers, start), bisect_right(numbers, end - 1)
            chosen += numbers[first:last]
        for number in chosen[:MAX_LABELS]:
            yield from self._behind_label(self.reading.lines[number], phrase)

    def _behind_label(self, line: TextLine, phrase: str) -> Iterator[Candidate]:
        """Yield the value on the line of a label, or next to it."""
        penalty = _FRAME_PENALTIES.get(line.frame, 0.0)
        head, colon, tail = line.text.partition(":")
        cell = None if tail.strip() else self.reading.header_cell(line.block)
        if cell is not None:
            yield from self._column(cell, phrase, 0.92 - penalty)
            return
        if (inline := _value_after_inline_label(line, phrase, penalty)) is not None:
            yield inline
            return
        if colon and tail.strip() and phrase_of(head) == phrase:
            text = _NEXT_LABEL.split(tail.strip())[0]
            source, links = f'label "{head.strip()}"', _links(line.parts[1:])
            yield Candidate(text, source, 0.9 - penalty, line.block, links)
        elif phrase_of(line.text) == phrase:
            yield from self._beside_label(line, penalty)

    def _column(self, header: Any, phrase: str, trust: float) -> Iterator[Candidate]:
        """Yield the cells below a header cell as parts; a page's only cell is the value."""
        below, source = self.reading.columns[header], f'column "{phrase}"'
        if len(below) == 1 and self.is_page:
            yield self.of(below[0], source, trust)
        elif below:
            parts = tuple(map(self.reading.text, below))
            yield Candidate("", source, trust, header, parts)

    def _beside_label(self, line: TextLine, penalty: float) -> Iterator[Candidate]:
        """Yield the value in the next cell, or above or below a label on its own line."""
        label = f'"{line.text.rstrip(":").strip()}"'
        holders = [line.block, *line.block.iterancestors()][:4]
        for holder in (e for e in holders if e.tag in {"td", "th", "dt"}):
            kind, tags = "table row", {"td", "th"}
            if holder.tag == "dt":
                kind, tags = "definition", {"dd"}
            for value in holder.itersiblings():
                if value.tag not in tags:
                    break
                yield self.of(value, f"{kind} {label}", 0.92 - penalty)
                if kind == "table row":
                    break
            return
        lines, number = self.reading.lines, line.number
        colon = line.text.rstrip().endswith(":")
        for following in lines[number + 1 : number + 2]:
            is_other = following.heading >= line.heading > 0 < following.heading
            if not is_other and (line.heading or self._are_near(line, following)):
                trust = 0.85 if colon else 0.7 if line.heading else 0.6
                source = f"label {label}" if colon else f"text below {label}"
                text, links = following.text, _links(following.parts)
                yield Candidate(text, source, trust - penalty, following.block, links)
        if not colon and not line.heading and number:
            before = lines[number - 1]
            if self._are_near(line, before):
                source = f"text above {label}"
                yield Candidate(before.text, source, 0.5 - penalty, before.block)

    def of(self, element: Any, source: str, trust: float) -> Candidate:
        """Return the text of an element, with its lines or links as parts."""
        start, end = self.reading.span(element)
        lines = self.reading.lines[start:end]
        parts = tuple(line.text for line in lines)
        if len(lines) < 2:
            parts = _links(lines[0].parts) if lines else ()
        return Candidate(self.reading.text(element), source, trust, element, parts)

    @staticmethod
    def _are_near(one: TextLine, other: TextLine) -> bool:
        """Return True if the blocks of both lines have a close ancestor in common."""
        above = _up(one.block, NEAR)
        return any(element in above for element in _up(other.block, NEAR))


def _value_after_inline_label(
    line: TextLine, phrase: str, penalty: float
) -> Candidate | None:
    """Return the value after a label that is an element within a line."""
    for number, (part, _) in enumerate(line.parts[:-1]):
        label = " ".join(part.split())
        is_sure = label.endswith(":")
        if phrase_of(label) != phrase or (number and not is_sure):
            continue
        later = range(number + 2, len(line.parts)) if is_sure else ()
        ends = (n for n in later if line.parts[n][0].rstrip().endswith(":"))
        tail = line.parts[number + 1 : next(ends, None)]
        text = join_texts(tail).lstrip(" :\u2013-").rstrip(" ,|")
        if words_of(text) and text[0] not in _SEPARATORS:
            source, trust = f'label "{label.rstrip(":")}"', 0.9 if is_sure else 0.8
            return Candidate(text, source, trust - penalty, line.block, _links(tail))
    return None


def _up(element: Any, count: int) -> list[Any]:
    """Return an element and up to ``count`` ancestors within its list or table."""
    found = [element]
    for parent in element.iterancestors():
        if len(found) > count or parent.tag in {"body", "main", "table", "ul", "ol"}:
            break
        found.append(parent)
    return found


def _links(parts: list[tuple[str, Any]]) -> tuple[str, ...]:
    return tuple(
        " ".join(text.split())
        for text, element in parts
        if text.strip() and any(parent.tag == "a" for parent in _up(element, 2))
    )


def _has_name(element: Any, needed: set[str]) -> bool:
    names = (
        name for value in element.values() if len(value) < 400 for name in value.split()
    )
    return any(needed <= set(words_of(name.replace("-", " "))) for name in names)


def one_line(scope: Scope, element: Any) -> str:
    """Return the text of an element on a single line."""
    text = scope.reading.text(element)
    return collapse(_NUMBERS.sub(GAP, text) if "\n" in text else text)


def heading_text(scope: Scope, heading: Any) -> str:
    """Return the text of a heading on a single line, without buttons next to the text."""
    text = one_line(scope, heading)
    if next(heading.iter("button"), None) is None:
        return text
    start, end = scope.reading.span(heading)
    parts = (part for line in scope.reading.lines[start:end] for part in line.parts)
    return join_texts(p for p in parts if not _is_inside(p[1], _BUTTON)) or text


def named_candidates(scope: Scope, names: str, trust: float) -> Iterator[Candidate]:
    """Yield the elements with a class or id of these names, in the order of the names.

    ``names`` are separated by spaces; a name of several words has hyphens.
    """
    for name in names.split():
        for element in scope.elements_named(tuple(name.split("-"))):
            text = one_line(scope, element)
            yield Candidate(text, f"element named {name}", trust, element)


def main_heading(scope: Scope) -> Any:
    """Return the page's main heading, None without a heading.

    Of several headings, the heading most similar to the page's title wins. A heading of
    level 2 needs a similarity of at least ``ENOUGH_SHARED``.
    """
    if not scope.heading:
        scope.heading = [_main_heading(scope)]
    return scope.heading[0]


def _main_heading(scope: Scope) -> Any:
    texts = (part for title in scope.titles for part in (title, longest_part(title)))
    parts = [set(words_of(text)) for text in texts]
    best, most = None, 0.0
    for tag, least in (("h1", 0.0), ("h2", ENOUGH_SHARED)):
        for heading in scope.all(tag):
            text = one_line(scope, heading)
            if len(text) < 2 or _is_inside(heading, _FRAME | {"dialog"}):
                continue
            words = set(words_of(text))
            similarity = max((_similarity(words, part) for part in parts), default=0.0)
            is_first = best is None and tag == "h1"
            if similarity >= least and (is_first or similarity > most):
                best, most = heading, similarity
    return best


def longest_part(title: str) -> str:
    """Return the longest part of a title, usually the title without the site's name."""
    return max(_PARTS.split(title), key=len)


def _similarity(words: set[str], others: set[str]) -> float:
    shared = len(words & others)
    return shared / max(1, len(words) + len(others) - shared)


def around_heading(scope: Scope) -> Scope | None:
    """Return the elements next to the main heading, None without a heading.

    These elements often show the author, the date and counts. Those with entries of
    a list, such as teasers, are left out.
    """
    heading = main_heading(scope)
    if heading is None:
        return None
    reading = scope.reading
    start, end = reading.span(heading)
    found: list[Any] = [heading]
    element, level = heading, 0
    while element is not None and element.tag not in {"body", "main"}:
        found += [
            other
            for other in element.itersiblings()
            if other in reading.order
            and reading.span(other)[1] <= end + LEAD_LINES
            and reading.entries.of_lists.isdisjoint(other.iter())
        ]
        before = element.itersiblings(preceding=True) if level < LEAD_LEVELS else ()
        for other in before:
            if (
                other in reading.order
                and reading.span(other)[0] >= start - LINES_BEFORE
            ):
                found.insert(0, other)
        element, level = element.getparent(), level + 1
    return Scope(reading, tuple(found), "next to the heading")


def is_foreign(element: Any) -> bool:
    """Return True if an element belongs to the page's frame or to other things."""
    return _is_inside(element, _FRAME) or is_apart(element)


def _is_inside(element: Any, tags: frozenset[str]) -> bool:
    return any(parent.tag in tags for parent in (element, *element.iterancestors()))


def is_apart(element: Any) -> bool:
    """Return True if an element belongs to other things, such as related products."""
    for parent in (element, *element.iterancestors()) if element is not None else ():
        if parent.tag in {"body", "main"}:
            return False
        names = f"{parent.get('class') or ''} {parent.get('id') or ''}"[:MAX_NAMES]
        if not _FOREIGN.isdisjoint(words_of(names.replace("-", " "))):
            return True
    return False


# -- input and result ------------------------------------------------------------------


class ExtractionPage:
    """A page for extraction: its declared data and its tree.

    Create it *before* the page is cleaned, because cleaning removes
    declared data. Pass it to ``extract`` *after* cleaning and after the caller's tags
    are left out, but before the tree is reduced to its main content. ``known`` contains
    the page's metadata by internal names. It and ``evidence`` are by default made from
    the document.
    """

    def __init__(
        self,
        document: Document,
        evidence: Evidence | None = None,
        known: Mapping[str, Any] | None = None,
    ):
        self.document = document
        self.evidence = evidence or Evidence(document)
        self.known = known or metadata(self.evidence)[0]
        self.graph = Graph(self.evidence)

    @property
    def base_url(self) -> str:
        """The base URL of the page's relative links."""
        return self.document.base

    @property
    def host(self) -> str:
        return url_parts(self.base_url).hostname or ""

    @cached_property
    def is_of_a_product(self) -> bool:
        """True if the page declares that it is about a product."""
        is_marked = self.evidence.first("og:type").startswith("product")
        is_marked = is_marked or bool(self.evidence.first("product:price:amount"))
        return is_marked or any(node.rank == 0 for node in self.graph.nodes[:1])

    @cached_property
    def scope(self) -> Scope:
        """The whole page, in its state at the first access."""
        body = self.document.body
        found = [self.evidence.first("og:title"), self.evidence.title]
        found += [
            plain(n.data.get("headline") or n.data.get("name"))
            for n in self.graph.nodes[:3]
        ]
        titles = tuple(title for title in found if title)
        return Scope(VisibleText(body), (body,), "page", is_page=True, titles=titles)

    @cached_property
    def typing(self) -> Typing:
        language = self.known.get("language")
        return Typing(self.base_url, self.host, str(language or ""))


@frozen
class Extraction:
    """The result for a schema or a prompt."""

    #: JSON data in the shape of the schema.
    data: Any
    #: JSON pointers of required fields without a value; they are null in ``data``.
    missing: tuple[str, ...] = ()
    #: Sentences for the caller about parts that were not searched or not understood.
    warnings: tuple[str, ...] = ()
    #: Names of the other fields without a value.
    unfound: tuple[str, ...] = ()


@frozen
class Value:
    """A part of a result."""

    #: JSON data.
    data: Any
    #: JSON pointers into ``data`` of required fields without a value.
    missing: tuple[str, ...] = ()

    @classmethod
    def empty(cls, kind: str) -> Self:
        """Return the result for a schema of this type without any value."""
        if kind in {"array", "object"}:
            return cls([] if kind == "array" else {})
        return cls(None, ("",))

    @classmethod
    def of_object(cls, field: Field, values: Mapping[str, Value | None]) -> Self:
        """Return an object with the values of a field's properties, by name."""
        data: dict[str, Any] = {}
        missing: list[str] = []
        for below in field.properties:
            found = values[below.name]
            pointer = f"/{below.name.replace('~', '~0').replace('/', '~1')}"
            if found is not None:
                data[below.name] = found.data
                missing += [pointer + p for p in found.missing]
            elif below.required:
                data[below.name] = None
                missing.append(pointer)
        return cls(data, tuple(missing))
