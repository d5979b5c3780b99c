"""Writes the cleaned tree and its tables as GitHub-flavoured Markdown, in one walk.

``spans`` collects text until a block begins or ends. ``layout`` then inserts the
paragraph into the list items and quotations around it. Tables of data become a
rectangular grid of cells; tables for layout are written as their content. The setting
``MARKDOWN_CONVERTER`` chooses this writer or html2text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from html2text import HTML2Text
from lxml import etree

from scraper_service.content.decode import clean_text
from scraper_service.content.html.document import (
    BLOCKS,
    MATHS_RENDERED,
    SKIPPED,
    TITLE,
    role,
)
from scraper_service.content.html.pictures import record_image
from scraper_service.content.markdown import HTML2TEXT, NATIVE
from scraper_service.content.markdown.inline import BREAK, STRONG, STRONG_END
from scraper_service.content.markdown.spans import REMOVED_IMAGE, Level, Spans
from scraper_service.content.passes import (
    BLOCK,
    EM_TEXT,
    IMAGE,
    LINE_BREAK,
    LINK,
    LISTING,
    SPAN,
    STRONG_TEXT,
    STRUCK_TEXT,
    Finder,
    texts_in,
    write_element,
    write_item,
    write_strong,
)

if TYPE_CHECKING:
    from scraper_service.content.html.document import Document
    from scraper_service.content.markdown.spans import ListLevel

MAX_TITLE = 5000  # characters; longer texts keep their bold marks
# Elements that no true heading contains.
_holds_big = Finder(
    *("ul", "ol", "dl", "table", "pre", "blockquote", "hr", "h1", "h2", "h3", "h4")
)
_holds_title = Finder("h1")
RULE = "---"
# Bold texts, and the URLs of links, which are not shown.
_EMBOLDENED = re.compile(
    rf"{STRONG}[^{STRONG}{STRONG_END}]*{STRONG_END}|\]\((?:<[^>]*>|[^\s<][^\s{STRONG}]*)\)"
)
_STRONG_MARKS = re.compile(f"[{STRONG}{STRONG_END}]")
# HTML's limit of ``colspan``. A page has at most 300,000 tags: only spans exceed these.
MAX_COLUMNS = 1000
MAX_CELLS = 300_000
_holds_objects = Finder("img", "input", "math", "video")
_ALIGN = re.compile(r"text-align\s*:\s*(left|center|right)", re.IGNORECASE)
_ALIGNED = {"left": ":---", "center": ":---:", "right": "---:"}
_GROUPS = frozenset({"thead", "tbody", "tfoot"})
_SPAN = re.compile(r"\s*\+?(\d{1,9})")
# Elements of a table for layout; data tables contain the others only.
_LAYOUT = frozenset({"table", "h1", "article", "section"})
_MAYBE_LAYOUT = frozenset({"pre", "h2", "h3", "h4", "blockquote", "form"})
TOO_LARGE = (
    f"Its spans make more than {MAX_COLUMNS} columns or {MAX_CELLS} cells; the cells are "
    "written as paragraphs, without their rows and columns."
)
_NAMED = frozenset({"id", "name", "class"})


def markdown(document: Document, *, remove_base64_images: bool) -> str:
    """Return the Markdown of the cleaned tree, without a final newline."""
    writer = _Writer(document, remove_base64=remove_base64_images)
    writer.content(document.body)
    writer.flush()
    lines = writer.layout.lines
    while document.is_main and lines[-1:] in ([RULE], [""]):
        lines.pop()
    return clean_text(writer.layout.text())


class _Writer(Spans):
    """Walks the tree; each method writes one kind of element."""

    def block(self, element: Any) -> None:
        """Write an element that begins and ends a paragraph."""
        if self.run:
            self.flush()
        kind = role(element) if element.attrib else None
        if kind is None or self.flat is not None:
            self.content(element)
        elif kind in MATHS_RENDERED:
            self.formula(element)
        elif kind == TITLE:
            write_strong(self, element)
        else:
            self._callout(element, kind)
        if self.run:
            self.flush()

    def _callout(self, element: Any, kind: str) -> None:
        """Write a GitHub callout; drop a title that only repeats its kind."""
        first = next(
            (e for e in element.iter() if e.text and not e.text.isspace()), None
        )
        if first is None:
            self.content(element)
            return
        if first.text.strip(" \n:!").upper() == kind:
            first.text = None
        self.layout.push(Level("> ", "> "))
        self.layout.add(f"[!{kind}]")
        self.layout.joins = True
        self.content(element)
        self.flush()
        self.layout.joins = False
        self.layout.levels.pop()

    def _inside(self, level: Level, element: Any) -> None:
        """Write the content of a container."""
        self.flush()
        self.layout.push(level)
        self.content(element)
        self.flush()
        self.layout.levels.pop()

    def quotation(self, element: Any) -> None:
        if self.flat is not None:
            self.block(element)
        else:
            self._inside(Level("> ", "> "), element)

    def attribution(self, element: Any) -> None:
        """Write the author of a quotation, as forums do: on a line before the text."""
        self.content(element)
        above = element.getparent()
        if (
            above.tag in {"blockquote", "div"}
            and above[0] is element
            and not (above.text or "").strip()
            and "blockquote" in {above.tag, getattr(above.getparent(), "tag", "")}
            and "".join(element.itertext()).rstrip().endswith(":")
        ):
            self.flush()

    def rule(self, _element: Any) -> None:
        self.flush()
        if self.flat is not None:
            return
        lines, levels = self.layout.lines, self.layout.levels
        if self.is_main and (
            not lines
            or lines[-1] == RULE
            or lines[-1].startswith("#")
            or (levels and levels[-1].in_list)
        ):
            return  # nothing above, or already separated by a rule, heading or marker
        self.layout.add("___" if self.layout.levels else RULE)

    def heading(self, element: Any) -> None:
        if self.flat == BREAK:  # in a cell
            self.flush()
            write_strong(self, element)
            self.flush()
            return
        if self.flat is not None or (len(element) and _holds_big(element)):
            self.block(element)
            return
        self.flush()
        if self.in_link:
            self.link, self.card = self.link or self.card, None
        self.flat = " "
        self.content(element)
        self.flat = None
        self._unembolden()
        text = self.take(" ")
        if text.endswith("#"):
            text = f"{text[:-1]}\\#"
        if text:
            add = self.layout.add_once if self.is_main else self.layout.add
            add(f"{'#' * int(element.tag[1])} {text}")

    def _unembolden(self) -> None:
        """Remove bold marks if all words are bold; headings are bold anyway."""
        if STRONG not in self.run:
            return
        text = "".join(self.run)
        if len(text) < MAX_TITLE and not any(
            map(str.isalpha, _EMBOLDENED.sub("", text))
        ):
            self.run[:] = [_STRONG_MARKS.sub("", text)]

    def term(self, element: Any) -> None:
        self.block(element)
        self.layout.term_at = len(self.layout.lines)

    def definition(self, element: Any) -> None:
        if self.flat is not None:
            self.block(element)
        else:
            self._inside(Level("", "", definition=True), element)

    def gallery(self, element: Any) -> None:
        """Write a list of pictures without text as a row of pictures."""
        self.flat = " "
        self.content(element)
        self.flat = None
        if text := self.take(" "):
            self.layout.add(text)

    def list_level(self, own: ListLevel) -> Level:
        """Return the level of a list directly inside the list ``own``."""
        indent = " " * len(own.mark)
        return Level(indent, indent, used=True, in_list=own)

    def item_level(self, own: ListLevel) -> Level:
        """Return the level of the next item of a list."""
        mark = own.mark
        return Level(mark, " " * len(mark), in_list=own)

    def item(self, element: Any) -> None:
        """Write an item outside of any list."""
        if self.flat is not None or (self.is_main and _holds_title(element)):
            self.block(element)
            return
        self.flush()
        around = self.layout.levels[-1:]
        if self.is_main and around and around[0].in_list and not around[0].used:
            self.content(element)  # the whole content of another item
            self.flush()
            return
        own = self.layout.continue_list()
        self.item_of(element, own)
        self.layout.end_list(own)

    def item_of(self, element: Any, own: ListLevel) -> None:
        """Write an element as an item of a list."""
        if element.tag in SKIPPED:
            return
        if own.number is not None and element.get("value"):
            own.number = self.number(element.get("value"), own.number)
        label = self.notes.label_of(element)
        if label is not None:
            self._inside(Level(f"[^{label}]: ", "    "), element)
            own.count = 0  # the next item begins a list after the footnote
            if own.number is not None:
                own.number += 1
            return
        if element.tag == "li":
            write_item(self, element, own)
            return
        count = own.count
        self.flush()
        self.layout.push(self.item_level(own))
        write_element(self, element)
        self.flush()
        self.layout.levels.pop()
        if own.number is not None and own.count > count:
            own.number += 1

    @staticmethod
    def number(value: str | None, default: int) -> int:
        """Return the number that an attribute gives to an item."""
        try:
            return max(int(value or default), 0) % 10**9
        except ValueError:
            return default

    def checkbox(self, element: Any) -> None:
        """Write the checkbox of a task, which has no name.

        Named checkboxes open menus or belong to forms.
        """
        if (
            element.get("type") == "checkbox"
            and _is_task(element.attrib)
            and not "".join(self.run).strip()
        ):
            box = "[ ]" if element.get("checked") is None else "[x]"
            self.run += [box, " "]

    def table(self, element: Any) -> None:
        """Write a data table; write any other table, or a table in a cell, as its content."""
        rows = data_rows(element) if self.flat is None else None
        if rows is None:
            if self.flat is None and is_too_large(element):
                self.losses.add("table", TOO_LARGE, text=_caption(element))
            self.block(element)
            return
        if not any(cell is not None for cell in rows[0]):
            del rows[0]  # the first row becomes the header that GFM requires
        self.flush()
        for caption in element.iterchildren("caption"):
            self.block(caption)
        lines = [
            "|".join(["", *(self._cell(cell, header=not n) for cell in row), ""])
            for n, row in enumerate(rows)
        ]
        lines.insert(1, "|".join(["", *(f" {a} " for a in alignments(rows[0])), ""]))
        self.layout.add("\n".join(lines))

    def _cell(self, cell: Any, *, header: bool) -> str:
        if cell is None:
            return "  "
        self.flat = BREAK
        self.content(cell)
        self.flat = None
        if header:
            self._unembolden()
        text = self.take("<br>")
        if "|" in text:
            text = text.replace("|", "\\|")
        return f" {text} "


def _caption(table: Any) -> str:
    caption = table.find("caption")
    return "" if caption is None else "".join(caption.itertext())


def _is_task(attributes: Any) -> bool:
    if "disabled" in attributes or "task" in attributes.get("class", ""):
        return True
    return _NAMED.isdisjoint(attributes)


_Writer.writers = {
    **dict.fromkeys(BLOCKS, BLOCK),
    **dict.fromkeys(SKIPPED, _Writer.skip),
    **dict.fromkeys(("ul", "ol", "menu", "dir"), LISTING),
    **dict.fromkeys(("pre", "listing", "xmp", "plaintext"), _Writer.code_block),
    **dict.fromkeys(("b", "strong"), STRONG_TEXT),
    **dict.fromkeys(("i", "em"), EM_TEXT),
    **dict.fromkeys(("del", "s", "strike"), STRUCK_TEXT),
    **dict.fromkeys(("code", "kbd", "samp", "tt"), _Writer.code),
    **dict.fromkeys(("sup", "sub"), _Writer.superscript),
    **dict.fromkeys(("video", "audio"), _Writer.media),
    **dict.fromkeys(("math", "mjx-container"), _Writer.formula),
    **dict.fromkeys((f"h{level}" for level in range(1, 7)), _Writer.heading),
    "a": LINK,
    "blockquote": _Writer.quotation,
    "br": LINE_BREAK,
    "button": _Writer.with_spaces,
    "cite": _Writer.attribution,
    "dd": _Writer.definition,
    "dt": _Writer.term,
    "hr": _Writer.rule,
    "img": IMAGE,
    "input": _Writer.checkbox,
    "li": _Writer.item,
    "q": _Writer.quote,
    "rt": _Writer.reading,
    "span": SPAN,
    "table": _Writer.table,
    "time": _Writer.apart,
}


# -- data tables -----------------------------------------------------------------------


def data_rows(table: Any, *, repeat: bool = False) -> list[list[Any]] | None:
    """Return the cells of a data table, header first; None for a layout table.

    All rows have the same length, with None for an empty cell. A table without header
    cells gets an empty header, as GFM requires a header. ``repeat`` puts a cell with
    ``rowspan`` into each of its rows, instead of the first only.
    """
    if table.get("role") in {"presentation", "none"}:
        return None
    groups = _row_groups(table)
    rows = [row for group in groups for row in group if row]
    if not rows or (max(map(len, rows)) < 2 and not _is_list(table, rows)):
        return None
    if _is_layout(table, rows):
        return None
    grid = _grid(groups, repeat=repeat)
    if grid is None or not (grid := _without_empty(grid)):
        return None
    if len(grid[0]) < 2 and not _is_list(table, rows):
        return None
    has_header = _is_header([cell for cell in grid[0] if cell is not None])
    return grid if has_header else [[None] * len(grid[0]), *grid]


def is_too_large(table: Any) -> bool:
    """Return True if spans make a table too wide or too long to be written as rows."""
    groups = _row_groups(table)
    rows = [row for group in groups for row in group if row]
    return bool(rows) and not _is_layout(table, rows) and _grid(groups) is None


def alignments(header: list[Any]) -> list[str]:
    """Return the cells of the delimiter row below the header."""
    return [
        "---" if cell is None else _ALIGNED.get(_alignment(cell), "---")
        for cell in header
    ]


def _alignment(cell: Any) -> str:
    if not cell.attrib:
        return ""
    match = _ALIGN.search(cell.get("style") or "")
    return (match[1] if match else cell.get("align") or "").lower()


def _is_layout(table: Any, rows: list[list[Any]]) -> bool:
    """Return True if elements in a table show that it is one for layout.

    Tables with a caption, a head or header cells in the first row are more likely data;
    if they have more headings than cells, these are the sections of a text.
    """
    declared = (table.find("caption"), table.find("thead"))
    is_data = any(e is not None for e in declared) or any(
        cell.tag == "th" for cell in rows[0]
    )
    headings = 0
    for element in table.iterdescendants(*_LAYOUT, *_MAYBE_LAYOUT):
        if element.tag in _LAYOUT or not is_data:
            return True
        headings += element.tag[0] == "h"
    return headings > sum(map(len, rows))


def _is_list(table: Any, rows: list[list[Any]]) -> bool:
    """Return True for a table of one column with a header of its own."""
    return len(rows) > 1 and table.find("thead") is not None and rows[0][0].tag == "th"


def _row_groups(table: Any) -> list[list[list[Any]]]:
    """Return the cells of each row of each row group, in the order of their display.

    The first ``thead`` comes first and the first ``tfoot`` last, wherever they stand
    (CSS 2.2, 17.2). Rows outside groups form a ``tbody``.
    """
    first: dict[str, list[Any]] = {}
    bodies: list[list[Any]] = []
    is_open = False
    for part in table:
        tag = part.tag
        if tag == "tr":
            if not is_open:
                bodies.append([])
            bodies[-1].append(part)
            is_open = True
        elif tag in _GROUPS:
            rows = list(part.iterchildren("tr"))
            if tag != "tbody" and tag not in first:
                first[tag] = rows
            else:
                bodies.append(rows)
            is_open = False
        elif tag == "form":  # HTML 5 keeps only its rows
            bodies.append(list(part.iterdescendants("tr")))
            is_open = False
    groups = (first.get("thead", []), *bodies, first.get("tfoot", []))
    return [
        [[c for c in row if c.tag in {"td", "th"}] for row in rows] for rows in groups
    ]


def _is_header(row: list[Any]) -> bool:
    in_head = row[0].getparent().getparent().tag == "thead"
    return in_head or all(cell.tag == "th" for cell in row)


def _grid(
    groups: list[list[list[Any]]], *, repeat: bool = False
) -> list[list[Any]] | None:
    """Spread spanning cells over the grid; only their first position has the cell.

    Spans end with their row group. Return None for too many columns or cells.
    """
    grid: list[list[Any]] = []
    width = 0
    for rows in groups:
        # By column: the rows still covered from above, and the cell that covers them.
        pending: dict[int, tuple[int, Any]] = {}
        for number, row in enumerate(rows):
            line: list[Any] = []
            for cell in row:
                while len(line) in pending:
                    _take_covered(line, pending)
                column = len(line)
                if column >= MAX_COLUMNS:
                    return None
                line.append(cell)
                if cell.attrib:
                    line += [None] * (min(_colspan(cell), MAX_COLUMNS - column) - 1)
                    below = _rowspan(cell, len(rows) - number) - 1
                    if below or pending:
                        _cover(
                            pending, column, len(line), below, cell if repeat else None
                        )
            for column in sorted(c for c in pending if c >= len(line)):
                line += [None] * (column - len(line))
                _take_covered(line, pending)
            grid.append(line)
            width = max(width, len(line))
            if width * len(grid) > MAX_CELLS:
                return None
    return [line + [None] * (width - len(line)) for line in grid]


def _without_empty(grid: list[list[Any]]) -> list[list[Any]]:
    """Drop the rows and columns without any content."""
    full = [[cell is not None and _has_content(cell) for cell in line] for line in grid]
    columns = [n for n, cells in enumerate(zip(*full, strict=True)) if any(cells)]
    lines = [line for line, cells in zip(grid, full, strict=True) if any(cells)]
    if len(columns) == len(grid[0]):
        return lines
    return [[line[n] for n in columns] for line in lines]


def _has_content(cell: Any) -> bool:
    text = cell.text
    if text and not text.isspace():
        return True
    if not len(cell):
        return False
    return _holds_objects(cell) or bool("".join(texts_in(cell)).strip())


def _take_covered(line: list[Any], pending: dict[int, tuple[int, Any]]) -> None:
    """Add the next column, which a cell of an earlier row covers."""
    rows, cell = pending.pop(len(line))
    if rows > 1:
        pending[len(line)] = rows - 1, cell
    line.append(cell)


def _cover(
    pending: dict[int, tuple[int, Any]], start: int, end: int, below: int, cell: Any
) -> None:
    """Cover columns of the next ``below`` rows; cells of earlier rows may reach deeper."""
    for column in range(start, end):
        rows, above = pending.pop(column, (0, None))
        if rows - 1 > below:
            pending[column] = rows - 1, above
        elif below:
            pending[column] = below, cell if column == start else None


def _colspan(cell: Any) -> int:
    match = _SPAN.match(cell.get("colspan") or "")
    return max(int(match[1]), 1) if match else 1


def _rowspan(cell: Any, left: int) -> int:
    """Return the rows of a cell, of the ``left`` rows of its group; 0 means all."""
    match = _SPAN.match(cell.get("rowspan") or "")
    return min(int(match[1]) or left, left) if match else 1


# -- html2text -------------------------------------------------------------------------


def html2text_markdown(document: Document, *, remove_base64_images: bool) -> str:
    """Return html2text's own output for the cleaned tree, without wrapped lines.

    The URLs of removed images are replaced in the tree.
    """
    body = document.body
    for image in body.iter("img") if remove_base64_images else ():
        if image.get("src", "").lstrip()[:5].lower() == "data:":
            record_image(document, image, is_removed=True)
            image.set("src", REMOVED_IMAGE)
    converter = HTML2Text(bodywidth=0)
    converter.unicode_snob = True
    source = etree.tostring(body, encoding="unicode", method="html", with_tail=False)
    return clean_text(converter.handle(source)).strip("\n")


CONVERTERS = {NATIVE: markdown, HTML2TEXT: html2text_markdown}
