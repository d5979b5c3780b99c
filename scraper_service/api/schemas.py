"""The notation of responses: JSON Schemas, as short as the JSON that they describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

#: A JSON Schema (draft 2020-12).
ShapeT: TypeAlias = dict[str, Any]

TEXT: ShapeT = {"type": "string"}
BOOL: ShapeT = {"type": "boolean"}
NUMBER: ShapeT = {"type": "number"}
INTEGER: ShapeT = {"type": "integer"}
COUNT: ShapeT = {"type": "integer", "minimum": 0}
#: ISO 8601 in UTC, with milliseconds.
TIME: ShapeT = {"type": "string", "format": "date-time"}
ID: ShapeT = {"type": "string", "format": "uuid"}
#: A URL of this service. URLs of sites are TEXT: they are returned as written.
URL: ShapeT = {"type": "string", "format": "uri"}
ANY: ShapeT = {}
SUCCESS: ShapeT = {"const": True}


def shape(shapes: Mapping[str, ShapeT], further: ShapeT | None = None) -> ShapeT:
    """Return an object with these members; one whose name ends in ``?`` may be absent.

    ``further`` is the shape of all other members. Without it there are no others now,
    but a client must accept new ones.
    """
    found: ShapeT = {
        "type": "object",
        "properties": {name.rstrip("?"): shape for name, shape in shapes.items()},
    }
    if required := [name for name in shapes if not name.endswith("?")]:
        found["required"] = required
    if further is not None:
        found["additionalProperties"] = further
    return found


def success(shapes: Mapping[str, ShapeT]) -> ShapeT:
    """Return a successful response with these members, see :func:`shape`."""
    return shape({"success": SUCCESS, **shapes})


def array(item: ShapeT) -> ShapeT:
    return {"type": "array", "items": item}


def one_of(*names: str) -> ShapeT:
    """Return a string that is one of ``names``."""
    return {"type": "string", "enum": list(names)}


def either(*shapes: ShapeT) -> ShapeT:
    return {"anyOf": list(shapes)}


def or_null(shape: ShapeT) -> ShapeT:
    if "type" not in shape:  # several shapes, or a reference
        return either(shape, {"type": "null"})
    return {**shape, "type": [shape["type"], "null"]}


def mapping(value: ShapeT) -> ShapeT:
    """Return an object with free keys."""
    return {"type": "object", "additionalProperties": value}


def said(shape: ShapeT, sentence: str) -> ShapeT:
    """Return ``shape`` with a sentence for its readers."""
    return {**shape, "description": sentence}


def own(shape: ShapeT) -> ShapeT:
    """Return the shape of a member that the reference API does not have."""
    return {**shape, "x-own": True}


def ref(name: str) -> ShapeT:
    """Return a reference to a shape of the document's components."""
    return {"$ref": f"#/components/schemas/{name}"}


ISSUE = shape(
    {
        "code": one_of(
            *("invalid_type", "invalid_enum_value", "too_small", "too_big"),
            *("invalid_string", "unrecognized_keys", "invalid_union", "custom"),
        ),
        "path": said(
            array({"type": ["string", "integer"]}), "Keys and indexes from the root."
        ),
        "message": TEXT,
        "expected?": TEXT,
        "received?": TEXT,
        "keys?": array(TEXT),
        "options?": array(TEXT),
        "minimum?": NUMBER,
        "maximum?": NUMBER,
    }
)
#: The body of every error (docs/api.md, Errors).
ERROR = shape(
    {
        "success": {"const": False},
        "error": said(TEXT, "A sentence for a person."),
        "code?": said(TEXT, "A constant."),
        "details?": array(ref("Issue")),
        "feedbackErrorCode?": said(TEXT, "A constant, for feedback alone."),
    }
)
