"""Tables of pages: their columns and cells; CSV, JSON Lines, Parquet and SQLite files."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from typing import TYPE_CHECKING, Any

from scraper_service.exports.markdown_zip import OutputBuffer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


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
TABLES = {"pages", "failures"}


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
    key, _, tail = path.partition(".")
    return _at(value.get(key), tail) if tail else None


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


# -- SQLite ----------------------------------------------------------------------------


class SqliteFile:
    """Writes the tables ``pages`` and ``failures`` of a new file.

    ``pages`` has the columns :data:`FACTS`, the formats in ``keys``, :data:`LAST` and
    ``metadata``; further formats get columns when they occur. Numbers are numbers, and
    data that are no text are JSON. Each call of :meth:`add` is a transaction, so other
    programs can read the file meanwhile. All methods raise :exc:`sqlite3.Error`.
    """

    def __init__(self, path: Path, keys: Sequence[str] = ()):
        path.unlink(missing_ok=True)
        # Several threads may use the file, one after the other.
        self._file = sqlite3.connect(path, check_same_thread=False)
        self._columns = [*FACTS, *keys, *LAST, "metadata"]
        names = ", ".join(map(_quote, self._columns))
        with self._file:
            self._file.execute(f"CREATE TABLE pages (id INTEGER PRIMARY KEY, {names})")
            self._file.execute("CREATE TABLE failures (url, code, error)")

    def add(self, pages: Iterable[bytes]) -> None:
        """Store page objects of /v2, in their order."""
        with self._file:
            for page in pages:
                values = self._values(json.loads(page))
                for name in values.keys() - set(self._columns):
                    self._file.execute(f"ALTER TABLE pages ADD COLUMN {_quote(name)}")
                    self._columns.append(name)
                names = ", ".join(map(_quote, values))
                marks = ", ".join("?" * len(values))
                self._file.execute(
                    f"INSERT INTO pages ({names}) VALUES ({marks})",  # noqa: S608  # quoted
                    tuple(map(_cell, values.values())),
                )

    def _values(self, page: dict[str, Any]) -> dict[str, Any]:
        metadata = page.get("metadata", {})
        facts = {name: metadata.get(name) for name in FACTS}
        error = {"error": page.get("error") or metadata.get("error")}
        return {**facts, **page, **error}

    def fail(self, failures: Iterable[tuple[str, str, str]]) -> None:
        """Store URL, code and error of failures."""
        with self._file:
            self._file.executemany(
                "INSERT INTO failures VALUES (?, ?, ?)",
                (tuple(map(_cell, failure)) for failure in failures),
            )

    def close(self) -> None:
        self._file.close()


def is_export(path: Path) -> bool:
    """Return True if a file is empty or an earlier file of :class:`SqliteFile`."""
    if not path.stat().st_size:
        return True
    file = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        rows = file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        return {name for (name,) in rows} == TABLES
    except sqlite3.DatabaseError:
        return False
    finally:
        file.close()


def _quote(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _cell(value: Any) -> Any:
    return value if isinstance(value, int | float) else _stored_text(value)


# -- Parquet ---------------------------------------------------------------------------

GROUP_ROWS = 1000
GROUP_BYTES = 8 * 2**20  # of rows in memory, as JSON; a larger row is a group alone
# Columns of integers; all others are texts.
NUMBERS = frozenset(
    ["statusCode", "depth"]
    + [
        f"metadata.{name}"
        for name in (
            *("statusCode", "creditsUsed", "tokenCount", "tokensUsed", "wordCount"),
            *("numPages", "totalPages", "concurrencyQueueDurationMs"),
        )
    ]
)


class ParquetFile:
    """Writes rows with ``columns``, which are paths for :func:`value_at`.

    Data that are no text are JSON. Pages are compressed by Zstandard. Raises
    :exc:`ImportError` without pyarrow.
    """

    def __init__(self, columns: Sequence[str]):
        import pyarrow as pa  # noqa: PLC0415  # of an extra, and slow
        from pyarrow.parquet import ParquetWriter  # noqa: PLC0415

        self._make_table = pa.table
        self._schema = pa.schema(
            [(name, pa.int64() if name in NUMBERS else pa.string()) for name in columns]
        )
        self._out = OutputBuffer()
        self._writer = ParquetWriter(
            pa.PythonFile(self._out, "w"), self._schema, compression="zstd"
        )
        self._columns: dict[str, list[Any]] = {name: [] for name in columns}
        self._rows = 0
        self._bytes = 0

    def head(self) -> bytes:
        return self._out.take()

    def add(self, row: bytes) -> bytes:
        values = json.loads(row)
        for name, column in self._columns.items():
            column.append(_parquet_cell(name, value_at(values, name)))
        self._rows += 1
        self._bytes += len(row)
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._write_group()
        return self._out.take()

    def end(self) -> bytes:
        if self._rows:
            self._write_group()
        self._writer.close()
        return self._out.take()

    def _write_group(self) -> None:
        table = self._make_table(self._columns, self._schema)
        self._writer.write_table(table, row_group_size=GROUP_ROWS)
        for column in self._columns.values():
            column.clear()
        self._rows = self._bytes = 0


def _parquet_cell(name: str, value: Any) -> int | str | None:
    if name in NUMBERS:
        return value if isinstance(value, int) else None
    return _stored_text(value)


def _stored_text(value: Any) -> str | None:
    """Return :func:`cell_text` without lone surrogates, which are no characters."""
    text = cell_text(value)
    return None if text is None else text.encode("utf-8", "replace").decode()
