"""Values of a field in the structured data of a page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.content.structured_data.nodes import (
    ARTICLE,
    PRODUCT,
    SUBJECT,
    UNKNOWN,
    Graph,
    Node,
    plain,
)
from scraper_service.content.structured_data.scope import Candidate
from scraper_service.content.structured_data.vocabulary import CURRENCIES, phrase_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.structured_data.nodes import NodeT
    from scraper_service.content.structured_data.requested_fields import RequestedField

# Concepts that publishers state about themselves, on pages of any kind.
OF_MAKERS = frozenset(
    "email phone fax address street city state postcode country hours social logo founder "
    "founded employees company site service_area emails phones".split()
)
# Concepts of the page itself, not of its subject.
_OF_PAGES = frozenset("author description image language section tags site".split())
_DATES = frozenset({"published", "modified"})  # dates of the page, not of a product
_GENERIC = frozenset("id type key ref data text value item list name title url".split())
# Common unit codes of UN/ECE recommendation 20.
_UNITS = dict(
    pair.split("=")
    for pair in "CMT=cm FOT=ft GRM=g INH=in KGM=kg LBR=lb LTR=l MLT=ml MMT=mm MTR=m ONZ=oz".split()
)
_LOCATION = ("addressLocality", "addressRegion", "addressCountry")
_ADDRESS = (
    "streetAddress",
    "addressLocality",
    "addressRegion",
    "postalCode",
    "addressCountry",
)


def of_the_page(
    graph: Graph, main: Node | None, requested: RequestedField
) -> Iterator[Candidate]:
    """Yield values from the page's main node, then from other nodes that may have them."""
    name = requested.concept_name
    is_maker = name in OF_MAKERS
    of_pages = _OF_PAGES
    if main is None or main.rank != PRODUCT:
        of_pages |= _DATES
    for node in sorted(graph.nodes, key=lambda node: node is not main):
        trust = 0.8 if is_maker and node.is_maker else 0.75
        if node is main:
            trust = 0.93
            if name == "title" and node.rank > SUBJECT and not _is_name(requested):
                continue
        elif not (is_maker and node.is_maker) and not (
            node.rank in {ARTICLE, UNKNOWN} and name in of_pages
        ):
            continue
        if name in {"company", "site"} and node.is_maker:
            for found in of_a_node(
                graph, node.data, node.name, requested, trust, "name"
            ):
                yield evolve(
                    found, text=re.split(r"\s[-|\u2013\u2014]\s", found.text)[0]
                )
        yield from of_a_node(graph, node.data, node.name, requested, trust)


def _is_name(requested: RequestedField) -> bool:
    """Return True if the field is a name, which publishers have as well."""
    return any(phrase.endswith("name") for phrase in requested.own_phrases)


def of_a_node(
    graph: Graph,
    node: NodeT,
    name: str,
    requested: RequestedField,
    trust: float,
    *paths: str,
) -> Iterator[Candidate]:
    """Yield a node's value, by the paths of the concept or by the field's name."""
    for path in paths or _paths(requested):
        found = graph.values(node, path)
        if requested.unit in CURRENCIES:
            holder = path.rpartition(".")[0]
            currency = graph.text(node, f"{holder}.priceCurrency".lstrip("."))
            if currency.lower() not in {"", requested.unit}:
                continue
        if texts := tuple(filter(None, (_text_of(v, requested) for v in found))):
            yield Candidate(texts[0], f"{name}.{path}", trust, None, texts)
            return
    for extra in graph.nodes_at(node, "additionalProperty"):
        if phrase_of(plain(extra.get("name"))) in requested.phrases:
            source, text = f"{name}.additionalProperty", plain(extra.get("value"))
            yield Candidate(text, source, trust - 0.02)
            return


def property_name(phrase: str) -> str:
    """Return a phrase as a property name of schema.org, such as ``datePublished``."""
    first, *others = phrase.split() or [""]
    return first + "".join(word.capitalize() for word in others)


def _paths(requested: RequestedField) -> list[str]:
    concept = requested.concept
    is_other = (  # a count of things that the concept does not describe
        concept is not None
        and requested.shape == "count"
        and concept.shape not in {"count", "number"}
    )
    found = list(concept.paths) if concept and not is_other else []
    return found + [
        n for n in map(property_name, requested.own_phrases) if n not in _GENERIC
    ]


def _text_of(value: Any, requested: RequestedField) -> str:
    """Return the text of a value as the shape of the field needs it."""
    if not isinstance(value, dict):
        return plain(value)
    if requested.shape in {"url", "image", "images", "urls"}:
        links = (plain(value.get(n)) for n in ("contentUrl", "url", "@id", "src"))
        return next(filter(None, links), "")
    if requested.concept_name in {"address", "location"}:
        inner = value.get("address")
        if isinstance(inner, str):
            return inner
        names = _LOCATION if requested.concept_name == "location" else _ADDRESS
        holder = inner if isinstance(inner, dict) else value
        parts = filter(None, (plain(holder.get(name)) for name in names))
        return ", ".join(parts) or plain(value)
    if requested.shape == "salary":
        return _salary(value)
    if requested.concept_name == "hours":
        return _opening(value)
    if "unitCode" in value or "unitText" in value:
        unit = plain(value.get("unitText")) or plain(value.get("unitCode"))
        return f"{plain(value.get('value'))} {_UNITS.get(unit, unit)}".strip()
    return plain(value)


def _salary(value: NodeT) -> str:
    amount = value.get("value")
    inner = amount if isinstance(amount, dict) else value
    ends = [plain(inner.get("minValue")), plain(inner.get("maxValue"))]
    amounts = " - ".join(filter(None, ends)) or plain(inner.get("value"))
    unit = plain(inner.get("unitText")).lower()
    parts = amounts, plain(value.get("currency")), f"per {unit}" if unit else ""
    return " ".join(filter(None, parts))


def _opening(value: NodeT) -> str:
    days = value.get("dayOfWeek")
    listed = days if isinstance(days, list) else [days]
    named = [plain(day).rsplit("/", 1)[-1] for day in listed if day]
    if len(named) > 2:
        named = [f"{named[0]}-{named[-1]}"]
    times = filter(None, (plain(value.get("opens")), plain(value.get("closes"))))
    return f"{', '.join(named)} {'-'.join(times)}".strip()
