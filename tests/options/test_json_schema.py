"""What a caller's JSON schema asks for, and which schemas are refused."""

from __future__ import annotations

import pytest

from scraper_service.errors import SchemaRefused
from scraper_service.options.json_schema import MAX_FIELDS, MAX_LEVELS, field_of


def named(field):
    return {below.name: below for below in field.properties}


def test_types_requirements_and_rules_are_read():
    field = field_of(
        {
            "type": "object",
            "required": ["price"],
            "properties": {
                "price": {"type": "number", "minimum": 1, "description": "in euro"},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
                "state": {"enum": ["new", "used", None]},
                "seen": {"type": ["string", "null"], "format": "date"},
            },
        }
    )
    below = named(field)
    assert below["price"].required
    assert below["price"].kind == "number"
    assert below["price"].minimum == 1
    assert below["price"].description == "in euro"
    assert below["tags"].items.kind == "string"
    assert below["tags"].max_items == 3
    assert below["state"].enum == ("new", "used")
    assert below["state"].nullable
    assert (below["seen"].kind, below["seen"].format) == ("string", "date")
    assert below["seen"].nullable
    assert not below["seen"].required


def test_references_inside_the_schema_are_followed():
    field = field_of(
        {
            "$defs": {"Money": {"type": "number", "description": "an amount"}},
            "type": "object",
            "properties": {
                "price": {"$ref": "#/$defs/Money", "description": "of one piece"},
                "first": {"$ref": "#/properties/price"},
            },
        }
    )
    assert named(field)["price"].kind == "number"
    assert named(field)["price"].description == "of one piece"
    assert named(field)["first"].kind == "number"


def test_the_first_type_of_anyOf_that_is_not_null_is_requested():
    field = field_of(
        {
            "type": "object",
            "properties": {
                "size": {
                    "anyOf": [{"type": "null"}, {"type": "integer"}, {"type": "string"}]
                }
            },
        }
    )
    size = named(field)["size"]
    assert (size.kind, size.nullable) == ("integer", True)
    assert [other.kind for other in size.others] == ["string"]


def test_parts_of_allOf_are_merged_into_one_schema():
    field = field_of(
        {
            "allOf": [
                {"properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"properties": {"b": {"type": "integer"}}},
            ]
        }
    )
    assert {n: (f.kind, f.required) for n, f in named(field).items()} == {
        "a": ("string", True),
        "b": ("integer", False),
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"title": "string", "price": "number"},
        {"title": {"type": "string"}, "price": {"type": "number"}},
        {"title": "string", "price": {"type": "number"}},
    ],
)
def test_a_mapping_of_names_is_an_object(schema):
    field = field_of(schema)
    assert field.kind == "object"
    assert {n: f.kind for n, f in named(field).items()} == {
        "title": "string",
        "price": "number",
    }


@pytest.mark.parametrize("beside", [{}, {"description": "an answer"}])
def test_a_schema_inside_itself_is_unfolded_a_few_times(beside):
    comment = {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "replies": {"type": "array", "items": {"$ref": "#/$defs/Comment"} | beside},
        },
    }
    field = field_of({"$defs": {"Comment": comment}, "$ref": "#/$defs/Comment"})
    depth = 0
    while field is not None and field.properties:
        field = named(field)["replies"].items
        depth += 1
    assert 1 < depth < 6


def deep(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def laughs(levels):
    """Each level has the next one ten times: few bytes, very many fields."""
    defs = {
        f"l{n}": {
            "type": "object",
            "properties": {f"p{m}": {"$ref": f"#/$defs/l{n + 1}"} for m in range(10)},
        }
        for n in range(levels)
    }
    defs[f"l{levels}"] = {"type": "string"}
    return {"$defs": defs, "$ref": "#/$defs/l0"}


@pytest.mark.parametrize(
    ("schema", "reason", "pointer"),
    [
        ([], "must be a JSON object", ""),
        (
            {"properties": {"a": {"$ref": "https://evil.example/s.json"}}},
            "only references inside the schema are followed, not https://evil.example",
            "/properties/a",
        ),
        ({"$ref": "#"}, "# refers to itself", ""),
        (
            {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
            | {"properties": {"x": {"$ref": "#/$defs/a"}}},
            "refers to itself",
            "/properties/x",
        ),
        (
            {"properties": {"a": {"$ref": "#/$defs/no"}}},
            "there is no #/$defs/no",
            "/properties/a",
        ),
        (deep(MAX_LEVELS + 1), f"at most {MAX_LEVELS} levels deep", None),
        (deep(900), f"at most {MAX_LEVELS} levels deep", None),
        (
            {"properties": {f"p{n}": {} for n in range(10_000)}},
            f"at most {MAX_FIELDS} fields",
            None,
        ),
        (laughs(9), f"at most {MAX_FIELDS} fields", None),
        ({"properties": {"n" * 300: {}}}, "a name may have at most 200", None),
        ({"properties": {"a": 5}}, "must be a JSON object", "/properties/a"),
        ({"anyOf": [{}] * 60}, "at most 50 choices", ""),
        ({"type": 5}, "type must be one of string, integer, number, ", ""),
        (
            {"properties": {"a": {"type": ["string", "strange"]}}},
            'got "strange"',
            "/properties/a",
        ),
        ({"type": []}, "array, object, null, got []", ""),
        ({"required": ["a", 5]}, "a list of names, got 5 in it", ""),
        ({"properties": []}, "properties must be an object, got []", ""),
        (
            {"type": "array", "items": {"required": "a"}},
            'required must be a list of names, got "a"',
            "/items",
        ),
        ({"allOf": [{"enum": 3}]}, "enum must be a list of values", "/allOf/0"),
        ({"anyOf": {}}, "anyOf must be a list of schemas", ""),
    ],
    ids=[
        "no object",
        "remote",
        "loop",
        "loop of two",
        "broken",
        "deep",
        "very deep",
        "10,000 properties",
        "many laughs",
        "long name",
        "number",
        "choices",
        "a type that is none",
        "a type of two that is none",
        "no type",
        "a required number",
        "properties in a list",
        "required by name",
        "a part that is no schema",
        "choices in an object",
    ],
)
def test_unusable_schemas_are_refused_at_once(schema, reason, pointer):
    with pytest.raises(SchemaRefused) as refused:
        field_of(schema)
    assert reason in refused.value.reason
    if pointer is not None:
        assert refused.value.pointer == pointer


def test_an_index_of_thousands_of_digits_is_refused():
    schema = {"allOf": [{"$ref": "#/allOf/" + "9" * 5000}]}
    with pytest.raises(SchemaRefused, match="there is no #/allOf/9"):
        field_of(schema)


def test_unknown_schema_keywords_are_ignored():
    field = field_of(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "a": {"type": "string", "pattern": "^x", "if": {}, "x-own": [1]},
                "b": True,
                "c": False,
                "d": {"type": "str"},
                "e": {},
            },
        }
    )
    assert {n: f.kind for n, f in named(field).items()} == {
        "a": "string",
        "b": "",
        "d": "string",
        "e": "",
    }
