"""What the structured data of a page say of a field."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scraper_service.content.structured_data.fields.concepts import words_of
from scraper_service.content.structured_data.sources.nodes import (
    MAKERS,
    Graph,
    Node,
    plain,
)
from scraper_service.content.structured_data.sources.scope import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.structured_data.fields.wishes import Wish
    from scraper_service.content.structured_data.sources.nodes import NodeT

# What the makers of a page say of themselves, which is asked of pages of any kind.
OF_MAKERS = frozenset(
    "email phone fax address street city state postcode country hours social logo founder "
    "founded employees company site service_area emails phones".split()
)
# What is said of the page itself, not of what it is about.
_OF_PAGES = frozenset(
    "published modified author description image language section tags site".split()
)
_DATES = frozenset({"published", "modified"})  # of the page, not of a product on it
_PAGES = frozenset({6, 11})  # ranks of articles and of pages
_MAKER_RANK = 12
SUBJECT_RANK = 6  # of types whose names are titles
_GENERIC = frozenset("id type key ref data text value item list name title url".split())
_LINKS = ("contentUrl", "url", "@id", "src")
# Common codes of units, by UN/ECE recommendation 20.
_UNITS = {
    "CMT": "cm",
    "FOT": "ft",
    "GRM": "g",
    "INH": "in",
    "KGM": "kg",
    "LBR": "lb",
    "LTR": "l",
    "MLT": "ml",
    "MMT": "mm",
    "MTR": "m",
    "ONZ": "oz",
}
_ADDRESS = (
    "streetAddress",
    "addressLocality",
    "addressRegion",
    "postalCode",
    "addressCountry",
)
_LOCATION = ("addressLocality", "addressRegion", "addressCountry")


def of_the_page(graph: Graph, main: Node | None, wish: Wish) -> Iterator[Found]:
    """Yield what the page's main node says of a field, then the others it may be in."""
    if main is not None:
        if wish.what in {"company", "site"} and main.type in MAKERS:
            yield from _maker(main, 0.92)
        if wish.what != "title" or main.rank <= SUBJECT_RANK or _asks_a_name(wish):
            name = f"{main.syntax} {main.type}"
            yield from of_a_node(graph, main.data, name, wish, 0.93)
    for node in graph.nodes:
        name = f"{node.syntax} {node.type}"
        if node is main:
            continue
        if wish.what in OF_MAKERS and (node.type in MAKERS or node.rank == _MAKER_RANK):
            if wish.what in {"company", "site"}:
                yield from _maker(node, 0.7)
            yield from of_a_node(graph, node.data, name, wish, 0.8)
        elif node.rank in _PAGES and wish.what in (
            _OF_PAGES - _DATES if main is not None and main.rank == 0 else _OF_PAGES
        ):
            yield from of_a_node(graph, node.data, name, wish, 0.75)


def _asks_a_name(wish: Wish) -> bool:
    """Tell whether a name is asked for, which those who made a page have, too."""
    return any(phrase.split()[-1] == "name" for phrase in wish.phrases[: wish.own])


def _maker(node: Node, trust: float) -> Iterator[Found]:
    """Yield a maker's name without the description that some put behind a dash."""
    if name := plain(node.data.get("name")):
        short = re.split(r"\s[-|\u2013\u2014]\s", name)[0]
        yield Found(short, f"{node.syntax} {node.type}.name", trust)


def of_a_node(
    graph: Graph, node: NodeT, name: str, wish: Wish, trust: float
) -> Iterator[Found]:
    """Yield what a node says: by the paths of the concept, by a property of that name."""
    for path in _paths(wish):
        found = graph.values(node, path)
        texts = [text for value in found if (text := _text_of(value, wish))]
        if texts:
            yield Found(texts[0], f"{name}.{path}", trust, None, tuple(texts))
            return
    for extra in graph.values(node, "additionalProperty"):
        if isinstance(extra, dict):
            label = " ".join(words_of(plain(extra.get("name"))))
            if label in wish.phrases and (text := plain(extra.get("value"))):
                yield Found(text, f"{name}.additionalProperty", trust - 0.02)
                return


def property_name(phrase: str) -> str:
    """Return the name that schema.org would have for a phrase."""
    first, *others = phrase.split() or [""]
    return first + "".join(word.capitalize() for word in others)


def _paths(wish: Wish) -> list[str]:
    concept = wish.concept
    is_other = (  # a count of something that the concept is not about
        bool(wish.counted)
        and concept is not None
        and wish.shape == "count"
        and concept.shape not in {"count", "number"}
    )
    found = list(concept.paths) if concept and not is_other else []
    names = map(property_name, wish.phrases[: wish.own])
    return found + [n for n in names if n not in found and n not in _GENERIC]


def _text_of(value: Any, wish: Wish) -> str:
    if not isinstance(value, dict):
        return plain(value)
    if wish.shape in {"url", "image", "images", "urls"}:
        return next((t for n in _LINKS if (t := plain(value.get(n)))), "")
    if wish.what in {"address", "location", "venue"}:
        return _address(value, wish.what)
    if wish.shape == "salary":
        return _salary(value)
    if "unitCode" in value or "unitText" in value:
        number = plain(value.get("value"))
        unit = plain(value.get("unitText")) or plain(value.get("unitCode"))
        unit = _UNITS.get(unit, unit)
        return f"{number} {unit}".strip()
    return _opening(value) if wish.what == "hours" else plain(value)


def _address(value: NodeT, what: str) -> str:
    if what == "venue":
        return plain(value)
    inner = value.get("address")
    if isinstance(inner, str):
        return inner
    holder = inner if isinstance(inner, dict) else value
    names = _LOCATION if what == "location" else _ADDRESS
    parts = [text for name in names if (text := plain(holder.get(name)))]
    return ", ".join(parts) or plain(value)


def _salary(value: NodeT) -> str:
    amount = value.get("value")
    inner = amount if isinstance(amount, dict) else value
    low, high = plain(inner.get("minValue")), plain(inner.get("maxValue"))
    both = f"{low} - {high}" if low and high else low or high
    unit = plain(inner.get("unitText")).lower()
    parts = (
        both or plain(inner.get("value")),
        plain(value.get("currency")),
        f"per {unit}" if unit else "",
    )
    return " ".join(filter(None, parts))


def _opening(value: NodeT) -> str:
    days = value.get("dayOfWeek")
    listed = days if isinstance(days, list) else [days]
    named = [plain(day).rsplit("/", 1)[-1] for day in listed if day]
    if len(named) > 2:
        named = [f"{named[0]}-{named[-1]}"]
    times = (plain(value.get("opens")), plain(value.get("closes")))
    return f"{', '.join(named)} {'-'.join(filter(None, times))}".strip()
