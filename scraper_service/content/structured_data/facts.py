"""Objects whose properties a schema does not name: the facts of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.content.structured_data.fields.wishes import wish_of
from scraper_service.content.structured_data.results import Place, Value
from scraper_service.content.structured_data.sources import places
from scraper_service.content.structured_data.sources.nodes import plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from scraper_service.content.structured_data.run import Run
    from scraper_service.content.structured_data.sources.scope import Scope
    from scraper_service.options.schemas import Field

MAX_FACTS = 200
MAX_NAME = 80  # characters
LEAST_FACTS = 2


def facts(run: Run, wanted: Field, scope: Scope) -> Value | None:
    """Return names and values, from structured data or the table that has most."""
    data = _declared(run, wanted, scope)
    source = "structured data"
    if not data:
        source, data = "table of facts", _shown(scope)
    kept = dict(list(data.items())[:MAX_FACTS])
    return Value(kept, {"": Place(source)}) if kept else None


def _declared(run: Run, wanted: Field, scope: Scope) -> dict[str, str]:
    node = scope.node
    if node is None and scope.is_page and run.main is not None:
        node = run.main.data
    if node is None:
        return {}
    graph = run.page.graph
    concept = wish_of(wanted).concept
    found = {}
    for extra in graph.values(node, "additionalProperty"):
        if isinstance(extra, dict) and (name := plain(extra.get("name"))):
            found[name] = plain(extra.get("value"))
    for path in concept.paths if concept else ():
        for value in graph.values(node, path):
            if isinstance(value, dict):
                told = {k: plain(v) for k, v in value.items() if not k.startswith("@")}
                found |= {name: text for name, text in told.items() if text}
    return found


def _shown(scope: Scope) -> dict[str, str]:
    """Return the pairs of the table or definition list that has most of them."""
    best: dict[str, str] = {}
    for holder in scope.all("table", "dl"):
        pairs = _rows(holder) if holder.tag == "table" else _terms(holder)
        found = {}
        for one, other in pairs:
            name = places.one_line(scope, one).rstrip(": ")
            value = scope.reading.text(other)
            if name and value and len(name) <= MAX_NAME:
                found[name] = value
        if len(found) > len(best) and not places.is_foreign(holder):
            best = found
    return best if len(best) >= LEAST_FACTS else {}


def _rows(table: Any) -> Iterator[tuple[Any, Any]]:
    for row in table.iter("tr"):
        cells = [cell for cell in row if cell.tag in {"td", "th"}]
        if len(cells) == 2:
            yield cells[0], cells[1]


def _terms(holder: Any) -> Iterator[tuple[Any, Any]]:
    for term in holder.iter("dt"):
        value = term.getnext()
        if value is not None and value.tag == "dd":
            yield term, value
