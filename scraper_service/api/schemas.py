"""Objects of responses: one class gives the JSON of an object and its JSON Schema.

Example::

    class SessionJson(JsonObject):
        name: str
        created_at: Time
        owner: str | None = member("The name of the key.", source="key_name")
        view_url: Maybe[Url]

    SessionJson.of(row, view_url=None)  # {"name": ..., "createdAt": ..., "owner": ...}

The type of a member gives its schema, and the JSON of its value. Without a value
``X | None`` is null, and ``Maybe[X]`` is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache, partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from attrs import evolve, frozen

from scraper_service.content.text.w3c_times import utc_text

if TYPE_CHECKING:
    from collections.abc import Iterable

#: A JSON Schema (draft 2020-12).
ShapeT: TypeAlias = dict[str, Any]


class Shape(ShapeT):
    """A JSON Schema in the type of a member. Types compare by the hashes of their parts."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # dicts have none


ValueT = TypeVar("ValueT")

TEXT: ShapeT = {"type": "string"}
BOOL: ShapeT = {"type": "boolean"}
NUMBER = Shape({"type": "number"})
INTEGER = Shape({"type": "integer"})
COUNT: ShapeT = {"type": "integer", "minimum": 0}
TIME = Shape({"type": "string", "format": "date-time"})
ID = Shape({"type": "string", "format": "uuid"})
URL = Shape({"type": "string", "format": "uri"})
ANY: ShapeT = {}
SUCCESS: ShapeT = {"const": True}


# -- JSON --------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def camel(name: str) -> str:
    """Return an internal name in camelCase: ``raw_html`` becomes ``rawHtml``."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def iso(seconds: float) -> str:
    """Return a time as ISO 8601 in UTC, with milliseconds."""
    return utc_text(datetime.fromtimestamp(seconds, UTC))


def encode(value: Any) -> bytes:
    """Return ``value`` as compact JSON in UTF-8. Half a character becomes ``?``."""
    return _compact.encode(value).encode(errors="replace")


# json.dumps would make an encoder for each call.
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


# -- schemas -----------------------------------------------------------------------------


def array(item: ShapeT) -> Shape:
    return Shape(type="array", items=item)


def one_of(*names: str) -> Shape:
    """Return a string that is one of ``names``."""
    return Shape(type="string", enum=list(names))


def either(*shapes: ShapeT) -> Shape:
    return Shape(anyOf=list(shapes))


def or_null(shape: ShapeT) -> Shape:
    if "type" not in shape:  # several shapes, or a reference
        return either(shape, {"type": "null"})
    return Shape(shape, type=[shape["type"], "null"])


def mapping(value: ShapeT) -> Shape:
    """Return an object with free keys."""
    return Shape(type="object", additionalProperties=value)


def said(shape: ShapeT, sentence: str) -> ShapeT:
    """Return ``shape`` with a sentence for its readers."""
    return {**shape, "description": sentence}


def own(shape: ShapeT) -> ShapeT:
    """Return the shape of a member that the reference API does not have."""
    return {**shape, "x-own": True}


def ref(name: str) -> Shape:
    """Return a reference to a shape of the document's components."""
    return Shape({"$ref": f"#/components/schemas/{name}"})


# -- types of members --------------------------------------------------------------------

_ABSENT = object()
#: The value of a member that may be left out, but is null here.
NULL = object()
#: A member that is left out without a value.
Maybe: TypeAlias = Annotated[ValueT | None, _ABSENT]
#: Seconds since 1970; in JSON ISO 8601 in UTC, with milliseconds.
Time: TypeAlias = Annotated[float, TIME, iso]
#: In JSON rounded to milliseconds.
Seconds: TypeAlias = Annotated[float, NUMBER, partial(round, ndigits=3)]
Id: TypeAlias = Annotated[str, ID]
#: A URL of this service. URLs of sites are ``str``: they are returned as written.
Url: TypeAlias = Annotated[str, URL]
#: An integer that may be negative. ``int`` is a count.
Integer: TypeAlias = Annotated[int, INTEGER]

_PLAIN: dict[Any, ShapeT] = {
    Any: ANY,
    str: TEXT,
    bool: BOOL,
    float: NUMBER,
    int: COUNT,
    NoneType: {"type": "null"},
}


@frozen(kw_only=True)
class _Member:
    """A member of an object, or what the type of a member means."""

    shape: ShapeT = ANY
    #: Returns the JSON of a value; None if the value is JSON.
    convert: Callable[[Any], Any] | None = None
    is_optional: bool = False
    #: The attribute with the value, or a function that returns the value of a record.
    source: str | Callable[[Any], Any] = ""
    key: str = ""

    def plan(self, name: str) -> tuple[Any, ...]:
        """Return the member as :meth:`JsonObject.of` needs it."""
        attribute, read = "", self.source
        if isinstance(read, str):
            is_path = "." in read
            attribute = "" if is_path else read
            read = partial(_at, read.split(".")) if is_path else attrgetter(read)
        return name, attribute, read, self.convert, self.key, self.is_optional


def _meaning(hint: Any) -> _Member:
    """Return what a type means. Raises TypeError for an unknown type."""
    if isinstance(hint, dict):
        return _Member(shape=hint)
    if hint in _PLAIN:
        return _Member(shape=_PLAIN[hint])
    if isinstance(hint, type) and issubclass(hint, JsonObject):
        return _Member(shape=hint.shape, convert=hint.of)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated and args[1] is _ABSENT:
        return evolve(_union(get_args(args[0])), is_optional=True)
    if origin is Annotated:
        return evolve(_meaning(args[1]), **({"convert": args[2]} if args[2:] else {}))
    if origin in {Union, UnionType}:
        found = _union(args)
        shape = or_null(found.shape) if NoneType in args else found.shape
        return evolve(found, shape=shape)
    if origin is list:
        item = _meaning(args[0])
        return _Member(shape=array(item.shape), convert=partial(_converted, item))
    if origin is dict:
        return _Member(shape=mapping(_meaning(args[1]).shape))
    if origin is Literal:
        constant = (lambda _: args[0]) if len(args) == 1 else ""
        is_flag = isinstance(args[0], bool)
        shape = {"const": args[0]} if is_flag else one_of(*args)
        return _Member(shape=shape, source=constant)
    raise TypeError(f"members of responses have no type {hint!r}")


def _union(hints: tuple[Any, ...]) -> _Member:
    """Return what a value of any of the types means, of one that is not None."""
    kinds = [_meaning(each) for each in hints if each is not NoneType]
    if len(kinds) == 1:
        return kinds[0]
    return _Member(shape=either(*(kind.shape for kind in kinds)))


def _converted(item: _Member, values: Iterable[Any]) -> list[Any]:
    return list(values if item.convert is None else map(item.convert, values))


def _at(path: list[str], record: Any) -> Any:
    """Return the attribute at the end of a path; None if one before it is None."""
    for name in path:
        record = None if record is None else getattr(record, name)
    return record


# -- objects -----------------------------------------------------------------------------


def member(
    help: str = "",  # noqa: A002  # as parameters have it
    *,
    key: str = "",
    source: str | Callable[[Any], Any] = "",
    own: bool = False,
) -> Any:
    """Describe a member of a :class:`JsonObject`.

    ``help`` is a sentence for readers of the schema. ``key`` replaces the name in
    camelCase. ``source`` is the attribute with the value (``job.id`` for one of an
    attribute), or a function that returns the value of a record. ``own`` marks what the reference API does not have.
    """
    about = {"description": help} if help else {}
    return _Member(
        shape={**about, "x-own": True} if own else about, source=source, key=key
    )


class _Made(dict[str, Any]):
    """JSON values by key."""


class JsonObject:
    """An object in responses. Subclasses list its members in their order.

    ``spelled`` of a subclass returns the key of a name. ``further`` is the type of all other members. Without it there are no
    others now, but a client must accept new ones.
    """

    #: The JSON Schema.
    shape: ClassVar[ShapeT]
    _members: ClassVar[dict[str, _Member]] = {}
    _plan: ClassVar[list[tuple[Any, ...]]]

    def __init_subclass__(
        cls, spelled: Callable[[str], str] = camel, further: Any = None
    ) -> None:
        hints = get_type_hints(cls, include_extras=True)
        cls._members = {}
        for base in cls.__bases__:
            cls._members |= getattr(base, "_members", {})
        for name in [name for name in cls.__annotations__ if name in hints]:
            said = cls.__dict__.get(name, _Member())
            kind = _meaning(hints[name])
            cls._members[name] = evolve(
                kind,
                shape={**kind.shape, **said.shape},
                source=said.source or kind.source or name,
                key=said.key or spelled(name),
            )
        cls._plan = [each.plan(name) for name, each in cls._members.items()]
        members = cls._members.values()
        properties = {each.key: each.shape for each in members}
        cls.shape = Shape(type="object", properties=properties)
        if required := [each.key for each in members if not each.is_optional]:
            cls.shape["required"] = required
        if further is not None:
            cls.shape["additionalProperties"] = shape_of(further)

    @classmethod
    def of(cls, record: Any = None, **given: Any) -> dict[str, Any]:
        """Return the object of a record: an instance of any class, or a mapping.

        ``given`` replaces values of the record. Raises TypeError for unknown names. A result
        of this function is returned as it is.
        """
        if type(record) is _Made:
            return record
        if given.keys() - cls._members.keys():
            raise TypeError(f"{cls.__name__} has not all of {', '.join(given)}")
        record = given if record is None else record
        is_dict = isinstance(record, dict)
        found = _Made()
        for name, attribute, read, convert, key, is_optional in cls._plan:
            if name in given:
                value = given[name]
            elif is_dict and attribute:
                value = record.get(attribute)
            else:
                value = read(record)
            if value is not None and value is not NULL:
                found[key] = value if convert is None else convert(value)
            elif value is NULL or not is_optional:
                found[key] = None
        return found

    @classmethod
    def to_json(cls, record: Any = None, **given: Any) -> bytes:
        """Return the object of a record as JSON, see :meth:`of`."""
        return encode(cls.of(record, **given))


class Success(JsonObject):
    """A successful response."""

    success: Literal[True]


def json_object(
    spelled: Callable[[str], str] = camel, /, **hints: Any
) -> type[JsonObject]:
    """Return a class with these members: types by name."""
    return type("Members", (JsonObject,), {"__annotations__": hints}, spelled=spelled)


def success(**hints: Any) -> type[Success]:
    """Return the class of a successful response with these members."""
    return type("Members", (Success,), {"__annotations__": hints})


def shape_of(hint: Any) -> Any:
    """Return the schema of a type; a schema, or the name of one, as it is."""
    return hint if isinstance(hint, str) else _meaning(hint).shape


class IssueJson(JsonObject):
    """An error in a request."""

    code: Literal[
        "invalid_type",
        "invalid_enum_value",
        "too_small",
        "too_big",
        "invalid_string",
        "unrecognized_keys",
        "invalid_union",
        "custom",
    ]
    path: list[Annotated[int | str, Shape(type=["string", "integer"])]] = member(
        "Keys and indexes from the root."
    )
    message: str
    expected: Maybe[str]
    received: Maybe[str]
    keys: Maybe[list[str]]
    options: Maybe[list[str]]
    minimum: Maybe[float]
    maximum: Maybe[float]


class ErrorJson(JsonObject):
    """The body of every error (docs/api.md, Errors)."""

    success: Literal[False]
    error: str = member("A sentence for a person.")
    code: Maybe[str] = member("A constant.")
    details: Maybe[list[Annotated[Any, ref("Issue")]]]
    feedback_error_code: Maybe[str] = member("A constant, for feedback alone.")
