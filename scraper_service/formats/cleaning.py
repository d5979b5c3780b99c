"""Cleaning a page's tree: what no reader sees goes, every address becomes absolute."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scraper_service.formats.document import drop, parse
from scraper_service.formats.tags import DROPPED
from scraper_service.formats.urls import absolute, best_candidate

if TYPE_CHECKING:
    from scraper_service.formats.document import Document

UNCOVERED_WORDS = 100  # least size of hidden content that counts as the page
MAX_FRAMES = 50  # srcdoc documents parsed per page
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_GUTTER = re.compile(r"\b(?:gutter|linenos?|line-numbers-rows|lineno|rouge-gutter)\b")
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
_PLACEHOLDER = re.compile(
    r"^data:image/|blank\.gif|spacer\.gif|placeholder", re.IGNORECASE
)


def clean(document: Document) -> None:
    """Drop what is not content and complete the addresses, in place."""
    body = document.body
    _inline_frames(body)
    _settle_noscript(body)
    unwanted, hidden = [], []
    for element in body.iter():
        tag = element.tag
        if not isinstance(tag, str) or tag in DROPPED:
            if tag == "script" and element.get("type", "")[:8] == "math/tex":
                _keep_formula(element)
            else:
                unwanted.append(element)
            continue
        if element.attrib and _is_hidden(element):
            hidden.append(element)
        if tag in _ADDRESSES:
            _complete(element, tag, document.base)
    for element in unwanted:
        drop(element)
    for element in _really_hidden(body, hidden):
        drop(element)


def _keep_formula(script: Any) -> None:
    """Make a ``math`` of the TeX that MathJax 2 reads from a ``script``."""
    source = script.text or ""
    if "mode=display" in script.get("type"):
        script.set("display", "block")
    del script.attrib["type"]
    script.tag = "math"
    script.set("data-tex", source)


def _really_hidden(body: Any, hidden: list[Any]) -> list[Any]:
    """Leave out the elements which scripts uncover: they hold the page itself."""
    if not hidden:
        return hidden
    known = set(hidden)
    words = {
        element: len(" ".join(element.itertext()).split())
        for element in hidden
        if known.isdisjoint(element.iterancestors())
    }
    visible = len(" ".join(body.itertext()).split()) - sum(words.values())
    least = max(visible, UNCOVERED_WORDS)
    return [element for element in hidden if words.get(element, 0) <= least]


def _inline_frames(body: Any) -> None:
    """Turn each ``iframe`` into a ``div`` which holds its ``srcdoc`` document."""
    for number, frame in enumerate(list(body.iter("iframe"))):
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
        if source and number < MAX_FRAMES:
            inner = parse(source, "").body
            for nested in inner.iter("iframe"):
                nested.tag = "div"
            frame.text = inner.text
            frame.extend(list(inner))


def _settle_noscript(body: Any) -> None:
    """Keep ``noscript`` only where it holds more words than all the rest."""
    blocks = list(body.iter("noscript"))
    if not blocks:
        return
    inside = sum(len("".join(block.itertext()).split()) for block in blocks)
    dropped = sum(
        len((text or "").split())
        for element in body.iter("script", "style", "template")
        for text in [element.text]
    )
    total = len(" ".join(body.itertext()).split())
    for block in blocks:
        if inside > total - inside - dropped:
            block.tag = "div"
        else:
            drop(block)


def _is_hidden(element: Any) -> bool:
    attributes = element.attrib
    if element.tag in {"body", "main"}:
        return False
    if "hidden" in attributes and attributes["hidden"] != "until-found":
        return True
    style = attributes.get("style")
    if style:
        if _HIDDEN.search(style):
            return True
        if element.tag == "span" and "display:block" in style.replace(" ", ""):
            element.tag = "div"
    if element.tag in {"td", "span", "div", "pre"}:
        return bool(_GUTTER.search(attributes.get("class", "")))
    return False


def _complete(element: Any, tag: str, base: str) -> None:
    """Make the addresses of ``element`` absolute; settle lazy images."""
    attributes = element.attrib
    if tag == "img":
        _settle_lazy(attributes)
    for name in (_ADDRESSES[tag], "poster") if tag == "video" else (_ADDRESSES[tag],):
        value = attributes.get(name)
        if value is None:
            continue
        if tag == "a" and value.lstrip().startswith("#"):
            continue
        address = absolute(base, value)
        if address is None:
            del attributes[name]
        else:
            attributes[name] = address


def _settle_lazy(attributes: Any) -> None:
    source = attributes.get("src", "").strip()
    if source and not _PLACEHOLDER.search(source[:200]):
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
