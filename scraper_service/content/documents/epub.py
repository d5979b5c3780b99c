"""Electronic books (.epub): their chapters in the order of the spine (EPUB 3.3)."""

from __future__ import annotations

import posixpath
from typing import Any

from lxml import etree

from scraper_service.content.documents.archive import Archive, local, within
from scraper_service.content.documents.markup import (
    Draft,
    element,
    facts,
    html_body,
    inner_html,
)

KIND = "EPUB"
MAX_CHAPTERS = 2000
MAX_BYTES = 32 * 2**20  # of the HTML of all chapters
_DROPPED = (
    "script",
    "style",
    "svg",
    "link",
    "meta",
    "iframe",
    "object",
    "audio",
    "video",
)


def read_epub(body: bytes) -> Draft:
    """Convert a book; what is outside of its spine is left out.

    :raises Unreadable: for a damaged, encrypted or hostile file.
    """
    archive = Archive(body, KIND)
    path = _package_path(archive)
    package = archive.xml(path)
    folder = posixpath.dirname(path)
    items = {
        item.get("id", ""): (
            within(folder, item.get("href", "")),
            item.get("media-type", ""),
            item.get("properties", "").split(),
        )
        for item in package.iterfind("{*}manifest/{*}item")
    }
    spine = [
        items[ref.get("idref", "")]
        for ref in package.iterfind("{*}spine/{*}itemref")
        if ref.get("idref", "") in items and ref.get("linear") != "no"
    ]
    chapters = [
        name
        for name, mime, properties in spine
        if "html" in mime and "nav" not in properties and name in archive
    ]
    if not chapters:
        raise archive.refused("it has no readable chapters")
    warnings = []
    parts: list[str] = []
    size = 0
    for number, name in enumerate(chapters):
        if number == MAX_CHAPTERS or size > MAX_BYTES:
            warnings.append(
                f"The book was truncated: {number} of its {len(chapters)} chapters "
                "were converted."
            )
            break
        if name in _encrypted(archive):
            raise archive.refused("it is protected against copying")
        data = archive.read(name)
        size += len(data)
        parts.append(_chapter(data))
    known, other = _metadata(package)
    return Draft(body="\n".join(parts), known=known, other=other, warnings=warnings)


def _package_path(archive: Archive) -> str:
    for root in archive.xml("META-INF/container.xml").iter("{*}rootfile"):
        path = within("", root.get("full-path", ""))
        if path in archive:
            return path
    raise archive.refused("it has no table of its parts")


def _encrypted(archive: Archive) -> set[str]:
    if "META-INF/encryption.xml" not in archive:
        return set()
    root = archive.xml("META-INF/encryption.xml")
    return {within("", item.get("URI", "")) for item in root.iter("{*}CipherReference")}


def _metadata(package: Any) -> tuple[dict[str, str], dict[str, str]]:
    said: dict[str, list[str]] = {}
    for item in package.iterfind("{*}metadata/*"):
        name = local(item)
        if name == "meta":
            name = item.get("property", "")
        if item.text and item.text.strip():
            said.setdefault(name, []).append(item.text.strip())

    def first(name: str) -> str | None:
        return said[name][0] if name in said else None

    known = {
        "title": first("title"),
        "description": first("description"),
        "language": first("language"),
        "keywords": ", ".join(said.get("subject", [])),
        "published_time": first("date"),
        "modified_time": first("dcterms:modified"),
    }
    other = {
        "author": ", ".join(said.get("creator", [])),
        "publisher": first("publisher"),
        "identifier": first("identifier"),
    }
    return facts(known), facts(other)


def _chapter(data: bytes) -> str:
    """Return the inside of a chapter; addresses inside the book lead nowhere."""
    body = html_body(_without_declaration(data))
    if body is None:
        return ""
    etree.strip_elements(body, *_DROPPED, with_tail=False)
    for item in body.iter("a", "img"):
        if item.tag == "img":
            item.set("src", "data:image/png;base64,")
            continue
        address = item.get("href", "")
        if not address.startswith(("http://", "https://", "mailto:")):
            _, mark, fragment = address.partition("#")
            item.set("href", mark + fragment)
    return element("section", inner_html(body))


def _without_declaration(data: bytes) -> bytes:
    """Drop an XML declaration, which HTML parsers take for text."""
    data = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    return data.split(b"?>", 1)[-1] if data.startswith(b"<?xml") else data
