"""Finds data tables, and returns their cells as a rectangular grid."""

from __future__ import annotations

import re
from typing import Any

from scraper_service.content.passes import Finder, texts_in

# HTML's limit of ``colspan``. A page has at most 300,000 tags: only spans exceed these.
MAX_COLUMNS = 1000
MAX_CELLS = 300_000
_holds_objects = Finder("img", "input", "math", "video")
_ALIGN = re.compile(r"text-align\s*:\s*(left|center|right)", re.IGNORECASE)
_ALIGNED = {"left": ":---", "center": ":---:", "right": "---:"}
_GROUPS = frozenset({"thead", "tbody", "tfoot"})
_SPAN = re.compile(r"\s*\+?(\d{1,9})")
# Elements of a table for layout; data tables hold the others only.
_LAYOUT = frozenset({"table", "h1", "article", "section"})
_MAYBE_LAYOUT = frozenset({"pre", "h2", "h3", "h4", "blockquote", "form"})


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
    """Spread spanning cells over the grid; only their first place holds the cell.

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
                place = len(line)
                if place >= MAX_COLUMNS:
                    return None
                line.append(cell)
                if cell.attrib:
                    line += [None] * (min(_colspan(cell), MAX_COLUMNS - place) - 1)
                    below = _rowspan(cell, len(rows) - number) - 1
                    if below or pending:
                        _cover(
                            pending, place, len(line), below, cell if repeat else None
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
