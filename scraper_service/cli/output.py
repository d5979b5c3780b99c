"""Outputs for the pages of a job: JSON Lines, a table, or a folder with files.

An output is written from the first page on, also when a job is resumed. The job database
keeps the order of the pages, so the earlier part is written again without changes.
"""

from __future__ import annotations

import csv
import io
import json
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
from attrs import evolve, frozen

from scraper_service.cli.job_state import FailedUrl, OutputFailed, ReaderGone
from scraper_service.cli.page_files import PageNames, Unavailable, content_of, ending_of
from scraper_service.cli.page_formats import EVERY_KEY, FILE, KINDS, PICTURE

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMATS = ("jsonl", "csv", "markdown")
ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
STDOUT = "-"
# Columns of a table before the formats, from the metadata.
FACTS = (
    *("url", "sourceURL", "statusCode", "contentType"),
    *("title", "description", "language"),
)
LAST = ("warning", "error")
# Spreadsheets take a cell with this start for a formula. The last four are wide forms.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class Output(Protocol):
    """Writes the pages of a job in their order. Pages are JSON objects of /v2."""

    def open(self) -> None:
        """Check that the output can be written, and keep earlier content for now."""

    def write(self, pages: Sequence[bytes]) -> None:
        """Write pages, without keeping any in a buffer of this process."""

    def close(self, failures: Sequence[FailedUrl] | None) -> None:
        """Close the output. ``failures`` is None if the job has not ended."""


@frozen
class Destination:
    """A destination for the pages of a job."""

    #: A file or folder, :data:`STDOUT` for standard output, None for no output.
    path: str | None
    #: A name in :data:`FORMATS`.
    format: str = "jsonl"
    #: Whether files in an existing folder may be overwritten.
    overwrite: bool = False
    #: The keys of the pages, None if not known.
    keys: Sequence[str] | None = None

    @property
    def is_stdout(self) -> bool:
        return self.path == STDOUT

    def output(self) -> Output:
        """Return an output that writes to this destination."""
        from scraper_service.cli.page_files import MarkdownFolder

        if self.path is None:
            return Nowhere()
        if self.format == "markdown":
            return MarkdownFolder(Path(self.path), overwrite=self.overwrite)
        path = None if self.is_stdout else Path(self.path)
        return JsonLines(path) if self.format == "jsonl" else TableFile(path, self.keys)

    def of_pages(self, keys: Sequence[str] | None) -> Destination:
        """Return this destination for pages with ``keys``.

        Raises :exc:`click.UsageError` for pictures and files on a terminal.
        """
        if self.is_stdout and sys.stdout.isatty() and keys is not None:
            refuse_binary(keys)
        return evolve(self, keys=keys)


def destination(path: str | None, name: str | None, *, overwrite: bool) -> Destination:
    """Return the destination for ``-o`` and ``--output-format``.

    Without both options, pages go to standard output, or nowhere on a terminal. Raises
    :exc:`click.UsageError`.
    """
    if path in {None, STDOUT}:
        if name == "markdown":
            raise click.UsageError("--output-format markdown needs a folder: -o FOLDER")
        if path is None and name is None and sys.stdout.isatty():
            return Destination(None)
        return Destination(STDOUT, name or "jsonl")
    assert path is not None
    is_folder = path.endswith(("/", os.sep)) or Path(path).is_dir()
    format_ = name or ("markdown" if is_folder else ENDINGS.get(_ending(path)))
    if format_ is None:
        raise click.UsageError(
            f"-o {path}: must end in .jsonl or .csv, or in / for a folder of files;"
            " else say --output-format"
        )
    if is_folder and format_ != "markdown":
        raise click.UsageError(f"-o {path}: {format_} needs a file, this is a folder")
    if format_ == "markdown" and Path(path).exists() and not Path(path).is_dir():
        raise click.UsageError(f"-o {path}: must be a folder, this is a file")
    return Destination(str(Path(path).absolute()), format_, overwrite)


def refuse_binary(keys: Iterable[str]) -> None:
    """Raise :exc:`click.UsageError` if ``keys`` include pictures or files."""
    found = [key for key in keys if KINDS.get(key) in {PICTURE, FILE}]
    if found:
        names = " and ".join(found)
        raise click.UsageError(
            f"{names}: a terminal cannot show it; write it with -o PATH, such as"
            " -o FOLDER/, or into a pipe"
        )


def _ending(path: str) -> str:
    return Path(path).suffix.lower()


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
            raise self._failed(error) from error

    def write(self, pages: Sequence[bytes]) -> None:
        self._begin()
        for page in pages:
            self._send(self._page(page))

    def close(self, failures: Sequence[FailedUrl] | None) -> None:
        if self._file is None:
            return
        if failures is not None:
            self._begin()
        self._file.close()

    @property
    def _is_regular(self) -> bool:
        """Return True if the output is a regular file, which can be read again."""
        assert self._file is not None
        mode = os.fstat(self._file.fileno()).st_mode
        return self._path is not None and stat.S_ISREG(mode)

    def _begin(self) -> None:
        assert self._file is not None
        if self._is_begun:
            return
        self._is_begun = True
        if self._is_regular:
            self._file.truncate(0)
        self._send(self._head())

    def _head(self) -> bytes:
        return b""

    def _page(self, page: bytes) -> bytes:
        raise NotImplementedError

    def _send(self, data: bytes) -> None:
        assert self._file is not None
        try:
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) or 0 :]
        except BrokenPipeError as error:
            raise ReaderGone from error
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> OutputFailed:
        name = self._path or "standard output"
        return OutputFailed(f"{name}: {error.strerror or error}")


class JsonLines(_File):
    """An output with a page object in each line, in UTF-8."""

    def _page(self, page: bytes) -> bytes:
        return page + b"\n"


class TableFile(_File):
    """A CSV output (RFC 4180, UTF-8) with a page in each row.

    The columns are :data:`FACTS`, the formats in ``keys``, and :data:`LAST`. Without
    ``keys``, a file gets a column for each new format, and a pipe gets all columns. A
    list of texts fills its cell with a text per line. Other data are JSON. A cell that a
    spreadsheet could take for a formula begins with an apostrophe. Pictures and files go
    into a folder beside the table, and their cells have the file names. In a pipe they
    stay in their cells.
    """

    def __init__(self, path: Path | None, keys: Sequence[str] | None = None):
        super().__init__(path)
        known = EVERY_KEY if path is None else ()
        self._keys = list(known if keys is None else keys)
        self._files = None if path is None else path.with_suffix(".files")
        self._names = PageNames()

    @property
    def _columns(self) -> tuple[str, ...]:
        return (*FACTS, *self._keys, *LAST)

    def _head(self) -> bytes:
        return self._row(self._columns)

    def _page(self, page: bytes) -> bytes:
        values = json.loads(page)
        metadata = values.pop("metadata", {})
        facts = {name: metadata.get(name) for name in FACTS}
        facts |= {name: values.pop(name, None) for name in LAST}
        facts["error"] = facts["error"] or metadata.get("error")
        new = [key for key in values if key not in self._keys]
        if new and self._is_regular:
            self._widen(new)
        for key, value in values.items():
            facts[key] = self._shown(key, value, {**values, "metadata": metadata})
        return self._row([cell(facts.get(name)) for name in self._columns])

    def _shown(self, key: str, value: Any, page: dict[str, Any]) -> Any:
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

    def _widen(self, keys: list[str]) -> None:
        """Add columns for ``keys`` before :data:`LAST`. Existing rows get empty cells."""
        assert self._path is not None
        assert self._file is not None
        place = len(self._columns) - len(LAST)
        self._keys += keys
        wider = self._path.with_name(f"{self._path.name}.new")
        csv.field_size_limit(sys.maxsize)
        try:
            with (
                self._path.open(newline="", encoding="utf-8") as rows,
                wider.open("w", newline="", encoding="utf-8") as file,
            ):
                writer = csv.writer(file)
                next(csv.reader(rows), None)
                writer.writerow(self._columns)
                for row in csv.reader(rows):
                    writer.writerow([*row[:place], *("" for _ in keys), *row[place:]])
            wider.replace(self._path)
            self._file.close()
            self._file = io.FileIO(os.open(self._path, os.O_WRONLY | os.O_CLOEXEC), "w")
            self._file.seek(0, os.SEEK_END)
        except OSError as error:
            raise self._failed(error) from error

    def _row(self, cells: Sequence[str]) -> bytes:
        text = io.StringIO(newline="")
        csv.writer(text).writerow(cells)
        return text.getvalue().encode("utf-8", "replace")


def cell(value: Any) -> str:
    """Return the text of a table cell for a value of a page."""
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = "\n".join(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.startswith(FORMULA) else text
