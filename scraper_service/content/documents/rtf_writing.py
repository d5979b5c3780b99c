"""The paragraphs, lists and tables of a rich text file as HTML."""

from __future__ import annotations

from attrs import define, field

from scraper_service.content.documents.lists import nested_list
from scraper_service.content.documents.markup import (
    MAX_CELLS,
    anchor,
    element,
    escape,
    table,
)

BULLETS = "\u2022\u00b7\uf0b7\u25aa\u25e6o-"


@define
class State:
    """What a group inherits from the one around it."""

    bold: bool = False
    italic: bool = False
    strike: bool = False
    hidden: bool = False
    skipped: bool = False
    target: str = "text"  # or the name of a fact, "instruction", "listtext", "note"
    font: int = 0
    unicode_skip: int = 1
    link: str | None = None


@define
class Paragraph:
    """Text on its way to a paragraph, an item or a cell."""

    runs: list[tuple[str, State]] = field(factory=list)
    level: int = -1  # of a heading, from 0
    list_level: int = -1
    in_table: bool = False


class Writer:
    """Collects items and rows until their list or table ends."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._items: list[tuple[int, str]] = []
        self._rows: list[list[str]] = []
        self._numbered = False
        self._left = MAX_CELLS

    def body(self, notes: list[list[tuple[str, State]]]) -> str:
        """Return the whole document, the footnotes at its end."""
        self._end_table()
        self._end_list()
        items = "".join(
            element("li", runs_html(runs).strip(), id=f"note-{number}")
            for number, runs in enumerate(notes, 1)
        )
        return "".join(self._parts) + (element("ol", items) if items else "")

    def add(self, paragraph: Paragraph, mark: str) -> None:
        """Add a paragraph; ``mark`` is the bullet or number of an item."""
        content = runs_html(paragraph.runs).strip()
        level, list_level = paragraph.level, paragraph.list_level
        if not content:
            return
        self._end_table()
        if mark or list_level >= 0:
            self._items.append((max(list_level, 0), content))
            self._numbered = bool(mark) and mark[0] not in BULLETS
            return
        self._end_list()
        tag = f"h{min(level, 5) + 1}" if level >= 0 else "p"
        self._parts.append(f"{element(tag, content)}\n")

    def add_row(self, cells: list[str]) -> None:
        """Add a row of the table; rows beyond the largest number of cells are left out."""
        self._left -= len(cells)
        if cells and self._left >= 0:
            self._rows.append(cells)

    def _end_list(self) -> None:
        if self._items:
            tag = "ol" if self._numbered else "ul"
            self._parts.append(nested_list(self._items, tag))
            self._items = []

    def _end_table(self) -> None:
        if self._rows:
            self._end_list()
            self._parts.append(table(self._rows, has_header=len(self._rows) > 1))
            self._rows = []


def runs_html(runs: list[tuple[str, State]]) -> str:
    """Return text in its states as HTML."""
    parts: list[str] = []
    index = 0
    while index < len(runs):
        state = runs[index][1]
        text = ""
        while index < len(runs) and runs[index][1] == state:
            text += runs[index][0]
            index += 1
        parts.append(_run(text, state))
    return "".join(parts)


def _run(text: str, state: State) -> str:
    if text.startswith("\0"):
        number = text[1:]
        return element("sup", element("a", number, href=f"#note-{number}"))
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")
    content = escape(joined.replace("\0", "")).replace("\n", "<br>").replace("\t", " ")
    if content.strip():
        for wanted, tag in (
            (state.bold, "strong"),
            (state.italic, "em"),
            (state.strike, "s"),
        ):
            content = element(tag, content) if wanted else content
    return anchor(content, state.link)
