"""A part of a page, and the labelled values in it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from scraper_service.content.structured_data.fields.concepts import words_of
from scraper_service.content.structured_data.sources.nodes import NodeT
from scraper_service.content.structured_data.sources.reading import (
    MAX_LABEL,
    Line,
    Reading,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


_NEXT_LABEL = re.compile(r"\s(?=[A-Z][\w]*(?: \w+){0,2}: )")
# How much less is trusted what stands in the frame of a page.
_SHADES = {"nav": 0.35, "aside": 0.2, "header": 0.1, "footer": 0.1}
NEAR = 4  # elements up to one that holds a label and its value


@frozen
class Found:
    """A value as it stands on the page, and where.

    ``parts`` are its pieces where it has some (items of a list, links); ``trust`` is
    between 0 and 1.
    """

    text: str
    source: str
    trust: float = 0.5
    element: Any = None
    parts: tuple[str, ...] = ()


@define(eq=False)
class Scope:
    """The elements of one thing: the whole page, a record of a list, a table's row.

    ``cells`` are those of a table's row by the words of their column, ``node`` is what
    the page's structured data say of the thing.
    """

    reading: Reading
    elements: tuple[Any, ...]
    name: str = ""
    cells: dict[str, Any] = field(factory=dict)
    node: NodeT | None = None
    syntax: str = ""
    is_page: bool = False
    is_titled: bool = False  # whether its title is asked for by another field
    is_listing: bool = False  # whether things of the page are asked for, too
    titles: tuple[str, ...] = ()  # that a page has beside its headings
    told: list[tuple[str, Any]] | None = None  # texts with digits, see places.py
    heading: list[Any] = field(factory=list)  # the main one, when it was looked for
    _ranges: list[tuple[int, int]] = field(init=False)
    _lines: list[Line] | None = None

    def __attrs_post_init__(self) -> None:
        order, last = self.reading.order, self.reading.last
        self._ranges = [(order[e], last[e]) for e in self.elements if e in order]

    @property
    def lines(self) -> list[Line]:
        """The lines of all its elements."""
        if self._lines is None:
            if self.is_page:
                self._lines = self.reading.lines
            else:
                found: list[Line] = []
                for element in self.elements:
                    start, end = self.reading.span(element)
                    found += self.reading.lines[start:end]
                self._lines = found
        return self._lines

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)

    def holds(self, element: Any) -> bool:
        place = self.reading.order.get(element)
        return place is not None and any(a <= place <= b for a, b in self._ranges)

    def all(self, *tags: str) -> Iterator[Any]:
        """Yield the elements with one of these tags, in document order."""
        for element in self.elements:
            for found in element.iter(*tags):
                if found in self.reading.order:
                    yield found

    def named(self, words: tuple[str, ...]) -> Iterator[Any]:
        """Yield the elements one of whose names has all these words."""
        if not words:
            return
        wanted = set(words)
        rarest = min(words, key=lambda w: len(self.reading.named.get(w, ())))
        for first, last in self._ranges:
            for element in self.reading.with_word(rarest, first, last):
                if len(words) == 1 or _has_name(element, wanted):
                    yield element

    def labelled(self, phrase: str) -> Iterator[Found]:
        """Yield the values that stand behind a label of these words."""
        numbers = self.reading.labels.get(phrase, ())
        if self.is_page:
            chosen = list(numbers)
        else:
            chosen = []
            for element in self.elements:
                start, end = self.reading.span(element)
                chosen += numbers[
                    bisect_left(numbers, start) : bisect_right(numbers, end - 1)
                ]
        for number in chosen[:40]:
            yield from self._behind(self.reading.lines[number], phrase)

    def _behind(self, line: Line, phrase: str) -> Iterator[Found]:
        """Yield what a line with a label, or what stands behind it, says."""
        shade = _SHADES.get(line.frame, 0.0)
        head, colon, rest = line.text.partition(":")
        if not colon:
            head, colon, rest = line.text.partition("\uff1a")
        if (inside := _inside(line, phrase, shade)) is not None:
            yield inside
            return
        if colon and rest.strip() and " ".join(words_of(head)) == phrase:
            text = _NEXT_LABEL.split(rest.strip())[0]
            label = f'label "{head.strip()}"'
            yield Found(text, label, 0.9 - shade, *_rest(line, head))
            return
        if " ".join(words_of(line.text)) != phrase:
            return
        label = f'"{line.text.rstrip(":").strip()}"'
        yield from self._beside(line, label, shade)

    def _beside(self, line: Line, label: str, shade: float) -> Iterator[Found]:
        """Yield what stands in the next cell, or below a label that has its own line."""
        block = line.block
        holder = block
        for _ in range(4):
            if holder is None or holder.tag in {"td", "th", "dt"}:
                break
            holder = holder.getparent()
        tag = holder.tag if holder is not None else ""
        if tag == "dt":
            for value in holder.itersiblings():
                if value.tag != "dd":
                    break
                yield self.of(value, f"definition {label}", 0.92 - shade)
            return
        if tag in {"td", "th"}:
            value = holder.getnext()
            if value is not None and value.tag in {"td", "th"}:
                yield self.of(value, f"table row {label}", 0.92 - shade)
            return
        colon = line.text.rstrip().endswith((":", "\uff1a"))
        trust = 0.85 if colon else 0.7 if line.heading else 0.6
        if (following := self._next(line)) is not None:
            yield Found(
                following.text,
                f"text below {label}" if not colon else f"label {label}",
                trust - shade,
                following.block,
                _links(following),
            )
        if not colon and not line.heading and line.number:
            before = self.reading.lines[line.number - 1]
            if self._are_near(line.block, before.block):
                yield Found(
                    before.text, f"text above {label}", 0.5 - shade, before.block
                )

    def of(self, element: Any, source: str, trust: float) -> Found:
        """Return the text of an element, its items and links as parts."""
        start, end = self.reading.span(element)
        lines = self.reading.lines[start:end]
        text = "\n".join(line.text for line in lines)
        if not text:
            text = self.reading.text(element)
        parts = tuple(line.text for line in lines) if len(lines) > 1 else ()
        if not parts and lines:
            parts = _links(lines[0])
        return Found(text, source, trust, element, parts)

    def _next(self, line: Line) -> Line | None:
        number = line.number + 1
        if number >= len(self.reading.lines):
            return None
        following = self.reading.lines[number]
        if following.heading and following.heading >= line.heading > 0:
            return None
        if line.heading or self._are_near(line.block, following.block):
            return following
        return None

    def _are_near(self, one: Any, other: Any) -> bool:
        """Tell whether two blocks have an element in common that is near to both."""
        above = [one, *_up(one, NEAR)]
        return any(element in above for element in [other, *_up(other, NEAR)])


def _inside(line: Line, phrase: str, shade: float) -> Found | None:
    """Return what stands behind a label that is an element within a line."""
    for number, (part, _) in enumerate(line.parts[:-1]):
        label = " ".join(part.split())
        if len(label) > MAX_LABEL or " ".join(words_of(label)) != phrase:
            continue
        is_sure = label.endswith((":", "\uff1a"))
        if number and not is_sure:
            continue
        rest: list[tuple[str, Any]] = []
        for text, element in line.parts[number + 1 :]:
            if (
                is_sure
                and rest
                and text.rstrip().endswith(":")
                and len(text) <= MAX_LABEL
            ):
                break
            rest.append((text, element))
        text = " ".join(
            "".join(t if t[:1].isspace() else f" {t}" for t, _ in rest).split()
        )
        if number == 0 and len(rest) == len(line.parts) - 1:
            text = line.text[len(label) :]
        text = text.lstrip(" :\uff1a\u2013-").rstrip(" ,|")
        if text and words_of(text):
            links = tuple(
                t for t in (" ".join(t.split()) for t, e in rest if _is_linked(e)) if t
            )
            trust = 0.9 if is_sure else 0.8
            return Found(
                text, f'label "{label.rstrip(":")}"', trust - shade, line.block, links
            )
    return None


def _up(element: Any, count: int) -> list[Any]:
    found: list[Any] = []
    for parent in element.iterancestors():
        if len(found) >= count or parent.tag in {"body", "main", "table", "ul", "ol"}:
            break
        found.append(parent)
    return found


def _rest(line: Line, head: str) -> tuple[Any, tuple[str, ...]]:
    """Return the element and the links of a line behind its label."""
    return line.block, _links(line, skip=head)


def _links(line: Line, skip: str = "") -> tuple[str, ...]:
    """Return the texts of the links of a line, where it has several things in it."""
    found: list[str] = []
    for text, element in line.parts:
        plain = " ".join(text.split())
        is_other = plain and plain.rstrip(":") != skip.strip().rstrip(":")
        if is_other and _is_linked(element):
            found.append(plain)
    return tuple(found)


def _is_linked(element: Any) -> bool:
    return element.tag == "a" or any(parent.tag == "a" for parent in _up(element, 2))


def _has_name(element: Any, wanted: set[str]) -> bool:
    """Tell whether one of an element's names has all these words."""
    for value in element.values():
        if len(value) < 400 and any(
            wanted <= set(words_of(name.replace("-", " "))) for name in value.split()
        ):
            return True
    return False
