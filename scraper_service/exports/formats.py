"""The formats of exports, and the writer of each."""

from __future__ import annotations

import zlib
from importlib.util import find_spec
from typing import Protocol

from attrs import frozen

from scraper_service.exports.markdown_zip import MarkdownZipWriter
from scraper_service.exports.tables import COLUMNS, CsvWriter, JsonlWriter, ParquetFile

PAGES, ERRORS, URLS = "pages", "errors", "urls"
WHAT = (PAGES, ERRORS, URLS)
GZIP_LEVEL = 6


class FileWriter(Protocol):
    """Makes the bytes of a file, from its first to its last, as rows arrive.

    Rows are JSON objects: pages of /v2, errors or URLs; for archives, pages with their
    responses. A writer keeps only what it needs for the end of the file.
    """

    def head(self) -> bytes:
        """Return the bytes before the first row."""

    def add(self, row: bytes) -> bytes:
        """Return the bytes that the file grows by with a row; there may be none yet."""

    def end(self) -> bytes:
        """Return the bytes after the last row."""


@frozen(kw_only=True)
class ExportFormat:
    """A format of exports."""

    name: str
    content_type: str
    #: The ending of file names, without its dot.
    ending: str
    #: What it can have in its rows, values of :data:`WHAT`.
    rows: tuple[str, ...] = (PAGES,)
    #: True if ``fields`` chooses what it has of a row.
    takes_fields: bool = False
    #: True for texts, which may be sent with gzip.
    is_text: bool = False
    #: True if a running job can be exported.
    takes_running: bool = True
    #: True if its rows are those of :func:`scraper_service.content.stored_pages.archive_row`.
    needs_sources: bool = False
    #: The library that it needs, and the extra that installs the library.
    library: str | None = None
    extra: str | None = None

    @property
    def missing(self) -> str | None:
        """Why this installation cannot write the format, None if it can."""
        if self.library is None or _is_installed(self.library):
            return None
        return (
            f"the library {self.library} is not installed"
            f" (pip install 'scraper-service[{self.extra}]')"
        )


def _is_installed(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except ImportError:
        return False


FORMATS = {
    each.name: each
    for each in (
        ExportFormat(
            name="jsonl",
            content_type="application/x-ndjson",
            ending="jsonl",
            rows=WHAT,
            takes_fields=True,
            is_text=True,
        ),
        ExportFormat(
            name="csv",
            content_type="text/csv; charset=utf-8",
            ending="csv",
            rows=WHAT,
            takes_fields=True,
            is_text=True,
        ),
        ExportFormat(name="md", content_type="application/zip", ending="zip"),
        ExportFormat(
            name="parquet",
            content_type="application/vnd.apache.parquet",
            ending="parquet",
            rows=WHAT,
            takes_fields=True,
            takes_running=False,
            library="pyarrow",
            extra="parquet",
        ),
        ExportFormat(
            name="warc",
            content_type="application/warc",
            ending="warc.gz",
            takes_running=False,
            needs_sources=True,
            library="warcio",
            extra="warc",
        ),
        ExportFormat(
            name="wacz",
            content_type="application/zip",
            ending="wacz",
            takes_running=False,
            needs_sources=True,
            library="warcio",
            extra="warc",
        ),
    )
}


@frozen(kw_only=True)
class FileSpec:
    """Everything that decides the bytes of a file, except its rows."""

    #: A name in :data:`FORMATS`.
    format: str
    #: A value of :data:`WHAT`.
    what: str = PAGES
    #: Paths for :func:`scraper_service.exports.tables.value_at`; empty for all.
    fields: tuple[str, ...] = ()
    #: The time of the file in seconds since 1970.
    at: float = 0.0
    #: True for a file in gzip.
    gzip: bool = False


def make_writer(spec: FileSpec) -> FileWriter:
    """Return the writer of a file. Raises :exc:`ImportError` without its library."""
    writer: FileWriter
    match spec.format:
        case "jsonl":
            writer = JsonlWriter(spec.fields)
        case "csv":
            writer = CsvWriter(spec.fields or COLUMNS[spec.what])
        case "md":
            writer = MarkdownZipWriter(spec.at)
        case "parquet":
            further = ("metadata",) if spec.what == PAGES else ()
            writer = ParquetFile(spec.fields or (*COLUMNS[spec.what], *further))
        case "warc":
            from scraper_service.exports.warc import WarcFile  # noqa: PLC0415

            writer = WarcFile(spec.at)
        case "wacz":
            from scraper_service.exports.warc import WaczFile  # noqa: PLC0415

            writer = WaczFile(spec.at)
        case _:
            raise ValueError(f"no writer for the format {spec.format}")
    return _Gzip(writer) if spec.gzip else writer


class _Gzip:
    """Compresses what a writer writes. Its header has no time, so bytes are repeatable."""

    def __init__(self, writer: FileWriter):
        self._writer = writer
        self._packing = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)

    def head(self) -> bytes:
        return self._packing.compress(self._writer.head())

    def add(self, row: bytes) -> bytes:
        return self._packing.compress(self._writer.add(row))

    def end(self) -> bytes:
        return self._packing.compress(self._writer.end()) + self._packing.flush()
