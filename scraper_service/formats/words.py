"""The words of a page without what all pages of a site share, to tell pages apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lxml import etree

if TYPE_CHECKING:
    from scraper_service.formats.document import Document

MAX_WORDS_TEXT = 20_000  # characters

_SHARED = "nav header footer aside form script style noscript template select"
_APART = " or ".join(f"self::{tag}" for tag in _SHARED.split())
_TEXTS = etree.XPath(f"//title/text() | //body//text()[not(ancestor::*[{_APART}])]")


def main_words(document: Document) -> str:
    """Return the text of the title and of the body outside menus, at most a part."""
    found = _TEXTS(document.root)
    return " ".join(found)[:MAX_WORDS_TEXT]
