"""Merges the data of several pages, and finds requested fields without a value.

Objects are merged field by field; lists are joined without duplicates. Of other values
the first non-empty one wins, in the order of the pages. Two objects of a list are the
same if their first identity (an id or URL) is the same, or without one their name and all
common values. They are also the same if all values are equal but for spelling. Runs in the
converter pool.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from attrs import frozen

from scraper_service.options.json_schema import Field, field_of

MAX_NAMED = 20  # fields in one warning
NOT_UNDERSTOOD = (
    "No requested field was understood from the prompt; give a schema, or configure a"
    " model. The data are the key facts of the page."
)


def is_empty(value: Any) -> bool:
    """Return True for None, blank text, an empty list and objects of these."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, dict):
        return all(is_empty(item) for item in value.values())
    return value is None or value == []


def fields_without_value(
    wanted: Field, data: Any, *, has_required: bool, name: str = ""
) -> Iterator[str]:
    """Yield the fields without a value: ``brand``, ``seller.name``, ``products.price``.

    A field of list items has no value if no item has a value. Required fields are
    left out unless ``has_required``.
    """
    if wanted.required and name and not has_required:
        return
    if name and is_empty(data):
        yield name
        return
    items = [data]
    if isinstance(data, list) and wanted.items is not None:
        wanted, items = wanted.items, data
    for below in wanted.properties:
        values = [item.get(below.name) for item in items if isinstance(item, dict)]
        value = next((value for value in values if not is_empty(value)), None)
        inner = f"{name}.{below.name}" if name else below.name
        yield from fields_without_value(
            below, value, has_required=has_required, name=inner
        )


def join_names(names: tuple[str, ...]) -> str:
    """Return the first :data:`MAX_NAMED` names, and the number of the others."""
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


# Fields that identify an object, and fields that only name an object.
IDENTITIES = frozenset(
    "id uuid guid sku gtin ean upc isbn asin doi mpn url link href permalink email".split()
)
NAMES = frozenset({"name", "title", "headline", "label", "question"})
MAX_DEPTH = 50  # levels of data; deeper values are not merged

_BREAK = re.compile(r"[\s_\-]+|(?<=[a-z0-9])(?=[A-Z])")
_SPACE = re.compile(r"\s+")


def not_found(pointers: tuple[str, ...]) -> str:
    """Return a warning about required fields without a value."""
    # The pointer of the whole value is empty.
    names = tuple(each or "the whole value" for each in pointers)
    return f"Required by the schema and not found: {join_names(names)}."


@frozen
class PageData:
    """The data of a page: any JSON value, or None."""

    url: str
    data: Any


@frozen
class MergedData:
    """The merged data of all pages."""

    data: Any
    #: For each field of ``data``, the URLs of the pages that have its value.
    sources: Mapping[str, tuple[str, ...]]
    #: Number of pages that contributed to ``data``.
    used: int


def merge(pages: Iterable[PageData]) -> MergedData:
    """Merge the data of ``pages``; the result has None if no page has data."""
    data: Any = None
    sources: dict[str, list[str]] = {}
    used = 0
    for page in pages:
        if is_empty(page.data) and data is not None:
            continue
        data = _merge_values(data, page.data, 0)
        if not isinstance(data, dict) or not isinstance(page.data, dict):
            used += not is_empty(page.data) and _contains(data, page.data)
            continue
        names = [
            name
            for name, value in page.data.items()
            if not is_empty(value) and _contains(data[name], value)
        ]
        used += bool(names)
        for name in names:
            urls = sources.setdefault(name, [])
            if page.url not in urls:
                urls.append(page.url)
    return MergedData(data, {name: tuple(urls) for name, urls in sources.items()}, used)


def missing(data: Any, schema: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the required fields of an object without a value."""
    required = (schema or {}).get("required")
    if not isinstance(required, list) or not isinstance(data, dict):
        return ()
    return tuple(
        name
        for name in required
        if isinstance(name, str) and data.get(name) in (None, "", [])
    )


def result_json(
    pages: Sequence[PageData],
    prompt: str | None,
    schema: Mapping[str, Any] | None,
    show_sources: bool,
    by_rules: bool,
    warnings: Sequence[str],
) -> tuple[bytes, int]:
    """Return the result as a JSON object, and the number of pages it uses.

    With ``by_rules`` a warning names all fields that no page has.
    """
    found = merge(pages)
    texts = list(warnings)
    lost = missing(found.data, schema)
    if by_rules:
        texts += _not_found(found.data, prompt, schema, lost)
    if lost:
        texts.append(f"No page has {', '.join(lost)}, which the schema requires.")
    result: dict[str, Any] = {"data": {} if found.data is None else found.data}
    if show_sources:
        result["sources"] = {name: list(urls) for name, urls in found.sources.items()}
    if texts:
        result["warning"] = " ".join(dict.fromkeys(texts))
    body = json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode()
    return body, found.used


def _not_found(
    data: Any,
    prompt: str | None,
    schema: Mapping[str, Any] | None,
    lost: Sequence[str],
) -> list[str]:
    from scraper_service.content.structured_data.prompts import fields_of  # noqa: PLC0415  # rare, big

    named = fields_of(prompt or "")
    if not schema and not named:
        return [NOT_UNDERSTOOD] if prompt and prompt.strip() else []
    wanted = field_of(schema) if schema else Field(kind="object", properties=named)
    names = fields_without_value(wanted, data, has_required=True)
    if left := tuple(name for name in names if name not in lost):
        return [f"No page has {join_names(left)}."]
    return []


def _merge_values(first: Any, second: Any, depth: int) -> Any:
    if isinstance(first, dict) and isinstance(second, dict) and depth < MAX_DEPTH:
        return _merge_objects(first, second, depth + 1)
    if isinstance(first, list) and isinstance(second, list) and first and second:
        return _unique([*first, *second], depth)
    if first is None or (is_empty(first) and not is_empty(second)):
        return second
    return first


def _merge_objects(
    first: dict[str, Any], second: dict[str, Any], depth: int
) -> dict[str, Any]:
    both = first.keys() & second.keys()
    merged = {name: _merge_values(first[name], second[name], depth) for name in both}
    return {**first, **second, **merged}


def _unique(items: list[Any], depth: int) -> list[Any]:
    """Return the items without duplicates; items of the same object are merged."""
    found: list[Any] = []
    indexes: dict[tuple[str, str], int] = {}
    for item in items:
        whole = _WHOLE, json.dumps(_normal(item), sort_keys=True)
        if is_empty(item) or whole in indexes:
            continue
        mark = _mark(item)
        index = indexes.get(mark, len(found))
        indexes[whole] = index
        if index < len(found) and _is_same(found[index], item, mark[0]):
            found[index] = _merge_values(found[index], item, depth + 1)
        else:
            indexes.setdefault(mark, len(found))
            found.append(item)
    return found


_WHOLE = ""  # kind of the mark that is the whole item


def _mark(item: Any) -> tuple[str, str]:
    """Return the first identity of an object, else its first name."""
    values = item.items() if isinstance(item, dict) else ()
    facts = [
        (_plain_name(name), str(_normal(value)))
        for name, value in values
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    ]
    by_rank = (
        mark for known in (IDENTITIES, NAMES) for mark in facts if mark[0] in known
    )
    return next((mark for mark in by_rank if mark[1]), (_WHOLE, ""))


def _is_same(first: Any, second: Any, kind: str) -> bool:
    """Return True if two objects with the same mark of a kind are the same object.

    An identity is proof; a name is unless any common value differs.
    """
    if kind in IDENTITIES:
        return True
    common = first.keys() & second.keys() if kind else ()
    pairs = [(first[name], second[name]) for name in common]
    return bool(pairs) and all(
        _normal(one) == _normal(other)
        for one, other in pairs
        if not isinstance(one, dict | list) and not (is_empty(one) or is_empty(other))
    )


def _contains(data: Any, value: Any) -> bool:
    """Return True if the merged value has a page's value."""
    if isinstance(data, list | dict):
        return isinstance(value, type(data))
    return bool(_normal(data) == _normal(value))


@lru_cache(maxsize=1000)
def _plain_name(name: str) -> str:
    """Return the last word of a field name: ``id`` for ``product_id``."""
    return _BREAK.split(name)[-1].lower()


def _normal(value: Any) -> Any:
    """Return a value for comparison: without case, and with single spaces."""
    if isinstance(value, str):
        text = unicodedata.normalize("NFKC", value).casefold()
        text = _SPACE.sub(" ", text).strip()
        return text.rstrip("/") if "://" in text else text
    if isinstance(value, dict):
        return {
            name: _normal(item) for name, item in value.items() if not is_empty(item)
        }
    if isinstance(value, list):
        return [_normal(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
