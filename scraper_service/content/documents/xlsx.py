"""Excel workbooks (.xlsx), their cells as they are shown."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from lxml import etree

from scraper_service.content.documents.archive import (
    MAX_XML_BYTES,
    Archive,
    attribute,
    local,
)
from scraper_service.content.documents.markup import MAX_CELLS, Draft, anchor, escape
from scraper_service.content.documents.number_formats import (
    BUILTIN,
    DAYS_1900,
    DAYS_1904,
    shown_number,
)
from scraper_service.content.documents.properties import properties
from scraper_service.content.documents.sheets import MAX_SHEETS, Cell, Grid, sheets_html

if TYPE_CHECKING:
    from collections.abc import Iterator

KIND = "Excel"
MAX_STRINGS = 1_000_000
MAX_MERGED = 10_000
MAX_TEXT = 32_767  # characters of a cell, the limit of Excel

_PLACE = re.compile(r"([A-Z]{1,3})(\d{1,7})\Z")


def read_xlsx(body: bytes) -> Draft:
    """Convert a workbook: each visible sheet becomes a heading and a table.

    :raises Unreadable: for a damaged, encrypted or hostile file.
    """
    return _Workbook(Archive(body, KIND)).draft()


class _Workbook:
    def __init__(self, archive: Archive):
        self._archive = archive
        self._warnings: list[str] = []
        self._path = next(
            (
                target
                for kind, target, _ in archive.relations("").values()
                if kind == "officeDocument"
            ),
            "xl/workbook.xml",
        )
        self._book = archive.xml(self._path)
        self._relations = archive.relations(self._path)
        facts = self._book.find("{*}workbookPr")
        is_1904 = facts is not None and facts.get("date1904") in {"1", "true"}
        self._epoch = DAYS_1904 if is_1904 else DAYS_1900
        self._formats = self._read_formats()
        self._strings = self._read_strings()
        self._left = MAX_CELLS

    def draft(self) -> Draft:
        known, other = properties(self._archive)
        body = sheets_html(self._grids(), self._warnings)
        return Draft(body=body, known=known, other=other, warnings=self._warnings)

    def _grids(self) -> Iterator[Grid]:
        sheets = self._book.findall("{*}sheets/{*}sheet")
        hidden = [s for s in sheets if s.get("state", "visible") != "visible"]
        if hidden:
            names = ", ".join(repr(sheet.get("name", "")[:50]) for sheet in hidden[:10])
            self._warnings.append(f"Hidden sheets were left out: {names}.")
        visible = [sheet for sheet in sheets if sheet not in hidden]
        if len(visible) > MAX_SHEETS:
            self._warnings.append(
                f"The workbook was truncated: {MAX_SHEETS} of its {len(visible)} sheets "
                "were converted."
            )
        for sheet in visible[:MAX_SHEETS]:
            relation = self._relations.get(attribute(sheet, "id") or "")
            if relation and relation[0] == "worksheet" and relation[1] in self._archive:
                yield self._grid(sheet.get("name", ""), relation[1])

    def _part(self, kind: str) -> str | None:
        for found, target, external in self._relations.values():
            if found == kind and not external and target in self._archive:
                return target
        return None

    def _read_formats(self) -> list[str]:
        """Return the format of each cell style."""
        path = self._part("styles")
        if path is None:
            return []
        styles = self._archive.xml(path)
        codes: dict[int, str] = dict(BUILTIN)
        for item in styles.iterfind("{*}numFmts/{*}numFmt"):
            codes[_number(item.get("numFmtId"))] = item.get("formatCode", "General")
        return [
            codes.get(_number(style.get("numFmtId")), "General")
            for style in styles.iterfind("{*}cellXfs/{*}xf")
        ]

    def _read_strings(self) -> list[str]:
        path = self._part("sharedStrings")
        found: list[str] = []
        for item in self._elements(path, "si") if path else ():
            found.append(_text(item))
            if len(found) == MAX_STRINGS:
                break
        return found

    def _elements(self, path: str, *names: str) -> Iterator[Any]:
        """Yield elements as they are read; each is emptied afterwards."""
        data = self._archive.read(path, MAX_XML_BYTES)
        if b"<!DOCTYPE" in data:
            raise self._archive.refused("it declares a document type")
        tags = [f"{{*}}{name}" for name in names]
        try:
            for _, item in etree.iterparse(
                io.BytesIO(data),
                tag=tags,
                resolve_entities=False,
                no_network=True,
                huge_tree=False,
            ):
                yield item
                item.clear()
                while item.getprevious() is not None:
                    del item.getparent()[0]
        except etree.XMLSyntaxError as exc:
            raise self._archive.refused("it is damaged") from exc

    def _grid(self, name: str, path: str) -> Grid:
        grid = Grid(name)
        links: list[tuple[int, int, str]] = []
        relations = self._archive.relations(path)
        row = -1
        for item in self._elements(path, "row", "mergeCell", "hyperlink"):
            kind = local(item)
            if kind == "mergeCell":
                if len(grid.merged) < MAX_MERGED:
                    first, _, last = item.get("ref", "").partition(":")
                    grid.merged.append((*_place(first), *_place(last or first)))
            elif kind == "hyperlink":
                target = relations.get(attribute(item, "id") or "")
                if target and target[2]:
                    first = item.get("ref", "").partition(":")[0]
                    links.append((*_place(first), target[1]))
            else:
                row = _number(item.get("r"), row + 2) - 1
                if len(item):
                    self._read_row(item, row, grid)
        for at_row, at_column, address in links:
            cell = grid.cells.get(at_row, {}).get(at_column)
            if cell:
                cell.html = anchor(cell.html, address)
        return grid

    def _read_row(self, item: Any, row: int, grid: Grid) -> None:
        if item.get("hidden") in {"1", "true"}:
            return
        column = -1
        for found in item.iterfind("{*}c"):
            place = found.get("r")
            column = _place(place)[1] if place else column + 1
            cell = self._cell(found)
            if cell is None:
                continue
            if not self._left:
                grid.is_cut = True
                return
            grid.put(row, column, cell)
            self._left -= 1

    def _cell(self, found: Any) -> Cell | None:
        kind = found.get("t", "n")
        if kind == "inlineStr":
            return _as_text(_text(found))
        value = found.findtext("{*}v")
        if value is None or not value.strip():
            return None
        if kind == "s":
            index = _number(value, -1)
            if not 0 <= index < len(self._strings):
                return None
            return _as_text(self._strings[index])
        if kind == "b":
            return Cell("TRUE" if value.strip() == "1" else "FALSE", is_text=False)
        if kind in {"str", "e", "d"}:
            return _as_text(value)
        style = _number(found.get("s"))
        code = self._formats[style] if 0 <= style < len(self._formats) else "General"
        try:
            shown = shown_number(float(value), code, self._epoch)
        except (ValueError, OverflowError):
            shown = value
        return Cell(escape(shown[:MAX_TEXT]), is_text=False) if shown else None


def _as_text(text: str) -> Cell | None:
    if not text.strip():
        return None
    return Cell(escape(text.strip()[:MAX_TEXT]).replace("\n", "<br>"))


def _text(item: Any) -> str:
    """Return rich text without its readings, which stand above East Asian text."""
    return "".join(
        part.text or ""
        for part in item.iter("{*}t")
        if local(part.getparent()) != "rPh"
    )


def _place(text: str) -> tuple[int, int]:
    """Return row and column, from 0, of a place such as ``B3``."""
    match = _PLACE.match(text.replace("$", ""))
    if match is None:
        return 0, 0
    column = 0
    for letter in match[1]:
        column = 26 * column + ord(letter) - 64
    return int(match[2]) - 1, column - 1


def _number(text: str | None, default: int = 0) -> int:
    try:
        return int(text or default)
    except ValueError:
        return default
