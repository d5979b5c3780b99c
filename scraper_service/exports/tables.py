"""Tables of pages: their columns, the texts of their cells, CSV; and JSON Lines."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Columns of the command line and of feeds before the formats, from the metadata.
FACTS = (
    *("url", "sourceURL", "statusCode", "contentType"),
    *("title", "description", "language"),
)
LAST = ("warning", "error")
#: Columns of an export without ``fields``, by what it has in its rows.
COLUMNS = {
    "pages": (
        *("url", "title", "description", "language", "statusCode"),
        *("markdown", "json", "scrapeId", "metadata.losses"),
    ),
    "errors": ("id", "timestamp", "url", "code", "error"),
    "urls": (
        *("url", "kind", "state", "reason", "detail"),
        *("depth", "foundOn", "scrapeId", "lastModified", "losses"),
    ),
}
# Spreadsheets take a cell with this start for a formula. The last four are wide forms.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def value_at(row: Mapping[str, Any], path: str) -> Any:
    """Return the value of a page object at a path such as ``metadata.title``, or None.

    A path that begins with no key of the object begins in its metadata. Keys may have
    dots themselves, as in ``metadata.dc.title``.
    """
    found = _at(row, path)
    return _at(row.get("metadata"), path) if found is None else found


def _at(value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        return None
    if path in value:
        return value[path]
    key, _, rest = path.partition(".")
    return _at(value.get(key), rest) if rest else None


def cell_text(value: Any) -> str | None:
    """Return a text as it is, other values as JSON, and None for None."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def cell(value: Any) -> str:
    """Return the text of a CSV cell for a value of a page.

    A text that a spreadsheet could take for a formula begins with an apostrophe.
    """
    text = cell_text(value) or ""
    return f"'{text}" if text.startswith(FORMULA) else text


def csv_row(cells: Iterable[str]) -> bytes:
    """Return a row of CSV (RFC 4180) in UTF-8."""
    text = io.StringIO(newline="")
    csv.writer(text).writerow(cells)
    return text.getvalue().encode("utf-8", "replace")


class CsvWriter:
    """Writes rows of CSV with fixed ``columns``, which are paths for :func:`value_at`."""

    def __init__(self, columns: Sequence[str]):
        self._columns = tuple(columns)

    def head(self) -> bytes:
        return csv_row(map(cell, self._columns))

    def add(self, row: bytes) -> bytes:
        values = json.loads(row)
        return csv_row(cell(value_at(values, path)) for path in self._columns)

    def end(self) -> bytes:
        return b""


class JsonlWriter:
    """Writes each row as it is, or an object with the paths ``fields`` alone.

    Each field is a key of its object, with null for a missing value.
    """

    def __init__(self, fields: Sequence[str] = ()):
        self._fields = tuple(fields)

    def head(self) -> bytes:
        return b""

    def add(self, row: bytes) -> bytes:
        if not self._fields:
            return row + b"\n"
        values = json.loads(row)
        chosen = {path: value_at(values, path) for path in self._fields}
        text = json.dumps(chosen, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace") + b"\n"

    def end(self) -> bytes:
        return b""
