"""The words of a page without what all pages of a site share, to tell pages apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lxml import etree

if TYPE_CHECKING:
    from scraper_service.formats.document import Document

MAX_WORDS_TEXT = 20_000  # characters

_SHARED = frozenset(
    "nav header footer aside form script style noscript template select".split()
)


def main_words(document: Document) -> str:
    """Return the text of the page outside menus and scripts, from the start a part."""
    parts: list[str] = []
    size = 0
    walk = etree.iterwalk(document.root, events=("start", "end"))
    for event, element in walk:
        if event == "end":
            text = element.tail
        elif element.tag in _SHARED:
            walk.skip_subtree()
            continue
        else:
            text = element.text
        if text:
            parts.append(text)
            size += len(text)
            if size > MAX_WORDS_TEXT:
                break
    return " ".join(parts)[:MAX_WORDS_TEXT]
