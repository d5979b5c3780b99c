"""Where the pages of a job go: lines of JSON, a table, or a folder with files.

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
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
from attrs import evolve, frozen

from scraper_service.cli.catalogue import EVERY_KEY, FILE, KINDS, PICTURE
from scraper_service.cli.job_state import Failure, OutputFailed, ReaderGone
from scraper_service.cli.names import PageNames
from scraper_service.cli.parts import Unavailable, content_of, ending_of

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMATS = ("jsonl", "csv", "markdown")
ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
STDOUT = "-"
# Of a table: what is told of every page, before the formats.
FACTS = (
    *("url", "sourceURL", "statusCode", "contentType"),
    *("title", "description", "language"),
)
LAST = ("warning", "error")
# Spreadsheets would take a cell that begins so for a formula, wide forms too.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


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
    """A place for output: ``path`` None is nowhere, :data:`STDOUT` standard output.

    ``keys`` are those that the pages of the job have, None if that is not known.
    """

    path: str | None
    format: str = "jsonl"
    overwrite: bool = False
    keys: Sequence[str] | None = None

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
        path = None if self.is_stdout else Path(self.path)
        return JsonLines(path) if self.format == "jsonl" else Table(path, self.keys)

    def of_pages(self, keys: Sequence[str] | None) -> Destination:
        """Return the place for pages with these keys; raise :exc:`click.UsageError`.

        A terminal takes no pictures and files.
        """
        if self.is_stdout and sys.stdout.isatty() and keys is not None:
            refuse_binary(keys)
        return evolve(self, keys=keys)


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
            f"-o {path}: must end in .jsonl or .csv, or in / for a folder of files;"
            " else say --output-format"
        )
    if is_folder and format_ != "markdown":
        raise click.UsageError(f"-o {path}: {format_} needs a file, this is a folder")
    if format_ == "markdown" and Path(path).exists() and not Path(path).is_dir():
        raise click.UsageError(f"-o {path}: must be a folder, this is a file")
    return Destination(str(Path(path).absolute()), format_, overwrite)


def refuse_binary(keys: Iterable[str]) -> None:
    """Raise :exc:`click.UsageError` where pages have what a terminal cannot show."""
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
        for page in pages:
            self._send(self._page(page))

    def close(self, failures: Sequence[Failure] | None) -> None:
        if self._file is None:
            return
        if failures is not None:
            self._begin()
        self._file.close()

    @property
    def _is_regular(self) -> bool:
        """Whether it is a file that can be read again."""
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
    """A page object in each line, in UTF-8."""

    def _page(self, page: bytes) -> bytes:
        return page + b"\n"


class Table(_File):
    """A page in each row (RFC 4180, UTF-8): :data:`FACTS`, its formats, :data:`LAST`.

    ``keys`` are those of the formats. Where they are not known, a file gets a column
    for each that comes, and a pipe all there are. A list of texts has one in each line
    of its cell, other data are JSON. A cell that a spreadsheet could take for a formula
    begins with an apostrophe. Pictures and files stand beside the table, in a folder of
    its name, and their cells name them; into a pipe they go as they are.
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
        """Return what a cell has; a picture or a file is written beside the table."""
        is_file = KINDS.get(key) in {PICTURE, FILE} and isinstance(value, str)
        if not is_file or self._files is None:
            return value
        try:
            data, kind = content_of(key, value, page)
        except Unavailable:
            return value  # where a service has it
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
        """Give the table columns for ``keys``, before the last ones.

        Rows that are there get empty cells.
        """
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
    """Return what stands in a table for a value of a page."""
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = "\n".join(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.startswith(FORMULA) else text
