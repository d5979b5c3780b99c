"""JSON Schemas of callers as trees of fields.

Only keywords that help to find and type a value are read. References are local:
nothing is fetched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import evolve, frozen

from scraper_service.errors import SchemaRefused

if TYPE_CHECKING:
    from scraper_service.options.parsing import Position

MAX_FIELDS = 1000  # with references resolved
MAX_LEVELS = 24  # of nested objects and lists, with references resolved
MAX_REPEATS = 3  # nested repetitions of a recursive schema
MAX_CHOICES = 50  # of anyOf and oneOf
MAX_ENUM = 1000
MAX_INDEX = 9  # digits of an index in a reference
MAX_NAME = 200  # characters of a property's name

KINDS = ("string", "integer", "number", "boolean", "array", "object", "null")
# Keywords of a schema. A mapping without them maps the names of properties.
_KEYWORDS = frozenset(
    "type properties items $ref $defs definitions anyOf oneOf allOf enum const format "
    "pattern required additionalProperties prefixItems patternProperties $schema $id "
    "not if then else minimum maximum minLength maxLength".split()
)
_PLAIN = {
    "str": "string",
    "text": "string",
    "date": "string",
    "url": "string",
    "int": "integer",
    "float": "number",
    "double": "number",
    "decimal": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}

# The types of the keywords that are read.
_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "properties": (Mapping, "an object"),
    "items": ((Mapping, list, bool), "a schema"),
    "prefixItems": (list, "a list of schemas"),
    "required": ((list, bool), "a list of names"),  # a boolean in draft 3
    "enum": (list, "a list of values"),
    "anyOf": (list, "a list of schemas"),
    "oneOf": (list, "a list of schemas"),
    "allOf": (list, "a list of schemas"),
}


@frozen(kw_only=True, eq=False)  # compared by identity: fields may contain any JSON
class Field:
    """One value of the result."""

    name: str = ""
    description: str = ""
    #: One of :data:`KINDS` without ``null``; empty if any value is valid.
    kind: str = ""
    required: bool = False
    #: True if null is valid, too.
    nullable: bool = False
    format: str = ""
    enum: tuple[Any, ...] = ()
    pattern: str = ""
    #: Inclusive.
    minimum: float | None = None
    maximum: float | None = None
    min_length: int = 0
    max_length: int | None = None
    max_items: int | None = None
    #: True for an object whose properties are not named.
    is_open: bool = False
    #: The fields of an object.
    properties: tuple[Field, ...] = ()
    #: The items of a list; None if any value is valid.
    items: Field | None = None
    #: Further choices of ``anyOf`` or ``oneOf``. The first that is not null is this field.
    others: tuple[Field, ...] = ()


def field_of(schema: Any) -> Field:
    """Return the fields of ``schema`` as one field.

    A mapping of names, ``{"price": "number"}`` or ``{"price": {"type": "number"}}``,
    counts as an object with these properties.

    :raises SchemaRefused: for values that are no schema, for remote and broken
        references, and for sizes above :data:`MAX_FIELDS` and :data:`MAX_LEVELS`.
    """
    if not isinstance(schema, Mapping):
        raise SchemaRefused("a schema must be a JSON object")
    return _Reader(schema).read(_as_object(schema), "", "", (), 0)


def is_bare(schema: Mapping[str, Any]) -> bool:
    """Return True if a schema only maps the names of properties."""
    if not schema:
        return False
    if set(schema) & {"$ref", "$defs", "anyOf", "oneOf", "allOf", "enum", "const"}:
        return False
    if isinstance(schema.get("properties"), Mapping):
        return False
    kind = schema.get("type")
    if isinstance(kind, list) or (isinstance(kind, str) and kind in KINDS):
        return any(
            isinstance(v, Mapping) for k, v in schema.items() if k not in _KEYWORDS
        )
    return any(
        isinstance(v, Mapping) or (isinstance(v, str) and k not in _KEYWORDS)
        for k, v in schema.items()
    ) and not isinstance(schema.get("items"), Mapping)


def _as_object(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if not is_bare(schema):
        return schema
    properties = {
        name: _plain(value) if isinstance(value, str) else value
        for name, value in schema.items()
        if isinstance(value, (Mapping, str)) and not name.startswith("$")
    }
    return {"type": "object", "properties": properties}


def _plain(word: str) -> dict[str, Any]:
    """Return the schema of the name of a type, or else of a description."""
    lower = word.strip().lower()
    if lower in KINDS:
        return {"type": lower}
    if lower in _PLAIN:
        formats = {"date": "date", "url": "uri"}
        kind: dict[str, Any] = {"type": _PLAIN[lower]}
        return kind | ({"format": formats[lower]} if lower in formats else {})
    return {"description": word}


class _Reader:
    """Parses one schema and counts its fields."""

    def __init__(self, root: Mapping[str, Any]):
        self.root = root
        self.count = 0

    def read(
        self,
        schema: Any,
        name: str,
        pointer: str,
        around: tuple[int | str, ...],
        level: int,
    ) -> Field:
        """Return the field of ``schema``. ``around`` are the schemas that contain it."""
        self.count += 1
        if self.count > MAX_FIELDS:
            raise SchemaRefused(f"a schema may have at most {MAX_FIELDS} fields")
        if level > MAX_LEVELS:
            raise SchemaRefused(
                f"a schema may be nested at most {MAX_LEVELS} levels deep",
                pointer[:200],
            )
        if schema is True:
            return Field(name=name)
        key = schema.get("$ref") if isinstance(schema, Mapping) else None
        schema = self._resolve(schema, pointer)
        _check(schema, pointer)
        if "allOf" in schema:
            schema = self._merge(schema, pointer)
        key = str(key) if key is not None else id(schema)
        choices = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(choices, list) and choices:
            inner = (*around, key)
            return self._read_choice(schema, choices, name, pointer, inner, level)
        is_again = around.count(key) >= MAX_REPEATS
        inner = (*around, key)
        return self._simple(schema, name, pointer, inner, level, is_again=is_again)

    def _resolve(self, schema: Any, pointer: str) -> Mapping[str, Any]:
        """Return ``schema`` with resolved references; other keywords stay."""
        seen: set[str] = set()
        own: dict[str, Any] = {}
        while True:
            if not isinstance(schema, Mapping):
                raise SchemaRefused("a schema must be a JSON object", pointer)
            reference = schema.get("$ref")
            if reference is None:
                return {**schema, **own} if own else schema
            if not isinstance(reference, str) or not reference.startswith("#"):
                shown = str(reference)[:100]
                raise SchemaRefused(
                    f"only references inside the schema are followed, not {shown}",
                    pointer,
                )
            if reference in seen:
                raise SchemaRefused(f"{reference[:100]} refers to itself", pointer)
            seen.add(reference)
            own = {k: v for k, v in schema.items() if k != "$ref"} | own
            schema = self._target(reference, pointer)

    def _target(self, reference: str, pointer: str) -> Any:
        found: Any = self.root
        for part in filter(None, reference[1:].split("/")):
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and _is_index(key) and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, Mapping) and key in found:
                found = found[key]
            else:
                raise SchemaRefused(f"there is no {reference[:100]}", pointer)
        return found

    def _merge(self, schema: Mapping[str, Any], pointer: str) -> Mapping[str, Any]:
        """Return the parts of ``allOf`` as one schema."""
        merged = {k: v for k, v in schema.items() if k != "allOf"}
        for number, part in enumerate(schema["allOf"][:MAX_CHOICES]):
            path = f"{pointer}/allOf/{number}"
            other = self._resolve(part, path)
            _check(other, path)
            properties = {
                **(merged.get("properties") or {}),
                **(other.get("properties") or {}),
            }
            required = [*(merged.get("required") or ()), *(other.get("required") or ())]
            merged = {**other, **merged}
            if properties:
                merged["properties"] = properties
            if required:
                merged["required"] = required
        return merged

    def _read_choice(
        self,
        schema: Mapping[str, Any],
        choices: list[Any],
        name: str,
        pointer: str,
        around: tuple[int | str, ...],
        level: int,
    ) -> Field:
        if len(choices) > MAX_CHOICES:
            raise SchemaRefused(f"at most {MAX_CHOICES} choices are allowed", pointer)
        own = {k: schema[k] for k in ("description", "title") if k in schema}
        read = [
            self.read(choice, name, f"{pointer}/anyOf/{number}", around, level + 1)
            for number, choice in enumerate(choices)
        ]
        real = [found for found in read if found.kind != "null"]
        nullable = len(real) < len(read) or any(found.nullable for found in real)
        if not real:
            return Field(name=name, kind="null", nullable=True)
        first = real[0]
        text = _text(own.get("description")) or _text(own.get("title"))
        return evolve(
            first,
            nullable=nullable,
            description=text or first.description,
            others=tuple(real[1:]),
        )

    def _simple(
        self,
        schema: Mapping[str, Any],
        name: str,
        pointer: str,
        around: tuple[int | str, ...],
        level: int,
        *,
        is_again: bool,
    ) -> Field:
        kinds = schema.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        kinds = [_PLAIN.get(kind, kind) for kind in kinds]
        real = [kind for kind in kinds if kind is not None and kind != "null"]
        kind = real[0] if real else _implied_type(schema, kinds)
        enum = schema.get("enum")
        if "const" in schema:
            enum = [schema["const"]]
        enum = enum[:MAX_ENUM] if isinstance(enum, list) else []
        properties: tuple[Field, ...] = ()
        items: Field | None = None
        if kind == "object" and not is_again:
            properties = self._properties(schema, pointer, around, level)
        elif kind == "array" and not is_again:
            below = schema.get("items")
            if below is None and isinstance(schema.get("prefixItems"), list):
                below = next(iter(schema["prefixItems"]), None)
            if isinstance(below, list):
                below = next(iter(below), None)
            if below is not None and below is not False:
                items = self.read(below, name, f"{pointer}/items", around, level + 1)
        return Field(
            name=name,
            description=_text(schema.get("description")) or _text(schema.get("title")),
            kind=kind,
            nullable="null" in kinds or schema.get("nullable") is True or None in enum,
            format=_text(schema.get("format")),
            enum=tuple(value for value in enum if value is not None),
            pattern=_text(schema.get("pattern")),
            minimum=_number(schema, "minimum", "exclusiveMinimum"),
            maximum=_number(schema, "maximum", "exclusiveMaximum"),
            min_length=_count(schema.get("minLength")) or 0,
            max_length=_count(schema.get("maxLength")),
            max_items=_count(schema.get("maxItems")),
            is_open=kind == "object" and not properties,
            properties=properties,
            items=items,
        )

    def _properties(
        self,
        schema: Mapping[str, Any],
        pointer: str,
        around: tuple[int | str, ...],
        level: int,
    ) -> tuple[Field, ...]:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping):
            return ()
        required = frozenset(_list(schema.get("required")))
        found = []
        for name, value in properties.items():
            if len(name) > MAX_NAME:
                raise SchemaRefused(
                    f"a name may have at most {MAX_NAME} characters", pointer
                )
            if value is False:
                continue
            plain = _plain(value) if isinstance(value, str) else value
            path = f"{pointer}/properties/{name.replace('~', '~0').replace('/', '~1')}"
            below = self.read(plain, name, path, around, level + 1)
            found.append(evolve(below, required=name in required))
        return tuple(found)


def _is_index(key: str) -> bool:
    return len(key) <= MAX_INDEX and key.isdecimal()


def _check(schema: Mapping[str, Any], pointer: str) -> None:
    """Raise :exc:`SchemaRefused` for a keyword with a value of a wrong type."""
    kinds = schema.get("type", "null")
    for kind in kinds if kinds and isinstance(kinds, list) else [kinds]:
        if not isinstance(kind, str) or kind not in {*KINDS, *_PLAIN}:
            names = ", ".join(KINDS)
            shown = json.dumps(kind, ensure_ascii=False)[:100]
            raise SchemaRefused(f"type must be one of {names}, got {shown}", pointer)
    for name, (types, allowed) in _TYPES.items():
        if name in schema and not isinstance(schema[name], types):
            shown = json.dumps(schema[name], ensure_ascii=False)[:100]
            raise SchemaRefused(f"{name} must be {allowed}, got {shown}", pointer)
    for value in _list(schema.get("required")):
        if not isinstance(value, str):
            shown = json.dumps(value, ensure_ascii=False)[:100]
            text = f"required must be a list of names, got {shown} in it"
            raise SchemaRefused(text, pointer)


def _implied_type(schema: Mapping[str, Any], kinds: list[Any]) -> str:
    """Return the type that the other keywords imply."""
    if kinds == ["null"]:
        return "null"
    if "properties" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    if "format" in schema or "pattern" in schema:
        return "string"
    values = schema.get("enum")
    if isinstance(values, list) and values and all(isinstance(v, str) for v in values):
        return "string"
    return "number" if {"minimum", "maximum"} & set(schema) else ""


def _text(value: Any) -> str:
    return value[:2000] if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(schema: Mapping[str, Any], *names: str) -> float | None:
    for name in names:
        value = schema.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
    return None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


# -- schemas in requests ------------------------------------------------------------------

MAX_SCHEMA_DEPTH = 50
MAX_SCHEMA_VALUES = 10_000


@frozen
class Schema:
    """A JSON Schema of bounded depth and size, which the service can read."""

    expected: ClassVar[str] = "object"

    def read(self, value: Any, at: Position) -> Any:
        if not isinstance(value, dict):
            return at.report_type(self.expected, value)
        level: list[Any] = [value]
        count = 0
        for _ in range(MAX_SCHEMA_DEPTH):
            count += len(level)
            if not level or count > MAX_SCHEMA_VALUES:
                break
            level = [below for item in level for below in _children(item)]
        if level:
            text = (
                f"{at.name} must have at most {MAX_SCHEMA_DEPTH} levels "
                f"and {MAX_SCHEMA_VALUES} values"
            )
            return at.report("custom", text)
        try:
            field_of(value)
        except SchemaRefused as error:
            # Clients of extract know the first sentence.
            text = f"Invalid JSON schema. {at.name} cannot be used: {error}"
            return at.report("custom", text)
        return value


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
