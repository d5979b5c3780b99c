"""Reads values from a page by CSS selectors and XPath, exactly as a caller names them.

Previews show what selectors match before they are written into a format.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from attrs import define, field
from lxml import etree

from scraper_service.content.html.document import BLOCKS, parse
from scraper_service.content.page_urls import absolute
from scraper_service.content.structured_data.merging import join_names
from scraper_service.content.structured_data.reading import collapse, number_break
from scraper_service.content.structured_data.values import GAP, flag_of, number_of
from scraper_service.options.selectors import compile_selector, plan_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scraper_service.content.html.document import Document
    from scraper_service.options.selectors import FieldPlan, Selector

TIME_S = 2.0  # CPU seconds for a page
MAX_ITEMS = 10_000  # objects and values in lists, of a page
TOO_SLOW = f"The data end after {TIME_S:g} s of reading."
MAX_FAULTS = 3  # that a warning names
MAX_NAME = 100  # characters of a selector in a warning

_BREAKS = BLOCKS | {"br"}
_UNSEEN = frozenset(("script", "style", "template", "noscript"))
SHOWN = 20  # matches of one selector
MAX_TEXT = 300  # characters of a match
MAX_HTML = 500
PATH = 4  # elements in the path of a match


def read_selectors(
    document: Document,
    selectors: Mapping[str, Any],
    schema: Mapping[str, Any] | None = None,
) -> tuple[Any, list[str]]:
    """Return the data that ``selectors`` name in the raw tree, and warnings.

    The data are one object, or with ``baseSelector`` an array of objects; a value without
    a match is its ``default``, else null. A ``baseSelector`` without a match is a warning,
    and so are fields without a value in every object. With a ``schema``, texts become its
    numbers and booleans, and what does not fit is a warning.
    """
    plan = plan_of(selectors)
    reading = _Reading(document.base, time.thread_time() + TIME_S)
    root = document.root
    data: Any
    if plan.base is None:
        data = reading.object_of(root, plan.fields)
    else:
        data = []
        elements = [*filter(_is_element, reading.matches(root, plan.base))]
        if not elements:
            text = plan.base.text[:MAX_NAME]
            reading.warnings.append(f"No element matches baseSelector: {text}.")
        for element in elements:
            if not reading.count_item():
                break
            own = reading.object_of(element, plan.base_fields)
            data.append({**own, **reading.object_of(element, plan.fields)})
    warnings = list(dict.fromkeys(reading.warnings))
    if empty := tuple(reading.fields_without_value((*plan.base_fields, *plan.fields))):
        warnings.append(f"No value found by selectors: {join_names(empty)}.")
    data = _cast(data, schema)
    if schema is not None:
        warnings += _faults(data, schema)
    return data, warnings


@define
class _Reading:
    base: str
    #: CPU time of the thread at which it ends.
    ends: float
    items: int = 0
    warnings: list[str] = field(factory=list)
    #: By the ``id`` of each field that was read: whether it had a value at least once.
    had_value: dict[int, bool] = field(factory=dict)

    def count_item(self) -> bool:
        """Count an item. Return False, with a warning, at the limits of a page."""
        self.items += 1
        if self.items > MAX_ITEMS:
            self.warnings.append(f"The data end after {MAX_ITEMS} items.")
            return False
        if time.thread_time() > self.ends:
            self.warnings.append(TOO_SLOW)
            return False
        return True

    def object_of(self, element: Any, fields: tuple[FieldPlan, ...]) -> dict[str, Any]:
        return {each.name: self._value(element, each) for each in fields}

    def fields_without_value(
        self, fields: tuple[FieldPlan, ...], around: str = ""
    ) -> Iterator[str]:
        """Yield the fields that were null or empty wherever they were read.

        Each has its name and selector, as in ``name (selector)``. Fields with a default
        are left out.
        """
        for each in fields:
            name = f"{around}{each.name}"
            if self.had_value.get(id(each), True):
                yield from self.fields_without_value(each.fields, f"{name}.")
            elif each.default is None:
                text = f" ({each.selector.text[:MAX_NAME]})" if each.selector else ""
                yield f"{name}{text}"

    def matches(self, element: Any, selector: Selector | None) -> list[Any]:
        """Return the elements and texts that match, else the element itself."""
        if selector is None:
            return [element]
        try:
            found = selector.xpath(element)
        except etree.XPathError as error:
            text = selector.xpath.path[:MAX_NAME]
            self.warnings.append(f"A selector failed ({error}): {text}.")
            return []
        if time.thread_time() > self.ends:
            self.warnings.append(TOO_SLOW)
        return found if isinstance(found, list) else [found]

    def _value(self, element: Any, plan: FieldPlan) -> Any:
        if not isinstance(element.tag, str) or time.thread_time() > self.ends:
            return plan.default
        value = self._value_of(self.matches(element, plan.selector), plan)
        has_value = value is not None and value != []
        self.had_value[id(plan)] = has_value or self.had_value.get(id(plan), False)
        return plan.default if value is None else value

    def _value_of(self, found: list[Any], plan: FieldPlan) -> Any:
        match plan.steps[0]:
            case "nested":
                inner = next(filter(_is_element, found), None)
                return None if inner is None else self.object_of(inner, plan.fields)
            case "nested_list":
                return self._objects(found, plan)
            case "list" if plan.fields:
                return self._objects(found, plan)
            case "list":
                return list(self._texts(found, plan))
        return next(self._values(found, plan), None)

    def _objects(self, found: list[Any], plan: FieldPlan) -> list[dict[str, Any]]:
        objects = []
        for element in filter(_is_element, found):
            if not self.count_item():
                break
            objects.append(self.object_of(element, plan.fields))
        return objects

    def _texts(self, found: list[Any], plan: FieldPlan) -> Iterator[Any]:
        for value in self._values(found, plan):
            if not self.count_item():
                return
            if value is not None:
                yield value

    def _values(self, found: list[Any], plan: FieldPlan) -> Iterator[Any]:
        """Yield the value of each match, None for none; text nodes without words are none."""
        for each in found:
            if _is_element(each) or not isinstance(each, str) or each.strip():
                yield self._read(each, plan)

    def _read(self, found: Any, plan: FieldPlan) -> Any:
        """Return the value of one match; None for none."""
        steps = plan.steps
        if steps == ("list",):
            steps = ("attribute",) if plan.attribute else ("text",)
            steps += ("regex",) if plan.pattern is not None else ()
        value = found
        for step in steps:
            value = _step(step, value, plan)
            if value is None:
                return None
        if _is_element(value):
            value = text_of(value)
        for name in plan.transforms:
            value = self._transform(name, value)
            if value is None:
                return None
        return value

    def _transform(self, name: str, value: Any) -> Any:
        text = value if isinstance(value, str) else str(value)
        match name:
            case "strip":
                return text.strip()
            case "lowercase":
                return text.lower()
            case "uppercase":
                return text.upper()
            case "absolute_url":
                return absolute(self.base, text)
        return number_of(text) if isinstance(value, str) else value


def _step(step: str, value: Any, plan: FieldPlan) -> Any:
    if step == "attribute":
        if not _is_element(value):
            return value.strip() if isinstance(value, str) else value  # ::attr(name)
        return value.get(plan.attribute)
    if step == "html":
        if not _is_element(value):
            return value
        return etree.tostring(value, encoding="unicode", method="html", with_tail=False)
    if isinstance(value, bool | float):  # what XPath counts or tests
        if isinstance(value, float):
            if not math.isfinite(value):  # JSON has no such number
                return None
            value = int(value) if value.is_integer() else value
        if step == "text":
            return value
    text = text_of(value) if _is_element(value) else " ".join(str(value).split())
    if step == "text":
        return text
    found = plan.pattern.search(text.replace(GAP, " "))
    return found.group(plan.group) if found else None


def text_of(element: Any) -> str:
    """Return all text of an element, white space collapsed, blocks apart by a space.

    ``GAP`` separates the numbers of two elements.
    """
    texts: list[str] = []

    def add(text: str | None, own: Any, after: str | None = "") -> None:
        if text:
            texts.extend((number_break(texts, text, own, after or "") or "", text))

    walk = etree.iterwalk(element, events=("start", "end"))
    for event, each in walk:
        name = each.tag
        if event == "start":
            if name in _UNSEEN:
                walk.skip_subtree()
                continue
            if name in _BREAKS:
                texts.append(" ")
            if isinstance(name, str):
                add(each.text, each, each.tail)
            continue
        if name in _BREAKS:
            texts.append(" ")
        if each is not element:
            add(each.tail, each.getparent())
    return collapse("".join(texts))


def _is_element(found: Any) -> bool:
    return isinstance(found, etree._Element) and isinstance(found.tag, str)


def _cast(value: Any, schema: Any) -> Any:
    """Return a value whose texts are numbers and booleans where the schema has these."""
    schema = schema if isinstance(schema, dict) else {}
    if isinstance(value, list):
        return [_cast(each, schema.get("items")) for each in value]
    if isinstance(value, dict):
        fields = schema.get("properties")
        fields = fields if isinstance(fields, dict) else {}
        return {name: _cast(each, fields.get(name)) for name, each in value.items()}
    if not isinstance(value, str):
        return value
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    found: Any = None
    if "string" in kinds:
        pass
    elif "number" in kinds or "integer" in kinds:
        found = number_of(value)
        if "number" not in kinds and not isinstance(found, int):
            found = None
    elif "boolean" in kinds:
        found = flag_of(value)
    return value.replace(GAP, " ") if found is None else found


def _faults(data: Any, schema: Mapping[str, Any]) -> list[str]:
    """Return what does not fit the schema; null fits everywhere."""
    import jsonschema  # noqa: PLC0415  # only with a schema and selectors
    from referencing import Registry  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    validator = jsonschema.Draft202012Validator(schema, registry=Registry())
    try:
        validator.check_schema(schema)
        errors = [e for e in validator.iter_errors(data) if e.instance is not None]
    except (
        jsonschema.exceptions.SchemaError,
        jsonschema.exceptions.UnknownType,
        Unresolvable,
        AttributeError,
        TypeError,
        RecursionError,
    ) as error:
        return [f"The schema could not be checked ({type(error).__name__})."]
    found = [
        f"/{'/'.join(map(str, each.absolute_path))}: {each.message[:200]}"
        for each in errors[:MAX_FAULTS]
    ]
    if not found:
        return []
    more = f" ({len(errors)} in all)" if len(errors) > MAX_FAULTS else ""
    return [f"The data do not fit the schema{more}: {'; '.join(found)}."]


def selector_matches(
    html: str | bytes, url: str, selectors: Iterable[str]
) -> list[dict[str, Any]]:
    """Return what each selector matches on the whole page, read as a ``baseSelector``.

    Each is ``{"selector", "count", "matches": [{text, path, html}], "error"}``, with the first
    :data:`SHOWN` matches. Only elements have ``path`` and ``html``. A number or boolean of
    XPath is one match. ``error`` says why the selector failed, else it is None.
    """
    root = parse(html, url).root
    return [_matches(root, selector) for selector in selectors]


def _matches(root: Any, selector: str) -> dict[str, Any]:
    found: list[Any] = []
    error = None
    began = time.thread_time()
    try:
        value = compile_selector(selector, is_base=True)(root)
        found = value if isinstance(value, list) else [value]
    except ValueError as refused:
        error = str(refused)
    except etree.XPathError as failed:
        error = f"the selector failed: {failed}"
    if time.thread_time() - began > TIME_S:
        error = f"it took more than {TIME_S:g} s, too long for a page"
    return {
        "selector": selector,
        "count": len(found),
        "matches": [_match(each) for each in found[:SHOWN]],
        "error": error,
    }


def _match(found: Any) -> dict[str, Any]:
    if not _is_element(found):
        return {"text": " ".join(str(found).split())[:MAX_TEXT]}
    own = etree.tostring(found, encoding="unicode", method="html", with_tail=False)
    return {
        "text": text_of(found).replace(GAP, " ")[:MAX_TEXT],
        "path": _path(found),
        "html": own[:MAX_HTML],
    }


def _path(element: Any) -> str:
    """Return the last steps to an element, such as ``ul.list > li``."""
    steps = []
    for each in (element, *element.iterancestors()):
        classes = "".join(f".{name}" for name in each.get("class", "").split()[:2])
        steps.append(f"{each.tag}{classes}")
    return " > ".join(reversed(steps[:PATH]))
