"""Collects the sources of a page's metadata in one walk of its tree.

Also parses meta refreshes, which redirect to another URL.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from scraper_service.content.markdown.sentences import main_words
from scraper_service.content.metadata.linked_data import (
    LinkedData,
    fold_name,
    parse_linked_data,
    text_of,
)
from scraper_service.content.metadata.marks import Marks
from scraper_service.content.page_urls import absolute, has_host, is_web
from scraper_service.content.passes import elements, texts_in
from scraper_service.items import MetaRefresh

if TYPE_CHECKING:
    from scraper_service.content.html.document import Document

MAX_METAS = 1000
MAX_VALUE = 20_000  # characters
MAX_HEADINGS = 10

_UNREAD = ("style", "script", "template")


class Evidence:
    """The ``<meta>`` values, links, headings and structured data of a page.

    ``metas`` are pairs of the name as written and the value; ``links`` are attributes.
    All are in document order. Create this before the page is cleaned.
    """

    def __init__(self, document: Document):
        self.document = document
        self.root: Any = document.root
        parts = document.parts
        self.links = parts.links[:MAX_METAS]
        self.scripts = parts.scripts
        self.metas: list[tuple[str, str]] = []
        self._by_name: dict[str, list[str]] = {}
        self._titles = parts.titles
        self._headings = parts.headings[:MAX_HEADINGS]
        self.meta_attributes = parts.metas[:MAX_METAS]
        for attributes in self.meta_attributes:
            self._take(attributes)

    def _take(self, meta: dict[str, str]) -> None:
        value = meta.get("content")
        if value is None:
            return
        value = value.strip()[:MAX_VALUE]
        key = meta.get("name") or meta.get("property") or meta.get("itemprop")
        if key and (key := key.strip()):
            self.metas.append((key, value))
            self._by_name.setdefault(key.lower(), []).append(value)
        elif key := meta.get("http-equiv"):
            self._by_name.setdefault(f"http-equiv {key.strip().lower()}", []).append(
                value
            )

    def all(self, name: str) -> list[str]:
        """Return the non-empty values of ``name`` (lower case)."""
        return [value for value in self._by_name.get(name, ()) if value]

    def first(self, *names: str) -> str:
        """Return the first value of the first of ``names`` with a value; else empty."""
        return next((value for name in names for value in self.all(name)), "")

    def related_links(self, relation: str) -> list[dict[str, str]]:
        """Return the links with a relation."""
        return self._related.get(relation, [])

    @cached_property
    def _related(self) -> dict[str, list[dict[str, str]]]:
        found: dict[str, list[dict[str, str]]] = {}
        for link in self.links:
            for relation in {*link.get("rel", "").lower().split()}:
                found.setdefault(relation, []).append(link)
        return found

    @cached_property
    def title(self) -> str:
        """The text of the first non-empty ``<title>`` outside of SVG drawings."""
        for title in self._titles:
            if next(title.iterancestors("svg"), None) is None and (
                text := _text(title)
            ):
                return text
        return ""

    @property
    def headings(self) -> list[str]:
        """The texts of the first ``<h1>`` elements."""
        return [text for text in map(_text, self._headings) if text]

    @cached_property
    def site_names(self) -> frozenset[str]:
        """Names of the site and its publisher, as :func:`folded` returns them."""
        names = [*self.all("og:site_name"), *self.all("application-name")]
        names += [text_of(n.get("publisher")) for n in self.linked.subjects]
        return frozenset(fold_name(name) for name in names) - {""}

    @cached_property
    def linked(self) -> LinkedData:
        """The page's JSON-LD."""
        return parse_linked_data(self.scripts)

    @cached_property
    def words(self) -> str:
        """The start of the text outside menus and forms."""
        return main_words(self.document)

    @cached_property
    def marks(self) -> Marks:
        """Visible marks of the author and the dates; none in home pages, which are lists."""
        return Marks(None if self.document.is_home else self.document.body)


def _text(element: Any) -> str:
    parts = texts_in(element)
    if len(element) and next(element.iterdescendants(*_UNREAD), None) is not None:
        parts = [
            text
            for text in element.xpath(".//text()")
            if not (text.is_text and text.getparent().tag in _UNREAD)
        ]
    text = " ".join("".join(parts).split())[:MAX_VALUE]
    return text.rstrip("¶ ") or text


_REFRESH = re.compile(
    r"\s*(?P<time>\d+)?(?P<rest>[\d.]*)(?:[\s;,]\s*[;,]?\s*(?P<url>.*))?\Z", re.DOTALL
)
_URL_PREFIX = re.compile(r"url\s*=\s*", re.IGNORECASE)


def refresh(evidence: Evidence, url: str) -> MetaRefresh | None:
    """Return the meta refresh of the page ``url`` to an http(s) URL, or None.

    A relative URL is resolved as in browsers, which ignore a ``<base>`` behind it.
    """
    for number, meta in enumerate(evidence.meta_attributes):
        if meta.get("http-equiv", "").strip().lower() != "refresh":
            continue
        content = meta.get("content")
        if content is None:
            continue
        element = next(islice(elements(evidence.root, "meta"), number, None))
        if next(element.iterancestors("noscript"), None) is None:
            has_base = element.xpath("boolean(preceding::base[@href])")
            return parse_refresh(content, evidence.document.base if has_base else url)
    return None


def parse_refresh(content: str, base: str) -> MetaRefresh | None:
    """Parse a meta refresh, or the ``Refresh`` header of a response.

    Source: the HTML standard, "shared declarative refresh steps". Returns None without
    an http(s) URL.
    """
    match = _REFRESH.match(content)
    if not match or not match["url"] or not (match["time"] or match["rest"]):
        return None
    url = _URL_PREFIX.sub("", match["url"], count=1)
    if url[:1] in {'"', "'"}:
        url = url[1:].split(url[0], 1)[0]
    address = absolute(base, url)
    if address is None or not is_web(address) or not has_host(address):
        return None
    return MetaRefresh(float(int((match["time"] or "0")[:9])), address)
