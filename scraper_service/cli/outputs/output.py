"""Outputs for the pages of a job: where they go, and in which format.

An output is written from the first page on, also when a job is resumed. The job database
keeps the order of the pages, so the earlier part is written again without changes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click
from attrs import evolve, frozen

from scraper_service.cli.outputs.page_files import EVERY_KEY, KINDS
from scraper_service.exports.formats import FORMATS as EXPORT_FORMATS
from scraper_service.exports.formats import FileSpec
from scraper_service.exports.tables import FACTS, LAST
from scraper_service.options.formats import FILE, PICTURE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.cli.terminal import FailedUrl


_WRITERS = {"zip": "md"}  # names of exports with another name here
ARCHIVES = ("warc", "wacz")  # of the responses, not of the pages
_BINARY = ("zip", "parquet", *ARCHIVES)
FORMATS = ("jsonl", "csv", "markdown", "zip", "sqlite", "parquet", *ARCHIVES)
ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
# Further ones of files with many pages.
JOB_ENDINGS = {
    **ENDINGS,
    ".zip": "zip",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".db": "sqlite",
    ".parquet": "parquet",
    ".warc.gz": "warc",
    ".wacz": "wacz",
}
STDOUT = "-"


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
        from scraper_service.cli.outputs import files
        from scraper_service.cli.outputs.page_files import MarkdownFolder

        if self.path is None:
            return files.Nowhere()
        path = None if self.is_stdout else Path(self.path)
        if path is not None and self.format == "markdown":
            return MarkdownFolder(path, overwrite=self.overwrite)
        if path is not None and self.format == "sqlite":
            return files.DatabaseFile(path, self.keys or ())
        if self.format == "csv":
            return files.TableFile(path, self.keys)
        return files.WriterFile(path, self._spec())

    @property
    def is_archive(self) -> bool:
        """True for an output of the responses that pages were made of."""
        return self.format in ARCHIVES

    def _spec(self) -> FileSpec:
        fields: tuple[str, ...] = ()
        if self.format == "parquet":
            keys = EVERY_KEY if self.keys is None else self.keys
            fields = (*FACTS, *keys, *LAST, "metadata")
        name = _WRITERS.get(self.format, self.format)
        return FileSpec(format=name, fields=fields, at=time.time())

    def of_pages(self, keys: Sequence[str] | None) -> Destination:
        """Return this destination for pages with ``keys``.

        Raises :exc:`click.UsageError` for pictures and files on a terminal.
        """
        if self.is_stdout and sys.stdout.isatty():
            if self.format in _BINARY:
                raise click.UsageError(f"a terminal cannot show {self.format}: -o FILE")
            refuse_binary(keys or ())
        return evolve(self, keys=keys)


def destination(
    path: str | None, name: str | None, *, overwrite: bool, archives: bool = False
) -> Destination:
    """Return the destination for ``-o`` and ``--output-format``.

    Archives are only for commands that can write ``archives``.

    Without both options, pages go to standard output, or nowhere on a terminal. Raises
    :exc:`click.UsageError`.
    """
    if path in {None, STDOUT}:
        if name in {"markdown", "sqlite"}:
            place = "a folder: -o FOLDER" if name == "markdown" else "a file: -o FILE"
            raise click.UsageError(f"--output-format {name} needs {place}")
        if path is None and name is None and sys.stdout.isatty():
            return Destination(None)
        _require(name, archives=archives)
        return Destination(STDOUT, name or "jsonl")
    assert path is not None
    if "://" in path:
        text = "a file or folder of this machine; pipe `-o -` into the tool of your storage"
        raise click.UsageError(f"-o {path.partition('://')[0]}://...: must be {text}")
    is_folder = path.endswith(("/", os.sep)) or Path(path).is_dir()
    format_ = name or ("markdown" if is_folder else JOB_ENDINGS.get(_ending(path)))
    if format_ is None:
        raise click.UsageError(
            f"-o {path}: must end in {', '.join(JOB_ENDINGS)}, or in / for a folder of"
            " files; else say --output-format"
        )
    _require(format_, archives=archives)
    if is_folder and format_ != "markdown":
        raise click.UsageError(f"-o {path}: {format_} needs a file, this is a folder")
    if format_ == "markdown" and Path(path).exists() and not Path(path).is_dir():
        raise click.UsageError(f"-o {path}: must be a folder, this is a file")
    return Destination(str(Path(path).absolute()), format_, overwrite)


def _require(name: str | None, *, archives: bool) -> None:
    """Raise :exc:`click.UsageError` for a format that cannot be written."""
    if name in ARCHIVES and not archives:
        raise click.UsageError(
            f"{name}: an archive has the responses of a job: write it by `jobs export`"
        )
    if name in EXPORT_FORMATS and (missing := EXPORT_FORMATS[name].missing):
        raise click.UsageError(f"{name}: {missing}")


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
    suffixes = Path(path).suffixes
    both = "".join(suffixes[-2:]).lower()
    return both if both in JOB_ENDINGS else Path(path).suffix.lower()
