"""Images of the cleaned tree, and attribute values of the raw one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.content.html.document import select
from scraper_service.content.html.page_urls import absolute, best_candidate, is_web

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.html.document import Document
    from scraper_service.options.formats import AttributeSelector

MAX_IMAGES = 20_000


def images(document: Document) -> list[str]:
    """Return absolute, unique http(s) addresses in document order."""
    found: dict[str, None] = {}
    for element in document.body.iter("img", "source", "video"):
        for value in _candidates(element):
            address = absolute(document.base, value) if value else None
            if is_web(address):
                found[str(address)] = None
        if len(found) >= MAX_IMAGES:
            break
    return list(found)


def attribute_values(
    document: Document, selectors: tuple[AttributeSelector, ...]
) -> list[dict[str, Any]]:
    """Return ``{selector, attribute, values}`` for each pair, over the raw tree."""
    results: list[dict[str, Any]] = []
    for pair in selectors:
        values = [
            value
            for element in select(document.root, pair.selector) or ()
            if (value := element.get(pair.attribute)) is not None
        ]
        results.append(
            {"selector": pair.selector, "attribute": pair.attribute, "values": values}
        )
    return results


def _candidates(element: Any) -> Iterator[str | None]:
    if element.tag == "video":
        yield element.get("poster")
        return
    if element.tag == "img":
        yield element.get("src")
    elif element.getparent().tag != "picture":
        return
    yield best_candidate(element.get("srcset") or element.get("data-srcset") or "")
