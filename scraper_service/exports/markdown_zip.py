"""A ZIP file with the Markdown of each page.

Each file begins with front matter: YAML that says where the page comes from.
"""

from __future__ import annotations

import json
import pickle
import re
import tempfile
import time
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

from scraper_service.content.characters import printable
from scraper_service.exports.page_names import PageNames

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Characters that YAML restricts or forbids (YAML 1.2.2, 5.1).
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
# Keys that name the page, in their order, and further ones for files of one's own.
NAMING = ("url", "title", "scrapeId", "statusCode")
FURTHER = {
    "sourceURL": "sourceURL",
    "language": "language",
    "author": "author",
    "date": "publishedTime",
    "modified": "modifiedTime",
    "description": "description",
}
INDEX = "index.jsonl"


class OutputBuffer:
    """A file that cannot seek; :meth:`take` returns what was written since."""

    closed = False

    def __init__(self) -> None:
        self._data = bytearray()
        self._position = 0

    def write(self, data: bytes) -> int:
        self._data += data
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Do nothing: the file is in memory."""

    def close(self) -> None:
        """Do nothing: what was written can still be taken."""

    def take(self) -> bytes:
        taken = bytes(self._data)
        self._data.clear()
        return taken


def front_matter(
    page: Mapping[str, Any], files: Mapping[str, str] | None = None
) -> bytes:
    """Return the front matter of a Markdown file: YAML between two lines ``---``.

    Texts are quoted as JSON strings, which are valid YAML. ``files`` are the names of the
    page's other files, by format. Without ``files`` there are the keys :data:`NAMING`
    alone.
    """
    facts = page.get("metadata", {})
    keys = {key: key for key in NAMING} | (FURTHER if files is not None else {})
    shown = {name: facts.get(key) for name, key in keys.items()} | dict(files or {})
    if files is not None:
        shown["warning"] = page.get("warning")
    lines = [
        f"{name}: {_scalar(value)}"
        for name, value in shown.items()
        if isinstance(value, int | str) and value != ""
    ]
    return "\n".join(["---", *lines, "---", "", ""]).encode("utf-8", "replace")


def _scalar(value: int | str) -> str:
    if isinstance(value, int):
        return str(value)
    quoted = json.dumps(printable(value), ensure_ascii=False)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


FIRST_YEAR, LAST_YEAR = 1980, 2107  # of a time in a ZIP file


def zip_time(at: float) -> tuple[int, int, int, int, int, int]:
    """Return a time in seconds since 1970 as a ZIP file has it, in UTC."""
    moment = time.gmtime(at)
    year = min(max(moment.tm_year, FIRST_YEAR), LAST_YEAR)
    return year, moment.tm_mon, moment.tm_mday, moment.tm_hour, moment.tm_min, 0


class _Entries:
    """The list of the entries of a ZIP file, in a temporary file instead of in memory."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        self._count = 0

    def append(self, entry: zipfile.ZipInfo) -> None:
        pickle.dump(entry, self._file)
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[zipfile.ZipInfo]:
        self._file.seek(0)
        for _ in range(self._count):
            yield pickle.load(self._file)  # noqa: S301  # our own


class _NoNames(dict[str, zipfile.ZipInfo]):
    """No entries by name: names are unique already."""

    def __setitem__(self, name: str, entry: zipfile.ZipInfo) -> None:
        """Do nothing."""


class MarkdownZipWriter:
    """Writes ``HOST/PATH.md`` for each page, and the list ``index.jsonl`` at the end.

    The same pages give the same bytes. ``at`` is the time of all entries, in seconds
    since 1970. Memory grows by some 250 bytes for each page.
    """

    def __init__(self, at: float):
        self._time = zip_time(at)
        self._out = OutputBuffer()
        self._zip = zipfile.ZipFile(self._out, "w")
        # These two would take a kilobyte for each entry.
        self._zip.filelist = _Entries()  # type: ignore[assignment]  # like a list
        self._zip.NameToInfo = _NoNames()
        self._names = PageNames((INDEX,))
        self._packing = zlib.compressobj()
        self._index = bytearray()  # compressed

    def head(self) -> bytes:
        return b""

    def add(self, row: bytes) -> bytes:
        page = json.loads(row)
        facts = page.get("metadata", {})
        url = str(facts.get("url") or facts.get("sourceURL") or "")
        name = self._names.path(url)
        text = str(page.get("markdown") or "").encode("utf-8", "replace")
        self._store(name, front_matter(page) + text + b"\n")
        self._note(name, url, facts)
        return self._out.take()

    def end(self) -> bytes:
        self._index += self._packing.flush()
        reading = zlib.decompressobj()
        with self._zip.open(self._entry(INDEX), "w", force_zip64=True) as file:
            left = bytes(self._index)
            while left:
                file.write(reading.decompress(left, 2**20))
                left = reading.unconsumed_tail
            file.write(reading.flush())
        self._zip.close()
        return self._out.take()

    def _store(self, name: str, data: bytes) -> None:
        self._zip.writestr(self._entry(name), data)

    def _entry(self, name: str) -> zipfile.ZipInfo:
        entry = zipfile.ZipInfo(name, self._time)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = 0o644 << 16
        return entry

    def _note(self, name: str, url: str, facts: dict[str, Any]) -> None:
        line = {"file": name, "url": url, "scrapeId": facts.get("scrapeId")}
        text = json.dumps(line, ensure_ascii=False)
        self._index += self._packing.compress(f"{text}\n".encode("utf-8", "replace"))
