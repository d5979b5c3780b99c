"""Values that stand on real pages are found by rules; how that is scored."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from scraper_service.options.json_schema import field_of
from tools.bench.extraction import measure, sum_measures
from tools.bench.extraction_cases import cases, score

SHARED = Path(__file__).parents[3] / "shared" / "wcxb-dev"
WCXB = Path(os.environ.get("WCXB", SHARED))
LEAST_RIGHT = 0.85


def test_half_of_the_extraction_cases_are_held_out():
    every = list(cases())
    held_out = list(cases(held_out=True))
    assert len(every) >= 60
    assert abs(len(held_out) - len(every) / 2) <= 2
    assert max(Counter(case["page"] for case in every).values()) == 1
    assert len({case["kind"] for case in every}) >= 8
    for case in every:
        assert field_of(case["schema"]).kind in {"object", "array"}
        made = score(case["expected"], None)
        assert made.fields >= 3
        assert made.right < made.fields


@pytest.mark.parametrize(
    ("expected", "got", "counted"),
    [
        ("A  lamp", "a lamp", "right"),
        ("lamp", "lamps", "wrong"),
        ("lamp", None, "lost"),
        (None, None, "right"),
        (None, "lamp", "invented"),
        (5, 5.0, "right"),
        (5, "5", "wrong"),
        (True, 1, "wrong"),
        ("2024-05-01", "May 1, 2024", "right"),
        ("2024-05-01", "2024-05-02T00:00:00Z", "wrong"),
        ({"$starts": "once"}, "Once upon a time", "right"),
        ({"$contains": "upon"}, "Once a time", "wrong"),
        ({"$any": [None, "x"]}, None, "right"),
        ({"$any": ["y", "x"]}, "z", "wrong"),
    ],
)
def test_a_field_is_right_wrong_lost_or_invented(expected, got, counted):
    made = score({"a": expected}, {"a": got})
    counts = {n: getattr(made, n) for n in ("right", "wrong", "lost", "invented")}
    assert counts == {n: int(n == counted) for n in counts}
    assert len(made.faults) == int(counted != "right")


def test_items_and_lengths_of_lists_count():
    got = {"list": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]}
    exact = {"list": {"$first": [{"a": 1, "b": 9}], "$count": 2}}
    made = score(exact, got)
    assert (made.right, made.wrong, made.fields) == (2, 1, 3)
    somewhere = {"list": {"$contains_items": [{"a": 3, "b": 4}]}}
    assert score(somewhere, got).right == 2
    longer = {"list": {"$first": [], "$count": 40}}
    assert score(longer, got).wrong == 1
    assert score(longer, {}).lost == 1


@pytest.mark.skipif(
    not (WCXB / "truth.jsonl").exists(), reason="WCXB names no directory of pages"
)
def test_values_on_real_pages_are_found_and_no_value_is_invented():
    found = sum_measures(measure(WCXB, cases()).values()).score
    assert found.right >= LEAST_RIGHT * found.fields, "\n".join(found.faults)
    assert found.invented == 0, "\n".join(found.faults)
