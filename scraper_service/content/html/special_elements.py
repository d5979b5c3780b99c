"""Finds the elements of a page that some step of a conversion treats specially.

One walk finds those of all steps, since each walk costs about a hundredth of a page's time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scraper_service.content.html.diagrams import DIAGRAM_ATTRIBUTES, DIAGRAM_CLASSES
from scraper_service.content.html.embedded import MEDIA, STANDING_IN
from scraper_service.content.html.formulas import (
    FORMULA_ATTRIBUTES,
    FORMULA_CLASSES,
    FORMULA_TAGS,
)
from scraper_service.content.html.lazy_images import AMP_TAGS
from scraper_service.content.html.redundant_elements import SPOKEN_PARTS, SPOKEN_TAGS
from scraper_service.content.passes import marked

if TYPE_CHECKING:
    from scraper_service.content.html.document import Document

#: The keys of further elements: with a sign of a formula, a diagram or a picture, with a text
#: for screen readers, with what may be the date of a change, and what may be an article.
SIGNED, SPOKEN, CHANGES, ARTICLES = "signed", "spoken", "changes", "articles"
#: Attributes of an article that name its URL.
ARTICLE_URLS = frozenset(
    (
        "data-url data-href data-permalink data-article-url data-canonical data-canonical-url"
        " data-page-url data-post-url data-link data-path data-uri itemid about"
    ).split()
)
_BY_TAG = (
    *("iframe", *STANDING_IN, *MEDIA, "noscript", *AMP_TAGS),
    *("template", "script", "style", "svg", "picture", "table", "pre", *FORMULA_TAGS),
)
_DATED_TAGS = ("time", "footer")
_SIGNS = (*FORMULA_CLASSES, *DIAGRAM_CLASSES)
_SIGN_ATTRIBUTES = (*FORMULA_ATTRIBUTES, *DIAGRAM_ATTRIBUTES)
# Parts of the classes of elements with the date of a change, and of footers.
_CHANGE_PARTS = (
    *("git-revision-date", "lastmod", "last-modified", "lastmodified"),
    *("last-updated", "lastupdated", "footer"),
)
# The parts of a class that stand for the further keys.
_PARTS = {SIGNED: _SIGNS, SPOKEN: SPOKEN_PARTS, CHANGES: _CHANGE_PARTS}
_ATTRIBUTES = frozenset(_SIGN_ATTRIBUTES)


def special_elements(document: Document) -> dict[str, list[Any]]:
    """Return the special elements of a page by tag, the others by the keys above.

    Each list is in document order. Elements inside a ``noscript`` are not among them. The
    result is kept until ``document.special`` is set to None.
    """
    if document.special is None:
        document.special = _find(document.body)
    return document.special


def _find(body: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {
        name: [] for name in (*_BY_TAG, SIGNED, SPOKEN, CHANGES, ARTICLES)
    }
    for element in marked(
        body,
        (*_BY_TAG, *_DATED_TAGS, "article"),
        (*_SIGN_ATTRIBUTES, *ARTICLE_URLS),
        class_parts=(*_SIGNS, *SPOKEN_PARTS, *_CHANGE_PARTS),
        image_parts=("tex",),
        role_parts=("img", "article"),
        itemprop_parts=("datemodified",),
        closed=("noscript",),
    ):
        tag = element.tag
        if tag in found:
            found[tag].append(element)
            continue
        names = element.get("class")
        keys = set(_keys_of(names)) if names else set()
        if tag in _DATED_TAGS or element.get("itemprop") == "dateModified":
            keys.add(CHANGES)
        elif element.get("itemprop"):
            keys.discard(CHANGES)
        if tag not in SPOKEN_TAGS:
            keys.discard(SPOKEN)
        if _may_be_article(element):
            keys.add(ARTICLES)
        if SIGNED not in keys and (not keys or _is_signed(element)):
            keys.add(SIGNED)
        for key in keys:
            found[key].append(element)
    return found


@lru_cache(maxsize=4096)
def _keys_of(names: str) -> frozenset[str]:
    """Return the keys that a class stands for."""
    lower = names.lower()
    return frozenset(
        key for key, parts in _PARTS.items() if any(part in lower for part in parts)
    )


def _may_be_article(element: Any) -> bool:
    return (
        element.tag == "article"
        or element.get("role") == "article"
        or not ARTICLE_URLS.isdisjoint(element.keys())
    )


def _is_signed(element: Any) -> bool:
    """Return True for an element with a sign of a formula, diagram or picture."""
    attributes = element.attrib
    return attributes.get("role") == "img" or not _ATTRIBUTES.isdisjoint(attributes)
