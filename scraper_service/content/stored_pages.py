"""The forms of pages outside of a conversion: compressed, stored, or sent to a process.

The database stores pages, responses of sites and results as Zstandard frames, which take
a third of zlib's time and are smaller. A job may keep the response of each page
(:class:`KeptResponse`). Converter processes send a page in parts. Deep research, extract and
llms.txt jobs read their stored pages as :class:`StoredPage`.
"""

from __future__ import annotations

import functools
import json
import struct
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import asdict, fields, frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scraper_service.items import KeptResponse, PageContent, PageSource

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LEVEL = 1  # of 22: higher levels take more time and save little


class _OfThread(threading.local):
    """The compressor of a thread: to make one takes longer than to compress a page."""

    def __init__(self) -> None:
        self.compressor = zstd.ZstdCompressor(LEVEL)


_own = _OfThread()


def compress(data: bytes) -> bytes:
    """Return the bytes as a Zstandard frame."""
    try:
        return _own.compressor.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)
    except BaseException:  # such as MemoryError: half a frame may be left in it
        _own.compressor = zstd.ZstdCompressor(LEVEL)
        raise


def decompress(data: bytes) -> bytes:
    """Return the bytes that :func:`compress` made ``data`` of."""
    return zstd.decompress(data)


_LENGTHS = struct.Struct("<III")
_APART = {"head", "body", "packed"}  # fields of a response that are not in its facts


@frozen
class StoredResponse:
    """A :class:`KeptResponse` as the database has it."""

    #: JSON of the other fields.
    facts: str
    head: bytes
    #: Empty if it is in object storage.
    body: bytes
    #: The bytes of the body as received, 0 in what was read.
    size: int = 0
    #: The hash of a body in object storage.
    digest: bytes | None = None
    #: The bytes of that body.
    length: int = 0

    @property
    def stored_size(self) -> int:
        """The bytes that it takes."""
        return len(self.head) + len(self.body) + self.length


def pack(kept: KeptResponse) -> StoredResponse:
    """Return a response for the database.

    A body with a content encoding stays as it is: compressing it again saves nothing.
    """
    is_packed = b"\ncontent-encoding:" not in kept.head.lower()
    facts = asdict(kept, filter=lambda each, _: each.name not in _APART)
    body = kept.packed or compress(kept.body) if is_packed else kept.body
    return StoredResponse(
        json.dumps({**facts, "packed": is_packed}),
        compress(kept.head),
        body,
        size=len(kept.body),
    )


def pack_body(source: PageSource) -> bytes:
    """Return the compressed body of a response, empty for a body that stays as it is.

    Called in a converter process, which spares the service the time.
    """
    return b"" if source.content_encodings else compress(source.body)


def archive_row(page: bytes, found: StoredResponse) -> bytes:
    """Return a compressed page with its response as one row of an archive."""
    facts = found.facts.encode()
    lengths = _LENGTHS.pack(len(page), len(facts), len(found.head))
    return b"".join((lengths, page, facts, found.head, found.body))


def read_archive_row(row: bytes) -> tuple[dict[str, Any], KeptResponse]:
    """Return the page object and the response of a row of :func:`archive_row`."""
    start, parts = _LENGTHS.size, []
    for length in _LENGTHS.unpack_from(row):
        parts.append(row[start : start + length])
        start += length
    page, facts, head = parts
    kept = unpack(StoredResponse(facts.decode(), head, row[start:]))
    return json.loads(decompress(page)), kept


def unpack(stored: StoredResponse) -> KeptResponse:
    """Return a response of the database. It keeps the compressed body, too.

    A body in object storage is empty.
    """
    # Not above: the process of an export of pages starts without all options.
    from scraper_service.items import KeptResponse  # noqa: PLC0415

    values = json.loads(stored.facts)
    is_packed = values.pop("packed") and stored.digest is None
    return KeptResponse(
        head=decompress(stored.head),
        body=decompress(stored.body) if is_packed else stored.body,
        packed=stored.body if is_packed else b"",
        **values,
    )


FIRST_ERROR = 400  # lowest HTTP status of an error page


@frozen(kw_only=True)
class StoredPage:
    """A delivered page; unknown fields are None."""

    #: Requested URL.
    url: str
    title: str | None = None
    description: str | None = None
    icon: str | None = None
    language: str | None = None
    markdown: str | None = None
    #: Extracted data, any JSON value.
    data: Any = None
    warning: str | None = None
    #: Why the page has no usable content.
    error: str | None = None
    #: Whether ``rules``, a ``model`` or ``both`` made the data.
    answered_by: str | None = None
    #: Tokens that the model used.
    tokens: int | None = None


def read_pages(bodies: Sequence[bytes]) -> list[StoredPage]:
    """Return the pages of these JSON objects."""
    return [_page(json.loads(body)) for body in bodies]


def _page(body: dict[str, Any]) -> StoredPage:
    facts = body["metadata"]
    status, error = facts.get("statusCode"), None
    if isinstance(status, int) and status >= FIRST_ERROR:
        error = f"the site answered {status}"
    return StoredPage(
        url=facts["sourceURL"],
        title=_text(facts.get("title")),
        description=_text(facts.get("description")),
        icon=_text(facts.get("favicon")),
        language=_text(facts.get("language")),
        markdown=body.get("markdown"),
        data=body.get("json"),
        warning=body.get("warning"),
        error=error,
        answered_by=facts.get("answeredBy"),
        tokens=facts.get("tokensUsed"),
    )


def _text(value: Any) -> str | None:
    """Return the first text of a metadata value, None if blank."""
    if isinstance(value, list):
        value = next(iter(value), None)
    return " ".join(value.split()) or None if isinstance(value, str) else None


_BESIDE = {"values", "links", "text"}
_OF_SPIDER = {"embedded_url", "fetch", "follow", "base"}  # set after the transport


@functools.cache
def _fields_to_send() -> dict[str, Any]:
    """Return the fields of a content that are sent, with their values in an empty one."""
    from scraper_service.items import PageContent  # noqa: PLC0415

    empty, others = PageContent(), _BESIDE | _OF_SPIDER
    names = [each.name for each in fields(PageContent) if each.name not in others]
    return {name: getattr(empty, name) for name in names}


@frozen
class Unfinished:
    """What a function in another process returns to send its result before it has finished.

    ``finish`` returns what is sent afterwards, for a caller that does not wait for it.
    """

    result: Any
    finish: Callable[[], Any]


def wire_from_content(
    content: PageContent,
) -> tuple[dict[str, Any], dict[str, bytes], tuple[bytes, ...]]:
    """Return the facts of a content that are not those of an empty one, its values and links.

    The values are JSON texts.
    """
    facts = {
        name: found
        for name, usual in _fields_to_send().items()
        if (found := getattr(content, name)) != usual
    }
    if content.text:  # may have lone surrogates
        facts["text"] = content.text.encode(errors="replace").decode()
    return facts, dict(content.values), content.links


def content_from_wire(
    facts: Mapping[str, Any],
    values: Mapping[str, bytes],
    links: tuple[bytes, ...] = (),
) -> PageContent:
    """Return the content that :func:`wire_from_content` took apart."""
    from scraper_service.items import PageContent  # noqa: PLC0415

    return PageContent(values=values, links=links, **facts)


# Around the styles that a browser computed for a page. They are appended to its HTML, so that
# they travel, and are stored, together with the page.
_LOOKS_START = b'\n<style id="scraper-looks">'
_LOOKS_END = b"</style>\n"
MAX_CSS_BYTES = 64 * 1024


def append_browser_styles(html: bytes, css: str) -> bytes:
    """Return ``html`` with the computed styles ``css`` appended."""
    safe = css.replace("<", "").encode("utf-8", "replace")[:MAX_CSS_BYTES]
    return html + _LOOKS_START + safe + _LOOKS_END


def split_browser_styles(html: bytes) -> tuple[bytes, str]:
    """Return the HTML without the appended styles, and these styles or an empty text."""
    if not html.endswith(_LOOKS_END):
        return html, ""
    start = html.rfind(
        _LOOKS_START, max(0, len(html) - MAX_CSS_BYTES - len(_LOOKS_START + _LOOKS_END))
    )
    if start < 0:
        return html, ""
    css = html[start + len(_LOOKS_START) : -len(_LOOKS_END)]
    return html[:start], css.decode("utf-8", "replace")
