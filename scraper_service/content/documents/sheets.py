"""Writes grids of cells as HTML tables, for spreadsheets and delimited text.

The module reads comma-separated values and their relatives.
"""

from __future__ import annotations

import csv
import io
import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from attrs import define, field

from scraper_service.content.documents.markup import (
    MAX_CELLS,
    ConvertedDocument,
    element,
    escape,
)
from scraper_service.content.losses import Losses

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_COLUMNS = 200  # of a sheet
MAX_SHEETS = 200
MAX_COVERED = 1_000_000  # cells below merged cells, which should not overlap


@define
class GridCell:
    """A cell that is not empty."""

    #: The content.
    html: str
    #: Whether the content is text, not a number or a date.
    is_text: bool = True


@define
class Grid:
    """The cells of one sheet; rows and columns count from 0."""

    #: The name of the sheet.
    name: str = ""
    #: Cells by row, then by column.
    cells: dict[int, dict[int, GridCell]] = field(factory=dict)
    #: Merged cells: first row, first column, last row, last column.
    merged: list[tuple[int, int, int, int]] = field(factory=list)
    #: How many cells were set.
    count: int = 0
    #: Whether cells were left out.
    is_cut: bool = False
    #: How many rows and columns the sheet has; 0 if unknown.
    size: tuple[int, int] = (0, 0)
    #: HTML after the table, such as charts.
    after: str = ""

    def put(self, row: int, column: int, cell: GridCell) -> None:
        """Set a cell; cells too far to the right are left out."""
        if column >= MAX_COLUMNS:
            self.is_cut = True
            return
        self.cells.setdefault(row, {})[column] = cell
        self.count += 1


def sheets_html(grids: Iterable[Grid], warnings: list[str], losses: Losses) -> str:
    """Return sheets as headings and tables; warn of cut sheets, and record them."""
    parts = []
    for grid in grids:
        if grid.name:
            parts.append(element("h2", escape(grid.name)))
        parts += [grid_html(grid), grid.after]
        if grid.is_cut:
            named = f"The sheet {grid.name[:100]!r}" if grid.name else "The table"
            warnings.append(
                f"{named} was truncated: at most {MAX_COLUMNS} columns, and "
                f"{MAX_CELLS} cells in all, are converted."
            )
            losses.add("truncated", cut_reason(grid, named))
    return "\n".join(part for part in parts if part)


def cut_reason(grid: Grid, named: str) -> str:
    """Return why a sheet is cut, with the limit and both sizes."""
    rows, columns = grid.size
    kept = len(grid.cells)
    limit = f"{MAX_COLUMNS} columns" if columns > MAX_COLUMNS else f"{MAX_CELLS} cells"
    if columns > MAX_COLUMNS:
        counts = f"{MAX_COLUMNS} of its {columns} columns"
    else:
        counts = f"{kept} of its {max(rows, kept)} rows"
    return f"{named} was cut at the limit of {limit}: {counts} were converted."


def grid_html(grid: Grid) -> str:
    """Return a table without its empty rows and columns."""
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
    """Return the spans of merged cells among the shown cells, and the covered places."""
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


SAMPLE = 64 * 1024  # characters from which the delimiter is detected
MAX_FIELD = 2**20  # characters
DELIMITERS = ",;\t|"
_NUMBER = re.compile(r"[-+(]?[\d.,\s'%\u00a0]*\d[\d.,\s'%\u00a0)]*\Z")


def read_delimited(text: str, *, tabs: bool = False) -> ConvertedDocument | None:
    """Return the table in ``text``, None if it has fewer than two columns.

    ``tabs`` fixes the delimiter; otherwise it is detected.
    """
    csv.field_size_limit(MAX_FIELD)
    dialect = _dialect(text[:SAMPLE], tabs=tabs)
    grid = Grid()
    left = MAX_CELLS
    rows, columns = 0, 0
    try:
        for number, row in enumerate(csv.reader(io.StringIO(text), dialect)):
            rows, columns = number + 1, max(columns, len(row))
            if left < len(row):
                grid.is_cut = True
                left = 0
            if not left:
                continue  # counts the rows
            left -= len(row)
            for column, value in enumerate(row):
                if shown := value.strip():
                    is_text = not _NUMBER.match(shown[:50])
                    content = escape(shown).replace("\n", "<br>")
                    grid.put(number, column, GridCell(content, is_text))
    except csv.Error:
        return None
    if len({column for row in grid.cells.values() for column in row}) < 2:
        return None
    grid.size = (rows, columns)
    warnings: list[str] = []
    losses = Losses()
    html = sheets_html([grid], warnings, losses)
    return ConvertedDocument(body=html, warnings=warnings, losses=losses, raw=text)


def _dialect(sample: str, *, tabs: bool) -> type[csv.Dialect]:
    """Return the dialect whose delimiter the rows contain equally often."""
    lines = [line for line in sample.split("\n")[:50] if line.strip()]
    delimiter = "\t" if tabs else ","
    best = 0.0
    for sign in ("\t",) if tabs else DELIMITERS:
        counts = [_count(line, sign) for line in lines]
        least = min(counts, default=0)
        usual = max(set(counts), key=counts.count) if counts else 0
        agreed = counts.count(usual) / max(len(counts), 1)
        score = agreed * (1 + min(least, 1)) if usual else 0.0
        if score > best:
            best, delimiter = score, sign

    class Dialect(csv.excel):
        pass

    Dialect.delimiter = delimiter
    return Dialect


def _count(line: str, sign: str) -> int:
    """Count ``sign`` outside of quotation marks."""
    return sum(part.count(sign) for part in line.split('"')[::2])
