"""Converts electronic books (.epub), in the order of their spine (EPUB 3.3)."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from lxml import etree

from scraper_service.content.documents.markup import (
    Archive,
    ConvertedDocument,
    element,
    facts,
    html_body,
    inner_html,
    local,
    resolve_member,
)

if TYPE_CHECKING:
    from scraper_service.content.losses import Losses

KIND = "EPUB"
MAX_CHAPTERS = 2000
MAX_BYTES = 32 * 2**20  # of the HTML of all chapters
_DROPPED = ("script", "style", "link", "meta")
# Elements that are recorded, and the kinds of losses.
_LOST = {
    "svg": "diagram",
    "iframe": "frame",
    "object": "embeddedDocument",
    "audio": "audio",
    "video": "video",
}
INSIDE = "Files inside a book that are no chapters are not converted."


def read_epub(body: bytes) -> ConvertedDocument:
    """Convert a book; files outside of its spine are left out.

    :raises Unreadable: for a damaged, encrypted or hostile file.
    """
    archive = Archive(body, KIND)
    path = _package_path(archive)
    package = archive.xml(path)
    folder = posixpath.dirname(path)
    items = {
        item.get("id", ""): (
            resolve_member(folder, item.get("href", "")),
            item.get("media-type", ""),
            item.get("properties", "").split(),
        )
        for item in package.iterfind("{*}manifest/{*}item")
    }
    refs = package.iterfind("{*}spine/{*}itemref")
    spine = [  # notes and the like stand after the chapters
        items[ref.get("idref", "")]
        for ref in sorted(refs, key=lambda ref: ref.get("linear") == "no")
        if ref.get("idref", "") in items
    ]
    document = _document(package)
    losses = document.losses
    chapters: dict[str, None] = {}  # each once, however often the spine repeats it
    for name, mime, kinds in spine:
        if "html" in mime and name in archive:
            chapters |= {} if "nav" in kinds else {name: None}
        else:
            losses.add("embeddedDocument", INSIDE, text=posixpath.basename(name))
    if not chapters:
        raise archive.unreadable("it has no readable chapters")
    encrypted = _encrypted_names(archive)
    parts: list[str] = []
    size = 0
    for number, name in enumerate(chapters):
        if number == MAX_CHAPTERS or size > MAX_BYTES:
            document.record_cut("book", number, len(chapters), "chapters")
            break
        if name in encrypted:
            raise archive.unreadable("it is protected against copying")
        data = archive.read(name)
        size += len(data)
        parts.append(_chapter(data, losses))
    document.body = "\n".join(parts)
    return document


def _package_path(archive: Archive) -> str:
    for root in archive.xml("META-INF/container.xml").iter("{*}rootfile"):
        path = resolve_member("", root.get("full-path", ""))
        if path in archive:
            return path
    raise archive.unreadable("it has no table of its parts")


def _encrypted_names(archive: Archive) -> set[str]:
    if "META-INF/encryption.xml" not in archive:
        return set()
    root = archive.xml("META-INF/encryption.xml")
    return {
        resolve_member("", item.get("URI", ""))
        for item in root.iter("{*}CipherReference")
    }


def _document(package: Any) -> ConvertedDocument:
    """Return a document with the metadata of a book."""
    declared: dict[str, list[str]] = {}
    for item in package.iterfind("{*}metadata/*"):
        name = local(item)
        if name == "meta":
            name = item.get("property", "")
        if item.text and item.text.strip():
            declared.setdefault(name, []).append(item.text.strip())

    def first(name: str) -> str | None:
        return next(iter(declared.get(name, ())), None)

    known = {
        "title": first("title"),
        "description": first("description"),
        "language": first("language"),
        "keywords": ", ".join(declared.get("subject", [])),
        "published_time": first("date"),
        "modified_time": first("dcterms:modified"),
    }
    other = {
        "author": ", ".join(declared.get("creator", [])),
        "publisher": first("publisher"),
        "identifier": first("identifier"),
    }
    return ConvertedDocument(known=facts(known), other=facts(other))


def _chapter(data: bytes, losses: Losses) -> str:
    """Return a chapter's inner HTML, without links to other files of the book."""
    body = html_body(_without_declaration(data))
    if body is None:
        return ""
    for item in body.iter(*_LOST):
        text = item.findtext("title") or item.get("title") or ""
        losses.add(_LOST[item.tag], INSIDE, text=text)
    etree.strip_elements(body, *_DROPPED, *_LOST, with_tail=False)
    for item in body.iter("a", "img"):
        if item.tag == "img":
            item.set("src", "data:image/png;base64,")
            continue
        url = item.get("href", "")
        if not url.startswith(("http://", "https://", "mailto:")):
            _, mark, fragment = url.partition("#")
            item.set("href", mark + fragment)
    return element("section", inner_html(body))


def _without_declaration(data: bytes) -> bytes:
    """Drop an XML declaration, which HTML parsers take for text."""
    data = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    return data.split(b"?>", 1)[-1] if data.startswith(b"<?xml") else data
