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
from datetime import UTC, datetime
from functools import lru_cache, partial
from inspect import get_annotations
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from scraper_service.content.metadata.dates import utc_text

if TYPE_CHECKING:
    from collections.abc import Callable

#: A JSON Schema (draft 2020-12).
ShapeT: TypeAlias = dict[str, Any]
ValueT = TypeVar("ValueT")


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


class Shape(ShapeT):
    """A JSON Schema in the type of a member. Types compare by the hashes of their parts."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # dicts have none


TEXT = Shape(type="string")
ID = Shape(type="string", format="uuid")
ANY = Shape()


def array(item: ShapeT) -> Shape:
    return Shape(type="array", items=item)


def one_of(*names: str) -> Shape:
    """Return the schema of a string that is one of ``names``."""
    return Shape(type="string", enum=list(names))


def or_null(shape: ShapeT) -> Shape:
    if "type" not in shape:  # several shapes, or a reference
        return Shape(anyOf=[shape, {"type": "null"}])
    return Shape(shape, type=[shape["type"], "null"])


def ref(name: str) -> Shape:
    """Return a reference to a schema of the document's components."""
    return Shape({"$ref": f"#/components/schemas/{name}"})


def shape_of(hint: Any) -> Any:
    """Return the schema of a type. Schemas and their names are returned unchanged."""
    return hint if isinstance(hint, str) else _meaning(hint).shape


# -- types of members --------------------------------------------------------------------

_ABSENT = object()
#: As the value of a :data:`Maybe` member: null, where None would leave it out.
NULL = object()
#: A member that is left out without a value.
Maybe: TypeAlias = Annotated[ValueT | None, _ABSENT]
#: Seconds since 1970; in JSON ISO 8601 in UTC, with milliseconds.
Time: TypeAlias = Annotated[float, Shape(type="string", format="date-time"), iso]
#: In JSON rounded to milliseconds.
Seconds: TypeAlias = Annotated[float, Shape(type="number"), partial(round, ndigits=3)]
Id: TypeAlias = Annotated[str, ID]
#: A URL of this service. URLs of sites are ``str``: they are returned as written.
Url: TypeAlias = Annotated[str, Shape(type="string", format="uri")]
#: An integer that may be negative. ``int`` is a count.
Integer: TypeAlias = Annotated[int, Shape(type="integer")]

_PLAIN: dict[Any, ShapeT] = {
    Any: ANY,
    str: TEXT,
    bool: {"type": "boolean"},
    float: {"type": "number"},
    int: {"type": "integer", "minimum": 0},
    None: {"type": "null"},
}


class _Member(NamedTuple):
    """A member of an object, or what the type of a member means."""

    shape: ShapeT = ANY
    #: Returns the JSON of a value; None if the value is JSON.
    convert: Callable[[Any], Any] | None = None
    is_optional: bool = False
    #: The attribute with the value, or a function that returns the value of a record.
    source: str | Callable[[Any], Any] = ""
    #: Returns the value of a record.
    read: Callable[[Any], Any] = str
    key: str = ""


def _meaning(hint: Any) -> _Member:
    """Return what a type means. Raises TypeError for an unknown type."""
    origin, args = get_origin(hint), get_args(hint)
    if isinstance(hint, dict):
        return _Member(hint)
    if hint in _PLAIN:
        return _Member(_PLAIN[hint])
    if isinstance(hint, type) and issubclass(hint, JsonObject):
        return _Member(hint.shape, hint.of)
    if origin is Annotated and args[1] is _ABSENT:
        return _union(get_args(args[0]))._replace(is_optional=True)
    if origin is Annotated:
        found = _meaning(args[1])
        return found._replace(convert=args[2]) if args[2:] else found
    if origin in {Union, UnionType}:
        found = _union(args)
        is_null = NoneType in args
        return found._replace(shape=or_null(found.shape)) if is_null else found
    if origin is list:
        item = _meaning(args[0])
        return _Member(array(item.shape), partial(_listed, item.convert))
    if origin is dict:
        values = _meaning(args[1]).shape
        return _Member(Shape(type="object", additionalProperties=values))
    if origin is Literal and isinstance(args[0], bool):
        return _Member(Shape(const=args[0]), source=lambda _: args[0])
    if origin is Literal:
        return _Member(one_of(*args), source="" if args[1:] else lambda _: args[0])
    raise TypeError(f"members of responses have no type {hint!r}")


def _union(hints: tuple[Any, ...]) -> _Member:
    """Return what a value of any of the types means, of one that is not None."""
    kinds = [_meaning(each) for each in hints if each is not NoneType]
    either = _Member(Shape(anyOf=[kind.shape for kind in kinds]))
    return either if kinds[1:] else kinds[0]


def _listed(convert: Callable[[Any], Any] | None, values: Any) -> list[Any]:
    return list(values if convert is None else map(convert, values))


def _reader(source: str) -> Callable[[Any], Any]:
    return partial(_at, source.split(".")) if "." in source else attrgetter(source)


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
    attribute), or a function that returns the value of a record. ``own`` marks what the
    reference API does not have.
    """
    about = {"description": help} if help else {}
    shape = {**about, "x-own": True} if own else about
    return _Member(shape, source=source, key=key)


class _Made(dict[str, Any]):
    """JSON values by key."""


class JsonObject:
    """An object in responses. Subclasses list its members in their order.

    ``spelled`` of a subclass returns the key of a name. ``further`` is the type of all
    other members. Without it there are no others now, but a client must accept new ones.
    """

    #: The JSON Schema.
    shape: ClassVar[ShapeT]
    _members: ClassVar[dict[str, _Member]] = {}
    # Exact tuples, which Python unpacks faster.
    _plan: ClassVar[list[tuple[Any, ...]]]

    def __init_subclass__(
        cls, spelled: Callable[[str], str] = camel, further: Any = None
    ) -> None:
        cls._members = {}
        for base in cls.__bases__:
            cls._members |= getattr(base, "_members", {})
        for name, hint in get_annotations(cls, eval_str=True).items():
            kind, own = _meaning(hint), cls.__dict__.get(name, _Member())
            source = own.source or kind.source or name
            cls._members[name] = kind._replace(
                shape={**kind.shape, **own.shape},
                source=source,
                read=_reader(source) if isinstance(source, str) else source,
                key=own.key or spelled(name),
            )
        cls._plan = [(name, *each[1:]) for name, each in cls._members.items()]
        members = cls._members.values()
        properties = {each.key: each.shape for each in members}
        cls.shape = Shape(type="object", properties=properties)
        if required := [each.key for each in members if not each.is_optional]:
            cls.shape["required"] = required
        if further is not None:
            cls.shape["additionalProperties"] = shape_of(further)

    @classmethod
    def of(cls, record: Any = None, **given: Any) -> dict[str, Any]:
        """Return the object of a record: an instance of any class, or a dict.

        ``given`` replaces values of the record. Raises TypeError for unknown names. A result
        of this function is returned as it is.
        """
        if type(record) is _Made:
            return record
        if given and not given.keys() <= cls._members.keys():
            raise TypeError(f"{cls.__name__} has not all of {', '.join(given)}")
        record = given if record is None else record
        is_dict = isinstance(record, dict)
        found = _Made()
        for name, convert, is_optional, source, read, key in cls._plan:
            if name in given:
                value = given[name]
            elif is_dict and isinstance(source, str):
                value = record.get(source)
            else:
                value = read(record)
            if value is None:
                if not is_optional:
                    found[key] = None
            elif value is NULL:
                found[key] = None
            else:
                found[key] = value if convert is None else convert(value)
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


# -- errors ------------------------------------------------------------------------------


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
    """The body of every error (docs/api/README.md, Errors)."""

    success: Literal[False]
    error: str = member("A sentence for a person.")
    code: Maybe[str] = member("A constant.")
    details: Maybe[list[Annotated[Any, ref("Issue")]]]
    feedback_error_code: Maybe[str] = member("A constant, for feedback alone.")
