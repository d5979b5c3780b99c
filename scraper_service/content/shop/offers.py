"""Prices and availability, as structured data and words of a page have them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from price_parser import Price

from scraper_service.content.structured_data.sources.nodes import plain

if TYPE_CHECKING:
    from scraper_service.content.structured_data.sources.nodes import Graph, NodeT

MAX_OFFERS = 500
MAX_PRICE = 1e12

# Of schema.org/ItemAvailability, without case; what else there is cannot be had now.
_IN_STOCK = frozenset(
    "instock instoreonly onlineonly limitedavailability presale preorder backorder "
    "madetoorder reserved".split()
)
_SIGNS = {"€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR", "₽": "RUB", "₩": "KRW"}
_SIGNS |= {"US$": "USD", "CA$": "CAD", "A$": "AUD", "zł": "PLN", "Kč": "CZK"}
_CODE = re.compile(r"[A-Z]{3}")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SOLD_OUT = re.compile(
    r"\b(?:out of stock|sold out|currently unavailable|no longer available|nicht (?:auf "
    r"lager|verf\u00fcgbar|lieferbar)|ausverkauft|rupture de stock|\u00e9puis\u00e9"
    r"|agotado|sin existencias|esaurito|uitverkocht)\b",
    re.IGNORECASE,
)
_FOR_SALE = re.compile(
    r"\b(?:in stock|add to (?:cart|basket|bag)|buy now|auf lager|sofort lieferbar"
    r"|in den warenkorb|en stock|ajouter au panier|a\u00f1adir al carrito|disponible"
    r"|aggiungi al carrello|in winkelwagen)\b",
    re.IGNORECASE,
)


def price(amount: Any, currency: Any = None, shown: str = "") -> dict[str, Any] | None:
    """Return ``amount``, ``currency`` (ISO 4217) and how it is ``formatted``.

    None without a number; the others only where they are known.
    """
    text = plain(amount)
    number = float(text) if _NUMBER.fullmatch(text) else _parsed(text)
    if number is None or not 0 <= number <= MAX_PRICE:
        return None
    found: dict[str, Any] = {"amount": number}
    code = plain(currency).strip()
    code = code.upper() if _CODE.fullmatch(code.upper()) else currency_of(text)
    if code:
        found["currency"] = code
    if formatted := shown or (text if not _NUMBER.fullmatch(text) else ""):
        found["formatted"] = formatted[:100]
    return found


def currency_of(text: str) -> str:
    """Return the code of the currency that a text names, empty for none or several."""
    for sign, code in _SIGNS.items():
        if sign in text:
            return code
    found = Price.fromstring(text[:200]).currency or ""
    return found if _CODE.fullmatch(found) else ""


def _parsed(text: str) -> float | None:
    return Price.fromstring(text[:200]).amount_float if text else None


def availability(value: Any) -> dict[str, Any] | None:
    """Return whether it can be had, and the words for it; None where nothing is said."""
    text = plain(value).strip()
    if not text:
        return None
    name = re.split(r"[/#]", text)[-1].replace(" ", "").replace("_", "").lower()
    return {"inStock": name in _IN_STOCK, "text": re.split(r"[/#]", text)[-1][:100]}


def availability_of_words(text: str) -> dict[str, Any] | None:
    """Return the same of a page's words."""
    if found := _SOLD_OUT.search(text):
        return {"inStock": False, "text": found[0]}
    if found := _FOR_SALE.search(text):
        return {"inStock": True, "text": found[0]}
    return None


def offers_of(graph: Graph, node: NodeT) -> list[NodeT]:
    """Return the offers of a product, those inside aggregates, too."""
    found: list[NodeT] = []
    for offer in graph.values(node, "offers"):
        if not isinstance(offer, dict):
            continue
        inner = [x for x in graph.values(offer, "offers") if isinstance(x, dict)]
        found += inner or [offer]
    return found[:MAX_OFFERS]


def price_of(graph: Graph, offer: NodeT) -> dict[str, Any] | None:
    """Return the price of an offer; of a range the lowest."""
    currency = first(graph, offer, "priceCurrency", "priceSpecification.priceCurrency")
    amount = first(
        graph, offer, "price", "lowPrice", "priceSpecification.price", "minPrice"
    )
    return price(amount, currency)


def earlier_price_of(
    graph: Graph, offer: NodeT, now: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Return what an offer cost before, if it is cheaper now."""
    if now is None:
        return None
    for spec in graph.values(offer, "priceSpecification"):
        if not isinstance(spec, dict):
            continue
        kind = plain(spec.get("priceType")).lower()
        if kind.endswith(("listprice", "strikethroughprice", "srp", "msrp")):
            before = price(
                spec.get("price"), spec.get("priceCurrency") or now.get("currency")
            )
            if before and before["amount"] > now["amount"]:
                return before
    return None


def first(graph: Graph, node: NodeT, *paths: str) -> Any:
    """Return the first value that a node has at one of the paths, None for none."""
    for path in paths:
        for value in graph.values(node, path):
            if plain(value):
                return value
    return None
