"""The product of a page with its variants, and the menu of a restaurant.

The data come from structured data, meta tags and visible text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from attrs import define, field

from scraper_service.content.page_urls import absolute, is_web
from scraper_service.content.structured_data import values
from scraper_service.content.structured_data.nodes import Graph, NodeT, plain, types_of
from scraper_service.content.structured_data.selectors import text_of
from scraper_service.content.structured_data.values import GAP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.metadata.evidence import Evidence

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
MAX_ITEMS = 2000
MAX_LINE = 120  # characters
MAX_DEPTH = 5  # levels of nested sections
LEAST_SHOWN = 5  # priced lines that make a menu without structured data
DECLARED, SHOWN = 1.0, 0.6  # confidence

_MERCHANTS = (
    *("Restaurant", "FoodEstablishment", "CafeOrCoffeeShop", "BarOrPub", "Bakery"),
    *("FastFoodRestaurant", "IceCreamShop", "Brewery", "Winery", "Distillery"),
    *("LocalBusiness", "Organization"),
)
_DIET = re.compile(r"(\w+)Diet")
_NAMED = re.compile(r"\b(?:menu|food|drinks|lunch|dinner|breakfast)\b", re.IGNORECASE)
# "Soup of the day . . . . 4.50 EUR": a name, a leader, a price.
_PRICED_LINE = re.compile(
    r"^(?P<name>\D[^\n]{1,100}?)[\s.\u2026:\u2013-]*"
    r"(?P<price>(?:[\u20ac$\u00a3]|US\$)\s?\d{1,4}(?:[.,]\d{1,2})?"
    r"|\d{1,4}[.,]\d{2}\s?(?:[\u20ac$\u00a3]|EUR|USD|GBP|CHF)?)$"
)
_AMOUNT = re.compile(r"\d[.,]\d{2}\b")
_HEADINGS = ("h2", "h3", "h4")


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
    found = {"inStock": bool(values.stock_of(text)), "text": text[:100]}
    return found if text else None


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
    return with_values(
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
    return with_values(
        id=number,
        sku=graph.text(offer, "sku") or plain(item.get("sku") or node.get("sku")),
        title=graph.text(offer, "name", "itemOffered.name") or own_name,
        values={name: text for name, text in texts.items() if name and text},
        price=now,
        sale=_sale(graph, offer, now),
        availability=availability(graph.text(offer, "availability")),
        images=[with_values(url=x, alt=alt) for x, alt in images.items()][:MAX_IMAGES],
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
    variant = with_values(
        price=price(shown, currency),
        availability=availability(first("product:availability", "og:availability")),
        images=[{"url": image_url}] if image_url else None,
        sku=first("product:retailer_item_id"),
    )
    return with_values(
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


def with_values(**facts: Any) -> dict[str, Any]:
    """Return the facts with a value."""
    return {name: value for name, value in facts.items() if value}


# -- menus -----------------------------------------------------------------------------


@define
class _MenuBuilder:
    """Builds a menu with numbered sections and items.

    Ids count up, because items of pages rarely have ids.
    """

    graph: Graph
    url: str
    sections: list[dict[str, Any]] = field(factory=list)
    count: int = 0

    def section(self, name: str, description: str = "") -> list[dict[str, Any]]:
        """Add a section; return the list of its items."""
        items: list[dict[str, Any]] = []
        number = f"section-{len(self.sections) + 1}"
        found = {"id": number, "name": name, "items": items}
        self.sections.append({**found, **with_values(description=description)})
        return items

    def add_item(self, items: list[dict[str, Any]], name: str, **facts: Any) -> None:
        if self.count < MAX_ITEMS and name:
            self.count += 1
            found = {"id": f"item-{self.count}", "name": name, "sourceUrl": self.url}
            stock = {"availability": {"inStock": True}}
            items.append({**found, **stock, **with_values(**facts)})

    def add(self, node: NodeT, above: str = "Menu", depth: int = 0) -> None:
        """Add a menu or a section with its items and nested sections."""
        graph, name = self.graph, plain(node.get("name")) or above
        if nodes := graph.nodes_at(node, "hasMenuItem"):
            items = self.section(name, plain(node.get("description")))
            for each in nodes:
                self._add_declared(items, each)
        for each in graph.nodes_at(node, "hasMenuSection") if depth < MAX_DEPTH else ():
            self.add(each, name, depth + 1)

    def _add_declared(self, items: list[dict[str, Any]], node: NodeT) -> None:
        graph = self.graph
        offer: NodeT = next(iter(offers_of(graph, node)), {})
        diets = [plain(x) for x in graph.values(node, "suitableForDiet")]
        own_url = plain(node.get("url"))
        calories = re.match(
            r"\d{1,7}(?:\.\d{1,9})?(?!\d)", graph.text(node, "nutrition.calories")
        )
        self.add_item(
            items,
            plain(node.get("name")),
            description=plain(node.get("description")),
            price=price_of(graph, offer),
            availability=availability(offer.get("availability")),
            dietary=[_name_of_diet(diet) for diet in diets],
            calories=float(calories[0]) if calories else None,
            images=[{"url": url} for url, _ in image_urls(graph, node)],
            url=own_url and absolute(graph.base, own_url),
        )


def _name_of_diet(text: str) -> str:
    """Return ``Vegan`` for ``https://schema.org/VeganDiet``; other texts unchanged."""
    match = _DIET.fullmatch(text.rpartition("/")[2])
    return match[1] if match else text


def menu(graph: Graph, evidence: Evidence, url: str) -> dict[str, Any]:
    """Return the menu of a page.

    See docs/explanation/content-and-metadata.md, Products, menus, brands. Without a menu,
    ``isMenu`` is false and there are no sections. An item counts as in stock unless the
    page states otherwise.
    """
    builder, confidence = _MenuBuilder(graph, url), DECLARED
    for node in _roots(graph):
        builder.add(node)
    if not builder.count and _NAMED.search(f"{evidence.title} {url}"):
        confidence = SHOWN
        _read_lines(builder, evidence)
        if builder.count < LEAST_SHOWN:
            builder = _MenuBuilder(graph, url)
    found: dict[str, Any] = {
        "isMenu": bool(builder.count),
        "confidence": confidence if builder.count else 0.0,
        "merchant": _merchant(graph, evidence),
        "sections": [section for section in builder.sections if section["items"]],
        "sourceUrl": url,
    }
    items = [item for section in found["sections"] for item in section["items"]]
    codes = {item.get("price", {}).get("currency") for item in items} - {None}
    if len(codes) == 1:
        found["currency"] = codes.pop()
    return found


def _roots(graph: Graph) -> list[NodeT]:
    """Return the menus of a page, or its sections if it declares no menu."""
    nodes = [node.data for node in graph.nodes]
    menus = [node for node in nodes if "Menu" in types_of(node)]
    for node in nodes:
        menus += graph.nodes_at(node, "hasMenu", "menu")
    found = list({id(each): each for each in menus}.values())
    return found or [node for node in nodes if "MenuSection" in types_of(node)]


def _merchant(graph: Graph, evidence: Evidence) -> dict[str, Any]:
    nodes = {kind: n.data for n in reversed(graph.nodes) for kind in types_of(n.data)}
    for kind in _MERCHANTS:
        if name := plain(nodes.get(kind, {}).get("name")):
            return {"name": name, "type": kind}
    # Clients require a name: it is empty if the page states none.
    return {"name": evidence.first("og:site_name", "application-name")}


def _read_lines(builder: _MenuBuilder, evidence: Evidence) -> None:
    """Add lines that end with their only price to the section of their heading."""
    items: list[dict[str, Any]] | None = None
    name = "Menu"
    taken: set[Any] = set()
    for element in evidence.document.body.iter(*_HEADINGS, "li", "p", "tr", "div"):
        if element.getparent() in taken:
            taken.add(element)  # a part of a line in the menu
            continue
        text = " ".join(" ".join(element.itertext()).split())[: MAX_LINE + 1]
        if element.tag in _HEADINGS:
            name, items = text[:MAX_LINE], None
            continue
        match = _PRICED_LINE.match(text) if len(text) <= MAX_LINE else None
        if match is None or _AMOUNT.search(match["name"]):
            continue
        if found := price(match["price"]):
            taken.add(element)
            items = builder.section(name) if items is None else items
            builder.add_item(items, match["name"].strip(" .:-"), price=found)
