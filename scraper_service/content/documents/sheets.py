"""Grids of cells as tables: what spreadsheets of all kinds have in common."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from attrs import define, field

from scraper_service.content.documents.markup import MAX_CELLS, element, escape

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_COLUMNS = 200  # as the tables of a page
MAX_SHEETS = 200
MAX_COVERED = 1_000_000  # cells below merged ones; those of a file should not overlap


@define
class Cell:
    """A cell that is not empty. ``html`` is its content."""

    html: str
    is_text: bool = True


@define
class Grid:
    """The cells of one sheet, by row and column, from 0.

    ``merged`` are first row, first column, last row, last column.
    """

    name: str = ""
    cells: dict[int, dict[int, Cell]] = field(factory=dict)
    merged: list[tuple[int, int, int, int]] = field(factory=list)
    count: int = 0
    is_cut: bool = False

    def put(self, row: int, column: int, cell: Cell) -> None:
        """Set a cell; what is too far to the right is left out."""
        if column >= MAX_COLUMNS:
            self.is_cut = True
            return
        self.cells.setdefault(row, {})[column] = cell
        self.count += 1


def sheets_html(grids: Iterable[Grid], warnings: list[str]) -> str:
    """Return the sheets as headings and tables; adds to ``warnings`` what is cut."""
    parts = []
    for grid in grids:
        if grid.name:
            parts.append(element("h2", escape(grid.name)))
        parts.append(grid_html(grid))
        if grid.is_cut:
            named = f"The sheet {grid.name[:100]!r}" if grid.name else "The table"
            warnings.append(
                f"{named} was truncated: at most {MAX_COLUMNS} columns, and "
                f"{MAX_CELLS} cells in all, are converted."
            )
    return "\n".join(part for part in parts if part)


def grid_html(grid: Grid) -> str:
    """Return a table without the rows and columns that are empty."""
    if not grid.cells:
        return ""
    rows = sorted(grid.cells)
    columns = sorted({column for row in grid.cells.values() for column in row})
    header = grid.cells[rows[0]]
    has_header = len(rows) > 1 and all(cell.is_text for cell in header.values())
    spans, covered = _spans(grid, rows, columns)
    lines = []
    for row in rows:
        tag = "th" if has_header and row == rows[0] else "td"
        cells = []
        for column in columns:
            if (row, column) in covered:
                continue
            cell = grid.cells[row].get(column)
            cells.append(
                element(tag, cell.html if cell else "", **spans.get((row, column), {}))
            )
        lines.append(f"<tr>{''.join(cells)}</tr>\n")
    return f"<table>\n{''.join(lines)}</table>\n"


def _spans(
    grid: Grid, rows: list[int], columns: list[int]
) -> tuple[dict[tuple[int, int], dict[str, str]], set[tuple[int, int]]]:
    """Return the spans of merged cells among what is shown, and what they cover."""
    spans: dict[tuple[int, int], dict[str, str]] = {}
    covered: set[tuple[int, int]] = set()
    work = 0
    for top, left, bottom, right in grid.merged:
        place = (top, left)
        if left not in grid.cells.get(top, {}) or place in spans or place in covered:
            continue
        inner_rows = rows[bisect_left(rows, top) : bisect_right(rows, bottom)]
        inner_columns = columns[
            bisect_left(columns, left) : bisect_right(columns, right)
        ]
        work += len(inner_rows) * len(inner_columns)
        if work > MAX_COVERED:
            break
        span = {}
        if len(inner_columns) > 1:
            span["colspan"] = str(len(inner_columns))
        if len(inner_rows) > 1:
            span["rowspan"] = str(len(inner_rows))
        spans[place] = span
        covered |= {(r, c) for r in inner_rows for c in inner_columns} - {place}
    return spans, covered
