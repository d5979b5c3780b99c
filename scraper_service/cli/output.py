"""Where the pages of a job go: lines of JSON, a table, or a folder of Markdown files.

Everything is written from the first page on, also when a job is resumed: pages have
their order in the job database, so what was written before is written again the same.
"""

from __future__ import annotations

import csv
import io
import json
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMATS = ("jsonl", "csv", "markdown")
ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
STDOUT = "-"
# Of a table: what is told of every page, then the formats that may be asked for.
FACTS = (
    *("url", "sourceURL", "statusCode", "contentType"),
    *("title", "description", "language"),
)
VALUES = ("markdown", "html", "rawHtml", "links", "images", "attributes", "rawBase64")
COLUMNS = (*FACTS, *VALUES, "warning", "error")
# Spreadsheets would take a cell that begins so for a formula, wide forms too.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class OutputFailed(Exception):
    """What was asked for could not be written; the text is a sentence."""


class ReaderGone(Exception):
    """Nobody reads standard output any more."""


@frozen
class Failure:
    """An address of a job that brought no page."""

    url: str
    code: str
    error: str

    @classmethod
    def of_robots(cls, url: str) -> Failure:
        return cls(url, "ROBOTS", "robots.txt refuses it")


class Output(Protocol):
    """Takes the pages of a job in their order, as JSON objects of /v2."""

    def open(self) -> None:
        """Make sure that it can be written; what is there stays so far."""

    def write(self, pages: Sequence[bytes]) -> None:
        """Write pages; they are with the operating system when this returns."""

    def close(self, failures: Sequence[Failure] | None) -> None:
        """End; None are the ``failures`` of a job that goes on."""


@frozen
class Destination:
    """A place for output: ``path`` None is nowhere, :data:`STDOUT` standard output."""

    path: str | None
    format: str = "jsonl"
    overwrite: bool = False

    @property
    def is_stdout(self) -> bool:
        return self.path == STDOUT

    def output(self) -> Output:
        """Return what writes there."""
        from scraper_service.cli.folder import MarkdownFolder

        if self.path is None:
            return Nowhere()
        if self.format == "markdown":
            return MarkdownFolder(Path(self.path), overwrite=self.overwrite)
        kind = JsonLines if self.format == "jsonl" else Table
        return kind(None if self.is_stdout else Path(self.path))


def destination(path: str | None, name: str | None, *, overwrite: bool) -> Destination:
    """Return where output goes that was asked for with ``-o`` and ``--output-format``.

    Without ``-o`` it is standard output, unless that is a terminal. Raises
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
            f"-o {path}: must end in .jsonl or .csv, or in / for a folder of Markdown"
            " files; else say --output-format"
        )
    if is_folder and format_ != "markdown":
        raise click.UsageError(f"-o {path}: {format_} needs a file, this is a folder")
    if format_ == "markdown" and Path(path).exists() and not Path(path).is_dir():
        raise click.UsageError(f"-o {path}: must be a folder, this is a file")
    return Destination(str(Path(path).absolute()), format_, overwrite)


def check_formats(place: Destination, formats: Sequence[Any] | None) -> None:
    """Raise :exc:`click.UsageError` where a place takes no pages of these formats."""
    if place.format != "markdown" or formats is None:
        return
    named = [f if isinstance(f, str) else f.get("type") for f in formats]
    if "markdown" not in named:
        raise click.UsageError("-o: a folder takes Markdown; add --format markdown")


def _ending(path: str) -> str:
    return Path(path).suffix.lower()


class Nowhere:
    """Writes nothing: the pages stay in the job database."""

    def open(self) -> None: ...

    def write(self, pages: Sequence[bytes]) -> None: ...

    def close(self, failures: Sequence[Failure] | None) -> None: ...


class _File:
    """A file that is written from its start, or standard output."""

    def __init__(self, path: Path | None):
        self._path = path
        self._file: io.FileIO | None = None
        self._is_begun = False

    def open(self) -> None:
        try:
            if self._path is None:
                # Unbuffered: nothing is left for the interpreter to flush, or to fail.
                self._file = io.FileIO(sys.stdout.fileno(), "w", closefd=False)
            else:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
                self._file = io.FileIO(os.open(self._path, flags, 0o666), "w")
        except OSError as error:
            raise self._failed(error) from error

    def write(self, pages: Sequence[bytes]) -> None:
        self._begin()
        self._send(b"".join(map(self._page, pages)))

    def close(self, failures: Sequence[Failure] | None) -> None:
        if self._file is None:
            return
        if failures is not None:
            self._begin()
        self._file.close()

    def _begin(self) -> None:
        assert self._file is not None
        if self._is_begun:
            return
        self._is_begun = True
        if stat.S_ISREG(os.fstat(self._file.fileno()).st_mode) and self._path:
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
    """A page object in each line, in UTF-8."""

    def _page(self, page: bytes) -> bytes:
        return page + b"\n"


class Table(_File):
    """A page in each row, with the columns of :data:`COLUMNS` (RFC 4180, UTF-8).

    A list has one element in each line of its cell. A cell that a spreadsheet could
    take for a formula begins with an apostrophe.
    """

    def _head(self) -> bytes:
        return self._row(COLUMNS)

    def _page(self, page: bytes) -> bytes:
        values = json.loads(page)
        known = {**values, **values.get("metadata", {})}
        facts = {name: known.get(name) for name in FACTS}
        facts |= {name: values.get(name) for name in (*VALUES, "warning")}
        facts["error"] = known.get("error")
        return self._row([cell(facts[name]) for name in COLUMNS])

    def _row(self, cells: Sequence[str]) -> bytes:
        text = io.StringIO(newline="")
        csv.writer(text).writerow(cells)
        return text.getvalue().encode("utf-8", "replace")


def cell(value: Any) -> str:
    """Return what stands in a table for a value of a page."""
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = "\n".join(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.startswith(FORMULA) else text
