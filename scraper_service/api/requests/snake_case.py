"""Snake-case spellings of options, which the Python client sends in monitor targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.options.parsing import Array, Object, Tagged, bare_kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scraper_service.options.parsing import KeysT

#: Values whose keys are the caller's own.
_FREE = frozenset({"schema", "headers", "metadata", "fields"})


def spellings(*tables: KeysT) -> dict[str, str]:
    """Return the key for each snake-case spelling of the keys of ``tables``.

    Includes the keys of nested objects, and the values of ``type``.
    """
    names = {name for table in tables for name in _names(table)}
    return {_snake(name): name for name in names if _snake(name) != name}


def _names(keys: KeysT) -> Iterator[str]:
    for name, key in keys.items():
        yield name
        yield from _names_in(key.kind)


def _names_in(kind: Any) -> Iterator[str]:
    kind = bare_kind(kind)
    if isinstance(kind, Object):
        yield from _names(kind.fields)
    elif isinstance(kind, Array):
        yield from _names_in(kind.item)
    elif isinstance(kind, Tagged):
        yield from kind.kinds
        for each in kind.kinds.values():
            yield from _names_in(each)


def _snake(name: str) -> str:
    """Return ``only_main_content`` for ``onlyMainContent``, ``..._url`` for ``...URL``."""
    found = ""
    for before, letter in zip(f" {name}", name, strict=False):
        starts = letter.isupper() and not before.isupper()
        found += f"_{letter}" if starts and found else letter
    return found.lower()


def camel_keys(value: Any, known: Mapping[str, str]) -> Any:
    """Return a JSON value with keys and types in the spelling of the API.

    ``known`` is the result of :func:`spellings`. A key in both spellings keeps the value
    of the API's own. Null values are left out.
    """
    if isinstance(value, list):
        return [camel_keys(item, known) for item in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for key, item in value.items():
        name = known.get(key, key)
        if item is None or (name != key and value.get(name) is not None):
            continue
        if name in _FREE:
            found[name] = item
        elif name == "type":
            found[name] = _name(item, known)
        elif name == "formats" and isinstance(item, list):
            found[name] = [camel_keys(_name(x, known), known) for x in item]
        else:
            found[name] = camel_keys(item, known)
    return found


def _name(value: Any, known: Mapping[str, str]) -> Any:
    return known.get(value, value) if isinstance(value, str) else value
