"""Writes charts and SmartArt of office files as tables and lists.

Charts contain the values that they show (ECMA-376, part 1, 21.2). SmartArt is a tree of
texts (21.4).
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from scraper_service.content.characters import parse_digits
from scraper_service.content.decode import Unreadable
from scraper_service.content.documents.archive import Archive, attribute, local
from scraper_service.content.documents.markup import (
    element,
    escape,
    nested_list,
    table,
)

if TYPE_CHECKING:
    from scraper_service.content.losses import Losses

MAX_POINTS = 5000  # of a series
MAX_SERIES = 100
MAX_ITEMS = 5000  # of a SmartArt
MAX_LEVEL = 8
MAX_ELEMENTS = 1_000_000  # of all charts and SmartArt of a file
CHART = "Only charts that contain their values, and not too many, become tables."
SMART_ART = "The SmartArt contains no texts."
OBJECT = "Files embedded in a document are not converted."
_EQUATIONS = ("Equation", "MathType", "opendocument.MathDocument")

Relations = dict[str, tuple[str, str, bool]]


class Graphics:
    """Converts the charts and SmartArt of a file, which share one limit of elements."""

    def __init__(self, archive: Archive, losses: Losses):
        self._archive = archive
        self._losses = losses
        self._left = MAX_ELEMENTS

    def html(self, data: Any, relations: Relations) -> str | None:
        """Return the chart or SmartArt in ``graphicData`` as HTML, or record it.

        None for data of another kind.
        """
        losses = self._losses
        for item in data:
            kind = local(item)
            if kind == "chart":
                found = self._part(relations, attribute(item, "id"))
                html = chart_html(found) if found is not None else ""
                if found is not None:
                    _record_cut(found, "pt", "values of a series", MAX_POINTS, losses)
                    _record_cut(found, "ser", "series of a chart", MAX_SERIES, losses)
                if not html:
                    losses.add("chart", CHART, text=chart_title(found))
                return html
            if kind == "relIds":
                found = self._part(relations, attribute(item, "dm"))
                html = _smart_art(found) if found is not None else ""
                if found is not None:
                    _record_cut(found, "pt", "items of a SmartArt", MAX_ITEMS, losses)
                if not html:
                    losses.add("diagram", SMART_ART)
                return html
        return None

    def _part(self, relations: Relations, name: str | None) -> Any:
        _, target, is_external = relations.get(name or "", ("", "", True))
        if is_external or target not in self._archive or self._left <= 0:
            return None
        try:
            root = self._archive.xml(target)
        except Unreadable:
            return None
        # The same part may be named any number of times.
        self._left -= sum(1 for _ in root.iter())
        return root


def record_object(name: str, losses: Losses) -> None:
    """Record an embedded file by the name of its program or kind."""
    if any(word in name for word in _EQUATIONS):
        reason = "Formulas of old programs are pictures without text."
        losses.add("formula", reason, text=name)
    else:
        losses.add("embeddedDocument", OBJECT, text=name)


def _record_cut(root: Any, name: str, what: str, limit: int, losses: Losses) -> None:
    """Record a cut, if an element of ``root`` has too many children of a name."""
    groups = Counter(item.getparent() for item in root.iter(f"{{*}}{name}"))
    count = max(groups.values(), default=0)
    if count > limit:
        losses.add("truncated", f"The limit is {limit} of the {count} {what}.")


def chart_title(chart: Any) -> str:
    """Return the title of a chart; empty without one."""
    title = next(chart.iter("{*}title"), None) if chart is not None else None
    return "" if title is None else _text(title)


def chart_html(chart: Any) -> str:
    """Return a chart's title and values: a row for each category; empty without values."""
    series = []
    for number, item in enumerate(chart.iter("{*}ser"), 1):
        if number > MAX_SERIES:
            break
        categories = _points(item, "cat", "xVal")
        values = _points(item, "val", "yVal")
        name = item.find("{*}tx")
        label = _text(name) if name is not None else f"Series {number}"
        if values:
            series.append((label, categories, values))
    parts = []
    for categories, group in groupby(series, key=lambda one: one[1]):
        columns = list(group)
        places = sorted(set(categories).union(*(values for _, _, values in columns)))
        rows = [["", *(escape(label) for label, _, _ in columns)]]
        rows += [
            [
                escape(categories.get(n, str(n + 1))),
                *(escape(values.get(n, "")) for _, _, values in columns),
            ]
            for n in places
        ]
        parts.append(table(rows, has_header=True))
    title = chart_title(chart)
    if parts and title:
        parts.insert(0, element("p", escape(title)))
    return "\n".join(parts)


def _points(series: Any, *names: str) -> dict[int, str]:
    """Return the cached values of a series by their number."""
    source = next((s for n in names for s in series.iterfind(f"{{*}}{n}")), None)
    found: dict[int, str] = {}
    if source is None:
        return found
    for point in source.iter("{*}pt"):
        value = (point.findtext("{*}v") or "").strip()
        number = parse_digits(attribute(point, "idx") or "0")
        if number < MAX_POINTS and value:
            # Levels of categories come from the inner to the outer.
            found[number] = f"{value} {found[number]}" if number in found else value
    return found


def _smart_art(model: Any) -> str:
    """Return the texts of a data model as a nested list."""
    texts: dict[str, str] = {}
    roots = []
    for point in model.iterfind("{*}ptLst/{*}pt"):
        name, kind = point.get("modelId", ""), point.get("type", "node")
        if kind == "doc":
            roots.append(name)
        elif kind in {"node", "asst"}:
            text = point.find("{*}t")
            texts[name] = _text(text) if text is not None else ""
    below: dict[str, list[tuple[int, str]]] = {}
    for link in model.iterfind("{*}cxnLst/{*}cxn"):
        if link.get("type", "parOf") == "parOf":
            order = parse_digits(link.get("srcOrd", "0"))
            place = (order, link.get("destId", ""))
            below.setdefault(link.get("srcId", ""), []).append(place)
    items: list[tuple[int, str]] = []
    seen: set[str] = set()
    waiting = [(0, name) for name in reversed(roots)]
    while waiting and len(items) < MAX_ITEMS:
        level, name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if text := texts.get(name):
            items.append((min(level, MAX_LEVEL), escape(text)))
        inner = level + 1 if text else level
        waiting += [(inner, to) for _, to in sorted(below.get(name, []), reverse=True)]
    items += [
        (0, escape(text)) for name, text in texts.items() if text and name not in seen
    ]
    return nested_list(items)


def _text(parent: Any) -> str:
    """Return the text of paragraphs, or a cached value, as a single line."""
    parts = [t.text or "" for t in parent.iter("{*}t", "{*}v") if not len(t)]
    if next(parent.iter("{*}p"), None) is not None:
        parts = [
            "".join(t.text or "" for t in p.iter("{*}t")) for p in parent.iter("{*}p")
        ]
    return " ".join(" ".join(parts).split())
