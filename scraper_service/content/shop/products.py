"""The product that a page sells, with its variants."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scraper_service.content.html.page_urls import absolute, is_web
from scraper_service.content.shop.offers import (
    availability,
    availability_of_words,
    earlier_price_of,
    first,
    offers_of,
    price,
    price_of,
)
from scraper_service.content.structured_data.sources.nodes import plain, types_of

if TYPE_CHECKING:
    from scraper_service.content.metadata.evidence import Evidence
    from scraper_service.content.structured_data.sources.nodes import Graph, NodeT

MAX_VARIANTS = 500
MAX_IMAGES = 50
MAX_TEXT = 20_000  # characters
MAX_WORDS = 200_000  # characters of a page that are looked through

_TYPES = frozenset({"Product", "ProductGroup", "ProductModel", "IndividualProduct"})
# What tells variants of one product from each other.
_VALUES = ("color", "size", "material", "pattern", "suggestedAge", "suggestedGender")
_PRICE_CLASS = re.compile(r"(?:^|[\s_-])price(?:$|[\s_-])", re.IGNORECASE)
_OLD_PRICE = re.compile(
    r"old|was|before|regular|compare|strike|list|from", re.IGNORECASE
)


def product(graph: Graph, evidence: Evidence, url: str) -> dict[str, Any] | None:
    """Return what a page sells, None if it is no page of one product.

    As ``product`` of the interface document, 4: keys without a value are left out. A
    variant of which nothing says whether it can be had counts as in stock if it is
    offered at a price.
    """
    node = _node(graph, evidence)
    found = _declared(graph, node, url) if node else _marked(evidence, url)
    if found is None:
        return None
    for variant in found["variants"]:
        if "availability" not in variant:
            words = availability_of_words(evidence.words[:MAX_WORDS])
            is_offered = "price" in variant
            variant["availability"] = words or {"inStock": is_offered}
    return found


def _node(graph: Graph, evidence: Evidence) -> NodeT | None:
    """Return the product that the page is about; one of several is named by the page."""
    found = [n.data for n in graph.nodes if _TYPES & set(types_of(n.data))]
    named = [node for node in found if plain(node.get("name"))]
    groups = [n for n in named if "ProductGroup" in types_of(n)]
    if groups:
        return groups[0]
    if len(named) > 1:
        titles = {text.lower() for text in (evidence.title, *evidence.headings)}
        told = [n for n in named if plain(n.get("name")).lower() in titles]
        named = told[:1] or (named[:1] if _offered(named) == 1 else [])
    return named[0] if named else None


def _offered(nodes: list[NodeT]) -> int:
    return sum(bool(node.get("offers")) for node in nodes)


def _declared(graph: Graph, node: NodeT, url: str) -> dict[str, Any]:
    own = [x for x in graph.values(node, "hasVariant") if isinstance(x, dict)]
    variants: list[dict[str, Any]] = []
    for each in own[:MAX_VARIANTS] or [node]:
        variants += _variants(graph, each, is_single=not own)
    own_url = plain(first(graph, node, "url"))
    facts = {
        "title": plain(node.get("name"))[:MAX_TEXT],
        "brand": plain(first(graph, node, "brand", "manufacturer")),
        "category": plain(first(graph, node, "category")),
        "url": (own_url and absolute(graph.base, own_url)) or url,
        "description": plain(first(graph, node, "description"))[:MAX_TEXT],
    }
    known = {name: value for name, value in facts.items() if value}
    return {**known, "variants": variants[:MAX_VARIANTS]}


def _variants(graph: Graph, node: NodeT, *, is_single: bool) -> list[dict[str, Any]]:
    """Return a variant for each offer of a product; one without any."""
    offers = offers_of(graph, node)
    return [
        _variant(graph, node, offer, names_it=not is_single or len(offers) > 1)
        for offer in offers or [{}]
    ]


def _variant(
    graph: Graph, node: NodeT, offer: NodeT, *, names_it: bool
) -> dict[str, Any]:
    item = next(
        (x for x in graph.values(offer, "itemOffered") if isinstance(x, dict)), {}
    )
    now = price_of(graph, offer)
    before = earlier_price_of(graph, offer, now)
    title = plain(first(graph, offer, "name")) or plain(item.get("name"))
    if not title and names_it:
        title = plain(node.get("name"))
    sku = plain(first(graph, offer, "sku") or item.get("sku") or node.get("sku"))
    number = first(
        graph, offer, "gtin", "gtin13", "gtin12", "gtin8", "gtin14", "mpn"
    ) or first(graph, node, "gtin", "gtin13", "gtin12", "gtin8", "gtin14", "mpn")
    facts = {
        "id": plain(number) or plain(node.get("productID")),
        "sku": sku,
        "title": title,
        "values": _values(graph, node, item),
        "price": now,
        "sale": before and {"originalPrice": before},
        "availability": availability(first(graph, offer, "availability")),
        "images": _images(graph, item) or _images(graph, node),
    }
    return {name: value for name, value in facts.items() if value}


def _values(graph: Graph, node: NodeT, item: NodeT) -> dict[str, str]:
    found = {}
    for name in _VALUES:
        if text := plain(item.get(name)) or plain(node.get(name)):
            found[name] = text
    for extra in graph.values(node, "additionalProperty"):
        if isinstance(extra, dict):
            name, text = plain(extra.get("name")), plain(extra.get("value"))
            if name and text:
                found.setdefault(name, text)
    return found


def _images(graph: Graph, node: NodeT) -> list[dict[str, str]]:
    found: dict[str, str] = {}
    for value in graph.values(node, "image"):
        is_node = isinstance(value, dict)
        address = (
            plain(value.get("contentUrl") or value.get("url")) if is_node else value
        )
        text = plain(address)
        whole = absolute(graph.base, text) if text else None
        if whole and is_web(whole):
            caption = value.get("caption") or value.get("name") if is_node else ""
            found.setdefault(whole, plain(caption))
    return [
        {"url": url, **({"alt": alt} if alt else {})}
        for url, alt in list(found.items())[:MAX_IMAGES]
    ]


def _marked(evidence: Evidence, url: str) -> dict[str, Any] | None:
    """Return the product of a page by its meta tags, or by what it shows."""
    amount = evidence.first("product:price:amount", "og:price:amount", "twitter:data1")
    is_product = evidence.first("og:type").lower() in {"product", "og:product"}
    shown = "" if amount else _shown_price(evidence)
    is_sold = availability_of_words(evidence.words[:MAX_WORDS]) is not None
    if not (is_product or (shown and is_sold)):
        return None
    title = evidence.first("og:title") or next(iter(evidence.headings), evidence.title)
    if not title:
        return None
    currency = evidence.first("product:price:currency", "og:price:currency")
    variant: dict[str, Any] = {}
    if found := price(amount or shown, currency):
        variant["price"] = found
    stated = evidence.first("product:availability", "og:availability")
    if known := availability(stated):
        variant["availability"] = known
    image = evidence.first("og:image")
    if image and (address := absolute(evidence.document.base, image)):
        variant["images"] = [{"url": address}]
    if sku := evidence.first("product:retailer_item_id"):
        variant["sku"] = sku
    facts = {
        "title": " ".join(title.split())[:MAX_TEXT],
        "brand": evidence.first("product:brand", "og:brand"),
        "category": evidence.first("product:category"),
        "url": evidence.first("og:url") or url,
        "description": evidence.first("og:description", "description"),
    }
    known_facts = {name: value for name, value in facts.items() if value}
    return {**known_facts, "variants": [variant]}


def _shown_price(evidence: Evidence) -> str:
    """Return the first price in plain sight, of an element that is called so."""
    for element in evidence.document.body.iter(
        "span", "div", "p", "strong", "b", "ins"
    ):
        names = f"{element.get('class', '')} {element.get('id', '')}"
        if _PRICE_CLASS.search(names) and not _OLD_PRICE.search(names):
            text = " ".join("".join(element.itertext()).split())
            if 0 < len(text) <= 40 and re.search(r"\d", text):
                return text
    return ""
