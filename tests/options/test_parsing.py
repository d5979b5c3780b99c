"""The kinds of values, their bounds, and the paths of their issues."""

from __future__ import annotations

import pytest

from scraper_service.errors import InvalidOptions
from scraper_service.options.json_schema import (
    MAX_SCHEMA_DEPTH,
    MAX_SCHEMA_VALUES,
    Schema,
)
from scraper_service.options.parsing import (
    MAX_INTEGER,
    MAX_ISSUES,
    Array,
    Bool,
    Key,
    Number,
    Object,
    Pairs,
    Refused,
    Tagged,
    Text,
    Then,
    choice,
    integer,
    structure,
)


def issues_of(kind, value, where="body"):
    with pytest.raises(InvalidOptions) as caught:
        structure(kind, value, where)
    return caught.value.issues


def nested(depth):
    value = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Bool(), True, True),
        (Bool(), False, False),
        (integer(0, 5), 0, 0),
        (integer(0, 5), 5, 5),
        (integer(0, 5), 5.0, 5),
        (integer(0), MAX_INTEGER, MAX_INTEGER),
        (Number(0, 2), 0.5, 0.5),
        (Text(3), "abc", "abc"),
        (Text(3, minimum=1), "a", "a"),
        (choice("a", "b"), "b", "b"),
        (Array(Bool(), 2), [True, False], (True, False)),
        (Array(Bool(), 0), [], ()),
        (Pairs(Text()), {"a": "1", "b": None}, (("a", "1"),)),
        (Then(Text(), str.upper), "a", "A"),
        (Refused("why"), False, False),
        (Schema(), {"default": None}, {"default": None}),
        (Schema(), nested(MAX_SCHEMA_DEPTH - 1), nested(MAX_SCHEMA_DEPTH - 1)),
    ],
)
def test_value_is_read(kind, value, expected):
    result = structure(kind, value)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("kind", "value", "code", "facts"),
    [
        (Bool(), 1, "invalid_type", {"expected": "boolean", "received": "number"}),
        (Bool(), "true", "invalid_type", {"expected": "boolean", "received": "string"}),
        (integer(), "5", "invalid_type", {"expected": "integer", "received": "string"}),
        (
            integer(),
            True,
            "invalid_type",
            {"expected": "integer", "received": "boolean"},
        ),
        (integer(), 1.5, "invalid_type", {"expected": "integer", "received": "number"}),
        (
            integer(),
            float("inf"),
            "invalid_type",
            {"expected": "integer", "received": "number"},
        ),
        (integer(1, 5), 0, "too_small", {"minimum": 1}),
        (integer(1, 5), 6, "too_big", {"maximum": 5}),
        (integer(0), MAX_INTEGER + 1, "too_big", {"maximum": MAX_INTEGER}),
        (Number(0, 2), float("nan"), "too_small", {"minimum": 0}),
        (Text(3), "abcd", "too_big", {"maximum": 3}),
        (Text(3, minimum=1), "", "too_small", {"minimum": 1}),
        (Text(3), None, "invalid_type", {"expected": "string", "received": "null"}),
        (
            choice("a", "b"),
            "c",
            "invalid_enum_value",
            {"options": ["a", "b"], "received": "c"},
        ),
        (Array(Bool(), 1), [True, True], "too_big", {"maximum": 1}),
        (
            Array(Bool()),
            {"a": 1},
            "invalid_type",
            {"expected": "array", "received": "object"},
        ),
        (
            Pairs(Text()),
            [],
            "invalid_type",
            {"expected": "object", "received": "array"},
        ),
        (Pairs(Text(), 1), {"a": "", "b": ""}, "too_big", {"maximum": 1}),
        (Refused("why"), True, "custom", {}),
        (Refused("why", objects=True), {}, "custom", {}),
        (Schema(), nested(MAX_SCHEMA_DEPTH), "custom", {}),
        (Schema(), {"a": [0] * MAX_SCHEMA_VALUES}, "custom", {}),
        (Schema(), [], "invalid_type", {"expected": "object", "received": "array"}),
        (
            Tagged({"a": Object({})}),
            5,
            "invalid_union",
            {},
        ),
        (
            Tagged({"a": Object({})}),
            "b",
            "invalid_enum_value",
            {"options": ["a"], "received": "b"},
        ),
    ],
)
def test_value_is_refused_with_facts(kind, value, code, facts):
    (issue,) = issues_of(kind, value)
    assert (issue.code, issue.path, issue.facts) == (code, (), facts)
    assert len(issue.message) < 300


INNER = Object({"n": Key(integer(1), "number", required=True)})
OUTER = Object(
    {
        "list": Key(Array(INNER), "items"),
        "old": Key(Bool(), "flag", alias=True),
        "new": Key(Bool(), "flag"),
        "dropped": Key(Bool()),
    },
    ignored_prefix="__x_",
)


def test_issue_path_leads_to_the_value_in_the_callers_spelling():
    (issue,) = issues_of(OUTER, {"list": [{"n": 1}, {"n": 0}]})
    assert issue.path == ("list", 1, "n")
    assert issue.message == "list.1.n must be >= 1, got 0"


def test_all_issues_are_raised_together():
    issues = issues_of(OUTER, {"new": 1, "list": [{}, {"n": "1"}]})
    assert [i.path for i in issues] == [("new",), ("list", 0, "n"), ("list", 1, "n")]
    assert issues[1].message == "list.0.n is required"
    assert issues[1].facts["received"] == "undefined"


def test_null_counts_as_absent():
    assert structure(OUTER, {"list": None, "unknown": None}) == {}
    (issue,) = issues_of(INNER, {"n": None})
    assert issue.path == ("n",)


def test_unknown_keys_are_named_with_their_input():
    (issue,) = issues_of(OUTER, {"a": 1, "b": 2}, "body (v2)")
    assert issue.code == "unrecognized_keys"
    assert issue.path == ()
    assert issue.facts == {"keys": ["a", "b"]}
    assert issue.message.startswith("Unrecognized key in body (v2): ['a', 'b']; ")


def test_keys_with_the_ignored_prefix_pass():
    assert structure(OUTER, {"__x_anything": object()}) == {}


@pytest.mark.parametrize("keys", [("old", "new"), ("new", "old")])
def test_alias_gives_way_to_the_name_proper(keys):
    body = {key: key == "new" for key in keys}
    assert structure(OUTER, body) == {"flag": True}


def test_alias_stands_in_when_the_name_proper_is_null():
    assert structure(OUTER, {"old": False, "new": None}) == {"flag": False}


def test_string_is_the_short_form_of_a_tagged_object():
    kind = Tagged({"inner": INNER, "empty": Object({}, lambda values, at: "made")})
    assert structure(kind, "empty") == structure(kind, {"type": "empty"}) == "made"
    assert issues_of(kind, "inner")[0].path == ("n",)
    assert issues_of(kind, {})[0].path == ("type",)
    assert issues_of(kind, {"type": 5})[0].path == ("type",)


def test_the_number_of_issues_in_a_response_is_bounded():
    assert len(issues_of(Array(Bool(), 1000), ["x"] * 1000)) == MAX_ISSUES


def test_invalid_object_is_never_made_after_the_bound_is_reached():
    kind = Array(Object(INNER.fields, lambda values, at: values["number"]), 1000)
    assert len(issues_of(kind, [{}] * 1000)) == MAX_ISSUES


def test_long_values_and_keys_are_cut_in_messages():
    (issue,) = issues_of(OUTER, {"k" * 10_000: 1})
    assert len(issue.facts["keys"][0]) == 100
    (issue,) = issues_of(Pairs(Bool()), {"k" * 10_000: "v" * 10_000})
    assert len(issue.path[0]) == 100
    assert len(issue.message) < 300


def test_number_too_long_to_print_is_refused():
    (issue,) = issues_of(integer(0), 10**5000)
    assert issue.code == "too_big"
