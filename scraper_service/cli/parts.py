"""The files that a page becomes: Markdown, HTML, a picture, and JSON for the rest."""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import mimetypes
import re
import urllib.error
import urllib.request
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from attrs import frozen

from scraper_service.cli.catalogue import FILE, KINDS, PICTURE
from scraper_service.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES = 256 * 2**20  # of a picture that a service sends
TIMEOUT_S = 60
_ENDING = re.compile(r"\.[a-z0-9]{1,8}")
# YAML takes these as they are only in part, or not at all (YAML 1.2.2, 5.1).
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
# In the order of the head of a file of Markdown: its key, and that of the metadata.
_HEAD = (
    ("title", "title"),
    ("url", "url"),
    ("sourceURL", "sourceURL"),
    ("status", "statusCode"),
    ("language", "language"),
    ("author", "author"),
    ("date", "publishedTime"),
    ("modified", "modifiedTime"),
    ("description", "description"),
)


class Unavailable(Exception):
    """Raised when a file of a page cannot be read or fetched; the text says why."""


@frozen
class Part:
    """A file of a page: the format's ``key``, the ending of its name, its content."""

    key: str
    ending: str
    data: bytes


def parts_of(page: Mapping[str, Any]) -> tuple[list[Part], list[str]]:
    """Return the files of a page object of /v2, and why some are missing.

    Markdown has no head yet, see :func:`front_matter`. The last one, of the key
    ``data``, has what finds no file of its own, beside the metadata.
    """
    parts: list[Part] = []
    faults: list[str] = []
    rest = {}
    for key, value in page.items():
        if key in {"metadata", "warning"} or value is None:
            continue
        try:
            part = _part(key, value, page)
        except Unavailable as error:
            faults.append(str(error))
            part = None
        if part is None:
            rest[key] = value
        else:
            parts.append(part)
    if rest:
        rest["metadata"] = page.get("metadata", {})
        text = json.dumps(rest, ensure_ascii=False, indent=2)
        parts.append(Part("data", ".json", f"{text}\n".encode("utf-8", "replace")))
    return parts, faults


def _part(key: str, value: Any, page: Mapping[str, Any]) -> Part | None:
    """Return the file of a format, None if it has none of its own.

    Raises :exc:`Unavailable`.
    """
    if not isinstance(value, str):
        return None
    if KINDS.get(key) in {PICTURE, FILE}:
        data, content_type = content_of(key, value, page)
        return Part(key, ending_of(content_type, page), data)
    if key == "markdown":
        return Part(key, ".md", f"{value}\n".encode("utf-8", "replace"))
    if key == "html":
        return Part(key, ".html", value.encode("utf-8", "replace"))
    if key == "rawHtml":
        ending = ".raw.html" if page.get("html") is not None else ".html"
        return Part(key, ending, value.encode("utf-8", "replace"))
    return None


def content_of(key: str, value: str, page: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return the bytes of a picture or file of a page, and their content type.

    ``value`` is base64, a ``data:`` URL, or the URL where a service keeps the file.
    Raises :exc:`Unavailable`.
    """
    if KINDS.get(key) == FILE:
        kind = str(page.get("metadata", {}).get("contentType") or "")
        return _decoded(value), kind
    if value.startswith("data:"):
        head, _, encoded = value.removeprefix("data:").partition(",")
        return _decoded(encoded), head
    return _fetched(value)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unavailable(f"a file of the page cannot be read: {error}") from error


def _fetched(url: str) -> tuple[bytes, str]:
    """Return a file that the user's service keeps, and its content type."""
    shown = printable(url.partition("?")[0], 200)  # the rest is a signature
    if not url.startswith(("http://", "https://")):
        raise Unavailable(f"{shown} is no address of a picture")
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310
            data: bytes = answer.read(MAX_BYTES + 1)
            kind = answer.headers.get_content_type()
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise Unavailable(f"{shown} could not be fetched: {error}") from error
    if len(data) > MAX_BYTES:
        raise Unavailable(f"{shown} has more than {MAX_BYTES} bytes")
    return data, kind


def ending_of(content_type: str, page: Mapping[str, Any]) -> str:
    """Return the ending of a file name: by its type, else as the page's URL has it."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "image/jpeg":
        return ".jpg"
    found = mimetypes.guess_extension(kind)
    if found is None:
        try:
            path = urlsplit(str(page.get("metadata", {}).get("url", ""))).path
        except ValueError:
            path = ""
        found = PurePosixPath(path).suffix.lower()
    return found if _ENDING.fullmatch(found) else ".bin"


def front_matter(page: Mapping[str, Any], files: Mapping[str, str]) -> bytes:
    """Return the head of a file of Markdown: YAML between two lines ``---``.

    Texts are quoted as JSON is, which YAML reads the same. ``files`` are those beside
    it, by the key of their format.
    """
    facts = page.get("metadata", {})
    lines = ["---"]
    for name, key in _HEAD:
        value = facts.get(key)
        if isinstance(value, int | str) and value != "":
            lines.append(f"{name}: {_scalar(value)}")
    lines += [f"{key}: {_scalar(name)}" for key, name in files.items()]
    if warning := page.get("warning"):
        lines.append(f"warning: {_scalar(str(warning))}")
    return "\n".join([*lines, "---", "", ""]).encode("utf-8", "replace")


def _scalar(value: int | str) -> str:
    if isinstance(value, int):
        return str(value)
    quoted = json.dumps(printable(value), ensure_ascii=False)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
