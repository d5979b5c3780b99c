"""One answer from the data of several pages (interface document, 15.2).

Objects are merged field by field, lists joined without duplicates; of other values the
first that says something counts, in the order of the pages. Objects of a list are the
same if they have an identity in common (an id, an address, or a name with nothing that
speaks against it) or say the same but for spelling. Runs in the converter pool.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from attrs import define, field, frozen

from scraper_service.content.unfound import (
    NOT_UNDERSTOOD,
    is_empty,
    listed,
    unfound,
)
from scraper_service.options.schemas import Field, field_of

# Fields that tell an object from all others, then those that name it.
IDENTITIES = frozenset(
    "id uuid guid sku gtin ean upc isbn asin doi mpn url link href permalink email".split()
)
NAMES = frozenset({"name", "title", "headline", "label", "question"})
MAX_DEPTH = 50  # levels of data; deeper ones are taken as they are
MAX_COMPARED = 20  # items that have one name or identity

_BREAK = re.compile(r"[\s_\-]+|(?<=[a-z0-9])(?=[A-Z])")
_SPACE = re.compile(r"\s+")


@frozen
class PageData:
    """What a page gave: any JSON value, None for nothing."""

    url: str
    data: Any


@frozen
class Merged:
    """The data of all pages, and by field of it the pages that have the value.

    ``used`` counts the pages of which something stands in the data.
    """

    data: Any
    sources: Mapping[str, tuple[str, ...]]
    used: int


def merged(pages: Iterable[PageData]) -> Merged:
    """Return the data of ``pages`` as one value, None if they have none."""
    data: Any = None
    sources: dict[str, list[str]] = {}
    used = 0
    for page in pages:
        if is_empty(page.data) and data is not None:
            continue
        data = _joined(data, page.data, 0)
        if not isinstance(data, dict) or not isinstance(page.data, dict):
            used += not is_empty(page.data) and _has(data, page.data)
            continue
        names = [
            name
            for name, value in page.data.items()
            if not is_empty(value) and _has(data[name], value)
        ]
        used += bool(names)
        for name in names:
            urls = sources.setdefault(name, [])
            if page.url not in urls:
                urls.append(page.url)
    return Merged(data, {name: tuple(urls) for name, urls in sources.items()}, used)


def missing(data: Any, schema: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the required fields of an object that have no value."""
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
    """Return the members of the answer as a JSON object, and how many pages it used.

    Where data was found ``by_rules``, all fields that no page has are told.
    """
    found = merged(pages)
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
    """Return what to tell of the fields that no page has, without those of ``lost``."""
    from scraper_service.content.structured_data.fields.prompts import (  # noqa: PLC0415  # rare, big
        fields_of,
    )

    named = fields_of(prompt or "")
    if not schema and not named:
        return [NOT_UNDERSTOOD] if prompt and prompt.strip() else []
    wanted = field_of(schema) if schema else Field(kind="object", properties=named)
    names = unfound(wanted, data, has_required=True)
    if left := tuple(name for name in names if name not in lost):
        return [f"No page has {listed(left)}."]
    return []


def _joined(first: Any, second: Any, depth: int) -> Any:
    if isinstance(first, dict) and isinstance(second, dict) and depth < MAX_DEPTH:
        return _fields_joined(first, second, depth + 1)
    if isinstance(first, list) and isinstance(second, list) and first and second:
        return _unique([*first, *second], depth)
    if first is None or (is_empty(first) and not is_empty(second)):
        return second
    return first


def _fields_joined(
    first: dict[str, Any], second: dict[str, Any], depth: int
) -> dict[str, Any]:
    result = {}
    for name in (*first, *(name for name in second if name not in first)):
        if name in first and name in second:
            result[name] = _joined(first[name], second[name], depth)
        else:
            result[name] = first[name] if name in first else second[name]
    return result


def _unique(items: list[Any], depth: int) -> list[Any]:
    """Return the items of a list without duplicates, those of one thing joined."""
    known = _Known(depth)
    for item in items:
        if not is_empty(item):
            known.add(item)
    return known.items


@define
class _Known:
    """Items of a list so far, found again by what they say and by their identities."""

    depth: int
    items: list[Any] = field(factory=list, init=False)
    _facts: list[dict[str, str]] = field(factory=list, init=False)
    _places: dict[tuple[str, str], list[int]] = field(factory=dict, init=False)

    def add(self, item: Any) -> None:
        facts = _facts(item)
        marks = _marks(item, facts)
        for mark in marks:
            for place in self._places.get(mark, ())[:MAX_COMPARED]:
                if _is_same(self._facts[place], facts, mark):
                    joined = _joined(self.items[place], item, self.depth + 1)
                    self.items[place] = joined
                    self._facts[place] = {**facts, **self._facts[place]}
                    self._note(place, marks)
                    return
        self.items.append(item)
        self._facts.append(facts)
        self._note(len(self.items) - 1, marks)

    def _note(self, place: int, marks: list[tuple[str, str]]) -> None:
        for mark in marks:
            places = self._places.setdefault(mark, [])
            if len(places) < MAX_COMPARED and place not in places:
                places.append(place)


_WHOLE = ""  # the kind of mark that is all that an item says


def _facts(item: Any) -> dict[str, str]:
    """Return the plain values of an object by field, for comparing."""
    if not isinstance(item, dict):
        return {}
    return {
        name: str(_normal(value))
        for name, value in item.items()
        if not isinstance(value, dict | list) and not is_empty(value)
    }


def _marks(item: Any, facts: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return by what an item may be found again: identities, names, all that it says."""
    marks = [(_WHOLE, json.dumps(_normal(item), sort_keys=True))]
    for name, value in facts.items():
        plain = _plain_name(name)
        is_mark = plain in IDENTITIES or plain in NAMES
        if is_mark and not isinstance(item[name], bool):
            marks.append((plain, value))
    return marks


def _is_same(
    first: Mapping[str, str], second: Mapping[str, str], mark: tuple[str, str]
) -> bool:
    """Tell whether two items that share a mark are one thing.

    An identity counts if no other one speaks against it, a name if nothing does.
    """
    if mark[0] == _WHOLE:
        return True
    names: Iterable[str] = first.keys() & second.keys()
    if mark[0] in IDENTITIES:
        names = (name for name in names if _plain_name(name) in IDENTITIES)
    return all(first[name] == second[name] for name in names)


def _has(data: Any, value: Any) -> bool:
    """Tell whether the joined value has what a page gave."""
    if isinstance(data, list | dict):
        return isinstance(value, type(data))
    return bool(_normal(data) == _normal(value))


@lru_cache(maxsize=1000)
def _plain_name(name: str) -> str:
    """Return the last word of a field's name: ``product_id`` is an ``id``."""
    return _BREAK.split(name)[-1].lower()


def _normal(value: Any) -> Any:
    """Return a value for comparing: without case, and with single spaces."""
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
