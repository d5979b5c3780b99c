"""Structured data of a page as nodes of a single form.

JSON-LD, microdata and RDFa Lite become dictionaries with ``@type`` and properties.
Microdata and RDFa are read from the existing tree, because extruct would load rdflib
into each converter process.
"""

from __future__ import annotations

import html
import re
from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.content.page_urls import absolute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.metadata.evidence import Evidence

MAX_ITEMS = 1000  # elements with itemscope or typeof
MAX_PROPERTIES = 5000
MAX_VALUE = 20_000  # characters
MAX_NODES = 1000
MAX_DEPTH = 8  # levels of nested values

NodeT = dict[str, Any]

_TAG = re.compile(r"<[a-zA-Z/!][^<>]*>")
_BREAK = re.compile(r"<(?:br|/p|/li|/div|/h\d)\b[^<>]*>", re.IGNORECASE)
# Properties with texts, not URLs, even when they stand in links.
_TEXTS = frozenset(
    "name author brand title headline publisher keywords articleSection telephone email "
    "manufacturer category".split()
)
# Endings of the types that a page may be about, the most likely first.
_SUBJECTS = (
    "Product ProductGroup ProductModel Vehicle Car",
    "Recipe",
    "JobPosting",
    "Event Festival CourseInstance",
    "QAPage Question DiscussionForumPosting",
    "Movie Series Book Album Game Application Course Episode Dataset House Listing Service",
    "Article Posting Report HowTo Review APIReference",
    "VideoObject",
    "LocalBusiness Restaurant Hotel Dentist Physician Store Clinic Business",
    "Person",
    "FAQPage",
    "Page CreativeWork",
    "Organization Corporation NGO University",
    "ItemList",
    "WebSite",
    "BreadcrumbList Breadcrumb ImageObject SearchAction SiteNavigationElement",
)
PRODUCT, SUBJECT, ARTICLE, BUSINESS, UNKNOWN, MAKER = 0, 6, 6, 8, 11, 12  # ranks
FRAME = frozenset(
    "WebSite BreadcrumbList Breadcrumb ImageObject SearchAction WPHeader WPFooter "
    "SiteNavigationElement ListItem".split()
)
_LISTS = frozenset({"ItemList", "BreadcrumbList", "OfferCatalog"})
# Properties that contain the text of a node, the best first.
_NAMES = "name @value headline text value title url contentUrl".split()
# Properties that lead to the subject of a page.
_LEADING = ("@graph", "mainEntity", "mainEntityOfPage", "about", "itemReviewed")


@frozen(eq=False)
class Node:
    """A thing that the page describes."""

    #: Properties of the thing.
    data: NodeT
    #: json-ld, microdata or rdfa.
    syntax: str
    #: Rank of its type; 0 is the most likely subject of a page.
    rank: int

    @property
    def type(self) -> str:
        return next(iter(types_of(self.data)), "Thing")

    @property
    def name(self) -> str:
        return f"{self.syntax} {self.type}"

    @property
    def is_maker(self) -> bool:
        """True for a company or another publisher of pages."""
        return self.rank in {BUSINESS, MAKER}


class Graph:
    """All top-level nodes of a page, the likely subjects of the page first."""

    def __init__(self, evidence: Evidence):
        self.base = evidence.document.base
        self.by_id: dict[str, NodeT] = {}
        found = [("json-ld", data) for data in evidence.json_ld]
        found += [("microdata", x) for x in _items(evidence, "itemscope", "itemtype")]
        found += [("rdfa", item) for item in _items(evidence, "typeof", "typeof")]
        nodes = [
            Node(node, syntax, rank_of(node))
            for syntax, data in found
            for node in _top_nodes(data)
            if len(node) > 1
        ][:MAX_NODES]
        for node in nodes:
            self._index(node.data, 0)
        self.nodes = sorted(nodes, key=lambda node: node.rank)

    def _index(self, value: Any, depth: int) -> None:
        if depth > MAX_DEPTH or len(self.by_id) > MAX_NODES:
            return
        if isinstance(value, list):
            for inner in value[:200]:
                self._index(inner, depth + 1)
        elif isinstance(value, dict):
            name = value.get("@id")
            if isinstance(name, str) and len(value) > len(self.by_id.get(name, ())):
                self.by_id[name] = value
            for inner in value.values():
                self._index(inner, depth + 1)

    def whole(self, value: Any) -> Any:
        """Return the node that a bare reference names, otherwise ``value``."""
        if isinstance(value, dict) and set(value) <= {"@id", "@type"}:
            return self.by_id.get(str(value.get("@id")), value)
        return value

    def values(self, node: NodeT, path: str) -> list[Any]:
        """Return the values at a path of properties; references are resolved."""
        found: list[Any] = [node]
        for name in path.split("."):
            below: list[Any] = []
            for holder in map(self.whole, found):
                if isinstance(holder, dict):
                    inner = holder.get(name, holder.get(name.lower()))
                    below += inner if isinstance(inner, list) else [inner]
            found = [self.whole(v) for v in below if v not in (None, "", [])]
        return found

    def nodes_at(self, node: NodeT, *paths: str) -> list[NodeT]:
        """Return the values at the paths that are nodes themselves."""
        values = (value for path in paths for value in self.values(node, path))
        return [value for value in values if isinstance(value, dict)]

    def text(self, node: NodeT, *paths: str) -> str:
        """Return the first text at the paths, empty without a text."""
        values = (value for path in paths for value in self.values(node, path))
        return next(filter(None, map(plain, values)), "")


def types_of(node: NodeT) -> list[str]:
    """Return the types of a node without the URL of the vocabulary."""
    kinds = node.get("@type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return [re.split(r"[/#:]", kind)[-1] for kind in kinds if isinstance(kind, str)]


def rank_of(node: NodeT) -> int:
    """Return the rank of a node; a low rank means a likely subject of the page."""
    return min(map(_rank_of_type, types_of(node)), default=UNKNOWN)


@lru_cache(maxsize=1000)
def _rank_of_type(kind: str) -> int:
    ends = (tuple(names.split()) for names in _SUBJECTS)
    return next((rank for rank, end in enumerate(ends) if kind.endswith(end)), UNKNOWN)


def plain(value: Any, depth: int = 0) -> str:
    """Return the text of a value without markup, empty if it has no text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return text_of_markup(value[:MAX_VALUE])
    if depth > MAX_DEPTH or not value:
        return ""
    if isinstance(value, list):
        return plain(value[0], depth + 1)
    texts = (plain(value.get(name), depth + 1) for name in _NAMES)
    return next(filter(None, texts), "")


def text_of_markup(value: str) -> str:
    """Return a text without tags and character references; its lines stay separate."""
    if "&" in value:
        value = html.unescape(value)
    if "<" in value and _TAG.search(value):
        value = html.unescape(_TAG.sub(" ", _BREAK.sub("\n", value)))
    lines = (" ".join(line.split()) for line in value.split("\n"))
    return "\n".join(line for line in lines if line)


def _top_nodes(data: Any) -> Iterator[NodeT]:
    """Yield the top-level nodes of a script and the subjects that they lead to."""
    waiting, count = deque([data]), 0
    while waiting and count < MAX_NODES:
        value = waiting.popleft()
        if isinstance(value, list):
            waiting.extendleft(reversed(value[:MAX_NODES]))
        elif isinstance(value, dict):
            count += 1
            if "@graph" not in value or len(value) > 3:
                yield value
            if _LISTS.isdisjoint(types_of(value)):
                waiting += [value[name] for name in _LEADING if name in value]


def _items(evidence: Evidence, scope: str, kind: str) -> list[NodeT]:
    """Return the microdata or RDFa items that are no property of another item.

    ``scope`` is the attribute of items, ``kind`` the attribute of their types.
    """
    prop = "itemprop" if scope == "itemscope" else "property"
    root, base = evidence.root, evidence.document.base
    if not root.xpath(f"boolean(//*[@{scope}])"):
        return []
    items: dict[Any, NodeT] = {}
    top: list[NodeT] = []
    for element in root.xpath(f"//*[@{scope} or @{prop}]")[:MAX_PROPERTIES]:
        names = (element.get(prop) or "").split()
        value: Any = None
        holder = next((items[e] for e in element.iterancestors() if e in items), None)
        if element.get(scope) is not None and len(items) < MAX_ITEMS:
            value = {"@type": (element.get(kind) or "").split() or [""]}
            items[element] = value
            if identifier := element.get("itemid") or element.get("resource"):
                value["@id"] = identifier
            if holder is None or not names:
                top.append(value)
        elif holder is not None:
            value = _value(element, base, is_text=not _TEXTS.isdisjoint(names))
        if holder is not None and value:
            for name in names:
                holder.setdefault(re.split(r"[/#:]", name)[-1], []).append(value)
    for item in items.values():
        item |= {n: v[0] for n, v in item.items() if len(v) == 1}
    return top


def _value(element: Any, base: str, *, is_text: bool) -> str:
    """Return the value of a property; links around names stand for their text."""
    names = {"time": "datetime", "data": "value", "meter": "value"}
    given = element.get("content")
    if given is None and element.tag in names:
        given = element.get(names[element.tag])
    if given is not None:
        return str(given).strip()[:MAX_VALUE]
    url = element.get("href") or element.get("src") or element.get("data-src")
    if not url or (element.tag == "a" and is_text):
        return " ".join(" ".join(element.itertext()).split())[:MAX_VALUE]
    return absolute(base, url) or ""
