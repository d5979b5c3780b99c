"""Converts news feeds, RSS and Atom: each entry becomes a section with link and date."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Any

from lxml import etree

from scraper_service.content.documents.archive import local, parse_xml
from scraper_service.content.documents.markup import (
    ConvertedDocument,
    anchor,
    element,
    escape,
    facts,
    html_body,
    inner_html,
)
from scraper_service.content.html.page_urls import absolute

MAX_ENTRIES = 1000
ROOTS = frozenset({"rss", "RDF", "feed"})
_BODIES = ("encoded", "content", "description", "summary")
_DATES = ("pubDate", "published", "updated", "date", "modified", "issued")


def read_feed(text: str, url: str) -> ConvertedDocument | None:
    """Return the entries of a feed, None for other XML.

    Links are relative to ``url``.
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
    parts = [element("h1", escape(title))] if title else []
    parts += [element("p", escape(about))] if about else []
    parts += [_entry(entry, url) for entry in entries[:MAX_ENTRIES]]
    known = {
        "title": title,
        "description": about,
        "language": _child_text(head, "language") or _language(root),
        "modified_time": _date(head, "lastBuildDate", "updated", "pubDate", "date"),
    }
    other = {"author": _author(head), "generator": _child_text(head, "generator")}
    warnings = []
    if len(entries) > MAX_ENTRIES:
        warnings.append(
            f"The feed was truncated: {MAX_ENTRIES} of its {len(entries)} entries were "
            "converted."
        )
    return ConvertedDocument(
        body="\n".join(parts),
        known=facts(known),
        other=facts(other),
        warnings=warnings,
        raw=text,
    )


def _entry(entry: Any, url: str) -> str:
    title = _child_text(entry, "title") or "Untitled"
    parts = [element("h2", anchor(escape(title), _link(entry, url)))]
    about = [fact for fact in (_date(entry, *_DATES), _author(entry)) if fact]
    if about:
        parts.append(element("p", escape(" \u2013 ".join(about))))
    for name in _BODIES:
        found = entry.find(f"{{*}}{name}")
        if found is not None and (content := _content(found)):
            parts.append(content)
            break
    return element("section", "\n".join(parts))


def _child_text(parent: Any, *names: str) -> str:
    """Return the text of the first child with one of these names, else an empty text."""
    for name in names:
        found = parent.find(f"{{*}}{name}")
        if found is not None:
            text = "".join(found.itertext())
            if "<" in text or "&" in text:
                text = _plain_text(text)
            if text.strip():
                return " ".join(text.split())
    return ""


def _plain_text(markup: str) -> str:
    body = html_body(f"<body>{markup}")
    return "".join(body.itertext()) if body is not None else ""


def _content(found: Any) -> str:
    """Return an entry's HTML, balanced, so that it stays inside its section."""
    if found.get("type") == "xhtml":
        markup = "".join(etree.tostring(part, encoding="unicode") for part in found)
    else:
        markup = "".join(found.itertext())
        if found.get("type") == "text":
            markup = escape(markup)
    body = html_body(f"<body>{markup}") if markup.strip() else None
    return element("div", inner_html(body)) if body is not None else ""


def _link(entry: Any, url: str) -> str | None:
    for link in entry.iterfind("{*}link"):
        value = link.get("href") or (link.text or "").strip()
        if value and link.get("rel", "alternate") == "alternate":
            return absolute(url, value)
    guid = entry.find("{*}guid")
    if guid is not None and guid.get("isPermaLink") != "false" and guid.text:
        return absolute(url, guid.text.strip())
    return None


def _author(parent: Any) -> str:
    author = parent.find("{*}author")
    if author is not None:
        return _child_text(author, "name") or " ".join(
            "".join(author.itertext()).split()
        )
    return _child_text(parent, "creator")


def _language(root: Any) -> str:
    return str(root.get("{http://www.w3.org/XML/1998/namespace}lang") or "")


def _date(parent: Any, *names: str) -> str:
    """Return a date as ISO 8601; an unknown format stays unchanged."""
    text = _child_text(parent, *names)
    try:
        return parsedate_to_datetime(text).isoformat()
    except (ValueError, TypeError, IndexError):
        return text[:100]
