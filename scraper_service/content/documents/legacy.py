"""Files of office programs before 2007: what they are, and sheets as far as they go."""

from __future__ import annotations

import io
from datetime import date, datetime, time
from typing import Any

from scraper_service.content.documents.archive import refused
from scraper_service.content.documents.markup import MAX_CELLS, Draft, escape
from scraper_service.content.documents.sheets import MAX_SHEETS, Cell, Grid, sheets_html

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
# Names of streams, by which the program is told.
_STREAMS = {
    "WordDocument": "doc",
    "Workbook": "xls",
    "Book": "xls",
    "PowerPoint Document": "ppt",
}
_LATER = {"doc": ("Word", "docx"), "ppt": ("PowerPoint", "pptx")}


def stream_kind(body: bytes) -> str | None:
    """Return ``doc``, ``xls``, ``ppt``, or ``encrypted``; None for something else."""
    if ENCRYPTED in body:
        return "encrypted"
    for name, kind in _STREAMS.items():
        if name.encode("utf-16-le") + b"\0\0" in body:
            return kind
    return None


def read_encrypted(_body: bytes) -> Draft:
    """Refuse a file that needs a password."""
    raise refused("Office", "it is encrypted with a password")


def read_doc(_body: bytes) -> Draft:
    """Refuse a text of before 2007."""
    raise refused("Word", "the format .doc of before 2007 is not supported, .docx is")


def read_ppt(_body: bytes) -> Draft:
    """Refuse a presentation of before 2007."""
    raise refused(
        "PowerPoint", "the format .ppt of before 2007 is not supported, .pptx is"
    )


def read_xls(body: bytes) -> Draft:
    """Convert a workbook (.xls, .xlsb) by python-calamine.

    :raises Unreadable: for a damaged or encrypted file, and without the library.
    """
    try:
        import python_calamine as calamine  # noqa: PLC0415  # an extra
    except ImportError as exc:
        raise refused(
            "Excel",
            "this kind of workbook needs the library python-calamine, which is not "
            "installed here (pip install scraper-service[documents]); .xlsx does not",
        ) from exc
    warnings: list[str] = []
    try:
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(body))
        grids = _grids(book, warnings)
    except (calamine.CalamineError, OSError, ValueError) as exc:
        reason = "it is encrypted" if "assword" in str(exc) else "it is damaged"
        raise refused("Excel", reason) from exc
    return Draft(body=sheets_html(grids, warnings), warnings=warnings)


def _grids(book: Any, warnings: list[str]) -> list[Grid]:
    grids = []
    left = MAX_CELLS
    hidden = []
    for sheet in book.sheets_metadata[:MAX_SHEETS]:
        if not str(sheet.visible).endswith("Visible"):
            hidden.append(repr(sheet.name[:50]))
            continue
        if not str(sheet.typ).endswith("WorkSheet"):
            continue
        grid = Grid(sheet.name)
        for number, row in enumerate(book.get_sheet_by_name(sheet.name).iter_rows()):
            for column, value in enumerate(row):
                shown = _shown(value)
                if not shown:
                    continue
                if not left:
                    grid.is_cut = True
                    break
                left -= 1
                grid.put(number, column, Cell(escape(shown), isinstance(value, str)))
        grids.append(grid)
    if hidden:
        warnings.append(f"Hidden sheets were left out: {', '.join(hidden[:10])}.")
    return grids


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else f"{value:.10g}"
    if isinstance(value, datetime):
        text = value.isoformat(" ")
        return text.removesuffix(" 00:00:00")
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value).strip()
