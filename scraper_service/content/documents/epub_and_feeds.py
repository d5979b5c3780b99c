"""Converts what wraps HTML in XML: electronic books and news feeds.

A chapter of a book (.epub, EPUB 3.3) is a section, in the order of the spine. An entry of a
feed (RSS, Atom) is a section with link and date.
"""

from __future__ import annotations

import posixpath
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from lxml import etree

from scraper_service.content.documents.files import (
    Archive,
    ConvertedDocument,
    anchor,
    element,
    escape,
    facts,
    html_body,
    inner_html,
    local,
    parse_xml,
    resolve_member,
)
from scraper_service.content.page_urls import (
    absolute,
    best_candidate,
    xml_base,
)

if TYPE_CHECKING:
    from scraper_service.content.losses import Losses

MAX_ENTRIES = 1000
ROOTS = frozenset({"rss", "RDF", "feed"})
_BODIES = ("encoded", "content", "description", "summary")
# Attributes with a URL, and with several.
_URLS = ("href", "src", "poster", "data", "cite", "data-src")
_SRCSETS = ("srcset", "data-srcset")
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_DATES = ("pubDate", "published", "updated", "date", "modified", "issued")


def read_feed(text: str, url: str) -> ConvertedDocument | None:
    """Return the entries of a feed, None for other XML.

    Links are relative to ``url``, or to the ``xml:base`` around them.
    """
    root = parse_xml(text.encode(), recover=True)
    if root is None or local(root) not in ROOTS:
        return None
    channel = root.find("{*}channel")
    head = root if channel is None else channel
    entries = [e for e in (*root, *head) if local(e) in {"item", "entry"}]
    if head is root:
        entries = entries[: len(entries) // 2]
    if channel is None and local(root) != "feed":
        return None
    title = _child_text(head, "title")
    about = _child_text(head, "description", "subtitle", "tagline")
    known = {
        "title": title,
        "description": about,
        "language": _child_text(head, "language") or str(root.get(_LANG, "")),
        "modified_time": _date(head, "lastBuildDate", "updated", "pubDate", "date"),
    }
    other = {"author": _author(head), "generator": _child_text(head, "generator")}
    parts = [element("h1", escape(title))] if title else []
    parts += [element("p", escape(about))] if about else []
    parts += [_entry(entry, url) for entry in entries[:MAX_ENTRIES]]
    body = "\n".join(parts)
    document = ConvertedDocument(
        body=body, known=facts(known), other=facts(other), raw=text
    )
    if len(entries) > MAX_ENTRIES:
        document.record_cut("feed", MAX_ENTRIES, len(entries), "entries")
    return document


def _files(entry: Any, url: str, content: str) -> str:
    """Return the enclosures of an entry that its content does not show."""
    files = list(entry.iterfind("{*}enclosure"))
    files += [x for x in entry.iterfind("{*}link") if x.get("rel") == "enclosure"]
    found: dict[str, str] = {}
    for file in files:
        href = (file.get("url") or file.get("href") or "").strip()
        base = xml_base(file, url)
        whole = absolute(base, href) if href else None
        if not whole or escape(whole) in content:
            continue
        is_image = file.get("type", "").startswith("image/")
        link = anchor(escape(file.get("title") or href), whole)
        found[whole] = element("img", "", src=whole) if is_image else element("p", link)
    return "".join(found.values())


def _entry(entry: Any, url: str) -> str:
    found = (entry.find(f"{{*}}{name}") for name in _BODIES)
    contents = (_content(each, url) for each in found if each is not None)
    content = next(filter(None, contents), "")
    content += _files(entry, url, content)
    title = _child_text(entry, "title") or "Untitled"
    parts = [element("h2", anchor(escape(title), _link(entry, url)))]
    if about := list(filter(None, (_date(entry, *_DATES), _author(entry)))):
        parts.append(element("p", escape(" \u2013 ".join(about))))
    return element("section", "\n".join([*parts, content] if content else parts))


def _child_text(parent: Any, *names: str) -> str:
    """Return the text of the first child with one of these names, else an empty text."""
    for name in names:
        found = parent.find(f"{{*}}{name}")
        if found is not None:
            text = "".join(found.itertext())
            if "<" in text or "&" in text:
                body = html_body(f"<body>{text}")
                text = "" if body is None else "".join(body.itertext())
            if text.strip():
                return " ".join(text.split())
    return ""


def _content(found: Any, url: str) -> str:
    """Return an entry's HTML, balanced, so that it stays inside its section."""
    if found.get("type") == "xhtml":
        markup = "".join(etree.tostring(part, encoding="unicode") for part in found)
        found = next(found.iterchildren("{*}div"), found)
    else:
        markup = "".join(found.itertext())
        if found.get("type") == "text":
            markup = escape(markup)
    return _balance(markup, xml_base(found, url), url)


def _balance(markup: str, base: str, url: str) -> str:
    body = html_body(f"<body>{markup}") if markup.strip() else None
    if body is None:
        return ""
    for found in body.iterdescendants(etree.Element) if base != url else ():
        for name in _URLS:
            if value := found.get(name):
                found.set(name, absolute(base, value) or value)
        for name in _SRCSETS:
            if best := best_candidate(found.get(name, "")):
                found.set(name, absolute(base, best) or best)
    return element("div", inner_html(body))


def _link(entry: Any, url: str) -> str | None:
    for link in entry.iterfind("{*}link"):
        value = link.get("href") or (link.text or "").strip()
        if value and link.get("rel", "alternate") == "alternate":
            return absolute(xml_base(link, url), value)
    guid = entry.find("{*}guid")
    if guid is not None and guid.get("isPermaLink") != "false" and guid.text:
        return absolute(xml_base(guid, url), guid.text.strip())
    return None


def _author(parent: Any) -> str:
    author = parent.find("{*}author")
    if author is not None:
        text = " ".join("".join(author.itertext()).split())
        return _child_text(author, "name") or text
    return _child_text(parent, "creator")


def _date(parent: Any, *names: str) -> str:
    """Return a date as ISO 8601; an unknown format stays unchanged."""
    text = _child_text(parent, *names)
    try:
        return parsedate_to_datetime(text).isoformat()
    except (ValueError, TypeError, IndexError):
        return text[:100]


# -- electronic books --------------------------------------------------------------------

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
