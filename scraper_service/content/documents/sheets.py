"""Converts spreadsheets: Excel workbooks (.xlsx, .xlsb, .xls) and delimited text.

python-calamine returns the values of workbooks. Number formats, hidden rows, links and
errors of an .xlsx file are read from its sheets here, so that numbers look as in Excel (ECMA-376,
part 1, 18.8.30 and 31). Dates have ISO 8601. Fractions and powers of ten are shown as plain
numbers. Grids of cells become HTML tables, also those of OpenDocument sheets.
"""

from __future__ import annotations

import csv
import functools
import io
import posixpath
import re
from bisect import bisect_left, bisect_right
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from attrs import define, field
from lxml import etree
from python_calamine import (
    CalamineError,
    CalamineSheet,
    CalamineWorkbook,
    SheetMetadata,
    SheetTypeEnum,
    SheetVisibleEnum,
)

from scraper_service.content.documents.drawings_and_formulas import (
    Graphics,
    Relations,
    record_object,
)
from scraper_service.content.documents.files import (
    HIDDEN_ROWS,
    MAX_CELLS,
    MAX_XML_BYTES,
    OLE,
    Archive,
    ConvertedDocument,
    anchor,
    attribute,
    element,
    escape,
    local,
    ooxml_document,
    parse_digits,
    picture,
    table,
    unreadable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scraper_service.content.losses import Losses

Value = float | date | time | timedelta
Tokens = list[tuple[str, str]]

DAY_0 = datetime(1899, 12, 30)  # has no zone
MAX_DAY = 2_958_465  # 9999-12-31

# Formats that files refer to by number only; all other numbers are dates.
_DATES = dict.fromkeys(
    [*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)], "y"
)
BUILTIN = (
    _DATES
    | dict(enumerate(("0", "0.00", "#,##0", "#,##0.00"), 1))
    | {9: "0%", 10: "0.00%"}
    | dict.fromkeys((37, 38), "#,##0;(#,##0)")
    | dict.fromkeys((39, 40), "#,##0.00;(#,##0.00)")
)

_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|\[\$(?P<currency>[^\]-]*)[^\]]*\]'
    r"|\[[^\]]*\]|[_*].|(?P<moment>[ymdhs])"
    r"|(?P<plain>General|@|E[+-])|(?P<mask>(?:[0#?][0#?,]*(?:\.[0#?]*)?|\.[0#?]+),*)"
    r"|(?P<percent>%)|(?P<end>;)|(?P<other>.)",
    re.IGNORECASE,
)
_LITERAL = frozenset({"quoted", "escaped", "currency", "percent", "other"})
MAX_COLUMNS = 200  # of a sheet
MAX_SHEETS = 200
MAX_COVERED = 1_000_000  # cells below merged cells, which should not overlap
SAMPLE = 64 * 1024  # characters from which the delimiter is detected
MAX_FIELD = 2**20  # characters
DELIMITERS = ",;\t|"
_NUMBER = re.compile(r"[-+(]?[\d.,\s'%\u00a0]*\d[\d.,\s'%\u00a0)]*\Z")
KIND = "Excel"
MAX_MERGED = 10_000
MAX_TEXT = 32_767  # characters in a cell; Excel's limit
MAX_AREA = 5_000_000  # cells of a sheet; the library also stores the empty ones

# What drawings of a sheet have: charts and SmartArt, shapes with text, pictures.
_DRAWN = ("{*}graphicData", "{*}sp", "{*}pic")
COMMENT = "Comments and notes of a workbook are no part of its tables."
OTHER_SHEET = "Only sheets with cells and charts become tables."

_CELL_NAME = re.compile(r"([A-Z]{1,7})(\d+)")
CellKey = tuple[int, int]


def read_workbook(body: bytes) -> ConvertedDocument:
    """Convert a workbook: each visible sheet becomes a heading and a table.

    :raises Unreadable: for a damaged, encrypted or hostile file.
    """
    document = ConvertedDocument()
    styles = None
    if not body.startswith(OLE):
        archive = Archive(body, KIND)
        archive.check_parts()
        document = ooxml_document(archive)
        main = archive.main_part("xl/workbook.xml")
        if main.endswith(".xml"):
            styles = _Styles(archive, main, document.losses)
    try:
        with CalamineWorkbook.from_filelike(io.BytesIO(body)) as book:
            document.body = sheets_html(document, _grids(document, book, styles))
    except (CalamineError, OSError, ValueError) as exc:
        reason = "it is encrypted" if "assword" in str(exc) else "it is damaged"
        raise unreadable(KIND, reason) from exc
    return document


def _grids(
    document: ConvertedDocument, book: CalamineWorkbook, styles: _Styles | None
) -> Iterator[Grid]:
    visible: list[tuple[int, SheetMetadata]] = []
    hidden: list[str] = []
    parts: set[str] = set()
    for index, facts in enumerate(book.sheets_metadata):
        part = styles.parts.get(facts.name, "") if styles else ""
        if part and part in parts:
            continue  # the same sheet by another name
        parts.add(part)
        if facts.visible == SheetVisibleEnum.Visible:
            visible.append((index, facts))
        else:
            hidden.append(facts.name)
    record_left_out(document, hidden, len(visible))
    left = MAX_CELLS
    for index, facts in visible[:MAX_SHEETS]:
        if facts.typ != SheetTypeEnum.WorkSheet:
            after = styles.extras(facts.name) if styles else ""
            if after:
                yield Grid(facts.name, after=after)
            elif facts.typ != SheetTypeEnum.ChartSheet or styles is None:
                document.losses.add("chart", OTHER_SHEET, text=facts.name)
            continue
        looks = styles.looks(facts.name) if styles else _Looks()
        try:
            if looks.area > MAX_AREA:
                raise OverflowError
            sheet = book.get_sheet_by_index(index)
            if sheet.total_height * sheet.total_width > MAX_AREA:
                raise OverflowError
        except (CalamineError, OverflowError) as exc:
            is_wide = isinstance(exc, OverflowError)
            reason = "its cells are too far apart" if is_wide else "it is damaged"
            reason = f"The sheet {facts.name[:100]!r} was left out: {reason}."
            document.warn("table", reason, text=facts.name)
            continue
        grid = _grid(sheet, looks, left, document.losses)
        left -= grid.count
        grid.size = (sheet.total_height + 1, sheet.total_width + 1)  # the last indexes
        grid.after = styles.extras(facts.name) if styles else ""
        yield grid


def _grid(sheet: CalamineSheet, looks: _Looks, limit: int, losses: Losses) -> Grid:
    merged = (sheet.merged_cell_ranges or [])[:MAX_MERGED]
    grid = Grid(sheet.name, merged=[(*first, *last) for first, last in merged])
    empty = [""] * sheet.total_width
    for row, values in enumerate(sheet.iter_rows()):
        if values == empty:
            continue
        if row in looks.hidden_rows:
            losses.add("hiddenPart", HIDDEN_ROWS, text=sheet.name)
            continue
        for column, value in enumerate(values):
            cell = looks.cell((row, column), value)
            if cell is None:
                continue
            if grid.count == limit:
                grid.is_cut = True
                return grid
            grid.put(row, column, cell)
    return grid


@define
class _Looks:
    """What a sheet has in addition to values, by cell: row and column, from 0."""

    #: Number formats of numbers.
    formats: dict[CellKey, str] = field(factory=dict)
    #: Errors such as ``#DIV/0!``.
    errors: dict[CellKey, str] = field(factory=dict)
    #: URLs.
    links: dict[CellKey, str] = field(factory=dict)
    hidden_rows: set[int] = field(factory=set)
    #: How many cells the sheet has if its empty cells count.
    area: int = 0

    def cell(self, key: CellKey, value: Any) -> GridCell | None:
        """Return a cell as HTML, None for an empty cell."""
        is_text = isinstance(value, str)
        if is_text:
            text = value.strip() or self.errors.get(key, "")
        elif isinstance(value, bool):
            text = str(value).upper()
        else:
            text = format_value(value, self.formats.get(key, ""))
        if not text:
            return None
        html = escape(text[:MAX_TEXT]).replace("\n", "<br>")
        return GridCell(anchor(html, self.links.get(key)), is_text)


class _Styles:
    def __init__(self, archive: Archive, main: str, losses: Losses):
        self._archive = archive
        self._graphics = Graphics(archive, losses)
        self._losses = losses
        relations = archive.relations(main)
        styles = next((t for k, t, _ in relations.values() if k == "styles"), "")
        #: Formats by the number of a style.
        self._formats: dict[int, str] = {}
        if styles in archive:
            root = archive.xml(styles)
            codes = dict(BUILTIN)
            for item in root.iterfind("{*}numFmts/{*}numFmt"):
                number = parse_digits(item.get("numFmtId", ""))
                codes[number] = item.get("formatCode", "")
            for index, style in enumerate(root.iterfind("{*}cellXfs/{*}xf")):
                number = parse_digits(style.get("numFmtId", ""))
                self._formats[index] = codes.get(number, "")
        #: Names of parts by names of sheets.
        self.parts = {
            sheet.get("name", ""): relations[relation][1]
            for sheet in archive.xml(main).iterfind("{*}sheets/{*}sheet")
            if (relation := attribute(sheet, "id") or "") in relations
        }

    def looks(self, name: str) -> _Looks:
        """Return the looks of the sheet with this name."""
        looks = _Looks()
        part = self.parts.get(name, "")
        if part not in self._archive:
            return looks
        relations = self._archive.relations(part)
        row = -1
        last = (-1, -1)
        for item in self._elements(part, "row", "hyperlink"):
            if local(item) == "hyperlink":
                target = relations.get(attribute(item, "id") or "")
                if target and target[2]:
                    looks.links[_cell_of(item.get("ref", ""))] = target[1]
                continue
            row = parse_digits(item.get("r", ""), row + 2) - 1
            if item.get("hidden") in {"1", "true"}:
                looks.hidden_rows.add(row)
            column = -1
            for cell in item.iterfind("{*}c"):
                reference = cell.get("r")
                key = _cell_of(reference) if reference else (row, column + 1)
                column = key[1]
                if len(cell):
                    last = (max(key[0], last[0]), max(column, last[1]))
                    self._add(looks, key, cell)
        looks.area = (last[0] + 1) * (last[1] + 1)
        return looks

    def extras(self, name: str) -> str:
        """Return what is drawn on a sheet as HTML; record its comments and objects."""
        archive = self._archive
        found = []
        parts = archive.relations(self.parts.get(name, "")).values()
        is_threaded = any(kind == "threadedComment" for kind, _, _ in parts)
        for kind, target, is_external in parts:
            if is_external or target not in archive:
                continue
            if kind == "drawing":
                relations = archive.relations(target)
                found += [
                    self._drawing(item, relations)
                    for item in archive.xml(target).iter(*_DRAWN)
                    if next(item.iterancestors("{*}Fallback"), None) is None
                ]
            elif kind in {"comments", "threadedComment"}:
                if kind == "comments" and is_threaded:
                    continue  # repeats the threaded comments
                comments = ("{*}comment", "{*}threadedComment")
                for item in archive.xml(target).iter(*comments):
                    text = "".join(item.itertext())
                    self._losses.add("annotation", COMMENT, text=text)
            elif kind in {"package", "oleObject"}:
                record_object(posixpath.basename(target), self._losses)
        return "\n".join(filter(None, found))

    def _drawing(self, item: Any, relations: Relations) -> str:
        if local(item) == "graphicData":
            return self._graphics.html(item, relations) or ""
        if local(item) == "sp":
            texts = ("".join(p.itertext()).strip() for p in item.iter("{*}p"))
            return "".join(element("p", escape(text)) for text in texts if text)
        facts = item.find("{*}nvPicPr/{*}cNvPr")
        alt = facts.get("descr", "") if facts is not None else ""
        image = picture(alt, self._losses)
        return element("p", image) if image else ""

    def _add(self, looks: _Looks, key: CellKey, cell: Any) -> None:
        code = self._formats.get(parse_digits(cell.get("s", "")))
        if cell.get("t") == "e":
            looks.errors[key] = cell.findtext("{*}v") or ""
        elif code and len(looks.formats) < MAX_CELLS:
            looks.formats[key] = code

    def _elements(self, part: str, *names: str) -> Iterator[Any]:
        """Yield elements while parsing, and empty each element afterwards."""
        parsed = etree.iterparse(
            io.BytesIO(self._archive.read(part, MAX_XML_BYTES)),
            tag=[f"{{*}}{name}" for name in names],
            resolve_entities=False,
            no_network=True,
            huge_tree=False,
        )
        try:
            for _, item in parsed:
                yield item
                item.clear()
                while item.getprevious() is not None:
                    del item.getparent()[0]
        except etree.XMLSyntaxError as exc:
            raise self._archive.unreadable("it is damaged") from exc


def _cell_of(reference: str) -> CellKey:
    """Return row and column of a reference such as ``B3`` or ``$B$3:C4``."""
    match = _CELL_NAME.match(reference.replace("$", ""))
    if match is None:
        return 0, 0
    column = 0
    for letter in match[1]:
        column = 26 * column + ord(letter) - 64
    return parse_digits(match[2]) - 1, column - 1


# -- formats of numbers ------------------------------------------------------------------


def format_value(value: Value, code: str) -> str:
    """Return a number in the format ``code``, dates in ISO 8601, durations as ``h:mm:ss``."""
    if isinstance(value, timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    sections = _sections(code)
    if isinstance(value, int | float):
        if all(kind != "moment" for kind, _ in sections[0]):
            return _number(value, sections)
        if not 0 <= value <= MAX_DAY:
            return _general(value)
        value = DAY_0 + timedelta(days=value)
    if isinstance(value, datetime) and value.date() == DAY_0.date():
        value = value.time()  # a time without a day
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
    core = mask.rstrip(",")
    value /= 1000.0 ** min(len(mask) - len(core), 9)  # each comma at the end
    before, _, after = core.partition(".")
    grouped = "," if "," in before else ""
    whole, _, tail = f"{value:{grouped}.{len(after)}f}".partition(".")
    least = len(after.rstrip("#?"))
    tail = tail[:least] + tail[least:].rstrip("0")
    if "0" not in before and whole == "0":
        whole = ""
    elif not grouped:
        whole = whole.zfill(before.count("0"))
    return f"{whole}.{tail}" if tail else whole


def _general(value: float) -> str:
    is_whole = abs(value) < 1e15 and value == int(value)
    return str(int(value)) if is_whole else f"{value:.10g}"


# -- grids -------------------------------------------------------------------------------


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


def sheets_html(document: ConvertedDocument, grids: Iterable[Grid]) -> str:
    """Return sheets as headings and tables; warn of cut sheets, and record them."""
    parts = []
    for grid in grids:
        if grid.name:
            parts.append(element("h2", escape(grid.name)))
        parts += [grid_html(grid), grid.after]
        if grid.is_cut:
            named = f"The sheet {grid.name[:100]!r}" if grid.name else "The table"
            document.warnings.append(
                f"{named} was truncated: at most {MAX_COLUMNS} columns, and "
                f"{MAX_CELLS} cells in all, are converted."
            )
            document.losses.add("truncated", cut_reason(grid, named))
    return "\n".join(filter(None, parts))


def record_left_out(
    document: ConvertedDocument, hidden: list[str], visible: int
) -> None:
    """Warn of hidden sheets and of visible sheets beyond the limit, and record them."""
    if hidden:
        names = ", ".join(repr(name[:50]) for name in hidden[:10])
        reason = f"Hidden sheets were left out: {names}."
        document.warn("hiddenPart", reason, count=len(hidden))
    if visible > MAX_SHEETS:
        document.record_cut("workbook", MAX_SHEETS, visible, "sheets")


def cut_reason(grid: Grid, named: str) -> str:
    """Return why a sheet is cut, with the limit and both sizes."""
    rows, columns = grid.size
    kept = len(grid.cells)
    limit, counts = f"{MAX_CELLS} cells", f"{kept} of its {max(rows, kept)} rows"
    if columns > MAX_COLUMNS:
        limit = f"{MAX_COLUMNS} columns"
        counts = f"{MAX_COLUMNS} of its {columns} columns"
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
    shown = (
        [
            (cell.html if cell else "", *spans.get((row, column), (1, 1)))
            for column, cell in ((n, grid.cells[row].get(n)) for n in columns)
            if (row, column) not in covered
        ]
        for row in rows
    )
    return table(shown, headers=int(has_header))


def _spans(
    grid: Grid, rows: list[int], columns: list[int]
) -> tuple[dict[CellKey, tuple[int, int]], set[CellKey]]:
    """Return the columns and rows of merged cells, and the cells that they cover."""
    spans: dict[CellKey, tuple[int, int]] = {}
    covered: set[CellKey] = set()
    work = 0
    for top, left, bottom, right in grid.merged:
        key = (top, left)
        if left not in grid.cells.get(top, {}) or key in spans or key in covered:
            continue
        inner_rows = rows[bisect_left(rows, top) : bisect_right(rows, bottom)]
        first, end = bisect_left(columns, left), bisect_right(columns, right)
        inner_columns = columns[first:end]
        spans_now = len(inner_columns), len(inner_rows)
        work += spans_now[0] * spans_now[1]
        if work > MAX_COVERED:
            break
        spans[key] = spans_now
        covered |= {(r, c) for r in inner_rows for c in inner_columns} - {key}
    return spans, covered


# -- delimited text ----------------------------------------------------------------------


def read_delimited(text: str, *, tabs: bool = False) -> ConvertedDocument | None:
    """Return the table in ``text``, None if it has fewer than two columns.

    ``tabs`` fixes the delimiter; otherwise it is detected.
    """
    csv.field_size_limit(MAX_FIELD)
    delimiter = "\t" if tabs else _delimiter(text[:SAMPLE])
    grid = Grid()
    left = MAX_CELLS
    rows, columns = 0, 0
    try:
        found = csv.reader(io.StringIO(text), delimiter=delimiter)
        for number, row in enumerate(found):
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
    document = ConvertedDocument(raw=text)
    document.body = sheets_html(document, [grid])
    return document


def _delimiter(sample: str) -> str:
    """Return the delimiter that the rows contain equally often outside of quotes."""
    lines = [line for line in sample.split("\n")[:50] if line.strip()]
    bare = ["".join(line.split('"')[::2]) for line in lines]
    delimiter, best = ",", 0.0
    for sign in DELIMITERS:
        counts = [line.count(sign) for line in bare]
        least = min(counts, default=0)
        usual = max(set(counts), key=counts.count) if counts else 0
        agreed = counts.count(usual) / max(len(counts), 1)
        score = agreed * (1 + min(least, 1)) if usual else 0.0
        if score > best:
            best, delimiter = score, sign
    return delimiter
