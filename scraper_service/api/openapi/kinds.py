"""JSON Schemas of request bodies, from the kinds that validate them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.api.schemas import camel, or_null, ref
from scraper_service.options.catalogue import DAYS
from scraper_service.options.json_schema import Schema
from scraper_service.options.parsing import (
    NO_DEFAULT,
    Anything,
    Array,
    Bool,
    Build,
    Choice,
    Key,
    Number,
    Object,
    Pairs,
    Position,
    Refused,
    Tagged,
    Text,
    Then,
    bare_kind,
)
from scraper_service.options.selectors import AsGiven, Never
from scraper_service.options.values import URL, FlagOr, UrlOr

if TYPE_CHECKING:
    from scraper_service.api.schemas import ShapeT


class KindSchemas:
    """The schemas of the bodies of one version.

    The values of a key that are objects become a component, except where another key of
    the same name has other values. ``first`` is the kind whose keys have the names.
    ``missing`` are formats that this installation does not have, ``most_days`` is its
    setting ``MAX_RETENTION_DAYS``.
    """

    def __init__(
        self,
        prefix: str,
        components: dict[str, ShapeT],
        first: Object,
        missing: frozenset[str],
        most_days: float,
    ):
        self._prefix = prefix
        self._components = components
        self._missing = missing
        self._days = evolve(DAYS, maximum=most_days)
        self.schema(first)

    def schema(self, kind: Any) -> ShapeT:
        """Return the JSON Schema of a kind. Raises TypeError for an unknown kind."""
        match kind:
            case Array():
                items = self.schema(kind.item)
                return {"type": "array", "items": items, "maxItems": kind.maximum}
            case Pairs():
                item, most = self.schema(kind.item), kind.maximum
                facts = {"additionalProperties": item, "maxProperties": most}
                return {"type": "object", **facts}
            case Object():
                return self._object(kind)
            case Tagged():
                return self._tagged_schema(kind)
            case Then():
                return {**self.schema(kind.kind), **kind.schema}
            case UrlOr():
                return {"oneOf": [self.schema(URL), self.schema(kind.kind)]}
            case FlagOr():
                return {"oneOf": [{"const": False}, self.schema(kind.kind)]}
            case AsGiven():
                return self.schema(kind.kind)
            case Never():
                return {"not": {}}
        return _plain(self._days if kind == DAYS else kind)

    def _object(self, kind: Object) -> ShapeT:
        found: ShapeT = {
            "type": "object",
            "properties": {
                name: self._property(name, key, kind)
                for name, key in kind.fields.items()
            },
            "additionalProperties": False,
        }
        if required := [name for name, key in kind.fields.items() if key.required]:
            found["required"] = required
        if kind.ignored_prefix:
            found["patternProperties"] = {f"^{kind.ignored_prefix}": {}}
        return {**found, **kind.schema}

    def _property(self, name: str, key: Key, owner: Object) -> ShapeT:
        found = self._component(name, self.schema(key.kind))
        if key.nullable:
            found = or_null(found)
        if key.help:
            found["description"] = key.help
        if (default := _default(key, owner)) is not NO_DEFAULT:
            found["default"] = default
        if key.alias:
            found["deprecated"] = True
        if key.is_own:
            found["x-own"] = True
        return found

    def _component(self, name: str, schema: ShapeT) -> ShapeT:
        if not {"oneOf", "properties"} & schema.get("items", schema).keys():
            return schema
        title = self._prefix + name[:1].upper() + name[1:]
        if self._components.setdefault(title, schema) != schema:
            return schema
        return ref(title)

    def _tagged_schema(self, kind: Tagged) -> ShapeT:
        objects = []
        names = []
        for tag, each in kind.kinds.items():
            found = {**self.schema(each), "type": "object"}
            found["properties"] = {
                "type": {"const": tag},
                **found.get("properties", {}),
            }
            found["required"] = ["type", *found.get("required", ())]
            found["title"] = tag
            if text := _meaning(bare_kind(each)):
                found["description"] = text
            if tag in self._missing:
                found["x-available"] = False
            objects.append(found)
            if found["required"] == ["type"]:
                names.append(tag)
        named = [{"type": "string", "enum": names}] if kind.shorthand else []
        return {"oneOf": [*named, *objects]}


def _plain(kind: Any) -> ShapeT:
    match kind:
        case Bool():
            return {"type": "boolean"}
        case Number():
            bounds = {"minimum": kind.minimum, "maximum": kind.maximum}
            above = {"exclusiveMinimum": kind.minimum} if kind.is_above else {}
            return {"type": kind.expected, **bounds, **above}
        case Text():
            least = {"minLength": kind.minimum} if kind.minimum else {}
            return {"type": "string", **least, "maxLength": kind.maximum}
        case Choice():
            return {"type": "string", "enum": list(kind.values)}
        case Schema():
            return {"type": "object"}
        case Refused():
            text = f"Must be false: {kind.reason}."
            return {"type": "boolean", "enum": [False], "description": text}
        case Anything():
            return {}
    raise TypeError(f"the API description does not know the kind {kind!r}")


def _meaning(kind: Any) -> str:
    """Return the first line of what an object becomes."""
    make = getattr(kind, "make", None)
    source = make.cls if isinstance(make, Build) else make
    if source is dict:
        return ""
    return (inspect.getdoc(source) or "").partition("\n")[0]


def _default(key: Key, owner: Object) -> Any:
    """Return the default of a key as JSON; NO_DEFAULT if it has none."""
    found = key.default
    if found is NO_DEFAULT and key.to and isinstance(owner.make, Build):
        found = owner.make.default_of(key.to)
    if found is NO_DEFAULT or found is None or key.alias:
        return NO_DEFAULT
    return _as_json(key.kind, found)


def _as_json(kind: Any, value: Any) -> Any:
    """Return the JSON that a kind reads as ``value``."""
    match bare := bare_kind(kind):
        case Bool() | Choice():
            spellings = (True, False) if isinstance(bare, Bool) else tuple(bare.values)
            found = (each for each in spellings if _read(kind, each) == value)
            return next(found)
        case Pairs():
            return dict(value)
        case Array():
            return [_as_json(bare.item, each) for each in value]
        case Tagged():
            return camel(value.type)
    return value


def _read(kind: Any, spelling: Any) -> Any:
    return kind.read(spelling, Position((), "", []))
