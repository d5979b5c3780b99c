"""The formats of a page on the command line: their names, and the kinds of their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.options.scrape import ScrapeOptions

TEXT, DATA, PICTURE, FILE = "text", "data", "picture", "file"
QUOTES = "directQuote"  # the mode of the format query that makes highlights


@frozen
class PageFormat:
    """A format of the command line."""

    #: The name in a body of /v2.
    name: str
    #: The key of the result in a page object.
    key: str
    #: :data:`TEXT`, :data:`DATA` (JSON), :data:`PICTURE`, or :data:`FILE` (base64).
    kind: str = DATA


_SAME = (
    ("markdown", TEXT),
    ("html", TEXT),
    ("rawHtml", TEXT),
    ("links", DATA),
    ("images", DATA),
    ("summary", TEXT),
    ("json", DATA),
    ("screenshot", PICTURE),
    ("product", DATA),
    ("menu", DATA),
    ("branding", DATA),
    ("changeTracking", DATA),
    ("attributes", DATA),
    ("highlights", DATA),
    ("rawBase64", FILE),
    ("audio", DATA),
    ("video", DATA),
)
FORMATS = {
    **{name: PageFormat(name, name, kind) for name, kind in _SAME},
    "question": PageFormat("question", "answer", TEXT),
    "query": PageFormat("query", "answer", TEXT),
    "screenshot@fullPage": PageFormat("screenshot@fullPage", "screenshot", PICTURE),
}
KINDS = {each.key: each.kind for each in FORMATS.values()}
# The names that -f takes. Other formats have options of their own.
NAMES = tuple(
    name
    for name in FORMATS
    if name not in {"attributes", "highlights", "question", "query", "audio", "video"}
)
WITH_OPTIONS = ("attributes", "question", "highlights", "query")
# Keys that options of the PDF parser add to a page.
_OF_PDF = (("pages", ("pages", "pageMarkdown")), ("blocks", ("blocks",)))
EVERY_KEY = (*dict.fromkeys(KINDS), "actions", "pages", "blocks")


def keys_of_body(body: dict[str, Any]) -> tuple[str, ...]:
    """Return the keys of a page, beside metadata, for a body of /v2.

    ``body`` is that of a scrape, or the ``scrapeOptions`` of a crawl. Unknown formats
    are left out: the body is refused later.
    """
    formats = body.get("formats", ["markdown"])
    keys = [_key(each) for each in formats] if isinstance(formats, list) else []
    if body.get("actions"):
        keys.append("actions")
    for parser in body.get("parsers") or ():
        if isinstance(parser, dict):
            keys += [key for key, names in _OF_PDF if any(parser.get(n) for n in names)]
    return _unique(keys)


def keys_of_options(options: ScrapeOptions) -> tuple[str, ...]:
    """Return the keys of a page, beside metadata, for ``options``."""
    from scraper_service.api.v2.requests import wire_name
    from scraper_service.options.formats import Json, Query

    keys: list[str | None] = []
    for each in options.formats:
        if isinstance(each, Json):
            keys.append(each.key)
        elif isinstance(each, Query):
            keys.append(_key({"type": "query", "mode": each.mode}))
        else:
            keys.append(_key(wire_name(each.type)))
    if options.actions:
        keys.append("actions")
    if parser := options.pdf_parser:
        keys += [key for key, _ in _OF_PDF if getattr(parser, key)]
    return _unique(keys)


def _key(item: Any) -> str | None:
    name = item.get("type") if isinstance(item, dict) else item
    if name == "query" and isinstance(item, dict) and item.get("mode") == QUOTES:
        return "highlights"
    found = FORMATS.get(name) if isinstance(name, str) else None
    return found.key if found else None


def _unique(keys: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for key in keys if key))
