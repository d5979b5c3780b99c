"""WACZ files: a WARC file with its index and a list of pages in a ZIP file.

The format is that of https://specs.webrecorder.net/wacz/1.1.1/.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sqlite3
import zipfile
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

from scraper_service.exports.markdown_zip import OutputBuffer, zip_time
from scraper_service.exports.warc import SOFTWARE, WarcFile
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.exports.warc import WarcRecord

VERSION = "1.1.1"
WARC = "archive/data.warc.gz"
INDEX = "indexes/index.cdx.gz"
PLACES = "indexes/index.idx"  # of the blocks of the index
PAGES = "pages/pages.jsonl"
BLOCK_LINES = 3000  # of the index, as other programs make them


class WaczFile:
    """Writes a ZIP file with the records of a :class:`WarcFile`.

    The index has to be sorted and follows the records. Until then it is in a file of
    SQLite without a name, so memory does not grow with the pages.
    """

    def __init__(self, at: float):
        self._at = at
        self._warc = WarcFile(at)
        self._out = OutputBuffer()
        self._zip = zipfile.ZipFile(self._out, "w")
        self._hash = hashlib.sha256()
        self._bytes = 0
        self._resources: list[dict[str, Any]] = []
        # An empty name: a temporary file that SQLite deletes.
        self._rows = sqlite3.connect("", isolation_level=None)
        self._rows.execute("CREATE TABLE record (line TEXT, page TEXT)")
        self._rows.execute("BEGIN")
        self._file: IO[bytes] | None = None

    def head(self) -> bytes:
        self._begin(WARC, zipfile.ZIP_STORED)
        self._store(self._warc.head())
        return self._out.take()

    def add(self, row: bytes) -> bytes:
        self._store(self._warc.add(row))
        record = self._warc.last
        assert record is not None
        line, page = _index_line(record), _page_line(record)
        self._rows.execute("INSERT INTO record VALUES (?, ?)", (line, page))
        return self._out.take()

    def end(self) -> bytes:
        self._end_file(WARC)
        self._write_index()
        head = {"format": "json-pages-1.0", "id": "pages", "title": "All pages"}
        lines = self._rows.execute("SELECT page FROM record ORDER BY rowid")
        self._begin(PAGES, zipfile.ZIP_DEFLATED)
        self._store(_json_line(head))
        for (line,) in lines:
            self._store(f"{line}\n".encode())
        self._end_file(PAGES)
        self._rows.close()
        package = self._package()
        self._zip.writestr(self._entry("datapackage.json"), package)
        digest = {
            "path": "datapackage.json",
            "hash": f"sha256:{hashlib.sha256(package).hexdigest()}",
        }
        self._zip.writestr(self._entry("datapackage-digest.json"), json.dumps(digest))
        self._zip.close()
        return self._out.take()

    def _write_index(self) -> None:
        """Write the index in blocks that are compressed one by one, then their places."""
        places = [b'!meta 0 {"format":"cdxj-gzip-1.0","filename":"index.cdx.gz"}\n']
        self._begin(INDEX, zipfile.ZIP_STORED)
        for lines in self._blocks():
            offset = self._bytes
            self._store(gzip.compress("".join(lines).encode(), mtime=0))
            key, time, _ = lines[0].split(" ", 2)
            place = {
                "offset": offset,
                "length": self._bytes - offset,
                "filename": "index.cdx.gz",
            }
            places.append(f"{key} {time} {json.dumps(place)}\n".encode())
        self._end_file(INDEX)
        self._begin(PLACES, zipfile.ZIP_DEFLATED)
        for line in places:
            self._store(line)
        self._end_file(PLACES)

    def _blocks(self) -> Iterator[list[str]]:
        rows = self._rows.execute("SELECT line FROM record ORDER BY line, rowid")
        while block := rows.fetchmany(BLOCK_LINES):
            yield [f"{line}\n" for (line,) in block]

    def _begin(self, name: str, compression: int) -> None:
        self._hash, self._bytes = hashlib.sha256(), 0
        entry = self._entry(name, compression)
        # Its length is not known before its end.
        self._file = self._zip.open(entry, "w", force_zip64=True)

    def _store(self, data: bytes) -> None:
        assert self._file is not None
        self._file.write(data)
        self._hash.update(data)
        self._bytes += len(data)

    def _end_file(self, path: str) -> None:
        assert self._file is not None
        self._file.close()
        self._resources.append(
            {
                "name": path.rpartition("/")[2],
                "path": path,
                "hash": f"sha256:{self._hash.hexdigest()}",
                "bytes": self._bytes,
            }
        )

    def _entry(
        self, name: str, compression: int = zipfile.ZIP_DEFLATED
    ) -> zipfile.ZipInfo:
        entry = zipfile.ZipInfo(name, zip_time(self._at))
        entry.compress_type = compression
        entry.external_attr = 0o644 << 16
        return entry

    def _package(self) -> bytes:
        package = {
            "profile": "data-package",
            "wacz_version": VERSION,
            "software": SOFTWARE,
            "created": _iso(self._at),
            "resources": self._resources,
        }
        return json.dumps(package, indent=2).encode()


def _index_line(record: WarcRecord) -> str:
    """Return the line of the index (CDXJ) for a record."""
    facts = {
        "url": record.url,
        "mime": record.content_type or "unk",
        "status": None if record.status is None else str(record.status),
        "digest": record.digest,
        "length": str(record.length),
        "offset": str(record.offset),
        "filename": "data.warc.gz",
    }
    shown = {name: value for name, value in facts.items() if value is not None}
    moment = datetime.fromtimestamp(record.at, UTC).strftime("%Y%m%d%H%M%S")
    return f"{sort_key(record.url)} {moment} {json.dumps(shown)}"


def sort_key(url: str) -> str:
    """Return a URL as indexes sort it: the host backwards, such as ``org,example)/a``."""
    parts = url_parts(url)
    host, port = parts.hostname or "", parts.port
    if not parts.scheme:
        return url.replace(" ", "%20").lower()
    is_address = ":" in host or host.replace(".", "").isdigit()
    names = host if is_address else ",".join(reversed(_plain(host).split(".")))
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    where = f"{names}:{port}" if port not in {None, usual} else names
    query = "&".join(sorted(parts.query.split("&")))
    path = parts.path.rstrip("/") or "/"
    text = f"{where}){path}" + (f"?{query}" if query else "")
    return text.replace(" ", "%20").lower()


def _plain(host: str) -> str:
    return host.removeprefix("www.")


def _page_line(record: WarcRecord) -> str:
    facts = {
        "id": record.scrape_id or None,
        "url": record.url,
        "ts": _iso(record.at),
        "title": record.title,
    }
    return json.dumps({name: value for name, value in facts.items() if value})


def _json_line(values: dict[str, Any]) -> bytes:
    return json.dumps(values).encode() + b"\n"


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
