"""WARC files (ISO 28500:2017, WARC 1.1), by warcio."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrs import frozen
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from scraper_service.content.stored_pages import read_archive_row
from scraper_service.exports.markdown_zip import OutputBuffer

if TYPE_CHECKING:
    from scraper_service.items import KeptResponse

MAX_DIGESTS = 200_000  # of bodies that a later record may refer to
SOFTWARE = "scraper-service"
# The body has no chunks any more, so players must not look for them.
_RENAMED = {"transfer-encoding": "X-Archive-Orig-Transfer-Encoding"}
_NOT_PRINTED = re.compile(r"[\x00-\x20\x7f-\U0010ffff]")


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
