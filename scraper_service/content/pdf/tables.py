"""Rows of cells: tables, and text columns that resemble a table."""

from __future__ import annotations

import re
from statistics import median

from scraper_service.content.pdf.lines import Block, Line

MIN_ROWS = 3  # rows of a table with two columns; 2 rows suffice with more columns
PROSE = 28  # characters; longer cells are lines of a text column
LEADER = re.compile(r"\s*(?:\.\s?){4,}\s*")

_LABEL = re.compile(r"(?:[^\w\s]|[0-9a-zA-Z]{1,3}[.)]|\([0-9a-zA-Z]{1,4}\))\Z")


def has_leader(text: str) -> bool:
    """Return True if the text has a dot leader, as in a table of contents."""
    return (".." in text or ". ." in text) and bool(LEADER.search(text))


def _cells(line: Line) -> int:
    """Count the cells of a line; a bullet or number before a text is not counted."""
    count = len(line.cells)
    if count > 1 and _LABEL.match(line.cells[0].text):
        count -= 1
    if line.is_rotated or has_leader(line.text):
        return 1
    return count


def table_end(rows: list[Line], start: int) -> int:
    """Return the end of the run of multi-cell rows that begins at ``start``."""
    end = start
    while end < len(rows) and _cells(rows[end]) > 1:
        if end > start:
            above, row = rows[end - 1], rows[end]
            if not 0 < above.y0 - row.y0 < 4 * max(row.size, above.size):
                break
        end += 1
    return end


def table(rows: list[Line]) -> list[Block] | None:
    """Return a table, or the text columns that resemble a table; else None."""
    edges = _column_edges(rows)
    if len(edges) < 2:
        return None
    if len(edges) == 2 and _are_columns(rows):
        return _split_columns(rows, edges)
    if len(rows) < (2 if len(edges) > 2 else MIN_ROWS):
        return None
    grid = []
    for row in rows:
        values = [""] * len(edges)
        for cell in row.cells:
            place = _place(cell.x0, edges)
            values[place] = f"{values[place]} {cell.text}".strip()
        grid.append(values)
    return [Block(rows, grid)]


def _are_columns(rows: list[Line]) -> bool:
    """Return True if two columns contain running text instead of table cells."""
    cells = [[row.cells[0].text for row in rows], [row.cells[-1].text for row in rows]]
    letters = min(median(map(len, column)) for column in cells)
    words = min(median(len(text.split()) for text in column) for column in cells)
    return letters > PROSE or (len(rows) > 5 and words >= 3)


def _column_edges(rows: list[Line]) -> list[tuple[float, float]]:
    """Return (left, right) of each column: the union of overlapping cells."""
    spans = sorted((cell.x0, cell.x1) for row in rows for cell in row.cells)
    edges: list[tuple[float, float]] = []
    for x0, x1 in spans:
        if edges and x0 < edges[-1][1] + 1:
            edges[-1] = (edges[-1][0], max(edges[-1][1], x1))
        else:
            edges.append((x0, x1))
    return edges


def _place(x: float, edges: list[tuple[float, float]]) -> int:
    for index, (_, right) in enumerate(edges):
        if x <= right:
            return index
    return len(edges) - 1


def _split_columns(rows: list[Line], edges: list[tuple[float, float]]) -> list[Block]:
    columns: list[Block] = [Block([]) for _ in edges]
    for row in rows:
        for cell in row.cells:
            part = Line(cell.text, row.size, cell.x0, row.y0, cell.x1, row.y1, [cell])
            columns[_place(cell.x0, edges)].lines.append(part)
    return [column for column in columns if column.lines]
