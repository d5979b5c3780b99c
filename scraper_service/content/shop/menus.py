"""The menu of a place that serves food or drinks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from attrs import define, field

from scraper_service.content.html.page_urls import absolute, is_web
from scraper_service.content.shop.offers import (
    availability,
    currency_of,
    offers_of,
    price,
    price_of,
)
from scraper_service.content.structured_data.sources.nodes import Graph, plain, types_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.metadata.evidence import Evidence
    from scraper_service.content.structured_data.sources.nodes import NodeT

MAX_ITEMS = 2000
MAX_LINE = 120  # characters
MAX_DEPTH = 5  # of sections inside each other
LEAST_SHOWN = 5  # priced lines of a page that declares nothing, to be a menu
DECLARED, SHOWN = 1.0, 0.6  # how sure it is

_MERCHANTS = (
    *("Restaurant", "FoodEstablishment", "CafeOrCoffeeShop", "BarOrPub", "Bakery"),
    *("FastFoodRestaurant", "IceCreamShop", "Brewery", "Winery", "Distillery"),
    *("LocalBusiness", "Organization"),
)
_DIETS = re.compile(r"(?:^|/)(\w+?)Diet$")
_NAMED = re.compile(
    r"\b(?:menu|speisekarte|carte|carta|men\u00fa|food|drinks|getr\u00e4nke|lunch|dinner"
    r"|breakfast|speisen)\b",
    re.IGNORECASE,
)
# "Soup of the day . . . . 4.50 EUR": a name, what leads to the price, the price.
_LINE = re.compile(
    r"^(?P<name>\D[^\n]{1,100}?)[\s.\u2026:\u2013-]*"
    r"(?P<price>(?:[\u20ac$\u00a3]|US\$)\s?\d{1,4}(?:[.,]\d{1,2})?"
    r"|\d{1,4}[.,]\d{2}\s?(?:[\u20ac$\u00a3]|EUR|USD|GBP|CHF)?)$"
)
_PRICE = re.compile(r"\d[.,]\d{2}\b")
_HEADINGS = ("h2", "h3", "h4")


@define
class _Menu:
    """A menu on its way; ids count, as pages rarely have any."""

    graph: Graph
    url: str
    sections: list[dict[str, Any]] = field(factory=list)
    count: int = 0

    def section(self, name: str, description: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {
            "id": f"section-{len(self.sections) + 1}",
            "name": name,
            **({"description": description} if description else {}),
            "items": [],
        }
        self.sections.append(found)
        return found

    def item(self, name: str, **facts: Any) -> dict[str, Any]:
        self.count += 1
        known = {key: value for key, value in facts.items() if value}
        return {
            "id": f"item-{self.count}",
            "name": name,
            "availability": {"inStock": True},
            **known,
            "sourceUrl": self.url,
        }

    def add(self, node: NodeT, above: str, depth: int) -> None:
        """Add a menu or a section with what is in it."""
        name = plain(node.get("name")) or above
        items = self.graph.values(node, "hasMenuItem")
        if items:
            section = self.section(name, plain(node.get("description")))
            for each in items:
                if isinstance(each, dict) and self.count < MAX_ITEMS:
                    section["items"] += self._declared(each)
        for each in self.graph.values(node, "hasMenuSection"):
            if isinstance(each, dict) and depth < MAX_DEPTH:
                self.add(each, name, depth + 1)

    def _declared(self, node: NodeT) -> Iterator[dict[str, Any]]:
        name = plain(node.get("name"))
        if not name:
            return
        offer: NodeT = next(iter(offers_of(self.graph, node)), {})
        diets = [plain(x) for x in self.graph.values(node, "suitableForDiet")]
        own_url = plain(node.get("url"))
        images = [
            whole
            for value in self.graph.values(node, "image")
            if (text := plain(value))
            and is_web(whole := absolute(self.graph.base, text))
        ]
        calories = re.match(
            r"\d{1,7}(?:\.\d{1,9})?(?!\d)",
            plain(self._first(node, "nutrition.calories")),
        )
        yield self.item(
            name,
            description=plain(node.get("description")),
            price=price_of(self.graph, offer),
            availability=availability(offer.get("availability")) or {"inStock": True},
            dietary=[(_DIETS.search(d) or [d, d])[1] for d in diets],
            calories=float(calories[0]) if calories else None,
            images=[{"url": address} for address in images],
            url=own_url and absolute(self.graph.base, own_url),
        )

    def _first(self, node: NodeT, path: str) -> Any:
        return next(iter(self.graph.values(node, path)), None)


def menu(graph: Graph, evidence: Evidence, url: str) -> dict[str, Any]:
    """Return the menu of a page, as ``menu`` of the interface document, 4.

    One that is none has ``isMenu`` false and no sections. An item of which the page does
    not say otherwise counts as in stock.
    """
    making = _Menu(graph, url)
    for node in _roots(graph):
        making.add(node, "Menu", 0)
    confidence = DECLARED if making.count else 0.0
    if not making.count and _NAMED.search(f"{evidence.title} {url}"):
        _read_lines(making, evidence)
        confidence = SHOWN if making.count >= LEAST_SHOWN else 0.0
        if not confidence:
            making.sections.clear()
    found: dict[str, Any] = {
        "isMenu": bool(confidence),
        "confidence": confidence,
        "merchant": _merchant(graph, evidence),
        "sections": [section for section in making.sections if section["items"]],
        "sourceUrl": url,
    }
    codes = {
        item["price"]["currency"]
        for section in found["sections"]
        for item in section["items"]
        if "currency" in item.get("price", ())
    }
    if len(codes) == 1:
        found["currency"] = codes.pop()
    return found


def _roots(graph: Graph) -> list[NodeT]:
    """Return the menus, or the sections that are in none."""
    menus: list[NodeT] = []
    for node in graph.nodes:
        if "Menu" in types_of(node.data):
            menus.append(node.data)
        for name in ("hasMenu", "menu"):
            menus += [x for x in graph.values(node.data, name) if isinstance(x, dict)]
    if menus:
        return list({id(each): each for each in menus}.values())
    return [n.data for n in graph.nodes if "MenuSection" in types_of(n.data)]


def _merchant(graph: Graph, evidence: Evidence) -> dict[str, Any]:
    nodes = {kind: n.data for n in reversed(graph.nodes) for kind in types_of(n.data)}
    for kind in _MERCHANTS:
        node = nodes.get(kind)
        if node is not None and (name := plain(node.get("name"))):
            return {"name": name, "type": kind}
    title = evidence.first("og:site_name") or evidence.title
    return {"name": re.split(r"\s[-|\u2013\u2014\u00b7]\s", title)[-1].strip()}


def _read_lines(making: _Menu, evidence: Evidence) -> None:
    """Take lines that end with their only price, below the headings they stand under."""
    section: dict[str, Any] | None = None
    name = "Menu"
    taken: set[Any] = set()
    for element in evidence.document.body.iter(*_HEADINGS, "li", "p", "tr", "div"):
        if element.getparent() in taken:
            taken.add(element)  # a part of a line
            continue
        text = " ".join(" ".join(element.itertext()).split())[: MAX_LINE + 1]
        if element.tag in _HEADINGS:
            name, section = text[:MAX_LINE], None
            continue
        match = _LINE.match(text) if len(text) <= MAX_LINE else None
        if match is None or _PRICE.search(match["name"]) or making.count >= MAX_ITEMS:
            continue
        if found := price(match["price"], currency_of(match["price"]), match["price"]):
            taken.add(element)
            section = section or making.section(name)
            section["items"].append(
                making.item(match["name"].strip(" .:-"), price=found)
            )
