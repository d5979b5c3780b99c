"""Counts of delivered pages, in the row of their job."""

from __future__ import annotations

import json

import pytest

from scraper_service.options.json_schema import field_of
from scraper_service.storage.frontier.job_counts import (
    MAX_NAMES,
    OTHERS,
    add_pages,
    parse_counts,
    with_empty_fields,
)
from scraper_service.storage.job_records import CountedPage


def fact(data=None, status=200, depth=0, verdict="ok"):
    text = None if data is None else json.dumps(data).encode()
    return CountedPage(status=status, depth=depth, verdict=verdict, data=text)


@pytest.mark.parametrize(
    ("data", "names"),
    [
        ({"a": 0, "b": False, "c": "x"}, ["a", "b", "c"]),
        ({"a": None, "b": "", "c": [], "d": {}}, []),
        ({"a": {"b": {"c": {"d": 1}}}}, ["a", "a.b", "a.b.c"]),
        ({"a": {"b": None}}, ["a"]),
        ([{"a": 1}], []),
        ("text", []),
    ],
)
def test_fields_with_a_value_are_counted(data, names):
    counts = parse_counts(add_pages(None, [fact(data)]))
    assert list(counts.fields) == names
    assert counts.with_data == 1


def test_counts_add_up():
    stored = add_pages(None, [fact(), fact(status=404, depth=1, verdict=None)])
    counts = parse_counts(add_pages(stored, [fact({"a": 1}), fact(status=None)]))
    assert counts.pages == 4
    assert counts.statuses == {"200": 2, "404": 1, "0": 1}
    assert counts.depths == {"0": 3, "1": 1}
    assert counts.verdicts == {"ok": 3, "unknown": 1}
    assert (counts.with_data, counts.fields) == (1, {"a": 1})


def test_the_row_of_a_job_stays_small():
    pages = [fact({f"a{n}-{m}": m for m in range(50)}, depth=n) for n in range(500)]
    stored = add_pages(None, pages)
    counts = parse_counts(stored)
    assert len(counts.fields) == len(counts.depths) == MAX_NAMES + 1
    assert counts.depths[OTHERS] == 500 - MAX_NAMES
    assert len(stored) < 10_000


def test_a_page_with_much_data_is_counted_without_its_fields():
    counts = parse_counts(add_pages(None, [fact({"a": "x" * 2**20})]))
    assert (counts.with_data, counts.fields) == (1, {})


def test_fields_of_the_schema_come_first():
    schema = field_of({"type": "object", "properties": {"b": {}, "a": {}}})
    counts = parse_counts(add_pages(None, [fact({"z": 1, "a": 1})]))
    assert list(with_empty_fields(counts, schema).items()) == [
        ("b", 0),
        ("a", 1),
        ("z", 1),
    ]
