"""Finds the files of images that scripts, style sheets or browsers choose.

After cleaning, each such image is an ``img`` with its file, so that all formats agree.
"""

from __future__ import annotations

import base64
import re
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lxml import etree

from scraper_service.content.html.document import drop
from scraper_service.content.page_urls import best_candidate, is_placeholder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scraper_service.content.html.document import Document

REMOVED = "The data of a picture is removed; it stays if removeBase64Images is false."
NO_FILE = "The page names no file for the picture; the format screenshot shows it."
MAX_IMAGES = 10  # of one noscript
MAX_VALUE = 5000  # characters of an attribute or style that is searched
MAX_CSS = 300_000  # characters of style sheets
MAX_RULES = 50  # of a class
LEAST_WORDS = 2  # of the label of a picture without a file; icons have one word

_LAZY = ("data-src", "data-original", "data-lazy-src", "data-lazy", "data-url")
_PICTURE = re.compile(r"\s*(?:https?:/|\.{0,2})/[^\s{]{4,}\s*\Z")
_FILE = re.compile(
    r"\s*[^\s{}<>\"',;]+\.(?:jpe?g|png|webp|gif|avif|svg)(?:[?#][^\s{}<>\"']*)?\s*\Z",
    re.IGNORECASE,
)
_FILE_IN_JSON = re.compile(
    r"https?:[^\s\"'<>,]{4,1000}?\.(?:jpe?g|png|webp|gif|avif)(?=[\"'?\\])",
    re.IGNORECASE,
)
_BACKGROUND = re.compile(
    r"background(?:-image)?\s*:[^;{}]{0,200}?url\(\s*[\"']?([^\"')\s]+)", re.IGNORECASE
)
_BACKGROUND_ATTRIBUTES = (
    *("data-bg", "data-background-image", "data-background", "data-bg-src", "data-src"),
    "data-image-src",
)
_NO_PICTURES = frozenset(
    {"img", "svg", "canvas", "picture", "math", "mjx-container", "a", "button"}
)
_SHAPE = re.compile(r"<(?:path|circle|ellipse|line|poly\w+|text|image|use)\b")
_PNG_SIZES = 24  # bytes up to the end of the sizes
_DRAWN = re.compile(r"icon|logo|star|rating|(?<![a-z])fa-|emoji", re.IGNORECASE)
# Elements between a picture and its image; libxml2 puts an image into a source before it.
_BETWEEN = frozenset({"source", "span", "div", "noscript"})
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_AMP_PLAYERS = {
    "amp-youtube": "https://www.youtube.com/embed/",
    "amp-vimeo": "https://player.vimeo.com/video/",
    "amp-dailymotion": "https://www.dailymotion.com/embed/video/",
    "lite-youtube": "https://www.youtube.com/embed/",
    "lite-vimeo": "https://player.vimeo.com/video/",
}
_AMP_NAMES = {
    "amp-img": "img",
    "amp-anim": "img",
    "amp-video": "video",
    "amp-audio": "audio",
    "amp-iframe": "iframe",
}
#: The elements of AMP, and others like them, for pictures, videos, sounds and frames.
AMP_TAGS = (*_AMP_NAMES, *_AMP_PLAYERS)


def replace_amp(found: Iterable[Any]) -> None:
    """Make elements of AMP those of HTML that they stand for."""
    for element in found:
        tag = element.tag
        for child in list(element):
            if child.tag not in {"source", "track"}:
                drop(child)
        element.text = None
        if prefix := _AMP_PLAYERS.get(tag):
            number = element.get("data-videoid") or element.get("videoid") or ""
            if label := element.get("playlabel"):
                element.set("title", label)
            if re.fullmatch(r"[\w-]{1,40}", number, re.ASCII):
                element.set("src", prefix + number)
        elif tag in {"amp-video", "amp-audio"}:
            element.set("controls", "")
        element.tag = _AMP_NAMES.get(tag, "iframe")


def load_lazy_image(image: Any) -> None:
    """Set the ``src`` of a lazily loaded image from its other attributes.

    Else its file may be in a ``source`` beside it.
    """
    attributes = image.attrib
    source = attributes.get("src", "").strip()
    if source and not is_placeholder(source):
        if source[:5] != "blob:":
            return
        del attributes["src"]  # a file in the memory of a browser
    found = _file_of(attributes)
    if found is None:
        above = image.getparent()
        while above is not None and above.tag in _BETWEEN:
            above = above.getparent()
        if above is not None and above.tag == "picture":
            found = _file_of_sources(above)
    if found is not None:
        attributes["src"] = found


def _file_of(attributes: Any) -> str | None:
    """Return the file that the attributes of an image name, None without any."""
    for name in _LAZY:
        value = attributes.get(name, "").strip()
        if value and not value.startswith(("data:", "{", "[")):
            return str(value)
    for name in ("data-srcset", "srcset", "data-lazy-srcset"):
        if best := best_candidate(attributes.get(name, "")):
            return best
    own = [(n, v[:MAX_VALUE]) for n, v in attributes.items() if n not in {"src", "alt"}]
    for name, value in own:  # lazy-loading scripts use many names
        is_source = name[-4:] == "-src" or name[:9] == "data-src-"
        if is_source and _PICTURE.match(value):
            return str(value.strip())
    for name, value in own:
        if name[:5] != "data-":
            continue
        if name[-6:] == "srcset" and (best := best_candidate(value)):
            return best
        if _FILE.match(value) and value.lstrip()[:5].lower() != "data:":
            return str(value.strip())
        if value[:1] in "{[" and (match := _FILE_IN_JSON.search(value)) is not None:
            return match[0].replace("\\/", "/")
    return None


def _file_of_sources(picture: Any) -> str | None:
    """Return the file of the first ``source`` of a picture that has one."""
    for source in picture.iter("source"):
        for name in ("srcset", "data-srcset", "data-lazy-srcset", "src", "data-src"):
            value = source.get(name) or ""
            best = best_candidate(value)
            if best and not is_placeholder(best):
                return best
    return None


def adopt_noscript_images(block: Any) -> bool:
    """Give the images of a ``noscript`` to the lazy images beside it.

    An image with a text stays in place of the ``noscript`` if no image is beside it; then
    return True.
    """
    inner = list(islice(block.iter("img"), MAX_IMAGES))
    if not inner:
        return False
    beside = [
        list(islice(part.iter("img"), MAX_IMAGES))
        for part in (block.getprevious(), block.getnext())
        if part is not None and part.tag != "noscript"
    ]
    waiting = [image for images in beside for image in images if _waits(image)]
    for image, found in zip(waiting, inner, strict=False):
        source = (found.get("src") or "").strip()
        if not source or is_placeholder(source):
            source = _file_of(found.attrib) or ""
        if source:
            image.set("data-src", source)
            if not image.get("alt") and found.get("alt"):
                image.set("alt", found.get("alt"))
    if any(beside):
        return False
    shown = [image for image in inner if image.get("alt") and not _is_unseen(image)]
    for image in shown:
        image.tail = None
        block.addprevious(image)
    return bool(shown)


def is_blank(source: str) -> bool:
    """Return True for the data of a picture that only keeps the place of another."""
    head, _, data = source.partition(",")
    if "svg" in head:
        text = data[:MAX_VALUE]
        if "base64" in head:
            text = _decode(text).decode(errors="ignore")
        text = unquote(text)
        return "feGaussianBlur" in text or not _SHAPE.search(text)
    start = _decode(data[:64]) if "base64" in head else b""
    if start[:3] == b"GIF":
        sizes = start[6:8], start[8:10]
        return any(int.from_bytes(size, "little") <= 1 for size in sizes)
    if start[1:4] == b"PNG" and len(start) >= _PNG_SIZES:
        sizes = start[16:20], start[20:24]
        return any(int.from_bytes(size, "big") <= 1 for size in sizes)
    return False


def _decode(text: str) -> bytes:
    text = "".join(text.split())
    try:
        return base64.b64decode(text[: len(text) // 4 * 4])
    except ValueError:
        return b""


def _waits(image: Any) -> bool:
    """Return True for an image whose attributes do not name its file."""
    source = image.get("src", "").strip()
    return (not source or is_placeholder(source)) and _file_of(image.attrib) is None


def _is_unseen(image: Any) -> bool:
    """Return True for an image that counts visits."""
    return (
        not {image.get("width"), image.get("height")}.isdisjoint({"0", "1"})
        or _HIDDEN.search(image.get("style") or "") is not None
    )


def record_image(document: Document, image: Any, *, is_removed: bool) -> None:
    """Record an image without a file, or one whose data is removed, as a loss."""
    alt = image.get("alt")
    source = image.get("src") or ""
    if is_removed:
        if image.get("aria-hidden") != "true" and not is_blank(source):
            document.losses.add("image", REMOVED)  # its alt stands in the Markdown
    elif alt:
        document.losses.add("image", NO_FILE, text=alt)


def show_pictures(
    document: Document,
    pictures: Iterable[Any],
    signed: Iterable[Any],
    styles: Sequence[Any],
) -> None:
    """Add an ``img`` to each picture that has none.

    Such are a ``picture`` with sources only, an SVG that shows a file, and an element with
    ``role=img``, a label and a background. ``styles`` are the style sheets in the page.
    """
    for picture in pictures:
        if picture.tag == "svg":
            _show_photo(picture)
        elif picture.find(".//img") is None and (found := _file_of_sources(picture)):
            etree.SubElement(picture, "img", src=found)
    css: str | None = None
    for element in signed:
        if element.get("role") != "img" or element.tag in _NO_PICTURES:
            continue
        label = (element.get("aria-label") or element.get("title") or "").strip()
        if not label or element.find(".//img") is not None:
            continue
        found = _background(element)
        if found is None and css is None:
            css = "\n".join(style.text or "" for style in styles)[:MAX_CSS]
        if found is None:
            found = _background_of_class(element, css or "")
        if found is not None:
            etree.SubElement(element, "img", src=found, alt=label)
        elif (
            len(element) == 0
            and not (element.text or "").strip()
            and len(label.split()) >= LEAST_WORDS
            and not _DRAWN.search(element.get("class") or "")
            and not any(x.tag in {"a", "button"} for x in element.iterancestors())
        ):
            document.losses.add("image", NO_FILE, text=label, near=element)


def _show_photo(svg: Any) -> None:
    """Add an ``img`` for the first file that an SVG shows."""
    image = next(svg.iter("image"), None)
    if image is None or svg.getparent() is None:
        return
    url = (image.get("href") or image.get("xlink:href") or "").strip()
    if url and url[:5].lower() != "data:" and url[0] != "#":
        label = svg.get("aria-label") or image.get("aria-label") or ""
        svg.addprevious(etree.Element("img", src=url, alt=label))


def _background(element: Any) -> str | None:
    """Return the file of the background that an element declares itself."""
    match = _BACKGROUND.search((element.get("style") or "")[:MAX_VALUE])
    if match is not None and match[1][:5].lower() != "data:":
        return match[1]
    values = (element.get(name) or "" for name in _BACKGROUND_ATTRIBUTES)
    return next((v.strip() for v in values if _FILE.match(v[:MAX_VALUE])), None)


def _background_of_class(element: Any, css: str) -> str | None:
    """Return the file of the background in a rule for a class or the id of an element."""
    names = [f".{name}" for name in (element.get("class") or "").split()[:5]]
    if element.get("id"):
        names.append(f"#{element.get('id')}")
    for name in names if css else ():
        at = css.find(name)
        for _ in range(MAX_RULES):
            if at < 0:
                break
            start = css.find("{", at, at + MAX_VALUE)
            end = css.find("}", start, start + MAX_VALUE) if start > 0 else -1
            is_name = (
                not css[at + len(name) : at + len(name) + 1]
                .replace("-", "_")
                .isidentifier()
            )
            if end > 0 and is_name and (m := _BACKGROUND.search(css[start:end])):
                return m[1] if m[1][:5].lower() != "data:" else None
            at = css.find(name, at + 1)
    return None
