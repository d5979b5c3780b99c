"""Cleaning a page's tree: what no reader sees goes, every address becomes absolute."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from attrs import evolve
from lxml import etree

from scraper_service.content.html.document import drop, parse
from scraper_service.content.html.hidden import (
    Hiding,
    HidingRules,
    instruction_in,
    may_be_shown,
)
from scraper_service.content.html.page_urls import (
    absolute,
    best_candidate,
    is_placeholder,
    without_session,
)
from scraper_service.content.html.spacing import part_words
from scraper_service.content.html.tags import DROPPED
from scraper_service.content.passes import compiled, elements, texts_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.content.html.document import Document

UNCOVERED_WORDS = 100  # least size of hidden content that counts as the page
SPEECH_WORDS = 500  # of hidden text, at most, that is searched for instructions
FEW_WORDS = 30
FAINT = 0.1  # share of the words; more without opacity wait for a script
_NO_WORDS = frozenset({"script", "style", "template"})
_WAITING = frozenset({"B:", "P:"})  # of the ids of such places
_FRAMES = './/*[@data-original-tag="iframe"]'
MAX_FRAMES = 50  # srcdoc documents parsed per page
MAX_FRAME_DEPTH = 5  # of such documents inside each other
_DROPPED = (etree.Comment, etree.PI, etree.Entity, *DROPPED)
_ADDRESSES = {
    "a": "href",
    "area": "href",
    "img": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "track": "src",
    "input": "src",
    "form": "action",
    "blockquote": "cite",
    "q": "cite",
}
_LAZY = ("data-src", "data-original", "data-lazy-src", "data-lazy", "data-url")
_MASKED = "/cdn-cgi/l/email-protection"
_PICTURE = re.compile(r"\s*(?:https?:/|\.{0,2})/[^\s{]{4,}\s*\Z")


def clean(document: Document, *, complete: bool = True) -> None:
    """Drop what is not content and ``complete`` the addresses, in place."""
    body = document.body
    _inline_frames(body)
    _settle_noscript(body)
    _settle_streamed(body)
    rules = HidingRules(list(elements(document.root, "style")))
    for script in list(elements(body, "script")):
        if script.get("type", "")[:8] == "math/tex":
            _keep_formula(script)
    etree.strip_elements(body, *_DROPPED, with_tail=False)
    if hidden := rules.hidden(body):
        _drop_hidden(document, body, hidden)
    part_words(body)
    for element in _unfinished(body) if complete else ():
        _complete(element, element.tag, document.base)


def _unfinished(body: Any) -> Iterable[Any]:
    """Return the elements whose addresses may have to be completed."""
    if compiled is not None:
        return compiled.unfinished(body, _ADDRESSES)  # type: ignore[no-any-return]
    return body.iter(*_ADDRESSES)  # type: ignore[no-any-return]


def _keep_formula(script: Any) -> None:
    """Make a ``math`` of the TeX that MathJax 2 reads from a ``script``."""
    source = script.text or ""
    if "mode=display" in script.get("type"):
        script.set("display", "block")
    del script.attrib["type"]
    script.tag = "math"
    script.set("data-tex", source)


def _drop_hidden(document: Document, body: Any, hidden: dict[Any, Hiding]) -> None:
    """Drop what no reader sees; what scripts uncover, or a click, is the page itself.

    Texts that speak to a language model are told of.
    """
    texts = {
        element: " ".join(texts_in(element)).split()
        for element in hidden
        if hidden.keys().isdisjoint(element.iterancestors())
    }
    faint = sum(len(t) for e, t in texts.items() if hidden[e] is Hiding.MAYBE)
    visible = 0
    if faint > FEW_WORDS or any(len(t) > UNCOVERED_WORDS for t in texts.values()):
        visible = len(" ".join(texts_in(body)).split()) - sum(map(len, texts.values()))
    least = max(visible, UNCOVERED_WORDS)
    excerpts = []
    uncovered: set[str] = set()  # class names
    for element, kind in hidden.items():
        words = texts.get(element, [])
        excerpt = instruction_in(" ".join(words)) if len(words) < SPEECH_WORDS else None
        names = set((element.get("class") or "").split())
        if excerpt is None and (
            len(words) > least
            or may_be_shown(element, kind)
            or (kind is Hiding.MAYBE and faint > max(FAINT * visible, FEW_WORDS))
            or not (words or uncovered.isdisjoint(names))
        ):
            if len(words) > least:
                uncovered |= names
            continue
        drop(element)
        if excerpt is not None:
            excerpts.append(excerpt)
    if excerpts:
        document.warnings.append(
            f"Hidden text that speaks to a language model was left out "
            f'({len(excerpts)}), such as "{excerpts[0]}".'
        )


def _inline_frames(body: Any) -> None:
    """Turn each ``iframe`` into a ``div`` which holds its ``srcdoc`` document.

    Those inside others too, the outer ones first.
    """
    found = [(frame, 1) for frame in elements(body, "iframe")]
    for number, (frame, depth) in enumerate(found):  # it grows
        source, address = frame.get("srcdoc"), frame.get("src")
        frame.tag = "div"
        frame.text = None
        for child in list(frame):
            frame.remove(child)
        frame.attrib.pop("srcdoc", None)
        frame.attrib.pop("src", None)
        frame.set("data-original-tag", "iframe")
        if address:
            frame.set("data-src", address)
        if source and number < MAX_FRAMES and depth <= MAX_FRAME_DEPTH:
            inner = parse(source, "").body
            found += [(nested, depth + 1) for nested in inner.iter("iframe")]
            frame.text = inner.text
            frame.extend(list(inner))


def without_frames(document: Document) -> Document | None:
    """Return a copy of a cleaned page without its frames; None if there are none."""
    if document.root.find(_FRAMES) is None:
        return None
    bare = evolve(document, root=deepcopy(document.root), warnings=[])
    for frame in bare.root.findall(_FRAMES):
        drop(frame)
    return bare


def _settle_noscript(body: Any) -> None:
    """Keep ``noscript`` only where it holds more words than all the rest."""
    blocks = list(elements(body, "noscript"))
    if not blocks:
        return
    inside = sum(len("".join(block.itertext()).split()) for block in blocks)
    is_page = inside > 0 and not _has_words(body, 2 * inside)
    for block in blocks:
        if is_page:
            block.tag = "div"
        else:
            _settle_before(block)
            drop(block)


def _settle_before(block: Any) -> None:
    """Give the image before a ``noscript``, which a script fills, the address in it."""
    image, inner = block.getprevious(), block.find(".//img")
    if (
        inner is None
        or image is None
        or image.tag != "img"
        or "data-src" in image.attrib
    ):
        return
    source = image.get("src", "").strip()
    if not source or is_placeholder(source):
        image.set("data-src", inner.get("src", ""))


def _settle_streamed(body: Any) -> None:
    """Move what React sends later, hidden at the end, to the places that wait for it.

    A script does so in the browser. Such a place is an empty ``template``.
    """
    places: dict[str, Any] = {}
    for place in body.iter("template"):
        name = place.get("id", "")
        if name[:2] in _WAITING:
            places.setdefault(name[2:], place)
    if not places:
        return
    for part in list(body.iter("div")):
        name = part.get("id", "")
        if name[:2] != "S:" or part.get("hidden") is None or name[2:] not in places:
            continue
        place = places.pop(name[2:])
        if any(above is part for above in place.iterancestors()):
            continue
        drop(part)
        del part.attrib["hidden"]
        place.addnext(part)


def _has_words(body: Any, count: int) -> bool:
    """Tell whether there are so many words, without scripts and the like."""
    for element in body.iter():
        text = None if element.tag in _NO_WORDS else element.text
        for part in (text, element.tail):
            if part:
                count -= len(part.split())
        if count <= 0:
            return True
    return False


def _complete(element: Any, tag: str, base: str) -> None:
    """Make the addresses of ``element`` absolute; settle lazy images."""
    if tag == "img":
        _settle_lazy(element.attrib)
    for name in (_ADDRESSES[tag], "poster") if tag == "video" else (_ADDRESSES[tag],):
        value = element.get(name)
        if value is None:
            continue
        if tag == "a" and (
            value.lstrip().startswith("#") or (_MASKED in value and _unmasked(element))
        ):
            continue
        # Without text it is the page for links and forms, nothing for what is shown.
        is_nothing = name in {"src", "poster"} and not value.strip()
        address = None if is_nothing else absolute(base, value)
        if address is not None and tag == "a":
            address = without_session(address)
        if address is None:
            del element.attrib[name]
        elif address != value:
            element.set(name, address)


def _unmasked(link: Any) -> bool:
    """Show the address of mail that Cloudflare hides from robots, as its script does.

    It is in hexadecimal, all bytes changed by the first one.
    """
    shown = next((e for e in link.iter() if e.get("data-cfemail")), None)
    code = link.get("href").partition("#")[2]
    if shown is not None:
        code = shown.get("data-cfemail")
    try:
        key, *values = bytes.fromhex(code)
        address = bytes(value ^ key for value in values).decode()
    except ValueError:
        return False
    if not address:
        return False
    link.set("href", f"mailto:{address}")
    if shown is not None:
        for child in list(shown):
            shown.remove(child)
        shown.text = address.partition("?")[0]
    return True


def _settle_lazy(attributes: Any) -> None:
    source = attributes.get("src", "").strip()
    if source and not is_placeholder(source):
        return
    for name in _LAZY:
        value = attributes.get(name, "").strip()
        if value and not value.startswith(("data:", "{", "[")):
            attributes["src"] = value
            return
    for name in ("data-srcset", "srcset", "data-lazy-srcset"):
        best = best_candidate(attributes.get(name, ""))
        if best:
            attributes["src"] = best
            return
    for name, value in attributes.items():  # each script of lazy images has its own
        is_source = name[-4:] == "-src" or name[:9] == "data-src-"
        if is_source and _PICTURE.match(value):
            attributes["src"] = value.strip()
            return
