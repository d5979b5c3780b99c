"""Web archives, by warcio: WARC files (ISO 28500:2017, WARC 1.1) and WACZ files.

A WACZ file is a WARC file with its index and a list of pages in a ZIP file, see
https://specs.webrecorder.net/wacz/1.1.1/.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import re
import sqlite3
import uuid
import zipfile
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

from attrs import frozen
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from scraper_service.content.stored_pages import read_archive_row
from scraper_service.exports.markdown_zip import OutputBuffer, zip_time
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.items import KeptResponse

MAX_DIGESTS = 200_000  # of bodies that a later record may refer to
SOFTWARE = "scraper-service"
# The body has no chunks any more, so players must not look for them.
_RENAMED = {"transfer-encoding": "X-Archive-Orig-Transfer-Encoding"}
_NOT_PRINTED = re.compile(r"[\x00-\x20\x7f-\U0010ffff]")
VERSION = "1.1.1"
WARC = "archive/data.warc.gz"
INDEX = "indexes/index.cdx.gz"
BLOCKS = "indexes/index.idx"  # of the blocks of the index
PAGES = "pages/pages.jsonl"
BLOCK_LINES = 3000  # of the index, as other programs make them


@frozen
class WarcRecord:
    """A record in the file, as an index has it."""

    url: str
    #: Seconds since 1970.
    at: float
    #: The first byte of the record, and the number of its bytes.
    offset: int
    length: int
    #: Of the body, with the name of its method.
    digest: str
    content_type: str
    #: None for the DOM of a browser.
    status: int | None
    title: str | None
    scrape_id: str


class WarcFile:
    """Writes a record for each page, each compressed by itself.

    A response of a site is a ``response``, the DOM of a browser a ``resource``. A body that
    is in the file already is a ``revisit``. The same rows give the same bytes. ``at`` is the time of the file in seconds since 1970.
    """

    def __init__(self, at: float):
        self._at = at
        self._out = OutputBuffer()
        self._writer = WARCWriter(self._out, gzip=True, warc_version="WARC/1.1")
        self._known: dict[str, tuple[str, str]] = {}  # digest: URL and date
        #: The record of the last row.
        self.last: WarcRecord | None = None

    def head(self) -> bytes:
        fields = f"software: {SOFTWARE}\r\nformat: WARC File Format 1.1\r\n".encode()
        record = self._writer.create_warc_record(
            "",
            "warcinfo",
            payload=io.BytesIO(fields),
            length=len(fields),
            warc_content_type="application/warc-fields",
            warc_headers_dict=self._headers(f"info {self._at}", self._at),
        )
        self._writer.write_record(record)
        return self._out.take()

    def add(self, row: bytes) -> bytes:
        page, fetch = read_archive_row(row)
        facts = page.get("metadata", {})
        scrape_id = str(facts.get("scrapeId") or "")
        digest = _digest(fetch.body)
        offset = self._out.tell()
        self._writer.write_record(self._record(fetch, digest, scrape_id))
        title = facts.get("title")
        self.last = WarcRecord(
            url=fetch.url,
            at=fetch.at,
            offset=offset,
            length=self._out.tell() - offset,
            digest=digest,
            content_type=fetch.content_type.partition(";")[0].strip().lower(),
            status=None if fetch.engine == "browser" else facts.get("statusCode"),
            title=title if isinstance(title, str) else None,
            scrape_id=scrape_id,
        )
        return self._out.take()

    def end(self) -> bytes:
        return b""

    def _record(self, fetch: KeptResponse, digest: str, scrape_id: str) -> Any:
        uri, date = _uri(fetch.url), warc_date(fetch.at)
        headers = self._headers(scrape_id or f"{uri} {date}", fetch.at)
        http = None if fetch.engine == "browser" else _http_headers(fetch.head)
        known = self._known.get(digest)
        if known is not None and http is not None:
            return self._writer.create_revisit_record(
                uri, digest, *known, http_headers=http, warc_headers_dict=headers
            )
        if known is None and len(self._known) < MAX_DIGESTS and http is not None:
            self._known[digest] = uri, date
        if fetch.is_cut:
            headers["WARC-Truncated"] = "unspecified"
        return self._writer.create_warc_record(
            uri,
            "resource" if http is None else "response",
            payload=io.BytesIO(fetch.body),
            length=len(fetch.body),
            http_headers=http,
            warc_content_type="" if http else fetch.content_type or "text/html",
            warc_headers_dict={**headers, "WARC-Payload-Digest": digest},
        )

    def _headers(self, name: str, at: float) -> dict[str, str]:
        identity = uuid.uuid5(uuid.NAMESPACE_URL, name)
        return {
            "WARC-Record-ID": f"<urn:uuid:{identity}>",
            "WARC-Date": warc_date(at),
        }


def warc_date(at: float) -> str:
    """Return a time in seconds since 1970 as WARC has it, with microseconds."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _digest(body: bytes) -> str:
    hashed = hashlib.sha1(body, usedforsecurity=False).digest()
    return f"sha1:{base64.b32encode(hashed).decode()}"


def _uri(url: str) -> str:
    """Return a URL as a header may have it, on one line of ASCII."""

    def percent_encode(found: re.Match[str]) -> str:
        data = found[0].encode("utf-8", "replace")
        return "".join(f"%{byte:02X}" for byte in data)

    return _NOT_PRINTED.sub(percent_encode, url)


def _http_headers(head: bytes) -> StatusAndHeaders:
    """Return the stored head of a response for a record."""
    first, *lines = head.decode("latin-1").split("\r\n")
    protocol, _, status = first.partition(" ")
    fields = []
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            fields.append((_RENAMED.get(name.lower(), name), value.strip()))
    return StatusAndHeaders(status, fields, protocol=protocol)


# -- WACZ ------------------------------------------------------------------------------


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
        """Write the index in compressed blocks, then the positions of the blocks."""
        lines = [b'!meta 0 {"format":"cdxj-gzip-1.0","filename":"index.cdx.gz"}\n']
        self._begin(INDEX, zipfile.ZIP_STORED)
        for rows in self._blocks():
            offset = self._bytes
            self._store(gzip.compress("".join(rows).encode(), mtime=0))
            key, time, _ = rows[0].split(" ", 2)
            block = {
                "offset": offset,
                "length": self._bytes - offset,
                "filename": "index.cdx.gz",
            }
            lines.append(f"{key} {time} {json.dumps(block)}\n".encode())
        self._end_file(INDEX)
        self._begin(BLOCKS, zipfile.ZIP_DEFLATED)
        for line in lines:
            self._store(line)
        self._end_file(BLOCKS)

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
    is_ip_address = ":" in host or host.replace(".", "").isdigit()
    names = host if is_ip_address else ",".join(reversed(_plain(host).split(".")))
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
