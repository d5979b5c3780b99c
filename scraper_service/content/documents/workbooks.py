"""Converts Excel workbooks (.xlsx, .xlsb, .xls) with python-calamine.

The library returns values. Number formats, hidden rows, links and errors of an .xlsx file
are read from its sheets here, so that cells look as in Excel.
"""

from __future__ import annotations

import io
import posixpath
import re
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

from scraper_service.content.characters import parse_digits
from scraper_service.content.documents.drawings_and_formulas import (
    Graphics,
    Relations,
    record_object,
)
from scraper_service.content.documents.markup import (
    HIDDEN_ROWS,
    MAX_CELLS,
    MAX_XML_BYTES,
    OLE,
    PICTURE,
    Archive,
    ConvertedDocument,
    anchor,
    attribute,
    element,
    escape,
    local,
    picture,
    properties,
    unreadable,
)
from scraper_service.content.documents.sheets import (
    BUILTIN,
    MAX_SHEETS,
    Grid,
    GridCell,
    format_value,
    record_left_out,
    sheets_html,
)
from scraper_service.content.losses import Losses

if TYPE_CHECKING:
    from collections.abc import Iterator

KIND = "Excel"
MAX_MERGED = 10_000
MAX_TEXT = 32_767  # characters in a cell; Excel's limit
MAX_AREA = 5_000_000  # cells of a sheet; the library also stores the empty ones

# What drawings of a sheet have: charts and SmartArt, shapes with text, pictures.
_DRAWN = ("{*}graphicData", "{*}sp", "{*}pic")
COMMENT = "Comments and notes of a workbook are no part of its tables."
OTHER_SHEET = "Only sheets with cells and charts become tables."

_PLACE = re.compile(r"([A-Z]{1,7})(\d+)")
Place = tuple[int, int]


def read_workbook(body: bytes) -> ConvertedDocument:
    """Convert a workbook: each visible sheet becomes a heading and a table.

    :raises Unreadable: for a damaged, encrypted or hostile file.
    """
    warnings: list[str] = []
    losses = Losses()
    known: dict[str, str] = {}
    other: dict[str, str] = {}
    styles = None
    if not body.startswith(OLE):
        archive = Archive(body, KIND)
        archive.check_parts()
        known, other = properties(archive)
        main = archive.main_part("xl/workbook.xml")
        is_xml = main.endswith(".xml")
        styles = _Styles(archive, main, losses) if is_xml else None
    try:
        with CalamineWorkbook.from_filelike(io.BytesIO(body)) as book:
            grids = _grids(book, styles, warnings, losses)
            html = sheets_html(grids, warnings, losses)
    except (CalamineError, OSError, ValueError) as exc:
        reason = "it is encrypted" if "assword" in str(exc) else "it is damaged"
        raise unreadable(KIND, reason) from exc
    return ConvertedDocument(
        body=html, known=known, other=other, warnings=warnings, losses=losses
    )


def _grids(
    book: CalamineWorkbook,
    styles: _Styles | None,
    warnings: list[str],
    losses: Losses,
) -> Iterator[Grid]:
    visible: list[tuple[int, SheetMetadata]] = []
    hidden: list[str] = []
    parts: set[str] = set()
    for index, facts in enumerate(book.sheets_metadata):
        part = styles.part(facts.name) if styles else ""
        if part and part in parts:
            continue  # the same sheet by another name
        parts.add(part)
        if facts.visible == SheetVisibleEnum.Visible:
            visible.append((index, facts))
        else:
            hidden.append(facts.name)
    record_left_out(hidden, len(visible), warnings, losses)
    left = MAX_CELLS
    for index, facts in visible[:MAX_SHEETS]:
        if facts.typ != SheetTypeEnum.WorkSheet:
            after = styles.extras(facts.name) if styles else ""
            if after:
                yield Grid(facts.name, after=after)
            elif facts.typ != SheetTypeEnum.ChartSheet or styles is None:
                losses.add("chart", OTHER_SHEET, text=facts.name)
            continue
        looks = styles.looks(facts.name) if styles else _Looks()
        try:
            sheet = _load(book, index, looks)
        except (CalamineError, OverflowError) as exc:
            is_wide = isinstance(exc, OverflowError)
            reason = "its cells are too far apart" if is_wide else "it is damaged"
            warnings.append(f"The sheet {facts.name[:100]!r} was left out: {reason}.")
            losses.add("table", warnings[-1], text=facts.name)
            continue
        grid = _grid(sheet, looks, left, losses)
        left -= grid.count
        grid.size = (sheet.total_height + 1, sheet.total_width + 1)  # the last indexes
        grid.after = styles.extras(facts.name) if styles else ""
        yield grid


def _load(book: CalamineWorkbook, index: int, looks: _Looks) -> CalamineSheet:
    """Return a sheet.

    :raises OverflowError: for a sheet whose first and last cell are too far apart.
    """
    if looks.area > MAX_AREA:
        raise OverflowError
    sheet = book.get_sheet_by_index(index)
    if sheet.total_height * sheet.total_width > MAX_AREA:
        raise OverflowError
    return sheet


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
    """What a sheet has beside values, by place: row and column, from 0."""

    #: Number formats of numbers.
    formats: dict[Place, str] = field(factory=dict)
    #: Errors such as ``#DIV/0!``.
    errors: dict[Place, str] = field(factory=dict)
    #: URLs.
    links: dict[Place, str] = field(factory=dict)
    hidden_rows: set[int] = field(factory=set)
    #: How many cells the sheet has if its empty cells count.
    area: int = 0

    def cell(self, place: Place, value: Any) -> GridCell | None:
        """Return a cell as HTML, None for an empty cell."""
        is_text = isinstance(value, str)
        if is_text:
            text = value.strip() or self.errors.get(place, "")
        elif isinstance(value, bool):
            text = str(value).upper()
        else:
            text = format_value(value, self.formats.get(place, ""))
        if not text:
            return None
        html = escape(text[:MAX_TEXT]).replace("\n", "<br>")
        return GridCell(anchor(html, self.links.get(place)), is_text)


class _Styles:
    """The looks of the sheets of an .xlsx file."""

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
        self._parts = {
            sheet.get("name", ""): relations[relation][1]
            for sheet in archive.xml(main).iterfind("{*}sheets/{*}sheet")
            if (relation := attribute(sheet, "id") or "") in relations
        }

    def part(self, name: str) -> str:
        """Return the part of the sheet with this name, empty if it is not known."""
        return self._parts.get(name, "")

    def looks(self, name: str) -> _Looks:
        """Return the looks of the sheet with this name."""
        looks = _Looks()
        part = self.part(name)
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
                place = _cell_of(reference) if reference else (row, column + 1)
                column = place[1]
                if len(cell):
                    last = (max(place[0], last[0]), max(column, last[1]))
                    self._add(looks, place, cell)
        looks.area = (last[0] + 1) * (last[1] + 1)
        return looks

    def extras(self, name: str) -> str:
        """Return what is drawn on a sheet as HTML; record its comments and objects."""
        archive = self._archive
        part = self._parts.get(name, "")
        found = []
        for kind, target, is_external in archive.relations(part).values():
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
                if kind == "comments" and self._is_threaded(part):
                    continue  # repeats the threaded comments
                for item in archive.xml(target).iter(
                    "{*}comment", "{*}threadedComment"
                ):
                    self._losses.add(
                        "annotation", COMMENT, text="".join(item.itertext())
                    )
            elif kind in {"package", "oleObject"}:
                record_object(posixpath.basename(target), self._losses)
        return "\n".join(filter(None, found))

    def _drawing(self, item: Any, relations: Relations) -> str:
        """Return a chart, the text of a shape, or the description of a picture."""
        if local(item) == "graphicData":
            return self._graphics.html(item, relations) or ""
        if local(item) == "sp":
            texts = ("".join(p.itertext()).strip() for p in item.iter("{*}p"))
            return "".join(element("p", escape(text)) for text in texts if text)
        facts = item.find("{*}nvPicPr/{*}cNvPr")
        alt = facts.get("descr", "") if facts is not None else ""
        if not alt.strip():
            self._losses.add("image", PICTURE)
            return ""
        return element("p", picture(alt))

    def _is_threaded(self, part: str) -> bool:
        relations = self._archive.relations(part).values()
        return any(kind == "threadedComment" for kind, _, _ in relations)

    def _add(self, looks: _Looks, place: Place, cell: Any) -> None:
        code = self._formats.get(parse_digits(cell.get("s", "")))
        if cell.get("t") == "e":
            looks.errors[place] = cell.findtext("{*}v") or ""
        elif code and len(looks.formats) < MAX_CELLS:
            looks.formats[place] = code

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


def _cell_of(reference: str) -> Place:
    """Return row and column of a reference such as ``B3`` or ``$B$3:C4``."""
    match = _PLACE.match(reference.replace("$", ""))
    if match is None:
        return 0, 0
    column = 0
    for letter in match[1]:
        column = 26 * column + ord(letter) - 64
    return parse_digits(match[2]) - 1, column - 1
