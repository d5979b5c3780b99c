"""The cleaned HTML of a page."""

from __future__ import annotations

import html as escapes
from typing import TYPE_CHECKING

from lxml import etree

from scraper_service.content.decode import clean_text

if TYPE_CHECKING:
    from scraper_service.content.html.document import Document


_MACHINERY = ("script", "style", "noscript", "template", "svg")  # of a head
_HANDLED = etree.XPath("//*[@*[starts-with(name(), 'on')]]")


def cleaned_html(document: Document) -> str:
    """Serialise the tree as it stands, with absolute addresses, but without scripts.

    Cleaning leaves the head as it is; also what elements do when they are clicked.
    """
    etree.strip_elements(document.root, *_MACHINERY, with_tail=False)
    for element in _HANDLED(document.root):
        for name in list(element.attrib):
            if name.startswith("on"):
                del element.attrib[name]
    text: str = etree.tostring(document.root, encoding="unicode", method="html")
    return clean_text(text)


def preformatted(text: str) -> str:
    """Return the HTML of a document that is plain text."""
    return f"<html><body><pre>{escapes.escape(text, quote=False)}</pre></body></html>"
