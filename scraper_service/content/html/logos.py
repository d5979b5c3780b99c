"""Logos and advertisements that stand before the text of a page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lxml import etree

from scraper_service.content.html.document import drop
from scraper_service.content.html.tags import SKIPPED

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_EVENTS = 5_000  # of the walk to the first text
_LOGO = re.compile(
    r"(?:^|[^a-z])(?:fav)?(?:logos?|icon)(?![a-z])|[a-z]Logo(?![a-z])|_LOGO"
)
_IMAGE_FILE = re.compile(r"\.(?:jpe?g|png|webp|gif|avif)\Z", re.IGNORECASE)


def drop_logos(body: Any, base: str) -> None:
    """Drop pictures before the first text that are named a logo, or lead elsewhere.

    Elsewhere is the start page, or another site; not the picture in its full size.
    """
    for image in list(_images_before_text(body)):
        link = next(image.iterancestors("a"), None)
        names = (image.get("src", "").rpartition("/")[2], image.get("alt", ""))
        is_logo = any(map(_LOGO.search, (*names, image.get("class", ""))))
        if is_logo or (link is not None and _leads_elsewhere(link, base)):
            drop(image)


def _images_before_text(body: Any) -> Iterator[Any]:
    """Yield the images before the first text; none where there is no text."""
    found: list[Any] = []
    events = etree.iterwalk(body, events=("start", "end"))
    for _, (event, element) in zip(range(MAX_EVENTS), events, strict=False):
        text = element.text if event == "start" else element.tail
        if element.tag in SKIPPED and event == "start":
            events.skip_subtree()
            text = None
        if element.tag == "img" and event == "start":
            found.append(element)
        if text and not text.isspace():
            yield from found
            return


def _leads_elsewhere(link: Any, base: str) -> bool:
    try:
        target, page = urlsplit(link.get("href", "")), urlsplit(base)
    except ValueError:
        return False
    if target.scheme not in {"http", "https"} or _IMAGE_FILE.search(target.path):
        return False
    return target.netloc != page.netloc or target.path in {"", "/"}
