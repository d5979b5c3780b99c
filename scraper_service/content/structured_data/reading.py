"""The visible lines of a page and the names of its elements, read in a single walk.

A line is the text between two borders of blocks, as a reader sees it. Elements and
lines are numbered in document order, so a part of the page is a range of numbers.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attrs import define, field

from scraper_service.content.html.document import BLOCKS
from scraper_service.content.markdown.writer import data_rows
from scraper_service.content.metadata.marks import Entries
from scraper_service.content.structured_data.requested_fields import phrase_of, words_of
from scraper_service.content.structured_data.values import GAP, SYMBOL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_ELEMENTS = 60_000  # elements that are read
MAX_TEXT = 20_000  # characters of a value
MAX_LABEL = 60  # characters
MAX_LABEL_WORDS = 7
MAX_NAMES = 300  # characters of a class attribute
MAX_TABLES = 60
MAX_PRICE = 30  # characters of a number and its currency

_SILENT = frozenset(
    "script style template noscript head title select datalist textarea svg".split()
)
_INLINE = frozenset(
    "b i em strong code u s sup sub mark font abbr tt kbd q cite var".split()
)
_STYLE = re.compile(
    r"(?:justify|align|text|font|bg|border|flex|items|d|g|w|h|m[trblxy]?|p[trblxy]?|col|row|u|is|has"
    r"|min|max|gap|grid|overflow|content)-(?!body$|wrapper$)"
)  # class names for layout and style
_HEADS = frozenset("head header heading headings".split())  # classes of a row
_BOLD = frozenset({"b", "strong"})
_DIGIT = re.compile(r"\d")
_MARKS = frozenset("¶ # § \U0001f517".split())  # links from a heading to itself
_FRAME = frozenset({"nav", "footer", "aside", "header"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
# The end of a text with a number; a currency or a decimal mark may follow the number.
_NUMBER_END = re.compile(r"(?P<number>\d(?:[\d.,]*\d)?)(?P<end>[.,€$£]?)$")
_PRICE_END = re.compile(rf"{SYMBOL}\s?\d[\d.,]*$|\d[€$£]$")
_PRICE_START = re.compile(rf"\s*{SYMBOL}")
_BARE = re.compile(r"[^\w\s]?\d[\d.,]*[.,]")
_CENTS = re.compile(r"\d\d(?!\d)")
_CENT_NAMES = frozenset("cent cents fraction fractional decimal decimals".split())
_NAMING = "class itemprop id data-testid data-test rel data-qa name".split()


@define(eq=False)
class TextLine:
    """A line of text."""

    #: Position among the lines of the page.
    number: int
    #: Innermost block around the line.
    block: Any
    #: Level of the surrounding heading, 0 without a heading.
    heading: int = 0
    #: Tag of the surrounding frame of the page, such as ``nav``, or empty.
    frame: str = ""
    #: Texts of the line, each with its element.
    parts: list[tuple[str, Any]] = field(factory=list)
    #: Joined text of the line.
    text: str = ""
    #: True if the text has digits.
    has_digits: bool = False


class VisibleText:
    """All lines of a tree, the ranges of its elements and an index of their names."""

    def __init__(self, body: Any):
        self.body = body
        self.entries = Entries(body)
        self.lines: list[TextLine] = []
        self.order: dict[Any, int] = {}  # number of each element
        self.last: dict[Any, int] = {}  # number of the last element inside
        self.spans: dict[Any, tuple[int, int]] = {}
        self.elements: list[Any] = []
        self.named: dict[str, list[int]] = {}  # elements by the words of their names
        self.labels: dict[str, list[int]] = {}  # lines by the phrases of their labels
        #: Tables with a header, the phrases of their columns, and their rows of cells.
        self.tables: list[tuple[Any, tuple[str, ...], list[list[Any]]]] = []
        #: The cells below each cell of a header. Its other cells and rows have none.
        self.columns: dict[Any, list[Any]] = {}
        self.is_cut = False
        self._line = TextLine(0, body)
        self._walk(body, self._line)
        self._break(self._line)
        for line in self.lines:
            for label in dict.fromkeys(labels_of(line)):
                self.labels.setdefault(label, []).append(line.number)

    def span(self, element: Any) -> tuple[int, int]:
        """Return the range of an element's lines: its first number and its end."""
        return self.spans.get(element, (0, 0))

    def text(self, element: Any) -> str:
        """Return the text of an element with its line breaks."""
        start, end = self.span(element)
        if end - start <= 1:
            return join_texts(_texts(element))[:MAX_TEXT]
        return "\n".join(line.text for line in self.lines[start:end])[:MAX_TEXT]

    def read_tables(self, requested: frozenset[str]) -> None:
        """Find the tables with a header. ``requested`` are phrases of fields."""
        self.tables, self.columns = [], {}
        for table in list(self.body.iter("table"))[:MAX_TABLES]:
            grid = data_rows(table, repeat=True) if table in self.order else None
            grid = [row for row in grid or () if any(c is not None for c in row)]
            others = (n for n, row in enumerate(grid) if not is_header(row))
            count = int(next(others, len(grid) == 1))
            if not count and not (grid and self._has_header(grid, requested)):
                continue
            count = count or 1
            heads = [row for n, row in enumerate(grid) if n < count or is_header(row)]
            for cell in (c for row in heads for c in row if c is not None):
                self.columns[cell] = self.columns[cell.getparent()] = []
            texts = [self._cell_texts(row) for row in grid]
            header, names = grid[count - 1], tuple(map(phrase_of, texts[count - 1]))
            rows = [
                row
                for row, own in zip(grid[count:], texts[count:], strict=True)
                if sum(map(bool, own)) >= min(2, len(own)) and row not in heads
                if tuple(map(phrase_of, own)) != names
            ]
            for number, cell in enumerate(header):
                if cell is not None and not cell.get("colspan"):
                    below = (row[number] for row in rows if row[number] is not None)
                    self.columns[cell] = [c for c in below if self.text(c)]
            self.tables.append((table, names, rows))

    def _cell_texts(self, row: list[Any]) -> list[str]:
        return ["" if cell is None else self.text(cell) for cell in row]

    def _has_header(self, grid: list[list[Any]], requested: frozenset[str]) -> bool:
        """Return True if a row without header cells is a header by its texts or style."""
        first, *rows = map(self._cell_texts, grid)
        is_short = all(0 < len(text) <= MAX_LABEL for text in first)
        if not rows or not is_short or len(set(first)) < max(2, len(first)):
            return False
        if sum(phrase_of(text) in requested for text in first) > 1:
            return True
        row = grid[0][0].getparent()
        if not _HEADS.isdisjoint(name_words((row.get("class") or "")[:MAX_NAMES])):
            return True
        if all(map(_is_bold, grid[0])):
            return not all(map(_is_bold, grid[1]))
        columns = zip(*rows, strict=True) if len(rows) > 1 and len(first) > 2 else ()
        is_of_words = not any(map(_DIGIT.search, first))
        return is_of_words and any(all(map(_DIGIT.search, c)) for c in columns)

    def header_cell(self, element: Any) -> Any:
        """Return the header cell of a table around an element, None elsewhere."""
        above = [element, *element.iterancestors()][:4]
        return next((e for e in above if e in self.columns), None)

    def with_word(self, word: str, first: int, last: int) -> Iterator[Any]:
        """Yield the elements of a range that have the word in a name."""
        found = self.named.get(word, ())
        for number in range(bisect_left(found, first), bisect_right(found, last)):
            yield self.elements[found[number]]

    def _walk(self, element: Any, around: TextLine) -> None:
        """Read an element and its descendants; ``around`` is a line like its own.

        Trees are at most ``MAX_DEPTH`` deep, see ``content/html/document.py``.
        """
        tag, inner = element.tag, around
        if is_block := tag in BLOCKS:
            is_frame = tag in _FRAME and not (tag == "header" and _is_inner(element))
            frame = around.frame or (tag if is_frame else "")
            inner = TextLine(0, element, _HEADINGS.get(tag, around.heading), frame)
            self._break(inner)  # a block starts on a line of its own
        first = len(self.lines)
        self._enter(element)
        if tag not in _SILENT:
            if element.text not in _MARKS:
                self._add(element.text, element)
            for child in element:
                self._child(child, element, inner)
        if is_block:
            self._break(around)
        self.last[element] = len(self.elements) - 1
        end = len(self.lines) + (not is_block and bool(self._line.parts))
        self.spans[element] = first, end

    def _child(self, child: Any, parent: Any, around: TextLine) -> None:
        if child.tag == "br":
            self._break(around)
        elif isinstance(child.tag, str) and child.tag != "option":
            self.is_cut = self.is_cut or len(self.elements) >= MAX_ELEMENTS
            if not self.is_cut:
                self._walk(child, around)
        self._add(child.tail, parent)

    def _enter(self, element: Any) -> None:
        number = self.order[element] = len(self.elements)
        self.elements.append(element)
        attributes = element.attrib
        for name in _NAMING if attributes else ():
            if value := attributes.get(name):
                for word in name_words(value[:MAX_NAMES]):
                    self.named.setdefault(word, []).append(number)

    def _add(self, text: str | None, element: Any) -> None:
        if text and not text.isspace():
            self._line.parts.append((text, element))

    def _break(self, like: TextLine) -> None:
        """End the current line and start a line in the block of another line."""
        line = self._line
        line.text = join_texts(line.parts)
        line.has_digits = any(map(str.isdigit, line.text))
        if line.text:
            self.lines.append(line)
        self._line = TextLine(len(self.lines), like.block, like.heading, like.frame)


def is_header(row: list[Any]) -> bool:
    """Return True if all cells of a row of a table are header cells."""
    cells = [cell for cell in row if cell is not None]
    filled = [cell for cell in cells if len(cell) or (cell.text or "").strip()]
    has_headers = len(filled) > 1 or filled == cells
    is_of_headers = has_headers and all(cell.tag == "th" for cell in filled)
    return is_of_headers or cells[0].getparent().getparent().tag == "thead"


def _is_bold(cell: Any) -> bool:
    return cell is not None and all(
        text.isspace()
        or element.tag in _BOLD
        or next(element.iterancestors(*_BOLD, "tr")).tag in _BOLD
        for text, element in _texts(cell)
    )


def join_texts(parts: Iterable[tuple[str, Any]]) -> str:
    """Join texts, with a space where elements separate two words."""
    known = list(parts)
    pieces = [text for text, _ in known[:1]]
    for number, (text, element) in enumerate(known[1:], 1):
        before, above = known[number - 1]
        after = known[number + 1][0] if number + 1 < len(known) else ""
        mark = number_break(pieces, text, element, after)
        if mark is None:
            mark = "" if _is_glued(before, above, text, element) else " "
        pieces += [mark, text]
    return collapse("".join(pieces))


def collapse(text: str) -> str:
    """Return a text with single spaces; each ``GAP`` stays."""
    return GAP.join(" ".join(part.split()) for part in text.split(GAP))


def number_break(
    texts: list[str], text: str, element: Any, after: str = ""
) -> str | None:
    """Return what separates a number from the number in the element before.

    It is a decimal mark before cents (empty if the mark is there), else ``GAP``; None without
    two numbers. ``text`` is that of ``element``, between ``texts`` and ``after``.
    """
    text = text.lstrip()
    if not text[:1].isdigit():
        return None
    before = "".join(each[-MAX_PRICE:] for each in texts[-4:]).rstrip()
    if not (match := _NUMBER_END.search(before)):
        return None
    if _CENTS.match(text):
        if match["end"] and _BARE.fullmatch(before.split()[-1]):
            return ""  # "19." and "99"
        names = name_words((element.get("class") or "")[:MAX_NAMES])
        is_named = not _CENT_NAMES.isdisjoint(names)
        is_price = _PRICE_END.search(before) or _PRICE_START.match(after)
        if is_named or (element.tag == "sup" and is_price):
            mark = "," if "." in match["number"] else "."
            return "" if match["end"] else mark
    return None if match["end"] else GAP


def _texts(element: Any) -> Iterator[tuple[str, Any]]:
    if element.text and element.text not in _MARKS:
        yield element.text, element
    for child in element:
        if isinstance(child.tag, str) and child.tag not in _SILENT:
            yield from _texts(child)
        if child.tail:
            yield child.tail, element


def _is_glued(text: str, element: Any, following: str, other: Any) -> bool:
    """Return True if two texts belong to the same word.

    Inline style elements do not separate words; other elements do.
    """
    if text[-1:].isspace() or following[:1].isspace():
        return True
    if text[-1] in "$€£" and text[-2:-1].isdigit():
        return False
    if following[0] in ".,;:!?)]%\u2019'@/" or text[-1] in "([$€£@/'#":
        return True
    return element.tag in _INLINE and other.tag in _INLINE | BLOCKS


@lru_cache(maxsize=10_000)
def name_words(names: str) -> tuple[str, ...]:
    """Return the words of class names and ids, without names for style and layout."""
    kept = (name for name in names.split() if not _STYLE.match(name))
    return tuple(dict.fromkeys(words_of(" ".join(kept).replace("-", " "))))


def _is_inner(header: Any) -> bool:
    """Return True if a ``header`` belongs to a part of the page, such as an article."""
    return (
        next(header.iterancestors("article", "main", "section", "li"), None) is not None
    )


def labels_of(line: TextLine) -> Iterator[str]:
    """Yield the phrases at the start of a line that may be its label."""
    head, colon, tail = line.text.partition(":")
    labels = [head] if colon and not tail.startswith("//") else []
    for number, (part, _) in enumerate(line.parts[:-1]):
        if not number or part.rstrip().endswith(":"):
            labels.append(part)
    if not (colon and tail.strip()):
        labels.append(line.text)
    for label in labels:
        phrase = phrase_of(label) if len(label) <= MAX_LABEL else ""
        if phrase and phrase.count(" ") < MAX_LABEL_WORDS:
            yield phrase
