"""Answers a schema from a JSON document, by the names of its keys.

A key matches a field in any spelling: ``unitPrice``, ``unit_price`` and ``Unit Price``
are one name. All values are the document's own.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from scraper_service.content.metadata.evidence import fold_name, parse_json
from scraper_service.content.structured_data.merging import fields_without_value
from scraper_service.content.structured_data.nodes import plain
from scraper_service.content.structured_data.page import Extraction, Value
from scraper_service.content.structured_data.prompts import fields_of
from scraper_service.content.structured_data.requested_fields import (
    interpret_field,
    phrase_of,
    singular,
)
from scraper_service.content.structured_data.values import Typing, fits_number
from scraper_service.options.json_schema import Field, field_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TIME_S = 3.0  # CPU seconds for a document; values not found by then are left out
MAX_ITEMS = 5000  # of a list
MAX_VISITED = 1000  # values below an object that are searched for keys
MAX_DEPTH = 6  # levels of objects that are searched for keys
LEAST_SHARE = 0.5  # of the fields that the first item of an unnamed list has

# Names without a meaning outside of their object, and names of objects around records.
_VAGUE = frozenset(
    "id name title headline url link description text type value key label status date "
    "image count code".split()
)
_WRAPPERS = frozenset(
    "data result results response payload attributes node item entry record object body "
    "content fields properties props pageprops product article post job event book".split()
)

_HOLDERS = frozenset({"array", "object"})


def parse_document(text: str) -> Any:
    """Return the data of a JSON or JSON Lines document, None for other text.

    Numbers that JSON does not have are None.
    """
    try:
        return _loads(text)
    except (ValueError, RecursionError):
        pass
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        return [_loads(line) for line in lines]
    except (ValueError, RecursionError):
        return parse_json(text)


def _loads(text: str) -> Any:
    return json.loads(
        text,
        strict=False,
        parse_constant=lambda _: None,
        parse_float=lambda digits: x if math.isfinite(x := float(digits)) else None,
    )


def extract_json(
    document: Any,
    url: str,
    schema: Mapping[str, Any] | None = None,
    prompt: str | None = None,
) -> Extraction | None:
    """Return the values of a document for a schema, or for the fields of a prompt.

    Returns None if neither names a field. A key without a match gives no value, or null
    where the schema requires one.

    :raises SchemaRefused: if :func:`field_of` does not support the schema.
    """
    named = () if schema else fields_of(prompt or "")
    if not schema and not named:
        return None
    field = field_of(schema) if schema else Field(kind="object", properties=named)
    reading = _Reading(url)
    found = reading.value(field, [document], is_root=True) or Value.empty(field.kind)
    if reading.is_late:
        reading.warnings.append(
            "The document took too long to search: values may be missing."
        )
    names = fields_without_value(field, found.data, has_required=False)
    warnings = tuple(dict.fromkeys(reading.warnings))
    return Extraction(found.data, found.missing, warnings, tuple(names))


class _Reading:
    def __init__(self, url: str):
        self.typing = Typing(url, "", "")
        self.ends = time.thread_time() + TIME_S
        self.warnings: list[str] = []

    @property
    def is_late(self) -> bool:
        return time.thread_time() > self.ends

    def value(
        self, field: Field, found: list[Any], *, is_root: bool = False
    ) -> Value | None:
        """Return the first of the values ``found`` that is a value of the field."""
        for choice in (field, *field.others):
            for data in found:
                if data is None or self.is_late:
                    continue
                made = self._one(choice, data, is_root=is_root)
                if made is not None:
                    return made
        return None

    def _one(self, field: Field, data: Any, *, is_root: bool) -> Value | None:
        if field.kind == "array":
            return self._list(field, data, is_root=is_root)
        if field.kind == "object" and field.properties:
            holder = data[0] if isinstance(data, list) and len(data) == 1 else data
            if not isinstance(holder, (dict, list)):
                return None
            made = self._object(field, holder, is_root=is_root)
            return made if is_root or made.data else None
        made = self._scalar(field, data)
        return None if made is None else Value(made)

    def _object(self, field: Field, holder: Any, *, is_root: bool) -> Value:
        keys = Keys(holder)
        values: dict[str, Value | None] = {}
        kinds = [below.kind for below in field.properties]
        for below in field.properties:
            found = [data for name in _names(below) for data in keys.values(name)]
            value = self.value(below, found)
            is_only = kinds.count("array") + kinds.count("object") == 1
            if value is None and is_root and is_only and below.kind in _HOLDERS:
                value = self.value(below, [holder], is_root=True)
            values[below.name] = value
        made = Value.of_object(field, values)
        return made if is_root or any(values.values()) else Value({})

    def _list(self, field: Field, data: Any, *, is_root: bool) -> Value | None:
        item = field.items
        if item is not None and item.properties:
            rows = _rows(item, data, is_root=is_root)
        elif isinstance(data, dict):
            rows = next((v for v in data.values() if isinstance(v, list)), [])
        else:
            rows = data if isinstance(data, list) else [data]
        limit = min(field.max_items or MAX_ITEMS, MAX_ITEMS)
        if len(rows) > limit == MAX_ITEMS:
            self.warnings.append(
                f"A list was truncated: {limit} of its {len(rows)} items were read."
            )
        made: list[Any] = []
        missing: list[str] = []
        for row in rows[:limit]:
            found = Value(row) if item is None else self.value(item, [row])
            if found is not None and found.data != {}:
                missing += [f"/{len(made)}{pointer}" for pointer in found.missing]
                made.append(found.data)
        return Value(made, tuple(missing)) if made else None

    def _scalar(self, field: Field, data: Any) -> Any:
        """Return data as a value of the field's type; None if it is none."""
        if field.kind == "object" or (not field.kind and not field.enum):
            return data if not field.kind or isinstance(data, dict) else None
        if isinstance(data, bool) and field.kind == "boolean":
            return data
        is_number = isinstance(data, (int, float)) and not isinstance(data, bool)
        if is_number and field.kind in {"integer", "number"} and not field.enum:
            if field.kind == "integer":
                data = int(data) if data == int(data) else data
            return data if fits_number(field, data) else None
        if data in field.enum:
            return data
        text = _text_of(data)
        if not text:
            return None
        requested = interpret_field(field)
        is_free = not (field.enum or field.format or field.pattern)
        is_link = requested.shape in {"url", "image"}
        if field.kind != "string" or not is_free or is_link:
            typed = self.typing.value(requested, text)
            return typed if typed is not None or not is_link or not is_free else text
        most = math.inf if field.max_length is None else field.max_length
        return text if field.min_length <= len(text) <= most else None


class Keys:
    """The values of an object and of the objects inside it, by the names of their keys.

    Lists are not entered, unless they have a single object. A name such as ``title``
    counts only in the object itself, and in wrappers such as ``data``.
    """

    def __init__(self, holder: Any):
        #: The lists of objects, outermost first.
        self.lists: list[list[Any]] = []
        self._found: dict[str, list[tuple[int, Any]]] = {}
        waiting: deque[tuple[Any, tuple[str, ...]]] = deque([(holder, ())])
        visited = 0
        while waiting and visited < MAX_VISITED:
            data, path = waiting.popleft()
            if isinstance(data, list):
                if rows := [row for row in data if isinstance(row, dict)]:
                    self.lists.append(rows)
                data = data[0] if len(data) == 1 else None
            if not isinstance(data, dict) or len(path) >= MAX_DEPTH:
                continue
            for key, value in islice(data.items(), MAX_VISITED - visited):
                visited += 1
                inner = (*path, fold_name(key))
                self._add(inner, value)
                if isinstance(value, dict | list):
                    waiting.append((value, inner))

    def _add(self, path: tuple[str, ...], value: Any) -> None:
        for at in range(len(path)):
            name = "".join(path[at:])
            if name not in _VAGUE or _WRAPPERS.issuperset(path[:at]):
                self._found.setdefault(name, []).append((len(path), value))

    def values(self, name: str) -> list[Any]:
        """Return the outermost value of a name; none if several values differ."""
        found = [pair for pair in self._found.get(name, ()) if pair[1] is not None]
        values = [value for depth, value in found if depth == found[0][0]]
        return values[:1] if all(value == values[0] for value in values) else []


def _names(field: Field) -> Iterator[str]:
    """Yield the names that a key of the field may have, without case and separators."""
    requested = interpret_field(field)
    phrases = [field.name, *requested.own_phrases]
    if field.kind == "array":
        phrases += [singular(phrase_of(field.name))]
    phrases += requested.concept.paths if requested.concept else ()
    yield from dict.fromkeys(filter(None, map(fold_name, phrases)))


def _rows(item: Field, data: Any, *, is_root: bool) -> list[Any]:
    """Return the objects of a list, or of the list inside an object that fits best.

    An object with the keys of an item is a list of one.
    """
    if isinstance(data, list) and not is_root:
        return [row for row in data if isinstance(row, dict)]
    found = Keys(data).lists
    if isinstance(data, dict) and not is_root:
        found.append([data])
    best = max(found, key=lambda rows: _share(item, rows[0]), default=[])
    least = LEAST_SHARE if is_root else 0.01
    return best if best and _share(item, best[0]) >= least else []


def _share(item: Field, row: Any) -> float:
    keys, fields = Keys(row), item.properties
    found = (any(map(keys.values, _names(field))) for field in fields)
    return sum(found) / len(fields)


def _text_of(data: Any) -> str:
    """Return a value as text; an object has the text of its name."""
    if isinstance(data, str):
        return data.strip()
    if isinstance(data, list):
        texts = [_text_of(each) for each in data[:MAX_VISITED]]
        return ", ".join(filter(None, texts))
    if isinstance(data, dict):
        return plain(data) if "name" in data or "@value" in data else ""
    return json.dumps(data)
