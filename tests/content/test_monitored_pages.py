"""The comparison of pages of a monitor's check, without a service."""

from __future__ import annotations

import json
import random

import pytest

from scraper_service.content.formats.change_tracking import (
    MAX_SHOWN,
    MAX_TOLD,
    changed_fields,
    compare_monitored,
)
from scraper_service.options.monitors import Compare, FieldRule


def page(markdown="Text", code=200, data=None, **metadata):
    found = {"metadata": {"statusCode": code, "url": "https://a.example/", **metadata}}
    return json.dumps({**found, "markdown": markdown, "json": data}).encode()


def compare(text, earlier=None, mode="markdown"):
    [found] = compare_monitored([text], [earlier and earlier.body], mode)
    return found


def test_white_space_makes_no_difference():
    first = compare(page("a b\nc"))
    assert compare(page("a  b c\n"), first).status == "same"
    assert compare(page("a b d"), first).status == "changed"


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"code": 503}, "status 503"),
        ({"code": 404}, "status 404"),
        ({"verdict": "block_page"}, "blocked"),
        ({"verdict": "login_wall"}, "login"),
        ({"verdict": "consent_wall"}, "consent"),
        ({"verdict": "empty_shell"}, "scripts"),
    ],
)
def test_error_and_block_pages_are_errors_without_a_snapshot(facts, told):
    found = compare(page(**facts))
    assert (found.status, found.body) == ("error", None)
    assert told in found.error


@pytest.mark.parametrize("code", [404, 410])
def test_a_page_that_is_gone_is_removed_if_it_was_there(code):
    first = compare(page())
    assert compare(page(code=code), first).status == "removed"
    assert compare(page(code=code)).status == "error"


def test_only_the_data_count_in_their_mode():
    first = compare(page("a", data={"price": 1}), mode="json")
    assert json.loads(first.data) == {"price": 1}
    same = compare(page("b", data={"price": 1}), first, "json")
    assert same.status == "same"
    changed = compare(page("b", data={"price": 2}), first, "json")
    assert json.loads(changed.diff) == {
        "json": {"price": {"previous": 1, "current": 2}}
    }
    mixed = compare(page("b", data={"price": 1}), first, "mixed")
    assert set(json.loads(mixed.diff)) == {"text"}


def test_a_page_without_its_data_is_an_error():
    assert compare(page(data=None), mode="json").status == "error"
    shell = page(data={"a": 1}, verdict="empty_shell")
    assert compare(shell, mode="json").status == "new"


@pytest.mark.parametrize("data", [[1, 2], "text", 3])
def test_data_that_are_no_object_are_wrapped(data):
    found = compare(page(data=data), mode="json")
    assert json.loads(found.data) == {"value": data}


def test_fields_are_named_by_their_path():
    before = {"plans": [{"name": "a", "price": 1}, {"name": "b"}], "gone": {"x": 1}}
    now = {"plans": [{"name": "a", "price": 2}], "new": [], "gone": None}
    assert changed_fields(before, now) == {
        "plans[0].price": {"previous": 1, "current": 2},
        "plans[1].name": {"previous": "b", "current": None},
        "new": {"previous": None, "current": []},
        "gone.x": {"previous": 1, "current": None},
    }
    assert changed_fields([1, 2], [1, 3]) == {"[1]": {"previous": 2, "current": 3}}
    assert changed_fields("a", "b") == {"value": {"previous": "a", "current": "b"}}
    assert changed_fields({"a": True}, {"a": 1}) == {
        "a": {"previous": True, "current": 1}
    }


def test_a_long_diff_is_cut_at_the_end_of_a_line():
    first = compare(page("old\n" * 10))
    line = "a new line of some length\n"
    found = compare(page(line * 20_000), first)
    diff = json.loads(found.diff)
    assert diff["truncated"] is True
    assert len(diff["text"]) <= MAX_SHOWN
    assert diff["text"].endswith(f"+{line}")
    assert diff["text"].startswith("--- previous\n+++ current\n@@")


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("form", ["few", "half", "other", "one line"])
def test_a_diff_of_pages_of_5_mb_keeps_its_limits(form):
    chance = random.Random(form)
    old = [f"{chance.random():.16f} {'word ' * 7}" for _ in range(95_000)]
    new = {
        "few": [*old[:7], "changed", *old[8:]],
        "half": [line if chance.random() < 0.5 else f"{line} too" for line in old],
        "other": sorted(old),
        "one line": ["x" * 5_000_000],
    }[form]
    first = compare(page("\n".join(old)))
    found = compare(page("\n".join(new)), first)
    assert found.status == "changed"
    assert len(found.diff) < 4 * MAX_SHOWN
    assert len(found.excerpt) <= MAX_TOLD
    diff = json.loads(found.diff)
    assert len(diff["text"]) <= MAX_SHOWN
    assert diff.get("truncated", False) == (form != "few")


def state(old, new, mode="markdown", **rules):
    before, now = (page(**x) if isinstance(x, dict) else page(x) for x in (old, new))
    earlier = compare(before, mode=mode).body
    [found] = compare_monitored([now], [earlier], mode, Compare(**rules))
    return found.status


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Posted 2026-01-02", "Posted 2027-11-12"),
        ("At 2026-01-02T10:11:12Z", "At 2026-01-03T01:02:03+02:00"),
        ("On 3 March 2026", "On 14 April 2026"),
        ("On Mar 3, 2026", "On April 14th, 2026"),
        ("On 03/04/2026 at 9:15 pm", "On 4.5.26 at 10:00"),
        ("3 minutes ago", "2 hours ago"),
    ],
)
def test_dates_may_be_ignored(old, new):
    assert state(old, new) == "changed"
    assert state(old, new, ignore_dates=True) == "same"
    assert state(old, f"{new} in Berlin", ignore_dates=True) == "changed"


def test_numbers_and_patterns_may_be_ignored():
    assert state("1,234.5 views", "98 views", ignore_numbers=True) == "same"
    assert state("12 views", "12 likes", ignore_numbers=True) == "changed"
    patterns = ("^Ad: .*", "session=[a-z]+")
    old, new = "Ad: tea\nText session=abc", "Ad: coffee\nText session=def"
    assert state(old, new, ignore_patterns=patterns) == "same"
    assert state(old, f"{new} more", ignore_patterns=patterns) == "changed"


def test_a_small_change_may_be_ignored_until_changes_add_up():
    text = "The shop is open on {}, and closed on all other days of the week."
    old = page(text.format("Mon"))
    rules = Compare(min_characters=10)
    first = compare(old)
    [small] = compare_monitored(
        [page(text.format("Tue"))], [first.body], "markdown", rules
    )
    assert (small.status, small.body) == ("same", None)
    large = page(text.format("Tuesday and Friday"))
    [found] = compare_monitored([large], [first.body], "markdown", rules)
    assert found.status == "changed"


@pytest.mark.parametrize(
    ("rule", "now", "expected"),
    [
        ({"min_difference": 5}, 104, "same"),
        ({"min_difference": 5}, 95, "changed"),
        ({"min_percent": 10}, 109, "same"),
        ({"min_percent": 10}, 110, "changed"),
        ({"min_percent": 10}, None, "changed"),
        ({"ignore": True}, 1, "same"),
    ],
)
def test_a_field_may_have_a_threshold(rule, now, expected):
    old = {"data": {"plans": [{"price": 1}, {"price": 100}]}}
    new = {"data": {"plans": [{"price": 1}, {"price": now}]}}
    for path in ("plans[1].price", "plans[].price"):
        fields = (FieldRule(path=path, **rule),)
        assert state(old, new, "json", fields=fields) == expected
    other = (FieldRule(path="plans[0].price", ignore=True),)
    assert state(old, new, "json", fields=other) == "changed"
