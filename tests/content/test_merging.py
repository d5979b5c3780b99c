"""One answer from the data of several pages."""

from __future__ import annotations

import json

import pytest

from scraper_service.content.structured_data.merging import (
    PageData,
    is_empty,
    merge,
    result_json,
)

A, B, C = (f"http://{name}.example" for name in "abc")


def data(*values):
    """Return the data of pages that have these values."""
    pages = zip((A, B, C), values, strict=False)
    return merge(PageData(url, value) for url, value in pages).data


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([None, None], None),
        ([{"a": None}, {"a": None}], {"a": None}),
        ([{"a": 1}], {"a": 1}),
        ([{"a": 1}, {"a": 2}], {"a": 1}),
        ([{"a": None, "b": ""}, {"a": 2, "b": "x"}], {"a": 2, "b": "x"}),
        ([{"a": 0, "b": False}, {"a": 2, "b": True}], {"a": 0, "b": False}),
        ([{"a": 1}, {"b": 2}, None], {"a": 1, "b": 2}),
        ([None, {"a": 1}], {"a": 1}),
        ([{"a": {"x": 1}}, {"a": {"x": 2, "y": 3}}], {"a": {"x": 1, "y": 3}}),
        ([{"a": {"x": None}}, {"a": {"y": 3}}], {"a": {"x": None, "y": 3}}),
        ([{"a": {"x": 1}}, {"a": "text"}], {"a": {"x": 1}}),
        ([{"a": []}, {"a": [1]}], {"a": [1]}),
        ([{"a": [1, 2]}, {"a": [2, 3, None]}], {"a": [1, 2, 3]}),
        (
            [{"a": ["Big  Red"]}, {"a": ["big red", "blue"]}],
            {"a": ["Big  Red", "blue"]},
        ),
        ([[1], [2], [1]], [1, 2]),
        (["first", "second"], "first"),
        ([{"a": [True]}, {"a": [1]}], {"a": [True, 1]}),
    ],
)
def test_values_of_several_pages_are_merged(values, expected):
    found = data(*values)
    assert json.dumps(found) == json.dumps(expected)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (
            {"id": 1, "price": 5},
            {"id": 1, "stock": 3},
            [{"id": 1, "price": 5, "stock": 3}],
        ),
        ({"id": 1, "n": "A"}, {"id": 2, "n": "A"}, None),
        (
            {"sku": "x1", "price": 5},
            {"sku": "X1", "price": 6},
            [{"sku": "x1", "price": 5}],
        ),
        ({"product_id": "7"}, {"product_id": 7}, [{"product_id": "7"}]),
        (
            {"link": "http://a.com/x/"},
            {"link": "http://a.com/x"},
            [{"link": "http://a.com/x/"}],
        ),
        ({"name": "A"}, {"name": "a ", "price": 5}, [{"name": "A", "price": 5}]),
        ({"name": "A", "price": 4}, {"name": "A", "price": 5}, None),
        ({"name": "A", "id": 1}, {"name": "A", "id": 2}, None),
        ({"id": 1, "url": "http://a.com"}, {"id": 2, "url": "http://a.com"}, None),
        ({"name": None, "x": 1}, {"name": None, "x": 2}, None),
        ({"x": 1, "y": None}, {"y": "", "x": 1.0}, [{"x": 1, "y": None}]),
        (
            {"title": "T", "tags": ["a"]},
            {"title": "t", "tags": ["b"]},
            [{"title": "T", "tags": ["a", "b"]}],
        ),
    ],
)
def test_list_objects_are_merged_by_their_name(first, second, expected):
    found = data({"items": [first]}, {"items": [second]})
    assert found == {"items": expected or [first, second]}


def test_each_field_has_the_pages_that_have_its_value():
    pages = [
        PageData(A, {"founder": "I. Example", "people": [{"name": "X"}], "year": None}),
        PageData(B, {"founder": "i. example", "people": [{"name": "Y"}], "year": 1999}),
        PageData(C, {"founder": "Another", "people": [], "year": "1998"}),
    ]
    found = merge(pages)
    assert found.sources == {"founder": (A, B), "people": (A, B), "year": (B,)}


def test_merged_data_name_the_required_values_that_no_page_has():
    schema = {"type": "object", "required": ["a", "b"]}
    pages = [PageData(A, {"a": None, "b": 1}), PageData(B, {"a": None, "b": None})]
    body, used = result_json(pages, None, schema, True, False, ["One failed."])
    assert used == 1
    assert json.loads(body) == {
        "data": {"a": None, "b": 1},
        "sources": {"b": [A]},
        "warning": "One failed. No page has a, which the schema requires.",
    }
    body, used = result_json([], None, None, False, False, [])
    assert (json.loads(body), used) == ({"data": {}}, 0)


def test_merged_data_of_rules_name_all_requested_values_that_no_page_has():
    schema = {
        "required": ["a"],
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "object", "properties": {"c": {}, "d": {}}},
            "e": {"type": "array", "items": {"properties": {"f": {}, "g": {}}}},
        },
    }
    pages = [
        PageData(A, {"b": {"c": 0}, "e": [{"f": False}, {"f": 1}]}),
        PageData(B, {"b": {"c": 1}}),
    ]

    def told(prompt, schema, pages=pages):
        return json.loads(result_json(pages, prompt, schema, False, True, [])[0])

    assert told(None, schema)["warning"] == (
        "No page has b.d, e.g. No page has a, which the schema requires."
    )
    prompt = "price and name of backpacks"
    assert told(prompt, None, [])["warning"] == "No page has backpacks."
    assert "No requested field was understood" in told("Summarize it.", None)["warning"]
    assert "warning" not in told(None, None)


def test_pages_without_a_value_in_the_merged_data_do_not_count_as_used():
    def used(*values):
        return merge(PageData(A, value) for value in values).used

    assert used({"name": "Lamp"}, {"name": "Chair"}, {"name": None}, {}, None) == 1
    assert used({"name": "Lamp"}, {"name": "Chair", "price": 5}) == 2
    assert used({"things": [1]}, {"things": [2]}, {"things": []}) == 2
    assert used([{"a": 1}], [{"a": 2}], []) == 2
    assert used("text", "text") == 2
    assert used("text", "another") == 1
    assert used({}, None) == 0


def test_merging_many_objects_of_one_name_takes_linear_time():
    items = [{"title": "Review", "text": f"number {n}"} for n in range(20_000)]
    found = data({"items": items}, {"items": items[:100]})
    assert len(found["items"]) == 20_000


def test_deeply_nested_data_stays_unchanged():
    deep: dict = {"x": 1}
    for _ in range(200):
        deep = {"a": deep}
    assert data(deep, deep) == deep


@pytest.mark.parametrize(
    "value", [None, "", "  ", [], {}, {"a": None}, {"a": {"b": []}}]
)
def test_values_without_content_are_empty(value):
    assert is_empty(value)


@pytest.mark.parametrize("value", [0, False, "x", [None], {"a": 0}])
def test_values_with_content_are_not_empty(value):
    assert not is_empty(value)
