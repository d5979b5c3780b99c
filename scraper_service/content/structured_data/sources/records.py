"""Things that a page shows several of: rows of tables, cards, posts, sections."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attrs import define

from scraper_service.content.markdown.tables import data_rows
from scraper_service.content.structured_data.fields.concepts import phrase_of, words_of
from scraper_service.content.structured_data.sources.places.around import is_foreign
from scraper_service.content.structured_data.sources.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.structured_data.sources.nodes import Graph, Node
    from scraper_service.content.structured_data.sources.reading import Reading

MAX_RECORDS = 1000
MAX_GROUPS = 300
MAX_TABLES = 60
LEAST_MEMBERS = 2
LEAST_TEXT = 8  # characters of a member, on average

_STATES = re.compile(
    r"\d|^(?:first|last|odd|even|active|selected|new|is-|js-)", re.IGNORECASE
)
_MEMBERS = frozenset(
    "li article div tr section a dt dd p tbody td figure details span h2 h3 h4 h5 table blockquote dl".split()
)
_HEADS = frozenset({"h2", "h3", "h4", "h5", "dt"})


@define(eq=False)
class RecordSet:
    """Records of one kind; ``about`` are words of what stands around them."""

    scopes: list[Scope]
    kind: str
    about: frozenset[str]
    shade: float = 1.0
    text_size: int = 0


def tables(reading: Reading) -> Iterator[RecordSet]:
    """Yield the rows of tables with a header; tables of one header are taken together."""
    found: dict[tuple[str, ...], RecordSet] = {}
    for table in list(reading.body.iter("table"))[:MAX_TABLES]:
        if table not in reading.order:
            continue
        grid = data_rows(table)
        if not grid or len(grid) < 2 or all(cell is None for cell in grid[0]):
            continue
        header = [reading.text(cell) if cell is not None else "" for cell in grid[0]]
        names = tuple(phrase_of(text) for text in header)
        if sum(map(bool, names)) < 1:
            continue
        scopes = []
        for number, row in enumerate(grid[1 : MAX_RECORDS + 1], 1):
            cells = [cell for cell in row if cell is not None]
            if not cells or sum(bool(reading.text(c).strip()) for c in cells) < min(
                2, len(names)
            ):
                continue
            if [reading.text(c) for c in cells] == [h for h in header if h]:
                continue  # the header once more
            named = {
                name: cell
                for name, cell in zip(names, row, strict=False)
                if name and cell is not None
            }
            scopes.append(Scope(reading, tuple(cells), f"table row {number}", named))
        if not scopes:
            continue
        about = _around(reading, table) | {w for name in names for w in name.split()}
        if names in found:
            found[names].scopes += scopes
            found[names].about |= about
        else:
            found[names] = RecordSet(scopes, "table", frozenset(about))
    yield from found.values()


def groups(reading: Reading) -> list[RecordSet]:
    """Return repeated elements, those with the most text outside the frame first."""
    by_sign: dict[Any, list[Any]] = {}
    for element in reading.elements:
        tag = element.tag
        if tag not in _MEMBERS:
            continue
        parent = element.getparent()
        own, above = _mark(element), _mark(parent)
        by_sign.setdefault((tag, parent), []).append(element)
        if own:
            by_sign.setdefault((tag, own, parent.tag, above), []).append(element)
    found: list[RecordSet] = []
    seen: set[tuple[int, int, int]] = set()
    for sign, members in by_sign.items():
        kept = _apart(reading, members)
        if len(kept) < LEAST_MEMBERS:
            continue
        key = (reading.order[kept[0]], reading.order[kept[-1]], len(kept))
        if key in seen:
            continue
        seen.add(key)
        if made := _group(reading, [(e,) for e in kept], f"repeated {sign[0]}"):
            found.append(made)
    found += _runs(reading)
    found.sort(key=lambda g: -g.text_size * g.shade)
    return found[:MAX_GROUPS]


def _apart(reading: Reading, members: list[Any]) -> list[Any]:
    """Leave out members inside other ones."""
    kept: list[Any] = []
    end = -1
    for element in members[: 3 * MAX_RECORDS]:
        if reading.order[element] > end:
            kept.append(element)
            end = reading.last[element]
    return kept[:MAX_RECORDS]


def _group(
    reading: Reading, members: list[tuple[Any, ...]], kind: str
) -> RecordSet | None:
    size = 0
    with_text = []
    for parts in members:
        own = sum(
            len(reading.lines[n].text) for e in parts for n in range(*reading.span(e))
        )
        if own:
            with_text.append(parts)
            size += own
    if len(with_text) < LEAST_MEMBERS or size < LEAST_TEXT * len(with_text):
        return None
    first = with_text[len(with_text) // 2][0]
    start = reading.span(first)[0]
    frame = reading.lines[start].frame if start < len(reading.lines) else ""
    shade = (
        0.3
        if frame in {"nav", "footer"}
        else 0.6
        if frame or is_foreign(first)
        else 1.0
    )
    scopes = [
        Scope(reading, parts, f"{kind} {number}")
        for number, parts in enumerate(with_text, 1)
    ]
    return RecordSet(
        scopes,
        kind,
        frozenset(_around(reading, with_text[0][0])),
        shade,
        min(size, 20_000),
    )


def _runs(reading: Reading) -> Iterator[RecordSet]:
    """Yield runs of siblings that begin with elements of one sort: a heading, a row."""
    parents: dict[Any, list[Any]] = {}
    for element in reading.elements:
        parent = element.getparent()
        if parent in reading.order:
            parents.setdefault(parent, []).append(element)
    for children in parents.values():
        if len(children) < 4:
            continue
        signs = [(c.tag, _mark(c)) for c in children]
        counts = Counter(signs)
        if len(counts) < 2:
            continue
        heads = [s for s in counts if s[0] in _HEADS and counts[s] >= 2]
        regular = [s for s in counts if counts[s] >= 3 and s not in heads]
        regular.sort(key=signs.index)
        for start in [*heads[:2], *regular[:1]]:
            places = [n for n, sign in enumerate(signs) if sign == start]
            if places[-1] - places[0] + 1 == len(places):
                continue  # nothing between
            bounds = [
                *places[1:],
                min(len(children), places[-1] + 2 * max(1, places[1] - places[0])),
            ]
            members = [
                tuple(children[a:b][:40]) for a, b in zip(places, bounds, strict=True)
            ]
            if made := _group(reading, members[:MAX_RECORDS], f"section {start[0]}"):
                yield made


def nodes(
    graph: Graph, main: Node | None, paths: tuple[str, ...]
) -> Iterator[tuple[str, str, list[Any]]]:
    """Yield lists of nodes: below the main one, of lists, and of one type; with a name."""
    if main is not None:
        found: list[Any] = []
        names = []
        for path in paths:
            below = [v for v in graph.values(main.data, path) if isinstance(v, dict)]
            if below and not (found and path == "comment"):
                found += below
                names.append(path)
        found = list({id(value): value for value in found}.values())
        if found:
            yield f"{main.syntax} {main.type}.{names[0]}", main.syntax, found
    for node in graph.nodes:
        if "ItemList" in node.type or node.type in {"CollectionPage", "OfferCatalog"}:
            for path in ("itemListElement", "mainEntity.itemListElement", "hasPart"):
                items = [_item(graph, v) for v in graph.values(node.data, path)]
                items = [item for item in items if isinstance(item, dict)]
                if len(items) >= LEAST_MEMBERS:
                    yield f"{node.syntax} {node.type}.{path}", node.syntax, items
    by_type: dict[tuple[str, str], list[Any]] = {}
    for node in graph.nodes:
        by_type.setdefault((node.type, node.syntax), []).append(node.data)
    for (kind, syntax), same in by_type.items():
        if len(same) >= LEAST_MEMBERS:
            yield f"{syntax} {kind}", syntax, same


def _item(graph: Graph, value: Any) -> Any:
    """Return what an element of a list is about."""
    if not isinstance(value, dict):
        return value
    inner = graph.whole(value.get("item"))
    if isinstance(inner, dict):
        return {**inner, "position": value.get("position")}
    if isinstance(inner, str) and "url" not in value:
        return {**value, "url": inner}
    return value


@lru_cache(maxsize=20_000)
def _first_name(names: str) -> str:
    for name in names.split()[:3]:
        if not _STATES.search(name):
            return name
    return ""


def _mark(element: Any) -> str:
    if element is None:
        return ""
    names = element.get("class")
    return _first_name(names[:300]) if names else ""


def _around(reading: Reading, element: Any) -> set[str]:
    """Return the words of the names of an element and those around it, and its heading."""
    words: set[str] = set()
    for place, parent in enumerate((element, *element.iterancestors())):
        if place > 3 or parent.tag == "body":
            break
        names = f"{parent.get('class') or ''} {parent.get('id') or ''}"[:300]
        words |= set(words_of(names.replace("-", " ")))
    start = reading.span(element)[0]
    for number in range(start - 1, max(start - 6, -1), -1):
        line = reading.lines[number]
        if line.heading or line.block.tag in {"caption", "figcaption"}:
            words |= set(words_of(line.text[:200]))
            break
    return words
