"""The outputs that are files: JSON Lines, tables, archives and databases."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scraper_service.cli.outputs import OutputFailed, ReaderGone
from scraper_service.cli.outputs.page_files import (
    EVERY_KEY,
    KINDS,
    Unavailable,
    content_of,
    ending_of,
)
from scraper_service.exports import tables
from scraper_service.exports.formats import make_writer
from scraper_service.exports.markdown_zip import PageNames
from scraper_service.options.formats import FILE, PICTURE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.cli.terminal import FailedUrl
    from scraper_service.exports.formats import FileSpec


class Nowhere:
    """An output that writes nothing. The pages stay in the job database."""

    def open(self) -> None: ...

    def write(self, pages: Sequence[bytes]) -> None: ...

    def close(self, failures: Sequence[FailedUrl] | None) -> None: ...


class _File:
    """A file that is written from its start, or standard output if ``path`` is None."""

    def __init__(self, path: Path | None):
        self._path = path
        self._file: io.FileIO | None = None
        self._is_begun = False

    def open(self) -> None:
        try:
            if self._path is None:
                # Unbuffered: the interpreter has nothing to flush at its end.
                self._file = io.FileIO(sys.stdout.fileno(), "w", closefd=False)
            else:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
                self._file = io.FileIO(os.open(self._path, flags, 0o666), "w")
        except OSError as error:
            raise self._failure(error) from error

    def write(self, pages: Sequence[bytes]) -> None:
        self._begin()
        for page in pages:
            self._send(self._page(page))

    def close(self, failures: Sequence[FailedUrl] | None) -> None:
        if self._file is None:
            return
        if failures is not None:
            self._begin()
        if self._is_begun:
            self._send(self._end())
        self._file.close()

    def _begin(self) -> None:
        assert self._file is not None
        if self._is_begun:
            return
        self._is_begun = True
        is_regular = stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)
        if self._path is not None and is_regular:
            self._file.truncate(0)
        self._send(self._head())

    def _head(self) -> bytes:
        return b""

    def _page(self, page: bytes) -> bytes:
        raise NotImplementedError

    def _end(self) -> bytes:
        return b""

    def _send(self, data: bytes) -> None:
        assert self._file is not None
        try:
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) or 0 :]
        except BrokenPipeError as error:
            raise ReaderGone from error
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> OutputFailed:
        name = self._path or "standard output"
        return OutputFailed(f"{name}: {error.strerror or error}")


class WriterFile(_File):
    """A file by a writer of :mod:`scraper_service.exports`.

    Also the file of an interrupted run has its end, so that it can be read.
    """

    def __init__(self, path: Path | None, spec: FileSpec):
        super().__init__(path)
        self._writer = make_writer(spec)

    def _head(self) -> bytes:
        return self._writer.head()

    def _page(self, page: bytes) -> bytes:
        return self._writer.add(page)

    def _end(self) -> bytes:
        return self._writer.end()


class CopiedFile(_File):
    """A file that a service has made."""

    def __init__(self, path: str | None):
        super().__init__(None if path is None else Path(path))

    def copy(self, data: bytes) -> None:
        """Write the next part of the file."""
        self._begin()
        self._send(data)


class TableFile(_File):
    """A CSV output (RFC 4180, UTF-8) with a page in each row.

    The columns are :data:`.FACTS`, the formats in ``keys``, or all of them without
    ``keys``, and :data:`.LAST`. Data are JSON, see
    :func:`scraper_service.exports.tables.cell`. Pictures and files go into a folder
    beside the table, and their cells have the file names. In a pipe they stay in
    their cells.
    """

    def __init__(self, path: Path | None, keys: Sequence[str] | None = None):
        super().__init__(path)
        named = EVERY_KEY if keys is None else keys
        self._columns = (*tables.FACTS, *named, *tables.LAST)
        self._files = None if path is None else path.with_suffix(".files")
        self._names = PageNames()

    def _head(self) -> bytes:
        return tables.csv_row(self._columns)

    def _page(self, page: bytes) -> bytes:
        values = json.loads(page)
        metadata = values.pop("metadata", {})
        facts = {name: metadata.get(name) for name in tables.FACTS}
        facts |= {name: values.pop(name, None) for name in tables.LAST}
        facts["error"] = facts["error"] or metadata.get("error")
        for key, value in values.items():
            facts[key] = self._cell_value(key, value, {**values, "metadata": metadata})
        return tables.csv_row(tables.cell(facts.get(name)) for name in self._columns)

    def _cell_value(self, key: str, value: Any, page: dict[str, Any]) -> Any:
        """Return the value for a cell, after writing a picture or file beside the table."""
        is_file = KINDS.get(key) in {PICTURE, FILE} and isinstance(value, str)
        if not is_file or self._files is None:
            return value
        try:
            data, kind = content_of(key, value, page)
        except Unavailable:
            return value  # for a picture, its URL at the service
        ending = ending_of(kind, page)
        facts = page["metadata"]
        url = str(facts.get("url") or facts.get("sourceURL") or "")
        name = f"{self._names.stem(url, (ending,))}{ending}"
        try:
            self._files.mkdir(parents=True, exist_ok=True)
            (self._files / name).write_bytes(data)
        except OSError as error:
            raise OutputFailed(f"{self._files / name}: {error.strerror}") from error
        return f"{self._files.name}/{name}"


class DatabaseFile:
    """An SQLite file with the tables of :class:`SqliteFile`."""

    def __init__(self, path: Path, keys: Sequence[str]):
        self._path = path
        self._keys = keys
        self._file: tables.SqliteFile | None = None

    def open(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.open("ab").close()
            is_ours = tables.is_export(self._path)
        except OSError as error:
            raise OutputFailed(f"{self._path}: {error.strerror}") from error
        if not is_ours:
            raise OutputFailed(f"{self._path}: has other data; choose another file")

    def write(self, pages: Sequence[bytes]) -> None:
        try:
            self._begin().add(pages)
        except (sqlite3.Error, OSError) as error:
            raise OutputFailed(f"{self._path}: {error}") from error

    def close(self, failures: Sequence[FailedUrl] | None) -> None:
        try:
            if failures is not None:
                rows = ((f.url, f.code, f.error) for f in failures)
                self._begin().fail(rows)
            if self._file is not None:
                self._file.close()
        except (sqlite3.Error, OSError) as error:
            raise OutputFailed(f"{self._path}: {error}") from error

    def _begin(self) -> tables.SqliteFile:
        if self._file is None:
            self._file = tables.SqliteFile(self._path, self._keys)
        return self._file
