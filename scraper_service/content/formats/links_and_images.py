"""Makes the formats ``links``, ``images`` and ``attributes``.

Also finds the links of a page or feed that a crawl may follow.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from lxml import etree

from scraper_service.content.html.document import Document, select
from scraper_service.content.metadata.dates import w3c_time
from scraper_service.content.page_urls import (
    absolute,
    best_candidate,
    encode_url,
    is_web,
    origin_of,
    without_session,
    xml_base,
)
from scraper_service.content.passes import COMPLETE_URL, ROOTED_URL, url_kind, values_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.options.formats import AttributeSelector

MAX_FOUND = 100_000  # URLs of one page
LINKS_LEFT_OUT = (
    "The main content has no links; with onlyMainContent false, links has those of the"
    " whole page."
)

_FEED = (
    "//*[local-name()='link' or local-name()='loc' or local-name()='guid']/text()"
    " | //*[local-name()='link' or local-name()='a']/@href"
)
_ENTRIES = "//*[local-name()='item' or local-name()='entry']"
_ENTRY_LINKS = (
    "*[local-name()='link']/text()"
    " | *[local-name()='link'][not(@rel) or @rel='alternate']/@href"
)
_TIMES = ("updated", "pubdate", "date", "published")  # the first that an entry has


def has_links(document: Document) -> bool:
    """Return True if an element ``a`` of the tree leads to another URL."""
    hrefs = (each.get("href") for each in document.body.iter("a"))
    return any(href and not href.lstrip().startswith("#") for href in hrefs)


def links(document: Document) -> list[str]:
    """Return the absolute URLs of the *cleaned* tree, each once, in document order.

    The tree may have relative URLs; an empty ``href`` is the URL of the page. Relative URLs
    are encoded as in browsers, complete ones stay as written.
    """
    found: dict[str, None] = {}
    written: set[str] | None = None
    for value in values_in(document.body, "a", "href"):
        if url_kind(value) == COMPLETE_URL:
            link = value
        elif value.lstrip().startswith("#") and value not in document.routes:
            continue
        else:
            link = absolute(document.base, value) or ""
        link = without_session(link)
        if link in found:
            continue
        if (safe := encode_url(link)) != link and is_web(link):
            if written is None:  # the tree may have complete URLs only
                written = {each.strip() for each in document.parts.followed}
            if link not in written:
                link = safe
        if is_web(link) or link[:7].lower() == "mailto:":
            found[link] = None
            if len(found) == MAX_FOUND:
                break
    if document.embedded:
        return _with_embedded(document, found)
    return list(found)


def _with_embedded(document: Document, found: dict[str, None]) -> list[str]:
    """Return links with the URLs of embedded documents, in document order."""
    numbers = {url: number for number, url in enumerate(_raw_links(document))}
    waiting = deque(document.embedded)
    merged: dict[str, None] = {}
    for url in found:
        number = numbers.get(url, -1)
        while waiting and numbers.get(waiting[0].url, 0) < number:
            merged.update(dict.fromkeys(waiting.popleft().urls))
        merged[url] = None
    for each in waiting:
        merged.update(dict.fromkeys(each.urls))
    return list(merged)[:MAX_FOUND]


def page_links(document: Document) -> tuple[str, ...]:
    """Return all http(s) URLs of the *raw* tree, absolute and unique.

    Documents of embedded viewers replace their viewers, which have no text.
    """
    found = _raw_links(document)
    if not document.embedded:
        return found
    targets = {each.url: each.target for each in document.embedded if each.url}
    urls = [targets.get(url) or url for url in found]
    return tuple(dict.fromkeys((*urls, *filter(None, targets.values()))))


def _raw_links(document: Document) -> tuple[str, ...]:
    found: dict[str, None] = {}
    base = document.base
    origin = origin_of(base)
    has_web_origin = is_web(origin)
    for value in document.parts.followed:
        kind = url_kind(value)
        if kind == COMPLETE_URL:
            found[value] = None
        elif kind == ROOTED_URL:
            if has_web_origin:
                found[origin + value] = None
        elif not value.lstrip().startswith("#") or value in document.routes:
            link = absolute(base, value)
            if is_web(link):
                found[str(link)] = None
        if len(found) == MAX_FOUND:
            break
    return tuple(found)


def feed_links(
    text: str, url: str, last_modified: str = ""
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the http(s) URLs in an RSS, Atom or sitemap document, and times of entries.

    The time of an entry is a W3C time: its last change, else its publication, else that of
    the header ``Last-Modified`` of the document.
    """
    parser = etree.XMLParser(
        recover=True, resolve_entities=False, no_network=True, encoding="utf-8"
    )
    try:
        root = etree.fromstring(text.encode(), parser)
    except etree.XMLSyntaxError:
        root = None
    if root is None:
        return (), {}
    found: dict[str, None] = {}
    has_bases = "xml:base" in text
    for value in root.xpath(_FEED):
        base = xml_base(value.getparent(), url) if has_bases else url
        link = absolute(base, str(value))
        if is_web(link):
            found[str(link)] = None
            if len(found) == MAX_FOUND:
                break
    return tuple(found), _times_of(root, url, w3c_time(last_modified))


def _times_of(root: etree._Element, url: str, modified: str | None) -> dict[str, str]:
    """Return the time of each entry of a feed by its URL."""
    found: dict[str, str] = {}
    for entry in root.xpath(_ENTRIES):
        links = [text for text in entry.xpath(_ENTRY_LINKS) if text.strip()]
        base = xml_base(links[0].getparent(), url) if links else url
        target = absolute(base, str(links[0])) if links else None
        times = {
            etree.QName(child).localname.lower(): (child.text or "").strip()
            for child in entry.iterchildren("{*}*")
        }
        given = next((times[name] for name in _TIMES if times.get(name)), "")
        time = w3c_time(given) or modified
        if is_web(target) and time is not None:
            found.setdefault(str(target), time)
    return found


MAX_IMAGES = 20_000


def images(document: Document) -> list[str]:
    """Return the http(s) URLs of images, absolute and unique, in document order."""
    found: dict[str, None] = {}
    for element in document.body.iter("img", "source", "video"):
        for value in _candidates(element):
            image = absolute(document.base, value) if value else None
            if is_web(image):
                found[encode_url(str(image))] = None
        if len(found) >= MAX_IMAGES:
            break
    return list(found)


def attribute_values(
    document: Document, selectors: tuple[AttributeSelector, ...]
) -> list[dict[str, Any]]:
    """Return ``{selector, attribute, values}`` for each pair, from the raw tree."""
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
