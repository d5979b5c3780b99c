"""The converters that make a page's Markdown, for the setting ``MARKDOWN_CONVERTER``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from html2text import HTML2Text
from lxml import etree

from scraper_service.content.decode import clean_text
from scraper_service.content.html.lazy_images import record_image
from scraper_service.content.markdown import HTML2TEXT, NATIVE
from scraper_service.content.markdown.pictures import REMOVED_IMAGE
from scraper_service.content.markdown.writer import markdown

if TYPE_CHECKING:
    from scraper_service.content.html.document import Document


def html2text_markdown(document: Document, *, remove_base64_images: bool) -> str:
    """Return html2text's own output for the cleaned tree, without wrapped lines.

    The URLs of removed images are replaced in the tree.
    """
    body = document.body
    for image in body.iter("img") if remove_base64_images else ():
        if image.get("src", "").lstrip()[:5].lower() == "data:":
            record_image(document, image, is_removed=True)
            image.set("src", REMOVED_IMAGE)
    converter = HTML2Text(bodywidth=0)
    converter.unicode_snob = True
    source = etree.tostring(body, encoding="unicode", method="html", with_tail=False)
    return clean_text(converter.handle(source)).strip("\n")


CONVERTERS = {NATIVE: markdown, HTML2TEXT: html2text_markdown}
