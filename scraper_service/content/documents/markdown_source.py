"""Reads Markdown files: their text stays, and HTML and links follow from it."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt

from scraper_service.content.documents.markup import ConvertedDocument, facts

_FRONT = re.compile(
    r"\A---[ \t]*\r?\n(.*?)\r?\n(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL
)
_FACT = re.compile(r"^([A-Za-z]\w*)[ \t]*:[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_TITLE = re.compile(r"^#[ \t]+(.+?)[ \t]*#*$", re.MULTILINE)
_KNOWN = {
    "title": "title",
    "description": "description",
    "keywords": "keywords",
    "tags": "keywords",
    "lang": "language",
    "language": "language",
    "date": "published_time",
}
MAX_FRONT = 20_000  # characters


def read_markdown(text: str) -> ConvertedDocument:
    """Return the file unchanged, with its HTML and metadata.

    Plain ``name: value`` lines of its front matter are metadata.
    """
    front = _FRONT.match(text[:MAX_FRONT])
    source = text[front.end() :] if front else text
    declared = {
        name.lower(): value.strip("\"'")
        for name, value in _FACT.findall(front[1] if front else "")
    }
    known = {_KNOWN[name]: value for name, value in declared.items() if name in _KNOWN}
    heading = _TITLE.search(source)
    if heading:
        known.setdefault("title", heading[1])
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return ConvertedDocument(
        body=parser.render(source),
        known=facts(known),
        other=facts({"author": declared.get("author")}),
        text=source.strip("\n"),
        raw=text,
    )
