"""Tables of OpenDocument files, those of texts and those that are sheets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.content.documents.archive import attribute, local
from scraper_service.content.documents.markup import MAX_CELLS
from scraper_service.content.documents.sheets import MAX_COLUMNS, MAX_SHEETS, Cell, Grid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_REPEATED = 1000  # rows or cells that one element stands for


class Grids:
    """Reads the tables of one file, which share the largest number of cells.

    ``cell`` returns what is in a cell, as HTML; tables of the styles ``hidden`` are not
    shown, of which ``warnings`` are told.
    """

    def __init__(
        self, cell: Callable[[Any], str], hidden: set[str], warnings: list[str]
    ):
        self._cell = cell
        self._hidden = hidden
        self._warnings = warnings
        self._left = MAX_CELLS

    def visible(self, main: Any) -> Iterator[Grid]:
        """Yield the visible sheets."""
        tables = main.findall("{*}table")
        hidden = [t for t in tables if attribute(t, "style-name") in self._hidden]
        if hidden:
            names = ", ".join(
                repr((attribute(t, "name") or "")[:50]) for t in hidden[:10]
            )
            self._warnings.append(f"Hidden sheets were left out: {names}.")
        visible = [table for table in tables if table not in hidden]
        if len(visible) > MAX_SHEETS:
            self._warnings.append(
                f"The workbook was truncated: {MAX_SHEETS} of its {len(visible)} sheets "
                "were converted."
            )
        for table in visible[:MAX_SHEETS]:
            yield self.grid(table)

    def grid(self, table: Any) -> Grid:
        """Return a table; one with too many cells is cut."""
        grid = Grid(attribute(table, "name") or "")
        row = 0
        for item in table.iter("{*}table-row"):
            if next(item.iterancestors("{*}table")) is not table:
                continue  # of a table in a cell
            count = _repeated(item, "number-rows-repeated")
            cells = self._cells(item)
            if cells and attribute(item, "visibility") not in {"collapse", "filter"}:
                for at in range(row, row + min(count, MAX_REPEATED)):
                    for column, cell, (height, width) in cells:
                        if not self._left:
                            grid.is_cut = True
                            return grid
                        self._left -= 1
                        grid.put(at, column, cell)
                        if height > 1 or width > 1:
                            grid.merged.append(
                                (at, column, at + height - 1, column + width - 1)
                            )
            row += count
        return grid

    def _cells(self, row: Any) -> list[tuple[int, Cell, tuple[int, int]]]:
        found = []
        column = 0
        for item in row:
            if local(item) not in {"table-cell", "covered-table-cell"}:
                continue
            count = _repeated(item, "number-columns-repeated")
            content = self._cell(item)
            if content and local(item) == "table-cell":
                kind = attribute(item, "value-type") or "string"
                cell = Cell(content, kind == "string")
                span = (
                    _repeated(item, "number-rows-spanned"),
                    _repeated(item, "number-columns-spanned"),
                )
                found += [
                    (at, cell, span)
                    for at in range(column, min(column + count, MAX_COLUMNS))
                ]
            column += count
        return found


def _repeated(item: Any, name: str) -> int:
    value = attribute(item, name) or "1"
    return max(int(value), 1) if value.isdecimal() and len(value) < 9 else 1
