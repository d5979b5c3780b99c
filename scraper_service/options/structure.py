"""A small language for what a caller may send, and the walker that reads it.

A table of :class:`Field` describes an object; every kind of value below has one
``read``, which returns the value in its internal form or reports an issue and returns
:data:`INVALID`. Names, bounds and defaults are the tables of the callers.
"""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Protocol, TypeAlias

from attrs import frozen

from scraper_service.errors import InvalidOptions, Issue

INVALID: Final = object()  # what a kind returns after it has reported an issue

MAX_ISSUES = 100  # in one answer; further ones are dropped
MAX_ITEMS = 1000  # of an array without a bound of its own
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


class Kind(Protocol):
    """How one value is read; ``expected`` names its JSON type in messages."""

    @property
    def expected(self) -> str: ...

    def read(self, value: Any, at: Place) -> Any:
        """Return ``value`` in its internal form, or report and return INVALID."""


@frozen
class Place:
    """Where in the input the walker stands, and the issues found so far.

    ``where`` names the input in messages, for instance ``body (v2)``.
    """

    path: PathT
    where: str
    issues: list[Issue]

    def __truediv__(self, key: str | int) -> Place:
        return Place((*self.path, _cut(key)), self.where, self.issues)

    @property
    def name(self) -> str:
        return ".".join(map(str, self.path)) or self.where

    def report(self, code: str, message: str, **facts: Any) -> Any:
        """Note an issue here; the result is INVALID, to be returned by the caller."""
        if len(self.issues) < MAX_ISSUES:
            self.issues.append(Issue(code, self.path, message, facts))
        return INVALID

    def mistyped(self, expected: str, value: Any) -> Any:
        received = _JSON_TYPES.get(type(value), type(value).__name__)
        return self.report(
            "invalid_type",
            f"{self.name} must be of type {expected}, got {short(value)}",
            expected=expected,
            received=received,
        )

    def outside(self, allowed: Mapping[str, Any], value: object) -> Any:
        names = ", ".join(map(repr, allowed))
        return self.report(
            "invalid_enum_value",
            f"{self.name} must be one of {names}, got {short(value)}",
            options=list(allowed),
            received=_cut(value) if isinstance(value, str) else short(value),
        )

    def too_many(self, what: str, maximum: int, got: int) -> Any:
        text = f"{self.name} must have at most {maximum} {what}, got {got}"
        return self.report("too_big", text, maximum=maximum)

    def missing(self, expected: str) -> Any:
        return self.report(
            "invalid_type",
            f"{self.name} is required",
            expected=expected,
            received="undefined",
        )

    def below(self, issues: tuple[Issue, ...]) -> Any:
        """Note issues whose paths start at this place."""
        for issue in issues:
            place = self
            for key in issue.path:
                place = place / key
            place.report(issue.code, issue.message, **issue.facts)
        return INVALID


def structure(kind: Kind, value: Any, where: str = "body") -> Any:
    """Read ``value``, as it came out of a JSON parser, as ``kind``.

    :raises InvalidOptions: with every fault found.
    """
    issues: list[Issue] = []
    result = kind.read(value, Place((), where, issues))
    if issues:
        raise InvalidOptions(issues)
    return result


def short(value: object) -> str:
    """Return ``value`` for a message: at most some 100 characters, no control codes."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # an integer beyond sys.get_int_max_str_digits()
        return "a very long number"


@frozen
class Array:
    """An array, read into a tuple."""

    expected: ClassVar[str] = "array"

    item: Kind
    maximum: int = MAX_ITEMS

    def read(self, value: Any, at: Place) -> Any:
        if not isinstance(value, list | tuple):
            return at.mistyped(self.expected, value)
        if len(value) > self.maximum:
            return at.too_many("items", self.maximum, len(value))
        items = tuple(self.item.read(v, at / i) for i, v in enumerate(value))
        return INVALID if any(item is INVALID for item in items) else items


@frozen
class Pairs:
    """An object with free keys, read into pairs in the order given."""

    expected: ClassVar[str] = "object"

    item: Kind
    maximum: int = MAX_ITEMS

    def read(self, value: Any, at: Place) -> Any:
        if not isinstance(value, dict):
            return at.mistyped(self.expected, value)
        given = {key: item for key, item in value.items() if item is not None}
        if len(given) > self.maximum:
            return at.too_many("keys", self.maximum, len(given))
        pairs = tuple((k, self.item.read(v, at / k)) for k, v in given.items())
        return INVALID if any(item is INVALID for _, item in pairs) else pairs


@frozen
class Field:
    """A key of an object.

    ``to`` is the name of the value inside the service, None for a key that is read
    and dropped. An ``alias`` gives way to another key with the same ``to``.
    """

    kind: Kind
    to: str | None = None
    required: bool = False
    alias: bool = False


def values_as_read(values: dict[str, Any], at: Place) -> Any:
    return values


@frozen
class Object:
    """A strict object: null counts as absent, an unknown key is an issue.

    ``make`` turns the values by internal name into the result, or reports across
    fields; it is called only when every field is right. Keys that start with
    ``ignored_prefix`` are dropped.
    """

    expected: ClassVar[str] = "object"

    fields: Mapping[str, Field]
    make: Callable[[dict[str, Any], Place], Any] = values_as_read
    ignored_prefix: str | None = None

    def read(self, value: Any, at: Place) -> Any:
        if not isinstance(value, dict):
            return at.mistyped(self.expected, value)
        given = {key: item for key, item in value.items() if item is not None}
        valid = self._knows_all(given, at)
        values: dict[str, Any] = {}
        aliases: dict[str, Any] = {}
        for key, raw in given.items():
            if (field := self.fields.get(key)) is None:
                continue
            item = field.kind.read(raw, at / key)
            valid = valid and item is not INVALID
            if field.to is not None:
                (aliases if field.alias else values)[field.to] = item
        for key, field in self.fields.items():
            if field.required and key not in given:
                (at / key).missing(field.kind.expected)
                valid = False
        return self.make({**aliases, **values}, at) if valid else INVALID

    def _knows_all(self, given: Mapping[str, Any], at: Place) -> bool:
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
            text += f"{_guesses(unknown, self.fields)}allowed are {allowed or 'none'}"
            at.report("unrecognized_keys", text, keys=unknown[:MAX_ISSUES])
        return not unknown


def _guesses(unknown: list[str | int], known: Iterable[str]) -> str:
    """Return "did you mean ...? " for keys that are close to known ones, else nothing."""
    by_lower = {key.replace("_", "").lower(): key for key in known}
    found: dict[str, None] = {}
    for key in unknown[:MAX_GUESSED]:
        folded = re.sub("[_-]", "", str(key)).lower()
        for match in difflib.get_close_matches(folded, by_lower, 1, CLOSE):
            found[repr(by_lower[match])] = None
    return f"did you mean {' and '.join(found)}? " if found else ""


@frozen
class Tagged:
    """An object whose ``type`` decides how the rest is read.

    With ``shorthand``, the string ``x`` stands for ``{"type": "x"}``.
    """

    expected: ClassVar[str] = "object"

    kinds: Mapping[str, Kind]
    shorthand: bool = True

    def read(self, value: Any, at: Place) -> Any:
        if isinstance(value, str) and self.shorthand:
            return self._kind_read(value, {}, at, at)
        if not isinstance(value, dict):
            wanted = "a string or " if self.shorthand else ""
            text = f"{at.name} must be {wanted}an object with type, got {short(value)}"
            return at.report("invalid_union", text)
        if value.get("type") is None:
            return (at / "type").missing("string")
        rest = {key: item for key, item in value.items() if key != "type"}
        return self._kind_read(value["type"], rest, at, at / "type")

    def _kind_read(self, tag: Any, rest: Any, at: Place, tag_at: Place) -> Any:
        kind = self.kinds.get(tag) if isinstance(tag, str) else None
        return tag_at.outside(self.kinds, tag) if kind is None else kind.read(rest, at)


@frozen
class Then:
    """A kind whose value is converted, or checked by a converter.

    A ``ValueError`` of ``convert`` becomes an issue, an ``InvalidOptions`` all its
    issues, with paths below this one.
    """

    kind: Kind
    convert: Callable[[Any], Any]

    @property
    def expected(self) -> str:
        return self.kind.expected

    def read(self, value: Any, at: Place) -> Any:
        if (item := self.kind.read(value, at)) is INVALID:
            return INVALID
        try:
            return self.convert(item)
        except InvalidOptions as error:
            return at.below(error.issues)
        except ValueError as error:
            return at.report("custom", str(error))


_SHORT = reprlib.Repr()
_SHORT.maxstring = 60
_SHORT.maxdict = _SHORT.maxlist = 3
_SHORT.maxlevel = 2


def _cut(key: str | int) -> str | int:
    return key[:100] if isinstance(key, str) else key
