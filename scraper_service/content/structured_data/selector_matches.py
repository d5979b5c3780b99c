"""Shows what selectors match on a page, before they are written into a format."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from lxml import etree

from scraper_service.content.html.document import parse
from scraper_service.content.structured_data.reading import GAP
from scraper_service.content.structured_data.selectors import TIME_S, text_of
from scraper_service.options.selectors import compiled

if TYPE_CHECKING:
    from collections.abc import Iterable

SHOWN = 20  # matches of one selector
MAX_TEXT = 300  # characters of a match
MAX_HTML = 500
PATH = 4  # elements in the path of a match


def selector_matches(
    html: str | bytes, url: str, selectors: Iterable[str]
) -> list[dict[str, Any]]:
    """Return what each selector matches on the whole page, as in ``baseSelector``.

    ``{"selector", "count", "matches": [{text, path, html}], "error"}``, with the first
    :data:`SHOWN` matches. Texts and attributes have no ``path`` and ``html``; numbers and truths
    of XPath are one match. ``error`` is None, or why the selector matches nothing.
    """
    root = parse(html, url).root
    return [_matches(root, selector) for selector in selectors]


def _matches(root: Any, selector: str) -> dict[str, Any]:
    found: list[Any] = []
    error = None
    began = time.thread_time()
    try:
        value = compiled(selector, is_base=True)(root)
        found = value if isinstance(value, list) else [value]
    except ValueError as refused:
        error = str(refused)
    except etree.XPathError as failed:
        error = f"the selector failed: {failed}"
    if time.thread_time() - began > TIME_S:
        error = f"it took more than {TIME_S:g} s, too long for a page"
    return {
        "selector": selector,
        "count": len(found),
        "matches": [_match(each) for each in found[:SHOWN]],
        "error": error,
    }


def _match(found: Any) -> dict[str, Any]:
    if not isinstance(found, etree._Element) or not isinstance(found.tag, str):
        return {"text": " ".join(str(found).split())[:MAX_TEXT]}
    own = etree.tostring(found, encoding="unicode", method="html", with_tail=False)
    return {
        "text": text_of(found).replace(GAP, " ")[:MAX_TEXT],
        "path": _path(found),
        "html": own[:MAX_HTML],
    }


def _path(element: Any) -> str:
    """Return the last steps to an element, such as ``ul.list > li``."""
    steps = []
    for each in (element, *element.iterancestors()):
        classes = "".join(f".{name}" for name in each.get("class", "").split()[:2])
        steps.append(f"{each.tag}{classes}")
    return " > ".join(reversed(steps[:PATH]))
