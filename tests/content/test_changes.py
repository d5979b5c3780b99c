from __future__ import annotations

import json

import pytest

from scraper_service.content.formats import change_tracking
from scraper_service.content.formats.change_tracking import compare_pages, draft
from scraper_service.options.formats import ChangeTracking

JSON = ChangeTracking(("json",), schema={"type": "object"})


def compare(text, earlier=None, options=JSON, data=None, **facts):
    found = json.dumps(draft(text, options, data)).encode()
    markdown = json.dumps(text).encode()
    before, at = (None, None) if earlier is None else (earlier.body, 1.5)
    is_gone = facts.get("is_gone", False)
    result = compare_pages(
        found, markdown, before, at, options.modes, is_gone, "visible"
    )
    return result, json.loads(result.answer)


def test_fields_that_differ_have_both_values():
    first, _ = compare("a", data={"same": [1], "fee": 1, "gone": "x", "kind": True})
    _, answer = compare("b", first, data={"same": [1], "fee": 1.5, "kind": 1, "new": 0})
    assert answer["json"] == {
        "fee": {"previous": 1, "current": 1.5},
        "gone": {"previous": "x", "current": None},
        "kind": {"previous": True, "current": 1},
        "new": {"previous": None, "current": 0},
    }
    assert answer["previousScrapeAt"] == "1970-01-01T00:00:01.500Z"


def test_json_data_without_fields_are_compared_as_one_value():
    first, _ = compare("a", data=[1])
    _, answer = compare("b", first, data=[1, 2])
    assert answer["json"] == {"value": {"previous": [1], "current": [1, 2]}}


@pytest.mark.parametrize(
    "other", [ChangeTracking(), ChangeTracking(("json",), schema={"a": 1})]
)
def test_data_extracted_with_other_options_is_not_compared(other):
    first, _ = compare("a", options=other, data={"fee": 1})
    result, answer = compare("b", first, data={"fee": 1})
    assert answer["json"] == {"fee": {"previous": None, "current": 1}}
    assert result.warning == change_tracking.NO_DATA


def test_a_warning_names_a_change_from_rules_to_the_model():
    first, _ = compare("a", data={"fee": 1})
    found = {**draft("b", JSON, {"fee": 2}), "by": "model"}
    result = compare_pages(
        json.dumps(found).encode(), b'"b"', first.body, 1.5, ("json",), False, "visible"
    )
    assert "by the rules, the current ones by the model" in result.warning


def test_a_diff_that_is_too_large_is_left_out(monkeypatch):
    monkeypatch.setattr(change_tracking, "MAX_DIFF", 100)
    options = ChangeTracking(("git-diff",))
    first, _ = compare("a", options=options)
    result, answer = compare("b" * 100, first, options)
    assert answer["changeStatus"] == "changed"
    assert "diff" not in answer
    assert result.warning == change_tracking.NO_DIFF


@pytest.mark.parametrize(
    ("text", "is_gone", "status"),
    [
        ("a b", False, "same"),
        ("\u2003a\n\nb ", False, "same"),
        ("a c", False, "changed"),
        ("a b", True, "removed"),
        ("\udcff", False, "changed"),
    ],
)
def test_a_page_is_new_same_changed_or_removed(text, is_gone, status):
    first, answer = compare("a\nb")
    assert answer["changeStatus"] == "new"
    _, answer = compare(text, first, is_gone=is_gone)
    assert answer["changeStatus"] == status
