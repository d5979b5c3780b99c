"""Finds data tables, and returns their cells as a rectangular grid."""

from __future__ import annotations

import re
from typing import Any

from scraper_service.content.passes import Finder, texts_in
from scraper_service.content.text.digits import parse_digits

MAX_COLUMNS = 200
MAX_CELLS = 200_000
_holds_objects = Finder("img", "input", "math", "video")
_ALIGN = re.compile(r"text-align\s*:\s*(left|center|right)", re.IGNORECASE)
_ALIGNED = {"left": ":---", "center": ":---:", "right": "---:"}
# Elements of a table for layout; data tables hold the others only.
_LAYOUT = frozenset({"table", "h1", "article", "section"})
_MAYBE_LAYOUT = frozenset({"pre", "h2", "h3", "h4", "blockquote", "form"})


def data_rows(table: Any) -> list[list[Any]] | None:
    """Return the cells of a data table, header first; None for a layout table.

    All rows have the same length, with None for an empty cell. A table without header
    cells gets an empty header, as GFM requires a header.
    """
    if table.get("role") in {"presentation", "none"}:
        return None
    rows = _rows(table)
    if not rows or (max(len(row) for row in rows) < 2 and not _is_list(table, rows)):
        return None
    if _is_layout(table, rows):
        return None
    grid = _grid(rows)
    if grid is None or not (grid := _without_empty(grid)):
        return None
    if len(grid[0]) < 2 and not _is_list(table, rows):
        return None
    has_header = _is_header([cell for cell in grid[0] if cell is not None])
    return grid if has_header else [[None] * len(grid[0]), *grid]


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


def _rows(table: Any) -> list[list[Any]]:
    head: list[Any] = []
    others: list[Any] = []
    for part in table:
        if part.tag == "tr":
            others.append(part)
        elif part.tag == "thead":
            head += part.iterchildren("tr")
        elif part.tag in {"tbody", "tfoot"}:
            others += part.iterchildren("tr")
    rows = ([c for c in row if c.tag in {"td", "th"}] for row in (*head, *others))
    return [row for row in rows if row]


def _is_header(row: list[Any]) -> bool:
    in_head = row[0].getparent().getparent().tag == "thead"
    return in_head or all(cell.tag == "th" for cell in row)


def _grid(rows: list[list[Any]]) -> list[list[Any]] | None:
    """Spread spanning cells over the grid; only their first place holds the cell."""
    grid: list[list[Any]] = []
    pending: dict[int, int] = {}  # column: rows still covered from above
    for row in rows:
        line: list[Any] = []
        for cell in row:
            _skip_covered(line, pending)
            width = _span(cell, "colspan")
            height = _span(cell, "rowspan")
            for column in range(len(line), len(line) + width):
                if height > 1:
                    pending[column] = height - 1
            line += [cell, *[None] * (width - 1)]
            if len(line) > MAX_COLUMNS:
                return None
        _skip_covered(line, pending)
        grid.append(line)
    width = max(len(line) for line in grid)
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


def _skip_covered(line: list[Any], pending: dict[int, int]) -> None:
    while pending.get(len(line), 0) > 0:
        pending[len(line)] -= 1
        line.append(None)


def _span(cell: Any, name: str) -> int:
    given = cell.get(name)
    if given is None:
        return 1
    return min(max(parse_digits(given), 1), MAX_COLUMNS)
