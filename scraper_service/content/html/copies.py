"""Copies of a text, of which a reader sees one: of slides, and for sizes of screens."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from scraper_service.content.html.document import drop
from scraper_service.content.passes import compiled, elements, texts_in

MAX_TWINS = 100  # pairs whose texts are compared
MAX_NAMES = 300  # characters of a class attribute that are looked at
_BLOCKS = ("div", "section", "ul")  # more would take too long
_SLIDES = ("div", "li")
# Of Slick, Swiper, Splide, Glide, bxSlider; and of Owl Carousel.
_COPIED = frozenset(
    "slick-cloned swiper-slide-duplicate splide__slide--clone glide__slide--clone "
    "bx-clone".split()
)
_OWL = frozenset({"owl-item", "cloned"})
# Of Bootstrap, Foundation and Tailwind, and those that sites make up.
_SCREENS = re.compile(
    r"(?:^|[\s_-])(?:hidden-(?:xs|sm|md|lg)|visible-(?:xs|sm|md|lg)|d-(?:\w\w-)?none"
    r"|(?:sm|md|lg|xl|2xl|\]):hidden|hidden (?:\S+ )*\S+:(?:block|flex|grid|inline\S*)"
    r"|(?:hide|show|hidden|visible)-(?:on-|for-)?(?:mobile|desktop|tablet|small|large)"
    r"|(?:mobile|desktop)(?:-only|-show|-hide|-hidden|-visible)?)(?=$|[\s_-])"
)


def drop_copies(body: Any) -> None:
    """Drop the copies that a carousel makes of its first and last slides, to go round."""
    for copy in _copies(body):
        drop(copy)


def drop_twins(body: Any) -> None:
    """Drop each block whose text is that of the one before it, both for some screens.

    Their classes tell, where these differ.
    """
    pairs = []
    for element in body.iter(*_BLOCKS):
        names = element.get("class")
        if names and _are_of_some(names):
            twin = element.getnext()
            others = None if twin is None else twin.get("class")
            if others and others != names and _are_of_some(others):
                pairs.append((element, twin))
    for element, twin in reversed(pairs[:MAX_TWINS]):
        text = "".join("".join(texts_in(element)).split())
        if text and text == "".join("".join(texts_in(twin)).split()):
            drop(twin)


def drop_repeated_pictures(body: Any) -> None:
    """Drop the pictures of a row that are in it once more, as a banner shows them.

    One that is that before it stays: they are the stars of a rating.
    """
    first: dict[tuple[str | None, str | None], Any] = {}
    repeated = []
    before = None
    for image in elements(body, "img"):
        picture = image.get("src"), image.get("alt")
        known = first.setdefault(picture, image)
        if known is not image and picture != before:
            repeated.append((known, image))
        before = picture
    for known, image in repeated[:MAX_TWINS]:
        if _row_of(image) is _row_of(known):
            drop(image)


def _row_of(image: Any) -> Any:
    """Return the largest element around a picture that has no text."""
    row, above = image, image.getparent()
    while above is not None and not any(
        text and not text.isspace() for text in texts_in(above)
    ):
        row, above = above, above.getparent()
    return row


def _copies(body: Any) -> list[Any]:
    if compiled is not None:
        return compiled.classed(body, _is_copy, *_SLIDES)  # type: ignore[no-any-return]
    return [e for e in body.iter(*_SLIDES) if _is_copy(e.get("class") or "")]


def _is_copy(names: str) -> bool:
    parts = names[:MAX_NAMES].split()
    return not _COPIED.isdisjoint(parts) or _OWL.issubset(parts)


@lru_cache(maxsize=4096)
def _are_of_some(names: str) -> bool:
    return _SCREENS.search(names[:MAX_NAMES]) is not None
