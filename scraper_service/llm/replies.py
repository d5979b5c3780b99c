"""Parse, repair and validate the answers of a language model.

This module runs in the converter pool: answers are as untrusted as pages, and the
regular expressions of a caller's schema may run for any time.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field, frozen

from scraper_service.content.structured_data.merging import PageData, is_empty, merge
from scraper_service.errors import SchemaRefused
from scraper_service.options.json_schema import Field, field_of, is_bare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WRAPPED = "value"  # key around a value that is not an object
MAX_ERRORS = 5  # errors sent back to the model
MAX_DEPTH = 100  # levels of a value
MAX_MENDED = 20_000  # characters of invalid JSON; its repair takes quadratic time
NO_JSON = "it answered with JSON instead of a text"

_THOUGHTS = re.compile(r"\A\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)
_BRACKET = re.compile(r"[][{}]")
_DECODER = json.JSONDecoder()
_FENCED = re.compile(r"```[\w-]*[ \t]*\n(.*?)(?:\n```|\Z)", re.DOTALL)
_ANSWER = ""  # stands for the URL of an answer among those of its pages


@frozen(kw_only=True)
class Completion:
    """The parsed response of a chat server."""

    #: The text of the model, without its thoughts.
    text: str = ""
    #: The JSON of the text, if a schema was given.
    value: Any = None
    #: The validation errors of the value, as sentences for the model.
    schema_errors: tuple[str, ...] = ()
    #: JSON pointers of required values that are null.
    missing: tuple[str, ...] = ()
    #: True if the text ends at the limit of tokens.
    is_cut: bool = False
    #: The tokens counted by the server; 0 without a count.
    tokens: int = 0
    #: Of these, the tokens of the answer.
    answer_tokens: int = 0
    #: Why the response has no answer; None otherwise.
    error: str | None = None


def read_completion(
    body: bytes, schema: Mapping[str, Any] | None, *, is_prose: bool = False
) -> Completion:
    """Parse the body of a chat server's response.

    With a caller's ``schema`` the text must be JSON that is valid by this schema. With
    ``is_prose`` a text that is a JSON object or list is no answer.
    """
    try:
        answer = json.loads(body)
        choice = answer["choices"][0]
        text = _content(choice["message"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return Completion(error="its server did not answer as a chat server does")
    text = _THOUGHTS.sub("", text).strip()
    facts: dict[str, Any] = {
        "text": text,
        "is_cut": choice.get("finish_reason") == "length",
        "tokens": _tokens(answer.get("usage"), "total_tokens"),
        "answer_tokens": _tokens(answer.get("usage"), "completion_tokens"),
    }
    if not text:
        return Completion(**facts, error="it said nothing")
    if schema is None:
        return Completion(**facts, error=_text_error(text, is_prose=is_prose))
    value, errors, missing = read_value(text, schema)
    return Completion(**facts, value=value, schema_errors=errors, missing=missing)


def read_value(
    text: str, schema: Mapping[str, Any]
) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """Return the JSON in ``text``, its validation errors and its missing values.

    Keys outside the schema are dropped. Null is allowed everywhere below an object and
    means that the page lacks the value. Optional properties that are null are left out.
    """
    wanted = field_of(schema)
    try:
        value = _finite(_load(text))
        if wanted.kind != "object" and isinstance(value, dict):
            value = value.get(WRAPPED, value)
        fitting = _Fitting()
        value = fitting.fit(value, wanted)
    except (ValueError, RecursionError):
        return None, ("The answer is not JSON.",), ()
    if value is None and wanted.kind == "object" and not wanted.nullable:
        return None, ("The answer is null, not an object.",), ()
    errors = _errors(value, schema, wanted)
    return value, errors, tuple(fitting.missing)


def model_schema(wanted: Field) -> dict[str, Any]:
    """Return a simplified schema for the server of a model.

    The schema has no references and no regular expressions. All properties are required
    and may be null, because strict servers accept nothing else. A schema of another
    type than object is wrapped in an object.
    """
    if wanted.kind == "object":
        return _of_field(wanted)
    inner = _of_field(wanted, nullable=True)
    return {
        "type": "object",
        "properties": {WRAPPED: inner},
        "required": [WRAPPED],
        "additionalProperties": False,
    }


def is_closed(wanted: Field) -> bool:
    """Return True if the schema names all keys that an answer may have."""
    if wanted.is_open or not wanted.kind:
        return False
    below = (*wanted.properties, *wanted.others, *filter(None, (wanted.items,)))
    return (wanted.kind != "array" or wanted.items is not None) and all(
        is_closed(each) for each in below
    )


def _of_field(wanted: Field, *, nullable: bool = False) -> dict[str, Any]:
    if wanted.others:
        first = evolve(wanted, others=(), description="")
        each = [_of_field(one) for one in (first, *wanted.others)]
        choices = [*each, {"type": "null"}] if nullable else each
        return {"anyOf": choices, **_description(wanted)}
    found: dict[str, Any] = _description(wanted)
    if wanted.kind:
        found["type"] = [wanted.kind, "null"] if nullable else wanted.kind
    if wanted.enum:
        found["enum"] = [*wanted.enum, None] if nullable else list(wanted.enum)
    if wanted.kind == "array":
        found["items"] = _of_field(wanted.items) if wanted.items else {}
    if wanted.kind == "object" and not wanted.is_open:
        found["properties"] = {
            below.name: _of_field(below, nullable=True) for below in wanted.properties
        }
        found["required"] = [below.name for below in wanted.properties]
        found["additionalProperties"] = False
    return found


def _description(wanted: Field) -> dict[str, Any]:
    hints = [wanted.description]
    if wanted.format:
        hints.append(f"Format: {wanted.format}.")
    if wanted.pattern:
        hints.append(f"It has to match the regular expression {wanted.pattern}")
    text = " ".join(filter(None, hints))
    return {"description": text} if text else {}


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):  # some servers send a list of parts
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _text_error(text: str, *, is_prose: bool) -> str | None:
    """Return why a text is no answer, None if it is."""
    if text[0] not in '[{"n':
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        is_broken = text.startswith('{"') or _depth(text) > MAX_DEPTH
        return NO_JSON if is_prose and is_broken else None
    if not _has_content(value):
        return "it said nothing"
    return NO_JSON if is_prose and isinstance(value, (dict, list)) else None


def _has_content(value: Any) -> bool:
    """Return True if a value has more than nulls and empty values."""
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, (dict, list)):
            left += value.values() if isinstance(value, dict) else value
        elif value is not None and value != "":
            return True
    return False


def _tokens(usage: Any, name: str) -> int:
    count = usage.get(name) if isinstance(usage, dict) else 0
    return count if isinstance(count, int) and 0 < count < 2**31 else 0


def _load(text: str) -> Any:
    """Return the JSON in a text; raise :exc:`ValueError` if there is none."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    if fenced := _FENCED.search(text):
        text = fenced[1]
    start = min((i for i in (text.find("{"), text.find("[")) if i >= 0), default=-1)
    if start < 0:
        raise ValueError("no JSON")
    try:
        return _DECODER.raw_decode(text, start)[0]  # a text may follow
    except ValueError:
        pass
    text = text[start:]
    if len(text) > MAX_MENDED or _depth(text) > MAX_DEPTH:
        raise ValueError("too much to be mended")
    from json_repair import loads  # noqa: PLC0415  # most answers need no repair

    return loads(text)


def _depth(text: str) -> int:
    """Return the most brackets that are open at once, those in strings included."""
    most = depth = 0
    for found in _BRACKET.finditer(text):
        depth += 1 if found[0] in "[{" else -1
        most = max(most, depth)
    return most


@define
class _Fitting:
    """Drops the keys outside a schema.

    ``missing`` collects JSON pointers of required values that are null.
    """

    missing: list[str] = field(factory=list)

    def fit(self, value: Any, wanted: Field, pointer: str = "") -> Any:
        if wanted.others:
            return value
        if isinstance(value, dict) and wanted.kind == "object" and wanted.properties:
            return self._object(value, wanted, pointer)
        if isinstance(value, list) and wanted.kind == "array" and wanted.items:
            return [
                self.fit(item, wanted.items, f"{pointer}/{i}")
                for i, item in enumerate(value)
                if item is not None or wanted.items.nullable
            ]
        return value

    def _object(
        self, value: dict[str, Any], wanted: Field, pointer: str
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for below in wanted.properties:
            name = below.name.replace("~", "~0").replace("/", "~1")
            path = f"{pointer}/{name}"
            item = value.get(below.name)
            if item is not None:
                found[below.name] = self.fit(item, below, path)
            elif below.required:
                found[below.name] = None
                if not below.nullable:
                    self.missing.append(path)
            elif below.nullable and below.name in value:
                found[below.name] = None
        return found


def _finite(value: Any, level: int = 0) -> Any:
    """Return a value with null for NaN and infinity, which JSON does not have.

    Raises :exc:`ValueError` for a value with more than ``MAX_DEPTH`` levels.
    """
    if level > MAX_DEPTH:
        raise ValueError("too deep")
    if isinstance(value, dict):
        return {str(k): _finite(v, level + 1) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(item, level + 1) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _errors(value: Any, schema: Mapping[str, Any], wanted: Field) -> tuple[str, ...]:
    """Return the errors of a value by a caller's schema; null is allowed everywhere."""
    import jsonschema  # noqa: PLC0415  # only where a model has answered
    from referencing import Registry  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    unusable = (
        jsonschema.exceptions.SchemaError,
        jsonschema.exceptions.UnknownType,
        Unresolvable,
        re.error,
        AttributeError,
        TypeError,
        RecursionError,
    )
    made = _of_field(wanted)
    for rule in (made if is_bare(schema) else schema, made):
        validator = jsonschema.Draft202012Validator(rule, registry=Registry())
        try:
            validator.check_schema(rule)
            errors = [e for e in validator.iter_errors(value) if e.instance is not None]
        except unusable:
            continue  # an invalid schema: use the simplified schema
        return tuple(
            f"At /{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"
            for error in errors[:MAX_ERRORS]
        )
    raise SchemaRefused("the schema cannot be used")


@frozen(kw_only=True)
class PageAnswer:
    """An answer by a schema."""

    #: None if no page has data, or if they cannot be made to fit.
    value: Any = None
    #: True if it is valid by the schema and has every required value.
    is_valid: bool = False
    #: JSON pointers of required values that are null.
    missing: tuple[str, ...] = ()


def merge_pages(pages: Sequence[PageData], schema: Mapping[str, Any]) -> PageAnswer:
    """Return the merged data of ``pages`` as an answer by a caller's schema."""
    data = merge(pages).data
    if is_empty(data):
        return PageAnswer()
    value, errors, missing = read_value(json.dumps(data), schema)
    return PageAnswer(
        value=data if value is None else value,
        is_valid=value is not None and not errors and not missing,
        missing=missing,
    )


def field_sources(value: Any, pages: Sequence[PageData]) -> dict[str, list[str]]:
    """Return for each field of ``value`` the URLs of the pages that have its value.

    The result is empty for values that are no objects.
    """
    if not isinstance(value, dict):
        return {}
    found = merge([PageData(_ANSWER, value), *pages]).sources
    kept = {
        name: [url for url in urls if url != _ANSWER]
        for name, urls in found.items()
        if name in value
    }
    return {name: urls for name, urls in kept.items() if urls}
