"""Options of every kind to JSON values and back, with errors that name their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, get_args

import attrs
import cattrs
from cattrs import AttributeValidationNote
from cattrs.strategies import configure_tagged_union

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options.actions import Action
from scraper_service.options.formats import Format
from scraper_service.options.scrape import Parser
from scraper_service.options.structure import PathT, short

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

_UNIONS: dict[str, Any] = {"formats": Format, "actions": Action, "parsers": Parser}


def unstructured(options: object) -> dict[str, Any]:
    """Return ``options`` of any kind as JSON values."""
    result: dict[str, Any] = _CONVERTER.unstructure(options)
    return result


def structured(value: Any, kind: type[T]) -> T:
    """Return the options of ``kind`` that ``value``, made of JSON values, holds.

    :raises InvalidOptions: for an unknown key, a missing one, or a wrong value.
    """
    try:
        return _CONVERTER.structure(value, kind)
    except (cattrs.BaseValidationError, ValueError, TypeError, LookupError) as error:
        raise InvalidOptions(list(_issues(error, ()))) from error


def _make_converter() -> cattrs.Converter:
    """Make a converter that takes each JSON type for itself only, and no extra keys."""
    converter = cattrs.Converter(forbid_extra_keys=True)
    for kind in (bool, int, float, str):
        converter.register_structure_hook(kind, _exactly)
    for union in _UNIONS.values():
        configure_tagged_union(union, converter, tag_generator=_tag, tag_name="type")
    return converter


def _tag(kind: Any) -> str:
    return str(kind.type)


def _exactly(value: Any, kind: Any) -> Any:
    accepted = {int, float} if kind is float else {kind}
    if type(value) not in accepted:
        raise TypeError(f"must be of type {kind.__name__}, got {short(value)}")
    return value


def _issues(error: Exception, path: PathT) -> Iterator[Issue]:
    """Yield the leaves of cattrs's tree of errors."""
    if isinstance(error, cattrs.ClassValidationError | cattrs.IterableValidationError):
        noted, others = error.group_exceptions()
        for inner, note in noted:
            if isinstance(note, AttributeValidationNote):
                yield from _issues(inner, (*path, note.name))
            else:
                yield from _issues(inner, (*path, note.index))
        for inner in others:
            yield from _issues(inner, path)
    else:
        yield Issue("custom", path, _message(error, path))


def _message(error: Exception, path: PathT) -> str:
    name = ".".join(map(str, path)) or "options"
    union = _UNIONS.get(next((str(p) for p in path if p in _UNIONS), ""))
    if isinstance(error, KeyError) and union:
        allowed = ", ".join(_tag(cls) for cls in get_args(union))
        return f"{name} must have a type of {allowed}, got {short(error.args[0])}"
    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        unknown = sorted(map(str, error.extra_fields))
        allowed = ", ".join(a.name for a in attrs.fields(error.cl))
        return f"{name} has no {short(unknown)}; allowed are {allowed or 'none'}"
    return f"{name}: {error!s:.300}"


_CONVERTER = _make_converter()
