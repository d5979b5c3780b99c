"""Product descriptions that stand only in the JSON-LD of a page."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

from lxml import etree

from scraper_service.content.metadata.linked_data import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_SCRIPT = 500_000  # characters; longer scripts are skipped
MAX_SCRIPTS = 20
MAX_VALUES = 2_000  # values examined per script
LEAST_WORDS = 8
MAX_TEXT = 20_000  # characters
KNOWN_SHARE = 0.8  # share of known words above which the page already has the text
_WORD = re.compile(r"\w+")
_TAG = re.compile(r"<[^<>]*>")
_BREAK = re.compile(r"<(?:br|/p|/li|/div)\b[^<>]*>|\n\s*\n", re.IGNORECASE)


def product_description(scripts: Sequence[str]) -> str | None:
    """Return the product description in the JSON-LD ``scripts``, or None."""
    for script in scripts[:MAX_SCRIPTS]:
        if "Product" not in script or len(script) > MAX_SCRIPT:
            continue
        for found in _products(parse_json(script)):
            text = found.get("description")
            if isinstance(text, str) and len(text.split()) >= LEAST_WORDS:
                return text[:MAX_TEXT]
    return None


def _products(data: Any) -> Iterator[dict[str, Any]]:
    """Yield the products, except those of an ``ItemList``: they have their own pages."""
    waiting, seen = [data], 0
    while waiting and seen < MAX_VALUES:
        value = waiting.pop(0)
        seen += 1
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            kinds = value.get("@type")
            kinds = kinds if isinstance(kinds, list) else [kinds]
            if "ItemList" in kinds:
                continue
            if "Product" in kinds or "ProductGroup" in kinds:
                yield value
            waiting += [value[k] for k in ("@graph", "mainEntity") if k in value]


def add_description(body: Any, text: str) -> None:
    """Insert ``text`` as paragraphs behind the title, unless the page has the text."""
    present = set(_WORD.findall(" ".join(body.itertext()).lower()))
    plain = html.unescape(text)
    paragraphs = [" ".join(_TAG.sub(" ", part).split()) for part in _BREAK.split(plain)]
    words = _WORD.findall(" ".join(paragraphs).lower())
    if not words or sum(w in present for w in words) > KNOWN_SHARE * len(words):
        return
    section = etree.Element("section")
    for paragraph in filter(None, paragraphs):
        etree.SubElement(section, "p").text = paragraph
    title = next(body.iter("h1"), None)
    if title is None:
        body.append(section)
    else:
        section.tail, title.tail = title.tail, None
        title.addnext(section)
