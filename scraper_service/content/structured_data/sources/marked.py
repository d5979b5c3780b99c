"""Structured data in the attributes of a page: microdata and RDFa Lite.

Read from the tree that is there already; extruct would bring rdflib into each converter
process.
"""

from __future__ import annotations

import re
from typing import Any

from scraper_service.content.html.page_urls import absolute

MAX_ITEMS = 1000  # elements with itemscope or typeof
MAX_PROPERTIES = 5000
MAX_VALUE = 20_000  # characters

NodeT = dict[str, Any]

# Properties that are no addresses, though they stand in links.
_TEXTS = frozenset(
    "name author brand title headline publisher keywords articleSection telephone email "
    "manufacturer category".split()
)
_ADDRESSES = {
    **dict.fromkeys(("a", "area", "link"), "href"),
    **dict.fromkeys("img audio video embed iframe source".split(), "src"),
}


def microdata(root: Any, base: str) -> list[NodeT]:
    """Return the items of a page that are no property of another one."""
    return _Marked(base, "itemscope", "itemprop", "itemtype").read(root)


def rdfa(root: Any, base: str) -> list[NodeT]:
    """Return the same of RDFa Lite: ``typeof`` and ``property``."""
    if next(iter(root.xpath("//*[@typeof][1]")), None) is None:
        return []
    return _Marked(base, "typeof", "property", "typeof").read(root)


class _Marked:
    """Reads items out of attributes."""

    def __init__(self, base: str, scope: str, prop: str, kind: str):
        self.base, self.scope, self.prop, self.kind = base, scope, prop, kind
        self.items: dict[Any, NodeT] = {}

    def read(self, root: Any) -> list[NodeT]:
        marked = root.xpath(f"//*[@{self.scope} or @{self.prop}]")
        top: list[NodeT] = []
        for element in marked[:MAX_PROPERTIES]:
            names = (element.get(self.prop) or "").split()
            own: NodeT | None = None
            if element.get(self.scope) is not None and len(self.items) < MAX_ITEMS:
                own = self.items[element] = {
                    "@type": (element.get(self.kind) or "").split() or [""]
                }
                if address := element.get("itemid") or element.get("resource"):
                    own["@id"] = address
            holder = self._holder(element)
            if holder is None:
                if own is not None:
                    top.append(own)
                continue
            value: Any = own if own is not None else self._value(element)
            if value in ("", None):
                continue
            for name in names:
                self._add(holder, re.split(r"[/#:]", name)[-1], value)
            if own is not None and not names:
                top.append(own)
        return top

    def _holder(self, element: Any) -> NodeT | None:
        parent = element.getparent()
        while parent is not None:
            if parent in self.items:
                return self.items[parent]
            parent = parent.getparent()
        return None

    @staticmethod
    def _add(holder: NodeT, name: str, value: Any) -> None:
        if name not in holder:
            holder[name] = value
        elif isinstance(holder[name], list) and name != "@type":
            holder[name].append(value)
        else:
            holder[name] = [holder[name], value]

    def _value(self, element: Any) -> str:
        tag = element.tag
        given = element.get("content")
        if given is None and tag == "time":
            given = element.get("datetime")
        elif given is None and tag in {"data", "meter"}:
            given = element.get("value")
        if given is not None:
            return str(given).strip()[:MAX_VALUE]
        address = element.get(_ADDRESSES.get(tag, "href")) or ""
        if tag == "img":
            address = address or element.get("data-src") or ""
        if not address or (tag == "a" and self._is_text(element)):
            return self._text(element)
        return absolute(self.base, str(address)) or ""

    @staticmethod
    def _is_text(element: Any) -> bool:
        """Tell whether a link stands for its words: names are often written so."""
        return not _TEXTS.isdisjoint((element.get("itemprop") or "").split())

    @staticmethod
    def _text(element: Any) -> str:
        return " ".join(" ".join(element.itertext()).split())[:MAX_VALUE]
