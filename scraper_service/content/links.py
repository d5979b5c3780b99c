"""Addresses on a page: the caller's ``links``, and what a crawl may follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lxml import etree

from scraper_service.content.html.page_urls import absolute, is_web, without_session
from scraper_service.content.passes import compiled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scraper_service.content.html.document import Document

MAX_FOUND = 100_000  # addresses of one page

_FOLLOWED = {"a": "href", "area": "href", "frame": "src", "link": "href"}
_RELATIONS = frozenset({"next", "prev"})  # of a link that leads on
_FEED = (
    "//*[local-name()='link' or local-name()='loc' or local-name()='guid']/text()"
    " | //*[local-name()='link' or local-name()='a']/@href"
)


def links(document: Document) -> list[str]:
    """Return the addresses of the *cleaned* tree, in document order (API, 7.2).

    They need not be complete. An empty one is that of the page.
    """
    found: dict[str, None] = {}
    for value, is_complete in _hrefs(document.body):
        if value.lstrip().startswith("#"):
            continue
        address = value if is_complete else absolute(document.base, value)
        if address is None:
            continue
        if not is_complete:
            address = without_session(address)
        if address in found:
            continue
        if is_complete or is_web(address) or address[:7].lower() == "mailto:":
            found[address] = None
            if len(found) == MAX_FOUND:
                break
    return list(found)


def _hrefs(body: Any) -> Iterable[tuple[str, bool]]:
    """Return the ``href`` of each ``a``, and whether it is complete beyond doubt."""
    if compiled is not None:
        return compiled.addresses(body, {"a": "href"})  # type: ignore[no-any-return]
    given = (element.get("href") for element in body.iter("a"))
    return ((value, False) for value in given if value is not None)


def found_links(document: Document) -> tuple[str, ...]:
    """Return all http(s) addresses of the *raw* tree, absolute and unique."""
    found: dict[str, None] = {}
    for value, is_complete in _followed(document.root):
        if value.lstrip().startswith("#"):
            continue
        address = value if is_complete else absolute(document.base, value)
        if address not in found and (is_complete or is_web(address)):
            found[str(address)] = None
            if len(found) == MAX_FOUND:
                break
    return tuple(found)


def _followed(root: Any) -> Iterator[tuple[str, bool]]:
    """Yield the addresses that lead on, and whether they are complete beyond doubt."""
    if compiled is not None:
        yield from compiled.addresses(root, _FOLLOWED, "link", _RELATIONS)
        return
    for element in root.iter(*_FOLLOWED):
        value = element.get(_FOLLOWED[element.tag])
        if value is not None and (
            element.tag != "link" or element.get("rel") in _RELATIONS
        ):
            yield value, False


def feed_links(text: str, url: str) -> tuple[str, ...]:
    """Return the http(s) addresses in an RSS, Atom or sitemap document."""
    parser = etree.XMLParser(
        recover=True, resolve_entities=False, no_network=True, encoding="utf-8"
    )
    try:
        root = etree.fromstring(text.encode(), parser)
    except etree.XMLSyntaxError:
        return ()
    found: dict[str, None] = {}
    for value in root.xpath(_FEED) if root is not None else ():
        address = absolute(url, str(value))
        if is_web(address):
            found[str(address)] = None
            if len(found) == MAX_FOUND:
                break
    return tuple(found)
