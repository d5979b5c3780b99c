"""Lists on a page: plain values such as texts and URLs, and sets of records.

Plain lists stand in structured data, below headings, next to labels or in elements of their
own. Records are rows of tables, cards, posts, sections or nodes of structured data.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from attrs import define, evolve

from scraper_service.content.structured_data import unlabelled
from scraper_service.content.structured_data.candidates import (
    UNLABELLED,
    from_cells,
    of_a_node,
)
from scraper_service.content.structured_data.nodes import Graph, Node, plain
from scraper_service.content.structured_data.page import (
    Candidate,
    ExtractionPage,
    Scope,
    Value,
    heading_text,
    is_foreign,
    main_heading,
    one_line,
)
from scraper_service.content.structured_data.reading import (
    MAX_ELEMENTS,
    TextLine,
    VisibleText,
    name_words,
)
from scraper_service.content.structured_data.requested_fields import (
    LINK_FORMATS,
    SUBJECTS,
    RequestedField,
    content_words_of,
    interpret_field,
    phrase_of,
    words_of,
)
from scraper_service.options.json_schema import Field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_LINES = 200  # lines of a section
MAX_TEXTS = 20  # lines of a section without a list
MAX_BETWEEN = 6  # lines between a label and its list
MAX_LABEL = 60  # characters
MAX_LABELS = 20  # lines with the same label that are searched
MAX_ITEMS = 500
MAX_ITEM = 300  # characters of an item in an element with the field's name
MAX_SPLIT = 400  # characters of a text that is split into items
LEAST_ALIKE = 0.5  # share of a field's words that a heading must have
LEAST_ITEMS = 3
LEAST_WORDS = 3  # average words of an item in a list without a label
LEAST = 0.5  # trust that a list needs

_LABELS = frozenset({"strong", "b", "summary", "legend", "dt", "button", "th"})
_SPLIT = re.compile(r"\s*[,;\u2022|\n]\s*|\s+/\s+")
_BULLET = re.compile(r"^\s*(?:[-\u2013\u2022\u25cf\u25aa*\u2713\u2714]|\d{1,2}[.)])\s+")
_KEYWORDS = ("article:tag", "keywords", "news_keywords")
_ITEM_SHAPES = {
    "urls": "url",
    "images": "image",
    "words": "word",
    "persons": "person",
    "emails": "email",
    "phones": "phone",
}
_MANY = {
    name: UNLABELLED.get(name, unlabelled.links)
    for name in "image images social email emails phone phones links url".split()
}


def plain_list(
    page: ExtractionPage, main: Node | None, field: Field, scope: Scope, around: str
) -> Value | None:
    """Return the first list that has values of the requested type.

    ``main`` is the subject of the page.
    """
    requested = interpret_field(field, around)
    item = field.items or Field()
    kind = item.kind or "string"
    one = interpret_field(evolve(item, name=item.name or requested.name, kind=kind))
    if kind == "string":  # the item takes its meaning from the list's name
        shape = _ITEM_SHAPES.get(requested.shape, "text")
        is_link = item.format in LINK_FORMATS and shape != "image"
        one = evolve(one, shape="url" if is_link else shape)
    limit = min(field.max_items or MAX_ITEMS, MAX_ITEMS)
    for found in _candidate_lists(page, main, requested, scope):
        texts = found.parts or (found.text,)
        if requested.concept_name != "headings":
            texts = tuple(_BULLET.sub("", text) for text in texts)
        read = (page.typing.value(one, text) for text in texts)
        typed = list(dict.fromkeys(value for value in read if value is not None))
        if typed and found.trust >= LEAST:
            return Value(typed[:limit])
    return None


def _candidate_lists(
    page: ExtractionPage, main: Node | None, requested: RequestedField, scope: Scope
) -> Iterator[Candidate]:
    """Yield lists of values, the most trusted origins first."""
    name = requested.concept_name
    for found in from_cells(scope, requested):
        yield evolve(found, parts=found.parts or _split(found.text))
        return
    yield from _from_structured_data(page, main, requested, scope)
    if name in _MANY:
        yield from _list((found.text for found in _MANY[name](scope)), name)
    if name == "headings":
        yield from _headings(scope)
    labelled = list(_from_labels(requested, scope))
    if scope.is_page and (words := requested.content_words - SUBJECTS):
        labelled += filter(None, [_below_similar_heading(scope, words)])
    yield from sorted(labelled, key=lambda found: -found.trust)
    if name == "features" and scope.is_page:
        yield from _first_list(scope)
    if name != "headings":  # many elements without headings are named as sections
        yield from _from_names(requested, scope)
    if not scope.is_page and (name == "author" or requested.shape == "persons"):
        yield from _list((found.text for found in unlabelled.persons(scope)), "names")
    elif name == "tags" and scope.is_page:
        keywords = [v for meta in _KEYWORDS for v in page.evidence.all(meta)]
        yield from _list(chain.from_iterable(map(_split, keywords)), "meta")


def _headings(scope: Scope) -> Iterator[Candidate]:
    """Yield the headings of a level, the highest level first.

    Headings before the first heading of level 1 belong to menus of the page.
    """
    order = scope.reading.order
    start = next((order[heading] for heading in scope.all("h1")), -1)
    for tag in ("h2", "h3", "h4"):
        shown = [h for h in scope.all(tag) if order[h] > start and not is_foreign(h)]
        if len(shown) > 1:
            yield from _list((heading_text(scope, h) for h in shown), "headings")


def _from_structured_data(
    page: ExtractionPage, main: Node | None, requested: RequestedField, scope: Scope
) -> Iterator[Candidate]:
    node, source = scope.node, scope.name
    if scope.is_page and main is not None:
        node, source = main.data, main.name
    graph = page.graph
    for found in of_a_node(graph, node, source, requested, 0.9) if node else ():
        parts = found.parts
        if requested.concept_name == "steps" and node:
            parts = tuple(_steps(graph.values(node, "recipeInstructions")))
        elif len(parts) == 1:
            is_split = requested.shape in {"words", "persons"}
            parts = _split(found.text) if is_split else tuple(found.text.split("\n"))
        yield evolve(found, parts=parts)
    if scope.is_page and requested.concept_name == "author":
        known = page.known.get("author") or ()
        yield from _list([known] if isinstance(known, str) else known, "byline")


def _steps(values: list[Any]) -> Iterator[str]:
    """Yield the texts of a recipe's steps, section by section."""
    for value in values:
        if isinstance(value, dict) and isinstance(value.get("itemListElement"), list):
            yield from _steps(value["itemListElement"])
        elif isinstance(value, dict):
            yield plain(value.get("text")) or plain(value)
        else:
            yield from plain(value).split("\n")


def _from_labels(requested: RequestedField, scope: Scope) -> Iterator[Candidate]:
    """Yield the lists after and below labels, each with its trust."""
    for number, phrase in enumerate(requested.phrases):
        penalty = 0.0 if number < requested.own_count else 0.03 + 0.001 * number
        for at in scope.reading.labels.get(phrase, ())[:MAX_LABELS]:
            line = scope.reading.lines[at]
            is_label = phrase_of(line.text) == phrase and scope.holds(line.block)
            if not is_label or scope.reading.header_cell(line.block) is not None:
                continue
            if (found := items_below(scope, line)) is not None:
                own = 0.1 if line.heading else 0.05
                if line.frame or is_foreign(line.block):
                    own -= 0.4 if line.frame in {"nav", "footer", "header"} else 0.2
                if len(found.parts) == 1:
                    own -= 0.3
                yield evolve(found, trust=found.trust + own - penalty)
        for found in scope.labelled_values(phrase):
            if "below" in found.source or "above" in found.source:
                continue
            parts = found.parts
            if len(parts) < 2:
                is_short = len(found.text) < MAX_SPLIT
                parts = _split(found.text) if is_short else (found.text,)
            single = 0.25 if len(parts) == 1 else 0.0
            yield evolve(found, parts=parts, trust=found.trust - penalty - single)


def items_below(scope: Scope, line: TextLine) -> Candidate | None:
    """Return the items of the lists after a line, up to the next heading.

    Headings of groups, the first of which follows the line at once, do not end the
    lists. After a heading without a list, the lines of text are the items, with less
    trust.
    """
    items: list[str] = []
    texts: list[str] = []
    holder = None
    group = next((n.heading for n in scope.reading.lines[line.number + 1 :][:1]), 0)
    lines = scope.reading.lines[line.number + 1 : line.number + MAX_LINES]
    for following in lines:
        if following.heading and following.heading <= (line.heading or 6):
            break
        if line.heading and following.heading == group > line.heading:
            continue
        item = _item_around(following.block, line.block)
        parent = item.getparent() if item is not None else following.block
        is_apart = holder is not None and not _are_close(holder, parent)
        if item is None:
            is_end = items and (following.heading or is_apart)
            if is_end or not (items or line.heading or len(texts) < MAX_BETWEEN):
                break
            texts.append(following.text)
            continue
        if is_apart and not line.heading:
            break
        holder = holder if holder is not None else parent
        items.append(one_line(scope, item))
    label = f'below "{line.text[:MAX_LABEL]}"'
    if items:
        return next(_list(items, f"list {label}", 0.75), None)
    if texts and line.heading:
        return next(_list(texts[:MAX_TEXTS], f"text {label}", 0.35))
    return None


def _item_around(block: Any, label: Any) -> Any:
    """Return the outermost list item around a block that does not contain the label."""
    found = None
    above = {label, *label.iterancestors()}
    for element in (block, *block.iterancestors()):
        if element in above or element.tag in {"body", "table"}:
            break
        if element.tag in {"li", "dd"}:
            found = element
    return found


def _are_close(one: Any, other: Any) -> bool:
    near = [one, *list(one.iterancestors())[:2]]
    return any(element in near for element in (other, *other.iterancestors()))


def _below_similar_heading(scope: Scope, words: frozenset[str]) -> Candidate | None:
    """Return the list below the label with the largest share of the words."""
    best, most = None, 0.0
    for line in scope.lines:
        names = {element.tag for _, element in line.parts} | {line.block.tag}
        is_label = line.heading or line.text.endswith(":") or names <= _LABELS
        is_label = is_label and scope.reading.header_cell(line.block) is None
        if line.frame or len(line.text) > MAX_LABEL or not is_label:
            continue
        share = len(words & content_words_of(phrase_of(line.text))) / len(words)
        is_better = share > most and share >= LEAST_ALIKE
        if is_better and not is_foreign(line.block):
            found = items_below(scope, line)
            best, most = (found, share) if found else (best, most)
    return best and evolve(best, trust=0.35 + 0.3 * most)


def _first_list(scope: Scope) -> Iterator[Candidate]:
    """Yield the first list of prose after the main heading.

    Fewer than a third of the items may contain links or buttons.
    """
    start = scope.reading.order.get(main_heading(scope), MAX_ELEMENTS)
    for holder in scope.all("ul"):
        entries = list(holder.iterchildren("li"))
        linked = [e for e in entries if next(e.iter("a", "button"), None) is not None]
        items = [one_line(scope, entry) for entry in entries]
        words = sum(len(item.split()) for item in items)
        if (
            scope.reading.order[holder] > start
            and len(items) >= LEAST_ITEMS
            and words >= LEAST_WORDS * len(items)
            and len(linked) < len(items) / 3
            and not is_foreign(holder)
        ):
            yield from _list(items, "first list", LEAST)
            return


def _from_names(requested: RequestedField, scope: Scope) -> Iterator[Candidate]:
    for phrase in requested.phrases[: requested.own_count + 4]:
        elements = list(scope.elements_named(tuple(phrase.split())))
        groups = [e.iter("li", "a", "label", "button") for e in elements]
        if not scope.is_page:
            groups.append(elements)
        for group in groups:
            known = [e for e in group if e in scope.reading.order]
            is_apart = scope.is_page and any(map(is_foreign, known[:1]))
            items = [t for e in known if 0 < len(t := one_line(scope, e)) <= MAX_ITEM]
            if len(items) >= 2 and not is_apart:
                yield from _list(items, f"elements named {phrase}", 0.55)
                return


def _list(texts: Iterable[str], source: str, trust: float = 0.7) -> Iterator[Candidate]:
    """Yield several texts as a single candidate; without texts, yield nothing."""
    parts = tuple(dict.fromkeys(text for text in texts if text))[:MAX_ITEMS]
    if parts:
        yield Candidate(", ".join(parts), source, trust, None, parts)


def _split(text: str) -> tuple[str, ...]:
    return tuple(part for part in _SPLIT.split(text) if part)


# -- records ---------------------------------------------------------------------------

FOREIGN = 0.6  # weight of a group in a part about other things
MAX_RECORDS = 1000
MAX_GROUPS = 300
MAX_PARTS = 40  # elements of a section
MOST_TEXT = 20_000  # characters
LEAST_MEMBERS = 2
LEAST_TEXT = 8  # average characters of a member

_STATES = re.compile(
    r"\d|^(?:first|last|odd|even|active|selected|new|is-|js-)", re.IGNORECASE
)
_MEMBERS = frozenset(
    "li article div tr section a dt dd p tbody td figure details span h2 h3 h4 h5 table blockquote dl".split()
)
_HEADS = frozenset({"h2", "h3", "h4", "h5", "dt"})
_TEXTS = ("text", "articleBody")


@define(eq=False)
class RecordSet:
    """Records of the same kind."""

    #: A scope for each record.
    scopes: list[Scope]
    #: ``table``, ``nodes`` or a description such as ``repeated li``.
    kind: str
    #: Words of the names and headings around the records.
    about: frozenset[str]
    #: Factor of the score, below 1 in the frame and in foreign parts of the page.
    weight: float = 1.0
    #: Characters of text, at most ``MOST_TEXT``.
    text_size: int = MOST_TEXT


def tables(reading: VisibleText) -> Iterator[RecordSet]:
    """Yield the rows of tables with a header.

    Tables with the same header form a single set.
    """
    found: dict[tuple[str, ...], RecordSet] = {}
    for table, names, rows in reading.tables:
        about = frozenset(_words_around(reading, table)).union(*map(str.split, names))
        known = found.setdefault(names, RecordSet([], "table", about))
        for number, row in enumerate(rows[:MAX_RECORDS], 1):
            parts = tuple(cell for cell in row if cell is not None)
            pairs = zip(names, row, strict=True)
            named = {name: cell for name, cell in pairs if name and cell is not None}
            known.scopes.append(Scope(reading, parts, f"table row {number}", named))
    yield from (group for group in found.values() if group.scopes)


def groups(reading: VisibleText) -> list[RecordSet]:
    """Return repeated elements; groups with much text outside the frame come first."""
    by_sign: dict[Any, list[Any]] = {}
    for element in reading.elements:
        if element.tag in _MEMBERS and element not in reading.columns:
            parent = element.getparent()
            own, above = _first_class(element), _first_class(parent)
            by_sign.setdefault((element.tag, parent), []).append(element)
            if own:
                sign = element.tag, own, parent.tag, above
                by_sign.setdefault(sign, []).append(element)
    found: dict[Any, RecordSet | None] = {}
    for sign, members in by_sign.items():
        kept = _without_nested(reading, members)
        key = (kept[0], kept[-1], len(kept))
        if key not in found:
            parts = [(element,) for element in kept]
            found[key] = _group(reading, parts, f"repeated {sign[0]}")
    made = [group for group in found.values() if group is not None]
    made += _sections(reading)
    return sorted(made, key=lambda g: -g.text_size * g.weight)[:MAX_GROUPS]


def _without_nested(reading: VisibleText, members: list[Any]) -> list[Any]:
    kept: list[Any] = []
    end = -1
    for element in members[: 3 * MAX_RECORDS]:
        if reading.order[element] > end:
            kept.append(element)
            end = reading.last[element]
    return kept[:MAX_RECORDS]


def _group(
    reading: VisibleText, members: list[tuple[Any, ...]], kind: str
) -> RecordSet | None:
    """Return the members with text as records, None if there is too little text."""
    sizes = {
        parts: sum(
            len(reading.lines[n].text) for e in parts for n in range(*reading.span(e))
        )
        for parts in members
    }
    with_text = [parts for parts, size in sizes.items() if size]
    size = sum(sizes.values())
    if len(with_text) < LEAST_MEMBERS or size < LEAST_TEXT * len(with_text):
        return None
    middle = with_text[len(with_text) // 2][0]
    frame = reading.lines[reading.span(middle)[0]].frame
    weight = FOREIGN if frame or is_foreign(middle) else 1.0
    if frame in {"nav", "footer"}:
        weight = 0.3
    about = frozenset(_words_around(reading, with_text[0][0]))
    scopes = [Scope(reading, p, f"{kind} {n}") for n, p in enumerate(with_text, 1)]
    return RecordSet(scopes, kind, about, weight, min(size, MOST_TEXT))


def _sections(reading: VisibleText) -> Iterator[RecordSet]:
    """Yield runs of siblings that each start with the same kind of element.

    Such an element is, for example, a heading or a row.
    """
    parents: dict[Any, list[Any]] = {}
    for element in reading.elements[1:]:
        parents.setdefault(element.getparent(), []).append(element)
    for children in parents.values():
        signs = [(c.tag, _first_class(c)) for c in children]
        counts = Counter(signs)
        if len(children) < 4 or len(counts) < 2:
            continue
        heads = [s for s in counts if s[0] in _HEADS and counts[s] >= 2]
        regular = [s for s in counts if counts[s] >= 3 and s not in heads]
        for start in [*heads[:2], *regular[:1]]:
            starts = [n for n, sign in enumerate(signs) if sign == start]
            if starts[-1] - starts[0] + 1 == len(starts):
                continue  # the elements are adjacent
            ends = [*starts[1:], starts[-1] + 2 * (starts[1] - starts[0])]
            members = [
                tuple(children[a : min(b, a + MAX_PARTS)])
                for a, b in zip(starts, ends, strict=True)
            ]
            if made := _group(reading, members[:MAX_RECORDS], f"section {start[0]}"):
                yield made


def nodes_of(
    graph: Graph, main: Node | None, paths: tuple[str, ...], *, has_first: bool = False
) -> Iterator[tuple[str, list[Any]]]:
    """Yield lists of nodes, each with its name.

    Nodes below the main node come first, then the items of lists, then all nodes of a
    type. With ``has_first``, a main node with a text is the first of the nodes below it,
    as the first post of a thread is.
    """
    if main is not None:
        named = {id(x): (x, p) for p in paths for x in graph.nodes_at(main.data, p)}
        if below := list(named.values()):
            first = [main.data] if has_first and graph.text(main.data, *_TEXTS) else []
            nodes = [node for node, _ in below]
            yield f"{main.name}.{below[0][1]}", [*first, *nodes]
    by_type: dict[str, list[Any]] = {}
    for node in graph.nodes:
        by_type.setdefault(node.name, []).append(node.data)
        if node.type in {"ItemList", "CollectionPage", "OfferCatalog"}:
            for path in ("itemListElement", "mainEntity.itemListElement", "hasPart"):
                items = [_item(graph, each) for each in graph.nodes_at(node.data, path)]
                if len(items) >= LEAST_MEMBERS:
                    yield f"{node.name}.{path}", items
    yield from ((n, same) for n, same in by_type.items() if len(same) >= LEAST_MEMBERS)


def _item(graph: Graph, value: Any) -> Any:
    """Return the thing that an element of a list describes."""
    inner = graph.whole(value.get("item"))
    if isinstance(inner, dict):
        return {**inner, "position": value.get("position")}
    return {"url": inner, **value} if isinstance(inner, str) else value


@lru_cache(maxsize=20_000)
def _first_name(names: str) -> str:
    return next((name for name in names.split()[:3] if not _STATES.search(name)), "")


def _first_class(element: Any) -> str:
    return "" if element is None else _first_name((element.get("class") or "")[:300])


def _words_around(reading: VisibleText, element: Any) -> set[str]:
    """Return the words of the names around an element and of the heading before it."""
    words: set[str] = set()
    for parent in [element, *element.iterancestors()][:4]:
        if parent.tag == "body":
            break
        names = f"{parent.get('class') or ''} {parent.get('id') or ''}"[:300]
        words.update(name_words(names))
    start = reading.span(element)[0]
    for line in reversed(reading.lines[max(0, start - 5) : start]):
        if line.heading or line.block.tag in {"caption", "figcaption"}:
            words.update(words_of(line.text[:200]))
            break
    return words
