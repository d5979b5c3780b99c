"""The product of a page with its variants, prices and availability.

The data come from structured data, meta tags and visible text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scraper_service.content.page_urls import absolute, is_web
from scraper_service.content.structured_data import values
from scraper_service.content.structured_data.nodes import plain, types_of
from scraper_service.content.structured_data.selectors import text_of
from scraper_service.content.structured_data.values import GAP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.metadata.evidence import Evidence
    from scraper_service.content.structured_data.nodes import Graph, NodeT

MAX_OFFERS = 500
MAX_PRICE = 1e12
MAX_VARIANTS = 500
MAX_IMAGES = 50
MAX_TEXT = 20_000  # characters
MAX_WORDS = 200_000  # characters of a page that are searched

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_STATED = re.compile(
    r"\b(?:(?:out of|not in|in) stock|sold out|currently unavailable|no longer available)\b",
    re.IGNORECASE,
)
_FOR_SALE = re.compile(r"\b(?:add to (?:cart|basket|bag)|buy now)\b", re.IGNORECASE)
_TYPES = frozenset({"Product", "ProductGroup", "ProductModel", "IndividualProduct"})
_NUMBERS = ("gtin", "gtin13", "gtin12", "gtin8", "gtin14", "mpn")
# Properties that distinguish the variants of a product.
_VALUES = ("color", "size", "material", "pattern", "suggestedAge", "suggestedGender")
_PRICE_CLASS = re.compile(r"(?:^|[\s_-])price(?:$|[\s_-])", re.IGNORECASE)
_OLD_PRICE = re.compile(
    r"old|was|before|regular|compare|strike|list|from", re.IGNORECASE
)


def price(amount: Any, currency: Any = None) -> dict[str, Any] | None:
    """Return a price as ``amount``, ``currency`` (ISO 4217) and ``formatted``.

    None without a number. Currency and formatted text are left out if unknown.
    """
    text = plain(amount)
    is_number = _NUMBER.fullmatch(text)
    read = (float(text), "") if is_number else values.amount_of(text)
    if not text or read is None or not 0 <= read[0] <= MAX_PRICE:
        return None
    code = plain(currency).strip().upper()
    found = {
        "amount": float(read[0]),
        "currency": code if re.fullmatch("[A-Z]{3}", code) else read[1],
        "formatted": "" if is_number else text[:100],
    }
    return {name: value for name, value in found.items() if value != ""}


def availability(value: Any) -> dict[str, Any] | None:
    """Return ``inStock`` and ``text`` of an availability, None for an empty value."""
    text = re.split(r"[/#]", plain(value).strip())[-1]
    return (
        {"inStock": bool(values.stock_of(text)), "text": text[:100]} if text else None
    )


def offers_of(graph: Graph, node: NodeT) -> list[NodeT]:
    """Return the offers of a product, including those inside aggregate offers."""
    found: list[NodeT] = []
    for offer in graph.nodes_at(node, "offers"):
        found += graph.nodes_at(offer, "offers") or [offer]
    return found[:MAX_OFFERS]


def price_of(graph: Graph, offer: NodeT) -> dict[str, Any] | None:
    """Return the price of an offer; of a price range, the lowest price."""
    paths = ("price", "lowPrice", "priceSpecification.price", "minPrice")
    currency = graph.text(offer, "priceCurrency", "priceSpecification.priceCurrency")
    return price(graph.text(offer, *paths), currency)


def image_urls(graph: Graph, node: NodeT) -> Iterator[tuple[str, str]]:
    """Yield the absolute URLs of a node's images, each with its caption or name."""
    for value in graph.values(node, "image"):
        inner = value if isinstance(value, dict) else {"url": value}
        text = plain(inner.get("contentUrl") or inner.get("url"))
        whole = absolute(graph.base, text) if text else None
        if whole and is_web(whole):
            yield whole, plain(inner.get("caption") or inner.get("name"))


def product(graph: Graph, evidence: Evidence, url: str) -> dict[str, Any] | None:
    """Return the product of a page, None if the page is not about a single product.

    See docs/explanation/content-and-metadata.md, Products, menus, brands. Keys without a value are
    left out. A variant without a stated availability counts as in stock if it has a
    price.
    """
    node = _main_product(graph, evidence)
    if node:
        found = _from_structured_data(graph, node, url)
    else:
        found = _from_meta_tags(evidence, url)
    for variant in found.get("variants", ()):
        if "availability" not in variant:
            words = _stated_availability(evidence)
            variant["availability"] = words or {"inStock": "price" in variant}
    return found or None


def _stated_availability(evidence: Evidence) -> dict[str, Any] | None:
    """Return the availability that a page's text states, None without such words.

    The first statement counts: the page's own product stands before related ones. A
    statement counts more than a button.
    """
    words = evidence.words[:MAX_WORDS]
    match = _STATED.search(words) or _FOR_SALE.search(words)
    return match and {"inStock": bool(values.stock_of(match[0])), "text": match[0]}


def _main_product(graph: Graph, evidence: Evidence) -> NodeT | None:
    """Return the product that the page is about, None if it is unclear.

    Of several products, the title or a heading must name the product, or only a single
    product has offers.
    """
    found = [n.data for n in graph.nodes if not _TYPES.isdisjoint(types_of(n.data))]
    named = [node for node in found if plain(node.get("name"))]
    groups = [node for node in named if "ProductGroup" in types_of(node)]
    if groups or len(named) < 2:
        return next(iter(groups or named), None)
    titles = {text.lower() for text in (evidence.title, *evidence.headings)}
    titled = [node for node in named if plain(node.get("name")).lower() in titles]
    offered = [node for node in named if node.get("offers")]
    named = titled[:1] or offered
    return named[0] if len(named) == 1 else None


def _from_structured_data(graph: Graph, node: NodeT, url: str) -> dict[str, Any]:
    own = graph.nodes_at(node, "hasVariant")[:MAX_VARIANTS]
    variants: list[dict[str, Any]] = []
    for each in own or [node]:
        offers = offers_of(graph, each) or [{}]
        is_named = bool(own) or len(offers) > 1
        variants += [_variant(graph, each, x, is_named=is_named) for x in offers]
    own_url = graph.text(node, "url")
    return _with_values(
        title=plain(node.get("name"))[:MAX_TEXT],
        brand=graph.text(node, "brand", "manufacturer"),
        category=graph.text(node, "category"),
        url=(own_url and absolute(graph.base, own_url)) or url,
        description=graph.text(node, "description")[:MAX_TEXT],
        variants=variants[:MAX_VARIANTS],
    )


def _variant(
    graph: Graph, node: NodeT, offer: NodeT, *, is_named: bool
) -> dict[str, Any]:
    item = next(iter(graph.nodes_at(offer, "itemOffered")), {})
    now = price_of(graph, offer)
    texts = {n: plain(item.get(n)) or plain(node.get(n)) for n in _VALUES}
    for extra in graph.nodes_at(node, "additionalProperty"):
        texts.setdefault(plain(extra.get("name")), plain(extra.get("value")))
    own_name = plain(node.get("name")) if is_named else ""
    number = graph.text(offer, *_NUMBERS) or graph.text(node, *_NUMBERS, "productID")
    images = dict([*image_urls(graph, item)] or image_urls(graph, node))
    return _with_values(
        id=number,
        sku=graph.text(offer, "sku") or plain(item.get("sku") or node.get("sku")),
        title=graph.text(offer, "name", "itemOffered.name") or own_name,
        values={name: text for name, text in texts.items() if name and text},
        price=now,
        sale=_sale(graph, offer, now),
        availability=availability(graph.text(offer, "availability")),
        images=[_with_values(url=x, alt=alt) for x, alt in images.items()][:MAX_IMAGES],
    )


def _sale(
    graph: Graph, offer: NodeT, now: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Return the earlier price of an offer if its current price is lower."""
    for spec in graph.nodes_at(offer, "priceSpecification") if now else ():
        kind = plain(spec.get("priceType")).lower()
        if now and kind.endswith(("listprice", "strikethroughprice", "srp", "msrp")):
            currency = spec.get("priceCurrency") or now.get("currency")
            before = price(spec.get("price"), currency)
            if before and before["amount"] > now["amount"]:
                return {"originalPrice": before}
    return None


def _from_meta_tags(evidence: Evidence, url: str) -> dict[str, Any]:
    """Return the product of a page from its meta tags or its visible price."""
    first = evidence.first
    amount = first("product:price:amount", "og:price:amount", "twitter:data1")
    shown = amount or _visible_price(evidence)
    is_sold = shown and not amount and _stated_availability(evidence)
    is_product = first("og:type").lower() in {"product", "og:product"}
    title = first("og:title") or next(iter(evidence.headings), evidence.title)
    if not title or not (is_product or is_sold):
        return {}
    image = first("og:image")
    image_url = absolute(evidence.document.base, image) if image else None
    currency = first("product:price:currency", "og:price:currency")
    variant = _with_values(
        price=price(shown, currency),
        availability=availability(first("product:availability", "og:availability")),
        images=[{"url": image_url}] if image_url else None,
        sku=first("product:retailer_item_id"),
    )
    return _with_values(
        title=" ".join(title.split())[:MAX_TEXT],
        brand=first("product:brand", "og:brand"),
        category=first("product:category"),
        url=first("og:url") or url,
        description=first("og:description", "description"),
        variants=[variant],
    )


def _visible_price(evidence: Evidence) -> str:
    """Return the first visible price in an element with a class or id for prices."""
    tags = ("span", "div", "p", "strong", "b", "ins")
    for element in evidence.document.body.iter(*tags):
        names = f"{element.get('class', '')} {element.get('id', '')}"
        if _PRICE_CLASS.search(names) and not _OLD_PRICE.search(names):
            text = text_of(element).replace(GAP, " ")
            if len(text) <= 40 and re.search(r"\d", text):
                return text
    return ""


def _with_values(**facts: Any) -> dict[str, Any]:
    """Return the facts with a value."""
    return {name: value for name, value in facts.items() if value}
