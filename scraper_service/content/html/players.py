"""Puts a link into each player of a video or sound, so that all formats have it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lxml import etree

from scraper_service.content.html.page_urls import absolute

if TYPE_CHECKING:
    from scraper_service.content.html.document import Document

_SOURCES = ("data-src", "data-lazy-src")  # of a frame, as cleaning leaves it
# Frames of other hosts are advertisements, trackers and forms more often than players.
_VIDEO = re.compile(
    r"(?:https?:)?//(?:(?:www\.)?youtube(?:-nocookie)?\.com/embed/"
    r"(?:(?P<youtube>(?!videoseries)[\w-]{11})(?![\w-]))?"
    r"|player\.vimeo\.com/video/|(?:www\.)?dailymotion\.com/embed/video/"
    r"|(?:www\.)?loom\.com/embed/|fast\.wistia\.(?:net|com)/embed/iframe/"
    r"|embed\.ted\.com/talks/|videopress\.com/(?:embed|v)/)(?!.*[?&]background=1)"
)


def link_players(document: Document) -> None:
    """Put a link to its page or file into each player of a cleaned tree.

    Main content is chosen before: a player has no text of its own, and stays with the
    text beside it.
    """
    for player in document.players:
        is_frame = player.tag == "div"
        url = _url_of_frame(player) if is_frame else _url_of_media(player)
        target = absolute(document.base, url) if url else None
        if target is not None and target.startswith(("http:", "https:")):
            title = player.get("title") or player.get("aria-label") or ""
            name = "Video" if is_frame else player.tag.capitalize()
            link = etree.SubElement(player, "a", href=target)
            link.text = " ".join(title.split()) or name


def _url_of_frame(frame: Any) -> str | None:
    """Return the URL of a video of a known host; None for other frames."""
    if len(frame):
        return None
    for name in _SOURCES:
        url = frame.get(name, "").strip()
        match = _VIDEO.match(url) if url else None
        if match is not None:
            number = match["youtube"]
            return f"https://www.youtube.com/watch?v={number}" if number else url
    return None


def _url_of_media(media: Any) -> str | None:
    """Return the URL of a ``video`` or ``audio`` that a reader can start.

    Without ``controls`` a video is decoration, and a sound is not displayed.
    """
    if "controls" not in media.attrib or media.find(".//a") is not None:
        return None
    source = media if media.get("src") else media.find("source")
    return None if source is None else source.get("src")
