"""The visible texts of a page in one walk: its lines, and what its elements are called.

A line is what stands between two borders of blocks, as a reader sees it. Elements and
lines are numbered in document order, so that a part of the page is a range of both.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from scraper_service.content.html.tags import BLOCKS
from scraper_service.content.structured_data.fields.concepts import words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_ELEMENTS = 60_000  # looked at
MAX_TEXT = 20_000  # characters of one value
MAX_LABEL = 60  # characters
MAX_LABEL_WORDS = 7
MAX_NAMES = 300  # characters of a class attribute

_UNSEEN = frozenset(
    "script style template noscript head title select datalist textarea svg option".split()
)
_INLINE = frozenset(
    "b i em strong code u s sup sub mark font abbr tt kbd q cite var".split()
)
_STYLE = re.compile(
    r"(?:justify|align|text|font|bg|border|flex|items|d|g|w|h|m[trblxy]?|p[trblxy]?|col|row|u|is|has"
    r"|min|max|gap|grid|overflow|content)-(?!body$|wrapper$)"
)  # names of classes that tell how something looks
_DIGIT = re.compile(r"\d")
_MARKS = frozenset(
    "\u00b6 # \u00a7 \U0001f517".split()
)  # links of headings to themselves
_SILENT = _UNSEEN - {"option"}
_FRAME = frozenset({"nav", "footer", "aside", "header"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_NAMING = (
    "class",
    "itemprop",
    "id",
    "data-testid",
    "data-test",
    "rel",
    "data-qa",
    "name",
)


@define(eq=False)
class Line:
    """A line of text; ``parts`` are its texts with the element each stands in.

    ``block`` is the innermost block around it, ``heading`` its level or 0. ``frame`` is
    the name of the part of the page's frame that it stands in (``nav`` ...), or empty.
    """

    number: int
    block: Any
    heading: int
    frame: str
    parts: list[tuple[str, Any]] = field(factory=list)
    text: str = ""
    has_digits: bool = False

    def seal(self) -> None:
        self.text = joined(self.parts)
        self.has_digits = _DIGIT.search(self.text) is not None


class Reading:
    """All lines of a tree, the ranges of its elements, and an index of their names."""

    def __init__(self, body: Any):
        self.body = body
        self.lines: list[Line] = []
        self.order: dict[Any, int] = {}  # number of the element
        self.last: dict[Any, int] = {}  # number of the last one inside
        self.first_line: dict[Any, int] = {}
        self.end_line: dict[Any, int] = {}  # the one after
        self.elements: list[Any] = []
        self.named: dict[str, list[int]] = {}  # by a word of a class or the like
        self.labels: dict[str, list[int]] = {}  # lines and parts by their words
        self.is_cut = False
        _Walk(self).run()
        self._index()

    def _index(self) -> None:
        for number, line in enumerate(self.lines):
            line.number = number
            for label in labels_of(line):
                self.labels.setdefault(label, []).append(number)

    # -- asking ----------------------------------------------------------------------

    def span(self, element: Any) -> tuple[int, int]:
        """Return the numbers of the first line of an element, and the one after."""
        return self.first_line.get(element, 0), self.end_line.get(element, 0)

    def text(self, element: Any) -> str:
        """Return the lines of an element."""
        start, end = self.span(element)
        if end - start <= 1:
            return joined(_texts(element))[:MAX_TEXT]
        return "\n".join(line.text for line in self.lines[start:end])[:MAX_TEXT]

    def with_word(self, word: str, first: int, last: int) -> Iterator[Any]:
        """Yield the elements of a range whose names have a word."""
        found = self.named.get(word, ())
        for place in range(bisect_left(found, first), bisect_right(found, last)):
            yield self.elements[found[place]]


@frozen
class _Where:
    """The block that texts belong to, the level of the heading it is in, its frame."""

    block: Any
    heading: int = 0
    frame: str = ""

    def inside(self, block: Any) -> _Where:
        tag = block.tag
        frame = (
            tag if tag in _FRAME and not (tag == "header" and _is_inner(block)) else ""
        )
        return _Where(block, _HEADINGS.get(tag, self.heading), self.frame or frame)


class _Walk:
    """Goes through a tree once, to fill a :class:`Reading`."""

    def __init__(self, reading: Reading):
        self.reading = reading
        where = _Where(reading.body)
        self.line = Line(0, where.block, 0, "")

    def run(self) -> None:
        self._element(self.reading.body, _Where(self.reading.body))
        self._break(_Where(self.reading.body))

    def _element(self, element: Any, where: _Where) -> None:
        """Take an element; trees are at most ``MAX_DEPTH`` deep, see ``document.py``."""
        reading = self.reading
        is_block = element.tag in BLOCKS
        inner = where.inside(element) if is_block else where
        if is_block:
            self._break(inner)  # before it begins, so that its lines are its own
        self._enter(element)
        if element.tag in _UNSEEN:
            for option in element.iter("option") if element.tag == "select" else ():
                self._enter(option)
                self._leave(option)
        else:
            if element.text not in _MARKS:
                self._text(element.text, element)
            for child in element:
                self._child(child, element, inner)
            if is_block:
                self._break(inner)
                self._leave(element)
                self._break(where)
                return
        self._leave(element)
        reading.end_line[element] += bool(self.line.parts)

    def _child(self, child: Any, parent: Any, where: _Where) -> None:
        if isinstance(child.tag, str):
            if child.tag == "br":
                self._break(where)
            elif len(self.reading.elements) < MAX_ELEMENTS:
                self._element(child, where)
            else:
                self.reading.is_cut = True
        self._text(child.tail, parent)

    def _enter(self, element: Any) -> None:
        reading = self.reading
        number = reading.order[element] = len(reading.elements)
        reading.first_line[element] = len(reading.lines)
        reading.elements.append(element)
        attributes = element.attrib
        for name in _NAMING if attributes else ():
            if value := attributes.get(name):
                for word in _name_words(value[:MAX_NAMES]):
                    reading.named.setdefault(word, []).append(number)

    def _leave(self, element: Any) -> None:
        self.reading.last[element] = len(self.reading.elements) - 1
        self.reading.end_line[element] = len(self.reading.lines)

    def _text(self, text: str | None, element: Any) -> None:
        if text and not text.isspace():
            self.line.parts.append((text, element))

    def _break(self, where: _Where) -> None:
        """End the line, and begin one in ``where``."""
        lines = self.reading.lines
        if self.line.parts:
            self.line.seal()
            if self.line.text:
                lines.append(self.line)
        self.line = Line(len(lines), where.block, where.heading, where.frame)


def joined(parts: Iterable[tuple[str, Any]]) -> str:
    """Return texts as one, with a space where elements part two words."""
    pieces: list[str] = []
    before: Any = None
    for text, element in parts:
        if before is not None and not _is_glued(pieces[-1], before, text, element):
            pieces.append(" ")
        pieces.append(text)
        before = element
    return " ".join("".join(pieces).split())


def _texts(element: Any) -> Iterator[tuple[str, Any]]:
    """Yield the texts of an element in their order, with the element each stands in."""
    if element.text and element.text not in _MARKS:
        yield element.text, element
    for child in element:
        if isinstance(child.tag, str) and child.tag not in _SILENT:
            yield from _texts(child)
        if child.tail:
            yield child.tail, element


def _is_glued(text: str, element: Any, following: str, other: Any) -> bool:
    """Tell whether two texts are parts of a word; elements without style part words."""
    if text[-1:].isspace() or following[:1].isspace():
        return True
    if following[0] in ".,;:!?)]%\u2019'@/" or text[-1] in "([$€£@/'#":
        return True
    return element.tag in _INLINE and other.tag in _INLINE | BLOCKS


@lru_cache(maxsize=10_000)
def _name_words(names: str) -> tuple[str, ...]:
    kept = (name for name in names.split() if not _STYLE.match(name))
    return tuple(dict.fromkeys(words_of(" ".join(kept).replace("-", " "))))


def _is_inner(header: Any) -> bool:
    """Tell whether a ``header`` is that of an article, and not the page's."""
    return any(
        parent.tag in {"article", "main", "section", "li"}
        for parent in header.iterancestors()
    )


def labels_of(line: Line) -> Iterator[str]:
    """Yield the words of a line's beginning, each way that it may be a label."""
    text = line.text
    head, colon, rest = text.partition(":")
    if not colon:
        head, colon, rest = text.partition("\uff1a")
    if colon and len(head) <= MAX_LABEL and not rest.startswith("//"):
        words = words_of(head)
        if 0 < len(words) <= MAX_LABEL_WORDS:
            yield " ".join(words)
    for number, (part, _) in enumerate(line.parts[:-1]):
        first = " ".join(part.split())
        if number and not first.endswith((":", "\uff1a")):
            continue
        if 0 < len(first) <= MAX_LABEL:
            words = words_of(first)
            if 0 < len(words) <= MAX_LABEL_WORDS:
                yield " ".join(words)
    if len(text) <= MAX_LABEL and not (colon and rest.strip()):
        words = words_of(text)
        if 0 < len(words) <= MAX_LABEL_WORDS:
            yield " ".join(words)
