"""The keys of a page on the command line: the results of its formats, and what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.options.formats import NAMED, ROW_OF, Json, Query

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.options.scrape import ScrapeOptions

QUOTES = "directQuote"  # the mode of the format query that makes highlights
#: The kind of each result by its key in a page object.
KINDS = {row.key: row.result for row in NAMED.values()}
# The names that -f takes. Other formats have options of their own.
NAMES = tuple(n for n, row in NAMED.items() if row.is_bare and not row.missing)
WITH_OPTIONS = tuple(name for name, row in NAMED.items() if not row.is_bare)
# Keys that options of the PDF parser add to a page.
_OF_PDF = (("pages", ("pages", "pageMarkdown")), ("blocks", ("blocks",)))
EVERY_KEY = (*KINDS, "actions", "pages", "blocks")


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
    keys: list[str | None] = []
    for each in options.formats:
        if isinstance(each, Json):
            keys.append(each.key)
        elif isinstance(each, Query):
            keys.append(_key({"type": "query", "mode": each.mode}))
        else:
            keys.append(ROW_OF[type(each)].key)
    if options.actions:
        keys.append("actions")
    if parser := options.pdf_parser:
        keys += [key for key, _ in _OF_PDF if getattr(parser, key)]
    return _unique(keys)


def _key(item: Any) -> str | None:
    name = item.get("type") if isinstance(item, dict) else item
    if name == "query" and isinstance(item, dict) and item.get("mode") == QUOTES:
        return "highlights"
    found = NAMED.get(name) if isinstance(name, str) else None
    return found.key if found else None


def _unique(keys: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for key in keys if key))
