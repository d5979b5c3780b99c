"""The menu of a place that serves food or drinks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from attrs import define, field

from scraper_service.content.formats.products import (
    availability,
    image_urls,
    offers_of,
    price,
    price_of,
)
from scraper_service.content.page_urls import absolute
from scraper_service.content.structured_data.nodes import Graph, plain, types_of

if TYPE_CHECKING:
    from scraper_service.content.metadata.evidence import Evidence
    from scraper_service.content.structured_data.nodes import NodeT

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
_PRICE = re.compile(r"\d[.,]\d{2}\b")
_HEADINGS = ("h2", "h3", "h4")


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
        found = {
            "id": f"section-{len(self.sections) + 1}",
            "name": name,
            "items": items,
        }
        if description:
            found["description"] = description
        self.sections.append(found)
        return items

    def add_item(self, items: list[dict[str, Any]], name: str, **facts: Any) -> None:
        if self.count < MAX_ITEMS and name:
            self.count += 1
            known = {key: value for key, value in facts.items() if value}
            found = {"id": f"item-{self.count}", "name": name, "sourceUrl": self.url}
            items.append({**found, "availability": {"inStock": True}, **known})

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
        if (
            match
            and not _PRICE.search(match["name"])
            and (found := price(match["price"]))
        ):
            taken.add(element)
            items = builder.section(name) if items is None else items
            builder.add_item(items, match["name"].strip(" .:-"), price=found)
