"""Kinds of JSON values that a request may contain, and the parser of a request.

A kind has one method ``read``: it returns the value in its internal form, or reports an
issue and returns :data:`INVALID`. An object is a table of :class:`Key`.

cattrs, which reads stored options, cannot do this: here null counts as absent, a value
has several names, ranges differ between the versions of the API, and one response has
all issues with their JSON paths, the allowed values and close names.
"""

from __future__ import annotations

import difflib
import importlib
import re
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import Any, ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar

from attrs import NOTHING, field, fields_dict, frozen, has

from scraper_service.errors import InvalidOptions, Issue, plural

RequestT = TypeVar("RequestT")

INVALID: Final = object()  # a kind returns it after it has reported an issue
NO_DEFAULT: Final = object()

MAX_ISSUES = 100  # in one response; further ones are dropped
MAX_ITEMS = 1000  # of an array whose kind sets no bound
MAX_GUESSED = 5  # unknown keys that are compared with the known ones
CLOSE = 0.75  # ratio of difflib, from 0 to 1

_JSON_TYPES = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}

PathT: TypeAlias = tuple[str | int, ...]


class ValueKind(Protocol):
    """The interface of kinds."""

    @property
    def expected(self) -> str:
        """The JSON type of the value, for messages."""

    def read(self, value: Any, at: Position) -> Any:
        """Return ``value`` in its internal form, or report and return INVALID."""


@frozen
class Position:
    """A position in a request, with the issues of the whole request."""

    #: The keys and indexes that lead here.
    path: PathT
    #: The name of the request in messages, for instance ``body (v2)``.
    where: str
    #: The issues so far.
    issues: list[Issue]

    def __truediv__(self, key: str | int) -> Position:
        return Position((*self.path, _cut(key)), self.where, self.issues)

    @property
    def name(self) -> str:
        """The position in messages: keys and indexes with dots."""
        return ".".join(map(str, self.path)) or self.where

    def report(self, code: str, message: str, **facts: Any) -> Any:
        """Add an issue at this position, and return INVALID.

        A message without a subject, which begins with "must", gets this position's name.
        """
        if message.startswith("must "):
            message = f"{self.name} {message}"
        if len(self.issues) < MAX_ISSUES:
            self.issues.append(Issue(code, self.path, message, facts))
        return INVALID

    def report_type(self, expected: str, value: Any) -> Any:
        """Report a value of the wrong JSON type."""
        received = _JSON_TYPES.get(type(value), type(value).__name__)
        # An empty body is read as null.
        is_empty = value is None and not self.path
        got = "but is empty or null" if is_empty else f"got {short(value)}"
        return self.report(
            "invalid_type",
            f"{self.name} must be of type {expected}, {got}",
            expected=expected,
            received=received,
        )

    def outside(self, allowed: Mapping[str, Any], value: object) -> Any:
        """Report a value that is not one of the ``allowed`` ones."""
        names = ", ".join(map(repr, allowed))
        return self.report(
            "invalid_enum_value",
            f"{self.name} must be one of {names}, got {short(value)}",
            options=list(allowed),
            received=_cut(value) if isinstance(value, str) else short(value),
        )

    def too_many(self, noun: str, maximum: int, got: int) -> Any:
        """Report more items, keys or characters than allowed."""
        most = plural(maximum, noun)
        text = f"{self.name} must have at most {most}, got {got}"
        return self.report("too_big", text, maximum=maximum)

    def missing(self, expected: str) -> Any:
        """Report a required value that is absent."""
        return self.report(
            "invalid_type",
            f"{self.name} is required",
            expected=expected,
            received="undefined",
        )

    def below(self, issues: tuple[Issue, ...]) -> Any:
        """Report issues whose paths start at this position."""
        for issue in issues:
            position = self
            for key in issue.path:
                position = position / key
            position.report(issue.code, issue.message, **issue.facts)
        return INVALID


def structure(kind: ValueKind, value: Any, where: str = "body") -> Any:
    """Return a parsed JSON ``value`` in the internal form of ``kind``.

    :raises InvalidOptions: with every issue.
    """
    issues: list[Issue] = []
    result = kind.read(value, Position((), where, issues))
    if issues:
        raise InvalidOptions(issues)
    return result


#: What messages call the body of a request, unless it is of another version.
WHERE = "body (v2)"


@frozen
class BodyReader(Generic[RequestT]):
    """A function that returns the content of a body, and raises :exc:`InvalidOptions`.

    ``name`` is its name in ``module``, by which converter processes import it.
    """

    module: str
    name: str
    kind: Object
    #: What messages call the body.
    where: str = WHERE
    may_be_empty: bool = False

    def __call__(self, body: object) -> RequestT:
        body = {} if body is None and self.may_be_empty else body
        request: RequestT = structure(self.kind, body, self.where)
        return request

    def __reduce__(self) -> tuple[Any, ...]:
        return _import, (self.module, self.name)


def _import(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def short(value: object) -> str:
    """Return ``value`` as text of about 100 characters, without control codes."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # an integer beyond sys.get_int_max_str_digits()
        return "a very long number"


@frozen
class Array:
    """An array, which becomes a tuple."""

    expected: ClassVar[str] = "array"

    item: ValueKind
    maximum: int = MAX_ITEMS

    def read(self, value: Any, at: Position) -> Any:
        if not isinstance(value, list | tuple):
            return at.report_type(self.expected, value)
        if len(value) > self.maximum:
            return at.too_many("item", self.maximum, len(value))
        items = tuple(self.item.read(v, at / i) for i, v in enumerate(value))
        return INVALID if any(item is INVALID for item in items) else items


@frozen
class Pairs:
    """An object with free keys, which becomes pairs in the order of the request."""

    expected: ClassVar[str] = "object"

    item: ValueKind
    maximum: int = MAX_ITEMS

    def read(self, value: Any, at: Position) -> Any:
        if not isinstance(value, dict):
            return at.report_type(self.expected, value)
        given = {key: item for key, item in value.items() if item is not None}
        if len(given) > self.maximum:
            return at.too_many("key", self.maximum, len(given))
        pairs = tuple((k, self.item.read(v, at / k)) for k, v in given.items())
        return INVALID if any(item is INVALID for _, item in pairs) else pairs


@frozen
class Key:
    """A key of an object."""

    #: The kind of the value.
    kind: ValueKind
    #: The name of the value inside the service. None: the value is checked and dropped.
    to: str | None = None
    #: True if a request without the key is invalid.
    required: bool = False
    #: True if another key with the same ``to`` wins over this key.
    alias: bool = False
    #: One sentence for readers of the API description.
    help: str = ""
    #: The value inside the service of a request without the key. Callers apply it.
    default: Any = NO_DEFAULT
    #: True for a key that the reference API does not have.
    is_own: bool = False
    #: True if null is a value: None.
    nullable: bool = False


def values_as_read(values: dict[str, Any], at: Position) -> Any:
    """Return ``values``: the result of an object without a ``make`` of its own."""
    return values


@frozen
class Object:
    """An object with known keys; an unknown key is an issue.

    Null counts as absent, unless its key is nullable.
    """

    expected: ClassVar[str] = "object"

    #: The keys by name.
    fields: Mapping[str, Key]
    #: Returns the result from the values by internal name, or reports an issue between
    #: them. It runs only if every value is valid.
    make: Callable[[dict[str, Any], Position], Any] = values_as_read
    #: Unknown keys with this prefix are dropped.
    ignored_prefix: str | None = None
    #: Keywords of JSON Schema for what ``make`` accepts, for the API description.
    schema: Mapping[str, Any] = field(factory=dict)

    def read(self, value: Any, at: Position) -> Any:
        if not isinstance(value, dict):
            return at.report_type(self.expected, value)
        given = {
            key: item
            for key, item in value.items()
            if item is not None or ((known := self.fields.get(key)) and known.nullable)
        }
        valid = self._knows_all(given, at)
        values: dict[str, Any] = {}
        aliases: dict[str, Any] = {}
        for key, raw in given.items():
            if (field := self.fields.get(key)) is None:
                continue
            item = None if raw is None else field.kind.read(raw, at / key)
            valid = valid and item is not INVALID
            if field.to is not None:
                (aliases if field.alias else values)[field.to] = item
        for key, field in self.fields.items():
            if field.required and key not in given:
                (at / key).missing(field.kind.expected)
                valid = False
        return self.make({**aliases, **values}, at) if valid else INVALID

    def _knows_all(self, given: Mapping[str, Any], at: Position) -> bool:
        prefix = self.ignored_prefix
        unknown = [
            _cut(key)
            for key in given
            if key not in self.fields and not (prefix and key.startswith(prefix))
        ]
        if unknown:
            allowed = ", ".join(key for key in self.fields if not key.startswith("__"))
            spot = f"{at.name} has no " if at.path else ""
            text = f"Unrecognized key in {at.where}: {spot}{short(unknown)}; "
            text += guesses(unknown, self.fields, self._names_below(unknown))
            text += self._guess_outside(unknown, given)
            text += f"allowed are {allowed or 'none'}"
            at.report("unrecognized_keys", text, keys=unknown[:MAX_ISSUES])
        return not unknown

    def _guess_outside(self, unknown: list[str | int], given: Mapping[str, Any]) -> str:
        """Return a question if an unknown object has keys of this one, else ""."""
        for key in unknown[:MAX_GUESSED]:
            inside = given.get(str(key))
            if isinstance(inside, dict) and (found := self.fields.keys() & inside):
                names = " and ".join(map(repr, sorted(found)[:MAX_GUESSED]))
                return f"did you mean {names} outside of {key!r}? "
        return ""

    def _names_below(self, unknown: list[str | int]) -> dict[str, str]:
        """Return where objects in this object have keys of the names in ``unknown``.

        Names that are only close stay out: includeTags of scrapeOptions is closer to
        include than includePaths of a crawl.
        """
        wanted = {_fold(str(key)) for key in unknown[:MAX_GUESSED]}
        kinds = {name: bare_kind(key.kind) for name, key in self.fields.items()}
        return {
            each: f"{name}.{each}"
            for name, kind in kinds.items()
            if isinstance(kind, Object)
            for each in kind.fields
            if _fold(each) in wanted
        }


KeysT: TypeAlias = Mapping[str, Key]
MakeT: TypeAlias = Callable[[dict[str, Any], Position], Any]


@frozen
class Build:
    """A ``make`` for :class:`Object` that calls ``cls`` with the values."""

    cls: Callable[..., Any]
    defaults: Mapping[str, Any]

    def __call__(self, values: dict[str, Any], at: Position) -> Any:
        return self.cls(**{**self.defaults, **values})

    def default_of(self, name: str) -> Any:
        """Return the value of an object without the key that sets ``name``."""
        if name in self.defaults:
            return self.defaults[name]
        if not (isinstance(self.cls, type) and has(self.cls)):
            return NO_DEFAULT
        found = fields_dict(self.cls)[name].default
        is_constant = found is not NOTHING and not hasattr(found, "factory")
        return found if is_constant else NO_DEFAULT


def build(cls: Callable[..., Any], **defaults: Any) -> Build:
    """Return a ``make`` for :class:`Object` that calls ``cls`` with the values."""
    return Build(cls, defaults)


def pick(name: str) -> MakeT:
    """Return a ``make`` for :class:`Object` that returns one of the values."""

    def make(values: dict[str, Any], at: Position) -> Any:
        return values[name]

    return make


def need(kind: ValueKind, to: str, help: str = "") -> Key:  # noqa: A002  # as in Key
    """Return a key that a request must have."""
    return Key(kind, to, required=True, help=help)


def guesses(
    unknown: Iterable[str | int],
    known: Collection[str],
    other_names: Mapping[str, str] | None = None,
) -> str:
    """Return "did you mean ...? " if there are keys like ``unknown``, else "".

    ``other_names`` has keys by names that they have elsewhere.
    """
    names = {**(other_names or {}), **{key: key for key in known}}
    by_folded = {_fold(key): name for key, name in names.items()}
    found = dict.fromkeys(
        repr(meant)
        for key in islice(unknown, MAX_GUESSED)
        if (meant := _guess_key(str(key), known, by_folded))
    )
    return f"did you mean {' and '.join(found)}? " if found else ""


def _guess_key(key: str, known: Collection[str], by_folded: Mapping[str, str]) -> str:
    """Return the key that was meant by an unknown one, "" without any.

    This is a key with a close name, or the only one with all its words: maxDiscoveryDepth for
    maxDepth.
    """
    for match in difflib.get_close_matches(_fold(key), by_folded, 1, CLOSE):
        return by_folded[match]
    words = _words(key)
    wider = [name for name in known if words and words <= _words(name)]
    return wider[0] if len(wider) == 1 else ""


def _fold(key: str) -> str:
    return re.sub("[_-]", "", key).lower()


def _words(key: str) -> set[str]:
    return {word.lower() for word in re.findall("[A-Z]?[a-z0-9]+|[A-Z]+", key)}


@frozen
class Tagged:
    """An object whose ``type`` chooses the kind of its other keys."""

    expected: ClassVar[str] = "object"

    #: The kinds by ``type``.
    kinds: Mapping[str, ValueKind]
    #: True if the string ``x`` stands for ``{"type": "x"}``.
    shorthand: bool = True

    def read(self, value: Any, at: Position) -> Any:
        if isinstance(value, str) and self.shorthand:
            return self._kind_read(value, {}, at, at)
        if not isinstance(value, dict):
            wanted = "a string or " if self.shorthand else ""
            text = f"{at.name} must be {wanted}an object with type, got {short(value)}"
            return at.report("invalid_union", text)
        if value.get("type") is None:
            return (at / "type").missing("string")
        data = {key: item for key, item in value.items() if key != "type"}
        return self._kind_read(value["type"], data, at, at / "type")

    def _kind_read(self, tag: Any, data: Any, at: Position, tag_at: Position) -> Any:
        kind = self.kinds.get(tag) if isinstance(tag, str) else None
        return tag_at.outside(self.kinds, tag) if kind is None else kind.read(data, at)


@frozen
class Then:
    """A kind whose value a function converts or checks.

    A ``ValueError`` of ``convert`` becomes an issue. The issues of an
    ``InvalidOptions`` are added with paths below this position.
    """

    kind: ValueKind
    convert: Callable[[Any], Any]
    #: Keywords of JSON Schema for what ``convert`` accepts, for the API description.
    schema: Mapping[str, Any] = field(factory=dict)

    @property
    def expected(self) -> str:
        return self.kind.expected

    def read(self, value: Any, at: Position) -> Any:
        if (item := self.kind.read(value, at)) is INVALID:
            return INVALID
        try:
            return self.convert(item)
        except InvalidOptions as error:
            return at.below(error.issues)
        except ValueError as error:
            return at.report("custom", str(error))


def bare_kind(kind: Any) -> Any:
    """Return ``kind`` without the conversions of :class:`Then`."""
    while isinstance(kind, Then):
        kind = kind.kind
    return kind


class _Short(reprlib.Repr):
    """Short texts of values, with the names that JSON has for some of them."""

    def repr_NoneType(self, value: None, level: int) -> str:
        return "null"

    def repr_bool(self, value: bool, level: int) -> str:
        return "true" if value else "false"


_SHORT = _Short()
_SHORT.maxstring = 60
_SHORT.maxdict = _SHORT.maxlist = 3
_SHORT.maxlevel = 2


def _cut(key: str | int) -> str | int:
    return key[:100] if isinstance(key, str) else key


MAX_INTEGER = 2**53 - 1  # what a double of any client represents exactly
MAX_TEXT = 100_000  # characters of a string without a bound of its own
MAX_PROMPT = 10_000  # characters


@frozen
class Anything:
    """Any value."""

    expected: ClassVar[str] = "value"

    def read(self, value: Any, at: Position) -> Any:
        return value


@frozen
class Bool:
    """true or false."""

    expected: ClassVar[str] = "boolean"

    def read(self, value: Any, at: Position) -> Any:
        return (
            value if isinstance(value, bool) else at.report_type(self.expected, value)
        )


@frozen
class Number:
    """A finite number. With ``whole`` it has no fraction; ``2.0`` becomes 2.

    With ``is_above`` it is more than ``minimum``.
    """

    minimum: float = -MAX_INTEGER
    maximum: float = MAX_INTEGER
    whole: bool = False
    is_above: bool = False

    @property
    def expected(self) -> str:
        return "integer" if self.whole else "number"

    def read(self, value: Any, at: Position) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return at.report_type(self.expected, value)
        if self.whole and isinstance(value, float):
            if not value.is_integer():
                return at.report_type(self.expected, value)
            value = int(value)
        # Negated, so that NaN, of which no comparison is true, is refused.
        is_enough = value > self.minimum if self.is_above else value >= self.minimum
        if not is_enough:
            sign = ">" if self.is_above else ">="
            text = f"{at.name} must be {sign} {self.minimum}, got {short(value)}"
            return at.report("too_small", text, minimum=self.minimum)
        if value > self.maximum:
            text = f"{at.name} must be <= {self.maximum}, got {short(value)}"
            return at.report("too_big", text, maximum=self.maximum)
        return value


def integer(minimum: int = 0, maximum: int = MAX_INTEGER) -> Number:
    """Return the kind of integers from ``minimum`` to ``maximum``."""
    return Number(minimum, maximum, whole=True)


@frozen
class Text:
    """A string of ``minimum`` to ``maximum`` characters."""

    expected: ClassVar[str] = "string"

    maximum: int = MAX_TEXT
    minimum: int = 0

    def read(self, value: Any, at: Position) -> Any:
        if not isinstance(value, str):
            return at.report_type(self.expected, value)
        if len(value) < self.minimum:
            least = plural(self.minimum, "character")
            text = f"{at.name} must have at least {least}, got {len(value)}"
            return at.report("too_small", text, minimum=self.minimum)
        if len(value) > self.maximum:
            return at.too_many("character", self.maximum, len(value))
        return value


PROMPT = Text(MAX_PROMPT)


@frozen
class Choice:
    """One of the strings of ``values``, which maps them to internal values."""

    expected: ClassVar[str] = "string"

    values: Mapping[str, Any]

    def read(self, value: Any, at: Position) -> Any:
        if not isinstance(value, str):
            return at.report_type(self.expected, value)
        if value not in self.values:
            return at.outside(self.values, value)
        return self.values[value]


def choice(*names: str) -> Choice:
    """Return a choice of strings that are their own internal values."""
    return Choice({name: name for name in names})


@frozen
class Refused:
    """A switch that must be false: the service does not have the feature."""

    expected: ClassVar[str] = "boolean"

    #: Why, for the message.
    reason: str
    #: True if an object requests the feature as well.
    objects: bool = False

    def read(self, value: Any, at: Position) -> Any:
        if value is True or (self.objects and isinstance(value, dict)):
            return at.report(
                "custom", f"{at.name} is not available here: {self.reason}"
            )
        return Bool().read(value, at)
