"""The kinds of single values, for the tables that :mod:`.structure` walks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import frozen

from scraper_service.errors import SchemaRefused
from scraper_service.options.schemas import field_of
from scraper_service.options.structure import Place, short

MAX_INTEGER = 2**53 - 1  # what a double of any client holds exactly
MAX_TEXT = 100_000  # characters of a string without a bound of its own
MAX_SCHEMA_DEPTH = 50
MAX_SCHEMA_VALUES = 10_000


@frozen
class Anything:
    """A value that is accepted and not looked at."""

    expected: ClassVar[str] = "value"

    def read(self, value: Any, at: Place) -> Any:
        return value


@frozen
class Bool:
    """true or false, nothing else."""

    expected: ClassVar[str] = "boolean"

    def read(self, value: Any, at: Place) -> Any:
        return value if isinstance(value, bool) else at.mistyped(self.expected, value)


@frozen
class Number:
    """A finite number; with ``whole``, one without a fraction (``2.0`` is 2)."""

    minimum: float = -MAX_INTEGER
    maximum: float = MAX_INTEGER
    whole: bool = False

    @property
    def expected(self) -> str:
        return "integer" if self.whole else "number"

    def read(self, value: Any, at: Place) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return at.mistyped(self.expected, value)
        if self.whole and isinstance(value, float):
            if not value.is_integer():
                return at.mistyped(self.expected, value)
            value = int(value)
        # Negated, so that NaN, of which no comparison holds, is refused.
        if not value >= self.minimum:
            text = f"{at.name} must be >= {self.minimum}, got {short(value)}"
            return at.report("too_small", text, minimum=self.minimum)
        if value > self.maximum:
            text = f"{at.name} must be <= {self.maximum}, got {short(value)}"
            return at.report("too_big", text, maximum=self.maximum)
        return value


def integer(minimum: int = 0, maximum: int = MAX_INTEGER) -> Number:
    return Number(minimum, maximum, whole=True)


@frozen
class Text:
    """A string of ``minimum`` to ``maximum`` characters."""

    expected: ClassVar[str] = "string"

    maximum: int = MAX_TEXT
    minimum: int = 0

    def read(self, value: Any, at: Place) -> Any:
        if not isinstance(value, str):
            return at.mistyped(self.expected, value)
        if len(value) < self.minimum:
            text = f"{at.name} must have at least {self.minimum} characters"
            return at.report("too_small", text, minimum=self.minimum)
        if len(value) > self.maximum:
            return at.too_many("characters", self.maximum, len(value))
        return value


@frozen
class Choice:
    """One of some strings; ``values`` maps each to its internal value."""

    expected: ClassVar[str] = "string"

    values: Mapping[str, Any]

    def read(self, value: Any, at: Place) -> Any:
        if not isinstance(value, str):
            return at.mistyped(self.expected, value)
        if value not in self.values:
            return at.outside(self.values, value)
        return self.values[value]


def choice(*names: str) -> Choice:
    """Make a choice of strings that stand for themselves."""
    return Choice({name: name for name in names})


@frozen
class Refused:
    """false, where a caller may ask for what the service does not do.

    ``objects`` tells that an object would ask for it, too.
    """

    expected: ClassVar[str] = "boolean"

    reason: str
    objects: bool = False

    def read(self, value: Any, at: Place) -> Any:
        if value is True or (self.objects and isinstance(value, dict)):
            return at.report(
                "custom", f"{at.name} is not available here: {self.reason}"
            )
        return Bool().read(value, at)


@frozen
class Schema:
    """A JSON schema that can be worked with, of bounded depth and size; kept as it is."""

    expected: ClassVar[str] = "object"

    def read(self, value: Any, at: Place) -> Any:
        if not isinstance(value, dict):
            return at.mistyped(self.expected, value)
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
            # The first sentence is that of the interface document, 15.1.
            text = f"Invalid JSON schema. {at.name} cannot be used: {error}"
            return at.report("custom", text)
        return value


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
