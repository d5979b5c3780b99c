"""Outputs of commands: where pages go, and in which form.

The output of a job is written from the first page on, also when a job is resumed. The job
database keeps the order of the pages, so the earlier part is written again without changes.
The single page of `scrape` and `parse` goes to the terminal, a file or a folder.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Sequence
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
from attrs import evolve, frozen

from scraper_service.cli.outputs import OutputFailed
from scraper_service.cli.outputs.page_files import (
    EVERY_KEY,
    KINDS,
    Unavailable,
    content_of,
    write_page,
)
from scraper_service.errors import printable
from scraper_service.exports.formats import FORMATS as EXPORT_FORMATS
from scraper_service.exports.formats import FileSpec
from scraper_service.exports.markdown_zip import PageNames
from scraper_service.exports.tables import FACTS, LAST
from scraper_service.options.formats import DATA, FILE, HTML, PICTURE, TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.cli.outputs.files import CopiedFile
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

    def copied_file(self) -> CopiedFile:
        """Return an output for a file that is made elsewhere."""
        from scraper_service.cli.outputs.files import CopiedFile

        return CopiedFile(None if self.is_stdout else self.path)

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
            kind = "a folder: -o FOLDER" if name == "markdown" else "a file: -o FILE"
            raise click.UsageError(f"--output-format {name} needs {kind}")
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
        taken = (x for x in JOB_ENDINGS if archives or JOB_ENDINGS[x] not in ARCHIVES)
        raise click.UsageError(
            f"-o {path}: must end in {', '.join(taken)}, or in / for a folder of"
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


_JPEG = (".jpg", ".jpeg")
# Formats that a file with this ending may contain. Other endings allow any format.
TAKES = {
    ending: tuple(key for key, each in KINDS.items() if each == kind)
    for kind, endings in (
        (TEXT, (".md", ".markdown")),
        (HTML, (".html", ".htm")),
        (PICTURE, (".png", *_JPEG)),
    )
    for ending in endings
}
#: Endings of files with many pages.
OF_JOBS = {Path(f"x{ending}").suffix for ending in JOB_ENDINGS} - {*ENDINGS}
JPEG_QUALITY = 85  # of a screenshot for a .jpg file


class OutputForm(Enum):
    """The form in which a page is written."""

    VALUE = auto()  # its only format as text, JSON or bytes
    OBJECT = auto()  # the page object of /v2
    ROWS = auto()  # .jsonl or .csv
    FOLDER = auto()


@frozen
class Target:
    """The destination of a single page."""

    #: A file or folder, None for standard output.
    path: str | None
    form: OutputForm
    #: The keys of the page.
    keys: tuple[str, ...]

    def write(self, page: dict[str, Any]) -> None:
        """Write a page object of /v2; raise :exc:`click.ClickException`."""
        try:
            if self.form is OutputForm.FOLDER:
                self._write_folder(page)
            elif self.form is OutputForm.ROWS:
                self._write_rows(page)
            else:
                write_bytes(self._data(page), self.path)
        except (OutputFailed, Unavailable) as error:
            raise click.ClickException(str(error)) from error

    def _data(self, page: dict[str, Any]) -> bytes:
        key = self.keys[0] if self.form is OutputForm.VALUE else None
        value = page if key is None else page.get(key)
        if self.path is None and sys.stdout.isatty():
            _refuse_inline(page)
        elif key and KINDS.get(key) in {PICTURE, FILE} and isinstance(value, str):
            return content_of(key, value, page)[0]
        is_text = isinstance(value, str)
        text = value if is_text else json.dumps(value, ensure_ascii=False)
        return f"{text}\n".encode("utf-8", "replace")

    def _write_folder(self, page: dict[str, Any]) -> None:
        folder = Path(str(self.path))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _, failures = write_page(folder, page, PageNames())
        except OSError as error:
            raise OutputFailed(
                f"{error.filename or folder}: {error.strerror}"
            ) from None
        for failure in failures:
            click.echo(f"warning: {printable(failure)}", err=True)

    def _write_rows(self, page: dict[str, Any]) -> None:
        assert self.path is not None
        form = ENDINGS[Path(self.path).suffix.lower()]
        output = Destination(self.path, form, keys=self.keys).output()
        output.open()
        output.write([json.dumps(page, ensure_ascii=False).encode("utf-8", "replace")])
        output.close([])


def target(
    path: str | None, keys: tuple[str, ...], *, as_json: bool, is_remote: bool
) -> Target:
    """Return the destination for ``-o PATH`` of a page with ``keys``.

    Raises :exc:`click.UsageError` if the ending of ``path`` does not suit the formats, or
    if a terminal would get base64.
    """
    is_one = len(keys) == 1 and not as_json
    plain = OutputForm.VALUE if is_one else OutputForm.OBJECT
    if path in {None, STDOUT}:
        if sys.stdout.isatty():
            # A service returns the URL of a picture, and a terminal can show the URL.
            refuse_binary(k for k in keys if not is_remote or KINDS.get(k) == FILE)
        return Target(None, plain, keys)
    assert path is not None
    ending = Path(path).suffix.lower()
    is_folder = path.endswith(("/", os.sep)) or Path(path).is_dir()
    if is_folder or ending in ENDINGS:
        if as_json:
            raise click.UsageError(f"--json: -o {path} has a form of its own")
        return Target(path, OutputForm.FOLDER if is_folder else OutputForm.ROWS, keys)
    if keys:
        _check_ending(path, ending, keys, is_one=is_one)
    if ending == ".json" and KINDS.get(keys[0] if keys else "") != DATA:
        plain = OutputForm.OBJECT
    return Target(path, plain, keys)


def _check_ending(path: str, ending: str, keys: Sequence[str], *, is_one: bool) -> None:
    # rawBase64 may be a file of any type.
    if is_one and KINDS[keys[0]] == FILE:
        return
    others = "a page goes into FILE.json, FILE.jsonl, FILE.csv or FOLDER/"
    check_is_of_page(path, others)
    allowed = TAKES.get(ending)
    if allowed is None or (is_one and keys[0] in allowed):
        return
    raise click.UsageError(
        f"-o {path}: {ending} is for {' or '.join(allowed)} alone, not for"
        f" {', '.join(keys)}; -o FOLDER/ gives each format a file of its own,"
        " -o FILE.json takes all in one"
    )


def check_is_of_page(path: str, others: str) -> None:
    """Raise :exc:`click.UsageError` for an ending that only jobs write."""
    ending = Path(path).suffix.lower()
    if ending in OF_JOBS:
        raise click.UsageError(
            f"-o {path}: {ending} is for crawl, batch and jobs export; {others}"
        )


def with_picture(body: dict[str, Any], path: str | None) -> dict[str, Any]:
    """Return a body of /v2 whose screenshot has the image type of ``path``.

    Raises :exc:`click.UsageError` for a PNG file if the screenshot has a quality.
    """
    ending = Path(path or "").suffix.lower()
    formats = body.get("formats")
    if ending not in {".png", *_JPEG} or not isinstance(formats, list):
        return body
    kept = []
    for each in formats:
        item = each if isinstance(each, dict) else {"type": each}
        if item.get("type") != "screenshot":
            kept.append(each)
        elif ending in _JPEG:
            kept.append({"quality": JPEG_QUALITY, **item})
        elif item.get("quality") is not None:
            text = f"-o {path}: a screenshot with a quality is a JPEG; end it in .jpg"
            raise click.UsageError(text)
        else:
            kept.append(each)
    return {**body, "formats": kept}


def _refuse_inline(page: dict[str, Any]) -> None:
    """Raise :exc:`click.UsageError` if a page contains pictures in base64."""
    refuse_binary(
        key
        for key, value in page.items()
        if KINDS.get(key) == PICTURE and str(value).startswith("data:")
    )


def write_bytes(data: bytes, path: str | None) -> None:
    """Write to standard output or to a file. Missing folders are created.

    Raises :exc:`BrokenPipeError` if the reader of standard output has closed the pipe,
    and :exc:`click.ClickException` for other failures.
    """
    try:
        if path in {None, STDOUT}:
            view = memoryview(data)
            while view:  # with PYTHONUNBUFFERED a call may write only a part
                view = view[sys.stdout.buffer.write(view) :]
            sys.stdout.flush()
            return
        file = Path(str(path))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        name = path or "standard output"
        raise click.ClickException(f"{name}: {error.strerror}") from error
