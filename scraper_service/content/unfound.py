"""Which requested fields have no value; what a caller is told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.options.schemas import Field

MAX_NAMED = 20  # fields in one sentence
NOT_UNDERSTOOD = (
    "No requested field was understood from the prompt; give a schema, or configure a"
    " model. The data are the key facts of the page."
)


def is_empty(value: Any) -> bool:
    """Tell whether a value says nothing; 0 and False say something."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, dict):
        return all(is_empty(item) for item in value.values())
    return value is None or value == []


def unfound(
    wanted: Field, data: Any, *, has_required: bool, name: str = ""
) -> Iterator[str]:
    """Yield the fields without a value: ``brand``, ``seller.name``, ``products.price``.

    A field of a list's items counts if no item has a value. Required fields are left
    out unless ``has_required``.
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
        yield from unfound(below, value, has_required=has_required, name=inner)


def listed(names: tuple[str, ...]) -> str:
    """Return the first names of many, and how many more there are."""
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
