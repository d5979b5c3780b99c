"""Writes grids of cells as HTML tables, for spreadsheets and delimited text.

The module reads comma-separated values and their relatives. Numbers and dates look as a
spreadsheet shows them (ECMA-376, part 1, 18.8.30 and 31). Formats that depend on the
reader's country use ISO 8601. Names of months and days are English. Fractions and powers of
ten are shown as plain numbers.
"""

from __future__ import annotations

import csv
import functools
import io
import re
from bisect import bisect_left, bisect_right
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING

from attrs import define, field

from scraper_service.content.documents.markup import (
    MAX_CELLS,
    ConvertedDocument,
    element,
    escape,
    record_cut,
)
from scraper_service.content.losses import Losses

if TYPE_CHECKING:
    from collections.abc import Iterable

Value = float | date | time | timedelta
Tokens = list[tuple[str, str]]

DAY_0 = datetime(1899, 12, 30)  # has no zone
MAX_DAY = 2_958_465  # 9999-12-31

# Formats that files refer to by number only; the numbers of other countries are dates.
BUILTIN = (
    dict.fromkeys([14, *range(27, 37), *range(50, 59)], "yyyy-mm-dd")
    | dict(enumerate(("0", "0.00", "#,##0", "#,##0.00"), 1))
    | dict(enumerate(("d-mmm-yy", "d-mmm", "mmm-yy", "h:mm AM/PM"), 15))
    | dict(enumerate(("h:mm:ss AM/PM", "h:mm", "h:mm:ss", "yyyy-mm-dd h:mm"), 19))
    | {9: "0%", 10: "0.00%", 45: "mm:ss", 47: "mm:ss.0"}
    | dict.fromkeys((37, 38), "#,##0;(#,##0)")
    | dict.fromkeys((39, 40), "#,##0.00;(#,##0.00)")
)

_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|\[\$(?P<currency>[^\]-]*)[^\]]*\]'
    r"|\[[^\]]*\]|[_*].|(?P<minute>(?<=h[:.])mm?|mm?(?=[:.]s))"
    r"|(?P<moment>AM/PM|A/P|y+|m+|d+|h+|s+(?:\.0+)?)"
    r"|(?P<plain>General|@|E[+-])|(?P<mask>(?:[0#?][0#?,]*(?:\.[0#?]*)?|\.[0#?]+),*)"
    r"|(?P<percent>%)|(?P<end>;)|(?P<other>.)",
    re.IGNORECASE,
)
_LITERAL = frozenset({"quoted", "escaped", "currency", "percent", "other"})
# Codes of strftime by letter, for one letter, two and so on.
_DIRECTIVES = {
    "y": ("%y", "%y", "%Y"),
    "m": ("%-m", "%m", "%b", "%B"),
    "d": ("%-d", "%d", "%a", "%A"),
    "h": ("%-H", "%H"),
    "minute": ("%-M", "%M"),
    "s": ("%-S", "%S"),
    "a": ("%p",),
}
MAX_COLUMNS = 200  # of a sheet
MAX_SHEETS = 200
MAX_COVERED = 1_000_000  # cells below merged cells, which should not overlap
SAMPLE = 64 * 1024  # characters from which the delimiter is detected
MAX_FIELD = 2**20  # characters
DELIMITERS = ",;\t|"
_NUMBER = re.compile(r"[-+(]?[\d.,\s'%\u00a0]*\d[\d.,\s'%\u00a0)]*\Z")


def format_value(value: Value, code: str) -> str:
    """Return a number or a date in the format ``code``; durations are ``h:mm:ss``."""
    if isinstance(value, timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    sections = _sections(code)
    tokens = sections[0]
    is_date = any(kind in {"moment", "minute"} for kind, _ in tokens)
    if isinstance(value, int | float):
        if not is_date:
            return _number(value, sections)
        if not 0 <= value <= MAX_DAY:
            return _general(value)
        value = DAY_0 + timedelta(days=value)
    if is_date:
        return _date(value, tokens)
    return str(value).removesuffix(" 00:00:00")


@functools.lru_cache(maxsize=1000)
def _sections(code: str) -> tuple[Tokens, ...]:
    """Split a format at its semicolons: positive, negative, zero, text."""
    sections: list[Tokens] = [[]]
    for match in _TOKEN.finditer(code[:500]):
        kind = match.lastgroup
        if kind == "end":
            sections.append([])
        elif kind:
            sections[-1].append((kind, match[kind]))
    return tuple(sections)


def _date(value: date | time, tokens: Tokens) -> str:
    has_noon = any(kind == "moment" and text[0] in "aA" for kind, text in tokens)
    parts = []
    for kind, text in tokens:
        if kind in _LITERAL:
            parts.append(text)
        elif kind in {"moment", "minute"}:
            name, _, fraction = text.lower().partition(".")
            choices = _DIRECTIVES[name[0] if kind == "moment" else kind]
            directive = choices[min(len(name), len(choices)) - 1]
            parts.append(
                value.strftime(directive.replace("H", "I") if has_noon else directive)
            )
            if fraction:
                parts.append(f".{value:%f}"[: len(fraction) + 1])
    return "".join(parts).strip()


def _number(value: float, sections: tuple[Tokens, ...]) -> str:
    tokens = sections[0]
    if value < 0 and len(sections) > 1:
        tokens, value = sections[1], -value
    elif value == 0 and len(sections) > 2:
        tokens = sections[2]
    kinds = [kind for kind, _ in tokens]
    is_odd = kinds.count("mask") > 1 or kinds.count("percent") > 1
    if not tokens or "plain" in kinds or is_odd or not abs(value) < 1e300:
        return _general(value)
    value *= 100 if "percent" in kinds else 1
    digits = ""
    parts = []
    for kind, text in tokens:
        if kind == "mask":
            digits = _digits(abs(value), text)
            parts.append(digits)
        elif kind in _LITERAL:
            parts.append(text)
    sign = "-" if value < 0 and digits.strip("0.,") else ""
    return sign + "".join(parts).strip()


def _digits(value: float, mask: str) -> str:
    """Return a positive number in digits, by a mask such as ``#,##0.0#``."""
    places = mask.rstrip(",")
    value /= 1000.0 ** min(len(mask) - len(places), 9)  # each comma at the end
    before, _, after = places.partition(".")
    grouped = "," if "," in before else ""
    whole, _, rest = f"{value:{grouped}.{len(after)}f}".partition(".")
    least = len(after.rstrip("#?"))
    rest = rest[:least] + rest[least:].rstrip("0")
    if "0" not in before and whole == "0":
        whole = ""
    elif not grouped:
        whole = whole.zfill(before.count("0"))
    return f"{whole}.{rest}" if rest else whole


def _general(value: float) -> str:
    is_whole = abs(value) < 1e15 and value == int(value)
    return str(int(value)) if is_whole else f"{value:.10g}"


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


def record_left_out(
    hidden: list[str], visible: int, warnings: list[str], losses: Losses
) -> None:
    """Warn of hidden sheets and of visible sheets beyond the limit, and record them."""
    if hidden:
        names = ", ".join(repr(name[:50]) for name in hidden[:10])
        warnings.append(f"Hidden sheets were left out: {names}.")
        losses.add("hiddenPart", warnings[-1], count=len(hidden))
    if visible > MAX_SHEETS:
        record_cut("workbook", MAX_SHEETS, visible, "sheets", warnings, losses)


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
