"""Classes of responses: their JSON and their schemas."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from attrs import frozen

from scraper_service.api.schemas import (
    NULL,
    Id,
    JsonObject,
    Maybe,
    Seconds,
    Shape,
    Success,
    Time,
    json_object,
    member,
    success,
)

ID = "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11"


@frozen
class Owner:
    name: str | None = "ada"


@frozen
class Row:
    id: str = ID
    created_at: float = 1.5
    ended_at: float | None = None
    waited_s: float = 0.12345
    note: str | None = None
    owner: Owner | None = Owner()
    parts: tuple[dict[str, Any], ...] = ({"page_count": 2},)


class Part(JsonObject):
    page_count: int


class Whole(Success):
    id: Id
    created_at: Time
    ended_at: Time | None
    waited: Seconds = member(source="waited_s")
    note: Maybe[str] = member("A remark.", own=True)
    owner: str | None = member(source="owner.name")
    shown_url: Maybe[str] = member(key="shownURL", source=lambda row: None)
    kind: Literal["row"]
    parts: list[Part]


def test_a_record_becomes_an_object_in_the_order_of_its_members():
    assert list(Whole.of(Row()).items()) == [
        ("success", True),
        ("id", ID),
        ("createdAt", "1970-01-01T00:00:01.500Z"),
        ("endedAt", None),
        ("waited", 0.123),
        ("owner", "ada"),
        ("kind", "row"),
        ("parts", [{"pageCount": 2}]),
    ]


def test_objects_have_their_own_schema():
    full = Row(ended_at=2.0, note="x", owner=None)
    for row in (Row(), full, Row(owner=Owner(None))):
        jsonschema.validate(json.loads(Whole.to_json(row)), Whole.shape)
    assert Whole.shape["properties"]["note"] == {
        "type": "string",
        "description": "A remark.",
        "x-own": True,
    }
    optional = Whole.shape["properties"].keys() - set(Whole.shape["required"])
    assert optional == {"note", "shownURL"}


def test_given_values_replace_values_of_the_record():
    found = Whole.of(Row(), owner="bob", note="x", shown_url="http://a.example/")
    assert (found["owner"], found["note"]) == ("bob", "x")
    assert found["shownURL"] == "http://a.example/"
    with pytest.raises(TypeError, match="Whole has not all of ownr"):
        Whole.of(Row(), ownr="bob")


def test_a_record_without_an_attribute_is_an_error():
    with pytest.raises(AttributeError):
        Part.of(Row())


def test_a_missing_value_is_null_or_left_out_by_its_type():
    class Both(JsonObject):
        always: int | None
        sometimes: Maybe[int]

    assert Both.of({}) == {"always": None}
    assert Both.of(always=0, sometimes=NULL) == {"always": 0, "sometimes": None}


def test_an_object_that_is_already_built_stays_unchanged():
    made = Part.of(page_count=1)
    assert success(part=Part).of(part=made) == {"success": True, "part": made}


def test_subclasses_add_and_replace_members_of_their_bases():
    class More(Part, spelled=str, further=str):
        page_count: str
        is_last: Annotated[bool, Shape(const=True)]

    assert More.shape == {
        "type": "object",
        "properties": {"page_count": {"type": "string"}, "is_last": {"const": True}},
        "required": ["page_count", "is_last"],
        "additionalProperties": {"type": "string"},
    }


def test_unknown_types_are_refused():
    with pytest.raises(TypeError, match="have no type"):
        json_object(x=set[int])
