"""The cleaned HTML of a page."""

from __future__ import annotations

import html as escapes
from typing import TYPE_CHECKING

from lxml import etree

from scraper_service.formats.decode import clean_text

if TYPE_CHECKING:
    from scraper_service.formats.document import Document


def cleaned_html(document: Document) -> str:
    """Serialise the tree as it stands, with absolute addresses."""
    text: str = etree.tostring(document.root, encoding="unicode", method="html")
    return clean_text(text)


def preformatted(text: str) -> str:
    """Return the HTML of a document that is plain text."""
    return f"<html><body><pre>{escapes.escape(text, quote=False)}</pre></body></html>"
