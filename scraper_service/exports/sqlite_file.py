"""SQLite files with a table of pages."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from scraper_service.exports.tables import FACTS, LAST, cell_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

TABLES = {"pages", "failures"}


class SqliteFile:
    """Writes the tables ``pages`` and ``failures`` of a new file.

    ``pages`` has the columns :data:`FACTS`, the formats in ``keys``, :data:`LAST` and
    ``metadata``; further formats get columns when they occur. Numbers are numbers, and
    data that are no text are JSON. Each call of :meth:`add` is a transaction, so other
    programs can read the file meanwhile. All methods raise :exc:`sqlite3.Error`.
    """

    def __init__(self, path: Path, keys: Sequence[str] = ()):
        path.unlink(missing_ok=True)
        # Threads may take turns.
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
    if isinstance(value, int | float):
        return value
    text = cell_text(value)
    return None if text is None else text.encode("utf-8", "replace").decode()
