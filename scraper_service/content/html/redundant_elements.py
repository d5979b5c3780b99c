"""Drops elements that repeat or decorate content: copies, logos, edit links."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lxml import etree

from scraper_service.content.html.document import SKIPPED, drop
from scraper_service.content.page_urls import is_route
from scraper_service.content.passes import classed, elements, texts_in
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_DUPLICATES = 100  # pairs whose texts are compared
MAX_NAMES = 300  # characters read of a class attribute
_BLOCKS = ("div", "section", "ul")  # more tags would take too long
_SLIDES = ("div", "li")
# Classes of Slick, Swiper, Splide, Glide and bxSlider; and of Owl Carousel.
_COPIED = frozenset(
    "slick-cloned swiper-slide-duplicate splide__slide--clone glide__slide--clone "
    "bx-clone".split()
)
# Each of these names has one of the parts.
_COPIED_PARTS = ("clone", "swiper-slide-duplicate")
_OWL = frozenset({"owl-item", "cloned"})
# Classes of Bootstrap, Foundation and Tailwind, and common names of sites' own.
_SCREENS = re.compile(
    r"(?:^|[\s_-])(?:hidden-(?:xs|sm|md|lg)|visible-(?:xs|sm|md|lg)|d-(?:\w\w-)?none"
    r"|(?:sm|md|lg|xl|2xl|\]):hidden|hidden (?:\S+ )*\S+:(?:block|flex|grid|inline\S*)"
    r"|(?:hide|show|hidden|visible)-(?:on-|for-)?(?:mobile|desktop|tablet|small|large)"
    r"|(?:mobile|desktop)(?:-only|-show|-hide|-hidden|-visible)?)(?=$|[\s_-])"
)
# Each match has one of the parts.
_SCREEN_PARTS = "hidden visible none hide show mobile desktop".split()


def drop_slide_copies(body: Any) -> None:
    """Drop the copies of slides that a carousel makes for endless rotation."""
    for copy in _slide_copies(body):
        drop(copy)


def drop_duplicate_blocks(body: Any) -> None:
    """Drop each block that has the text of its next sibling, both for some screens.

    Their class attributes name the screens, and have to differ.
    """
    pairs = []
    for element in classed(body, _names_screens, _SCREEN_PARTS, *_BLOCKS):
        duplicate = element.getnext()
        others = None if duplicate is None else duplicate.get("class")
        if others and others != element.get("class") and _names_screens(others):
            pairs.append((element, duplicate))
    for element, duplicate in reversed(pairs[:MAX_DUPLICATES]):
        text = "".join("".join(texts_in(element)).split())
        if text and text == "".join("".join(texts_in(duplicate)).split()):
            drop(duplicate)


def drop_repeated_pictures(body: Any) -> None:
    """Drop the repeated pictures of a row, as a rotating banner has them.

    A picture right behind its copy stays: the stars of a rating are such a row.
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
    for known, image in repeated[:MAX_DUPLICATES]:
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


def _slide_copies(body: Any) -> list[Any]:
    return classed(body, _is_copy, _COPIED_PARTS, *_SLIDES)


def _is_copy(names: str) -> bool:
    """Return True if class names mark a carousel's copy of a slide."""
    parts = names[:MAX_NAMES].split()
    return not _COPIED.isdisjoint(parts) or _OWL.issubset(parts)


@lru_cache(maxsize=4096)
def _names_screens(names: str) -> bool:
    """Return True if class names restrict an element to some screen sizes."""
    return _SCREENS.search(names[:MAX_NAMES]) is not None


MAX_EVENTS = 5_000  # in the walk to the first text
_LOGO = re.compile(
    r"(?:^|[^a-z])(?:fav)?(?:logos?|icon)(?![a-z])|[a-z]Logo(?![a-z])|_LOGO"
)
_IMAGE_FILE = re.compile(r"\.(?:jpe?g|png|webp|gif|avif)\Z", re.IGNORECASE)


def drop_logos(body: Any, base: str) -> None:
    """Drop the pictures before the first text that are logos or lead elsewhere.

    Elsewhere is the home page or another site. A link to the picture's full size does
    not count.
    """
    for image in list(_images_before_text(body)):
        link = next(image.iterancestors("a"), None)
        names = (image.get("src", "").rpartition("/")[2], image.get("alt", ""))
        is_logo = any(map(_LOGO.search, (*names, image.get("class", ""))))
        if is_logo or (link is not None and _leads_elsewhere(link, base)):
            drop(image)


def _images_before_text(body: Any) -> Iterator[Any]:
    """Yield the images before the first text; no image if the page has no text."""
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
    """Return True if a link leads to a home page or to another host."""
    target, page = url_parts(link.get("href", "")), url_parts(base)
    if target.scheme not in {"http", "https"} or _IMAGE_FILE.search(target.path):
        return False
    is_home = target.path in {"", "/"} and not is_route(target.fragment)
    return is_home or target.netloc != page.netloc


_EDIT_TARGETS = ("edit", "github", "gitlab", "bitbucket", "codeberg", "suggest")
_EDIT = re.compile(
    r"\W*(?:(?:edit|improve|suggest (?:an )?edits?(?: to| on)?)(?: the| this)?"
    r"(?: (?:page|doc|document|article|file|topic|section|docs?|documentation))?(?: source)?"
    r"(?: (?:on|in|via) (?:github|gitlab|bitbucket|codeberg))?"
    r"|(?:diese |die )?seite (?:auf \w+ )?bearbeiten|(?:modifier|éditer) cette page(?: sur \w+)?"
    r"|editar (?:esta )?página(?: en \w+| no \w+)?|modifica (?:questa )?pagina(?: su \w+)?)\W*",
    re.IGNORECASE,
)


def drop_edit_links(body: Any) -> None:
    """Drop links to the source of a page of documentation, such as "Edit this page"."""
    for link in classed(body, _may_edit, _EDIT_TARGETS, "a", by="href"):
        said = " ".join("".join(texts_in(link)).split())[:MAX_NAMES]
        if " " in said and _EDIT.fullmatch(said):
            drop(link)


def _may_edit(target: str) -> bool:
    lower = target.lower()
    return any(part in lower for part in _EDIT_TARGETS)


#: The tags of texts for screen readers, and parts of their classes.
SPOKEN_TAGS = frozenset({"span", "div", "p"})
SPOKEN_PARTS = ("offscreen", "sr-only", "visually", "screen-reader", "a11y-hidden")
MAX_SPOKEN = 200  # characters


def drop_spoken_copies(texts: Iterable[Any]) -> None:
    """Drop the drawn form of a text whose spoken form stands beside it, as of a price.

    The spoken form is hidden from the eye, the drawn one (``$19<sup>99</sup>``) from
    screen readers.
    """
    for spoken in texts:
        for drawn in (spoken.getnext(), spoken.getprevious()):
            if drawn is None or drawn.get("aria-hidden") != "true":
                continue
            if drawn.find(".//img") is not None:
                continue
            text = _characters(spoken)
            if text and len(text) <= MAX_SPOKEN and text == _characters(drawn):
                drop(drawn)
                for name in ("class", "style"):  # which would hide it
                    spoken.attrib.pop(name, None)
                break


def _characters(element: Any) -> str:
    """Return the letters and digits of an element."""
    return "".join(filter(str.isalnum, "".join(texts_in(element)))).lower()
