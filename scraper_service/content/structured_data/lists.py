"""Lists of plain values: texts, names, numbers, addresses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attrs import evolve

from scraper_service.content.structured_data.fields.concepts import words_of
from scraper_service.content.structured_data.fields.wishes import SUBJECTS, wish_of
from scraper_service.content.structured_data.matching.declared import of_a_node
from scraper_service.content.structured_data.results import Place, Value
from scraper_service.content.structured_data.sources import places
from scraper_service.content.structured_data.sources.nodes import plain
from scraper_service.content.structured_data.sources.scope import Found
from scraper_service.content.structured_data.sources.sections import (
    alike,
    choices,
    first_list,
    items_below,
)
from scraper_service.options.schemas import Field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from scraper_service.content.structured_data.fields.wishes import Wish
    from scraper_service.content.structured_data.run import Run
    from scraper_service.content.structured_data.sources.scope import Scope

MAX_ITEMS = 500
MAX_LABELS = 20  # of the same words that are looked at
MAX_ITEM = 300  # characters of an item that is known by a name only
MAX_SPLIT = 400  # characters of a text that is taken for several items
LEAST = 0.5  # trust of a list

_SPLIT = re.compile(r"\s*[,;\u2022|\n]\s*|\s+/\s+")
_BULLET = re.compile(r"^\s*(?:[-\u2013\u2022\u25cf\u25aa*\u2713\u2714]|\d{1,2}[.)])\s+")
_ITEM_SHAPES = {
    "urls": "url",
    "images": "image",
    "words": "word",
    "persons": "person",
    "proses": "prose",
}
_KEYWORDS = ("article:tag", "keywords", "news_keywords")
_MANY = {  # places that hold several values of a concept
    "image": places.images,
    "images": places.images,
    "social": places.social,
    "email": places.emails,
    "emails": places.emails,
    "phone": places.phones,
    "phones": places.phones,
    "links": places.links,
    "url": places.links,
}


def plain_list(run: Run, wanted: Field, scope: Scope, around: str) -> Value | None:
    """Return the values of the first place that has some of the right type."""
    wish = wish_of(wanted, around)
    one = _item_wish(wanted.items or Field(kind="string"), wish)
    limit = min(wanted.max_items or MAX_ITEMS, MAX_ITEMS)
    for found in _places(run, wish, scope):
        if found.trust < LEAST:
            continue
        typed: list[Any] = []
        for part in found.parts or (found.text,):
            text = part if wish.what == "headings" else _BULLET.sub("", part)
            value = run.page.typing.value(one, text)
            if value is not None and value not in typed:
                typed.append(value)
        if typed:
            return Value(typed[:limit], {"": Place(found.source, found.text)})
    return None


def _item_wish(item: Field, wish: Wish) -> Wish:
    """Return the wish of one item, which has the meaning of the list's name."""
    kind = item.kind or "string"
    one = wish_of(evolve(item, name=item.name or wish.name, kind=kind))
    shape = _ITEM_SHAPES.get(wish.shape, "text")
    if wish.what in {"emails", "phones"}:
        shape = wish.what[:-1]
    if item.format in {"uri", "url"} and shape not in {"url", "image"}:
        shape = "url"
    return evolve(one, shape=shape) if kind == "string" else one


def _places(run: Run, wish: Wish, scope: Scope) -> Iterator[Found]:
    """Yield lists of values, the surest places first."""
    for phrase in wish.phrases:
        if (cell := scope.cells.get(phrase)) is not None:
            found = scope.of(cell, f'{scope.name}, column "{phrase}"', 0.9)
            yield evolve(found, parts=found.parts or _split(found.text))
            return
    yield from _declared(run, wish, scope)
    if (made := _MANY.get(wish.what)) is not None:
        yield from _together((f.text for f in made(scope)), wish.what)
    yield from _made_for(run, wish, scope)
    labelled = list(_labelled(wish, scope))
    if scope.is_page and (words := wish.content - SUBJECTS):
        labelled += filter(None, [alike(scope, words)])
    yield from sorted(labelled, key=lambda found: -found.trust)
    if wish.what == "features" and scope.is_page:
        yield from filter(None, [first_list(scope)])
    yield from _named(wish, scope)
    if wish.what == "author" or wish.shape == "persons":
        if not scope.is_page:
            yield from _together((f.text for f in places.persons(scope)), "names")
    elif wish.what == "tags" and scope.is_page:
        told = [v for name in _KEYWORDS for v in run.page.evidence.all(name)]
        yield from _together(told if len(told) > 1 else _split("".join(told)), "meta")


def _declared(run: Run, wish: Wish, scope: Scope) -> Iterator[Found]:
    """Yield what the structured data and the metadata have."""
    node, name = scope.node, scope.name
    if scope.is_page and run.main is not None:
        node, name = run.main.data, f"{run.main.syntax} {run.main.type}"
    graph = run.page.graph
    for found in of_a_node(graph, node, name, wish, 0.9) if node is not None else ():
        parts = found.parts
        if wish.what == "steps" and node is not None:
            parts = tuple(_steps(graph.values(node, "recipeInstructions")))
        elif len(parts) == 1 and wish.shape in {"words", "persons"}:
            parts = _split(found.text)
        elif len(parts) == 1:
            parts = tuple(found.text.split("\n"))
        yield evolve(found, parts=parts)
    if scope.is_page and wish.what == "author":
        names = run.page.known.get("author") or ()
        yield from _together([names] if isinstance(names, str) else names, "byline")


def _steps(values: list[Any]) -> Iterator[str]:
    """Yield the texts of the steps of a recipe, those of its sections in order."""
    for value in values:
        if isinstance(value, dict) and isinstance(value.get("itemListElement"), list):
            yield from _steps(value["itemListElement"])
        elif isinstance(value, dict):
            yield plain(value.get("text")) or plain(value)
        elif text := plain(value):
            yield from text.split("\n")


def _made_for(run: Run, wish: Wish, scope: Scope) -> Iterator[Found]:
    """Yield headings, breadcrumbs and tags, which have elements of their own."""
    if wish.what == "headings":
        for tag in ("h2", "h3", "h4"):
            headings = [h for h in scope.all(tag) if not places.is_foreign(h)]
            texts = [text for h in headings if (text := places.one_line(scope, h))]
            if len(texts) > 1:
                yield from _together(texts, "headings")
                return
    elif wish.what == "breadcrumbs":
        yield from _breadcrumbs(run, scope)
    elif wish.what == "tags":
        links = [a for a in scope.all("a") if "tag" in (a.get("rel") or "").split()]
        yield from _together((places.one_line(scope, a) for a in links), "tags")


def _breadcrumbs(run: Run, scope: Scope) -> Iterator[Found]:
    graph = run.page.graph
    for node in graph.nodes:
        if node.type == "BreadcrumbList":
            entries = graph.values(node.data, "itemListElement")
            names = [
                plain(e.get("name")) or plain(e.get("item"))
                for e in entries
                if isinstance(e, dict)
            ]
            yield from _together(names, f"{node.syntax} BreadcrumbList")
    for word in ("breadcrumb", "breadcrumbs"):
        for element in scope.named((word,)):
            ends = [e for e in element.iter("a", "li", "span") if len(e) == 0]
            yield from _together((places.one_line(scope, e) for e in ends), word)


def _labelled(wish: Wish, scope: Scope) -> Iterator[Found]:
    """Yield lists behind and below labels, each with how well it fits."""
    for number, phrase in enumerate(wish.phrases):
        lower = 0.0 if number < wish.own else 0.03 + 0.001 * number
        yield from _sections(scope, phrase, lower)
        for found in scope.labelled(phrase):
            if "below" in found.source or "above" in found.source:
                continue
            parts = found.parts
            if len(parts) < 2:
                is_short = len(found.text) < MAX_SPLIT
                parts = _split(found.text) if is_short else (found.text,)
            single = 0.25 if len(parts) == 1 else 0.0
            yield evolve(found, parts=parts, trust=found.trust - lower - single)


def _sections(scope: Scope, phrase: str, lower: float) -> Iterator[Found]:
    """Yield the items of the lists below headings or labels of these words."""
    reading = scope.reading
    for number in reading.labels.get(phrase, ())[:MAX_LABELS]:
        line = reading.lines[number]
        if " ".join(words_of(line.text)) != phrase or not scope.holds(line.block):
            continue
        shade = 0.0 if line.heading else 0.05
        if line.frame not in {"", "aside"}:
            shade += 0.4
        elif line.frame or places.is_foreign(line.block):
            shade += 0.2
        found = choices(scope, line) or items_below(scope, line)
        if found is not None:
            shade += 0.3 if len(found.parts) == 1 else 0.0
            yield evolve(found, trust=found.trust + 0.1 - shade - lower)


def _named(wish: Wish, scope: Scope) -> Iterator[Found]:
    """Yield the items of elements whose names have the words of the field."""
    for phrase in wish.phrases[: wish.own + 4]:
        elements = list(scope.named(tuple(phrase.split())))
        for element in elements:
            if scope.is_page and places.is_foreign(element):
                continue
            inner = element.iter("li", "a", "option", "label", "button")
            items = _texts(scope, inner)
            if len(items) >= 2:
                yield from _together(items, f"elements named {phrase}", 0.55)
                return
        same = _texts(scope, elements)
        if len(same) >= 2 and not scope.is_page:
            yield from _together(same, f"elements named {phrase}", 0.5)
            return


def _texts(scope: Scope, elements: Iterable[Any]) -> list[str]:
    seen = scope.reading.order
    texts = [places.one_line(scope, e) for e in elements if e in seen]
    return [text for text in texts if 0 < len(text) <= MAX_ITEM]


def _together(texts: Iterable[str], source: str, trust: float = 0.7) -> Iterator[Found]:
    """Yield several texts as one find, if there are any."""
    parts = tuple(dict.fromkeys(text for text in texts if text))[:MAX_ITEMS]
    if parts:
        yield Found(", ".join(parts), source, trust, None, parts)


def _split(text: str) -> tuple[str, ...]:
    return tuple(part for part in _SPLIT.split(text) if part)
