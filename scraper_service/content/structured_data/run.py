"""One extraction: the way through the fields of a schema."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from attrs import evolve, frozen

from scraper_service.content.structured_data.fields.wishes import Wish, wish_of
from scraper_service.content.structured_data.matching.candidates import candidates
from scraper_service.content.structured_data.matching.declared import (
    of_a_node,
    property_name,
)
from scraper_service.content.structured_data.results import Extraction, Place, Value
from scraper_service.content.structured_data.sources.nodes import FRAME, MAKERS, Node
from scraper_service.content.structured_data.sources.scope import Found, Scope
from scraper_service.options.schemas import Field

if TYPE_CHECKING:
    from scraper_service.content.structured_data.page import ExtractionPage

ENOUGH = 0.9  # trust from which on nothing else is looked at
LEAST = 0.4  # trust below which a value is none
MANY = 3  # nodes of a type, which then is not what the page as a whole is about
LEAST_SUBJECT = 6  # rank of types that alone say what a page is about

# Fields of a nested object that mean something only beside its name.
_VAGUE = frozenset("title url description body image count published".split())
_OWNED = frozenset("name person place".split())


class Records(Protocol):
    """Finds lists of objects, for one run."""

    def find(self, wanted: Field, scope: Scope) -> Value | None: ...


@frozen
class Readers:
    """What reads lists and facts; each of them comes back to the run for their parts."""

    facts: Callable[[Run, Field, Scope], Value | None]
    plain_list: Callable[[Run, Field, Scope, str], Value | None]
    records: Callable[[Run], Records]


class Run:
    """One extraction: its page, what the page is about, and when it has to end."""

    def __init__(
        self, page: ExtractionPage, wanted: Field, ends: float, readers: Readers
    ):
        self.page = page
        self.ends = ends
        self._readers = readers
        self.records = readers.records(self)
        self.main = self._main(wanted)
        titled = any(wish_of(f).what == "title" for f in wanted.properties)
        page.scope.is_titled = titled
        page.scope.is_listing = not titled and any(
            f.items is not None and f.items.properties for f in wanted.properties
        )

    @property
    def is_late(self) -> bool:
        return time.thread_time() > self.ends

    @property
    def is_of_one(self) -> bool:
        """Whether the page declares that it is about one thing."""
        nodes = self.page.graph.nodes
        if self.main is None:
            return self.page.is_of_a_product and all(node.rank for node in nodes)
        same = sum(node.type == self.main.type for node in nodes)
        return same == 1 and self.main.rank <= LEAST_SUBJECT

    def one_thing(self, wanted: Field) -> Value | None:
        """Return an object with a list of what the page as a whole is; None if nothing.

        A page that does not declare what it is about needs more than a title.
        """
        item = wanted.items
        if item is None or wish_of(wanted).concept is not None:
            return None  # authors are what the page has, and not what it is
        found = self.object(item, self.page.scope)
        if found is None or not found.data:
            return None
        told = {wish_of(f).what for f in item.properties if f.name in found.data}
        if not self.is_of_one and (lacks(found.data, item) or told <= _VAGUE):
            return None
        pointer = f"/{wanted.name}/0"
        places = {pointer + at: place for at, place in found.places.items()}
        return Value({wanted.name: [found.data]}, places)

    def result(self, wanted: Field, found: Value | None) -> Extraction:
        """Return the answer, with a warning where not all of the page was searched."""
        warnings = []
        if found is None:
            data: Any = (
                []
                if wanted.kind == "array"
                else {}
                if wanted.kind == "object"
                else None
            )
            found = Value(data, {}, ("",) if data is None else ())
        if self.is_late:
            warnings.append("The page took too long to search: values may be missing.")
        if self.page.scope.reading.is_cut:
            warnings.append("The page is very large: only its first part was searched.")
        return Extraction(found.data, found.places, found.missing, tuple(warnings))

    def _main(self, wanted: Field) -> Node | None:
        """Return the node that has most of the fields; of equal ones the likelier."""
        kinds = Counter(n.type for n in self.page.graph.nodes)
        nodes = [
            n
            for n in self.page.graph.nodes[:60]
            if n.type not in FRAME and (kinds[n.type] < MANY or n.rank > 10)
        ]
        wishes = [wish_of(f) for f in wanted.properties][:60]
        best, most = None, 0.0
        graph = self.page.graph
        for node in nodes:
            count = sum(
                next(of_a_node(graph, node.data, "", w, 1.0), None) is not None
                for w in wishes
                if w.field.kind != "object" or w.concept
            )
            if node.rank > LEAST_SUBJECT and count < 2:
                continue
            score = count + max(0.0, 1.5 - 0.15 * node.rank)
            if node.type in MAKERS or node.rank == 12:
                score -= 1.0 * any(
                    w.what in {"title", "price", "author", "published"} for w in wishes
                )
            if score > most:
                best, most = node, score
        return best

    # -- values ----------------------------------------------------------------------

    def value(self, wanted: Field, scope: Scope, around: str = "") -> Value | None:
        """Return what a scope has of a field, None if it has nothing."""
        if self.is_late:
            return None
        for choice in (wanted, *wanted.others):
            found = self._one(choice, scope, around)
            if found is not None:
                return found
        return None

    def _one(self, wanted: Field, scope: Scope, around: str) -> Value | None:
        if wanted.kind == "object":
            if wanted.properties:
                return self.object(wanted, scope)
            return self._readers.facts(self, wanted, scope)
        if wanted.kind == "array":
            items = wanted.items
            if items is not None and (items.kind == "object" and items.properties):
                return self.records.find(wanted, scope)
            return self._readers.plain_list(self, wanted, scope, around)
        return self.scalar(wish_of(wanted, around), scope)

    def scalar(self, wish: Wish, scope: Scope) -> Value | None:
        """Return the most trusted value that has the type of the field."""
        best: tuple[float, Found, Any] | None = None
        for found in candidates(self.page, scope, wish, self.main):
            if best is not None and found.trust <= best[0]:
                continue
            data = self.typed(wish, found)
            if data is not None:
                best = (found.trust, found, data)
                if found.trust >= ENOUGH:
                    break
        if best is None or best[0] < LEAST:
            return None
        _trust, found, data = best
        return Value(data, {"": Place(found.source, found.text)})

    def typed(self, wish: Wish, found: Found) -> Any:
        """Return what was found as the field's type; links stand for their address."""
        text = found.text
        if (
            wish.shape == "url"
            and found.element is not None
            and "link" not in found.source
        ):
            link = _link_of(found.element)
            text = link or text
        elif (
            wish.shape == "image"
            and found.element is not None
            and found.source != "image"
        ):
            image = next(found.element.iter("img"), None)
            text = (image.get("src") or "") if image is not None else text
        elif wish.shape in {"name", "code", "word", "text"} and "\n" in text:
            text = (
                ", ".join(text.split("\n"))
                if wish.shape == "text"
                else text.split("\n")[0]
            )
        if wish.shape == "date" and found.parts and not wish.field.format:
            text = found.parts[0]  # as it is shown
        is_cell = found.source.startswith("table row")
        return self.page.typing.value(wish, text, is_cell=is_cell)

    # -- objects ---------------------------------------------------------------------

    def object(self, wanted: Field, scope: Scope) -> Value | None:
        """Return an object with what was found; None if that is nothing."""
        wish = wish_of(wanted)
        inner = self._inner(wish, scope) if wanted.name else scope
        if inner is None:
            return None
        data: dict[str, Any] = {}
        places: dict[str, Place] = {}
        missing: list[str] = []
        count = 0
        for below in wanted.properties:
            found = self._property(below, wanted, inner, scope)
            pointer = f"/{below.name.replace('~', '~0').replace('/', '~1')}"
            if found is not None:
                count += 1
                data[below.name] = found.data
                places |= {pointer + p: place for p, place in found.places.items()}
                missing += [pointer + p for p in found.missing]
            elif below.required:
                data[below.name] = None
                missing.append(pointer)
        if not count and wanted.name:
            return None
        self._name_record(wanted, inner, data, places, missing)
        _drop_lower_price(wanted, data)
        return Value(data, places, tuple(missing))

    def _name_record(
        self,
        wanted: Field,
        scope: Scope,
        data: dict[str, Any],
        places: dict[str, Place],
        missing: list[str],
    ) -> None:
        """Take a record's title for its first text, where no field asks for a title."""
        if scope.is_page or scope.node is not None or scope.cells:
            return
        wishes = [wish_of(f, wanted.name) for f in wanted.properties]
        first = next((w for w in wishes if w.field.kind == "string"), None)
        if first is None or data.get(first.name) is not None:
            return
        if first.shape not in {"name", "code", "text", "title"} or any(
            w.what in {"title", "question"} or w.is_subject for w in wishes
        ):
            return
        title = wish_of(evolve(first.field, name="title", description=""))
        found = self.scalar(title, scope)
        if found is not None and found.data not in data.values():
            pointer = f"/{first.name}"
            data[first.name] = found.data
            places[pointer] = found.places[""]
            if pointer in missing:
                missing.remove(pointer)

    def _property(
        self, below: Field, wanted: Field, inner: Scope, scope: Scope
    ) -> Value | None:
        """Return one property; outside of a node, vague names only with their owner's."""
        if inner.node is not None or inner is not scope or not wanted.name:
            return self.value(below, inner, wanted.name)
        wish = wish_of(below)
        if wish.what in _VAGUE and wish_of(wanted).concept is not None:
            if wish.what == "title" and wish_of(wanted).shape in _OWNED:
                named = Field(name=wanted.name, kind="string")
                return self.scalar(wish_of(named), scope)
            return None
        return self.value(below, scope, wanted.name)

    def _inner(self, wish: Wish, scope: Scope) -> Scope | None:
        """Return what a nested object is read from."""
        node = scope.node
        syntax = scope.syntax
        if node is None and scope.is_page and self.main is not None:
            node, syntax = self.main.data, self.main.syntax
        if node is not None:
            paths = list(wish.concept.paths if wish.concept else ())
            paths += [property_name(phrase) for phrase in wish.phrases[:1]]
            paths += {
                "rating": ["aggregateRating", "reviewRating"],
                "price": ["offers"],
            }.get(wish.what, [])
            if wish.phrases and wish.phrases[0] in {"offer", "offers", "pricing"}:
                paths.append("offers")
            for path in paths:
                for value in self.page.graph.values(node, path):
                    if isinstance(value, dict):
                        return Scope(
                            scope.reading,
                            scope.elements,
                            path,
                            node=value,
                            syntax=syntax,
                        )
        return scope


def _drop_lower_price(wanted: Field, data: dict[str, Any]) -> None:
    """Leave out a price of before that is not above that of now: another thing's."""
    named = {wish_of(below).what: below.name for below in wanted.properties}
    now, before = data.get(named.get("price", "")), named.get("old_price", "")
    then = data.get(before)
    are_numbers = isinstance(now, (int, float)) and isinstance(then, (int, float))
    if are_numbers and now is not None and then is not None and then <= now:
        del data[before]


def _link_of(element: Any) -> str:
    for link in (element, *list(element.iterancestors("a"))[:1], *element.iter("a")):
        if link.tag == "a" and link.get("href"):
            return str(link.get("href"))
    return ""


def lacks(data: dict[str, Any], item: Field) -> bool:
    """Tell whether a record lacks what makes it one.

    That is the first of its required fields; where none is, all values but one.
    """
    given = sum(value not in (None, [], {}) for value in data.values())
    required = [below.name for below in item.properties if below.required]
    if required:
        return not given or data.get(required[0]) is None
    return given < min(2, len(item.properties))
