"""Lists that keep only their visible rows in the page."""

from __future__ import annotations

import re

import pytest

TO_END = {"type": "scrollToEnd"}


def rows_of(found):
    return [
        int(n) for n in re.findall(r"Row number (\d+) of the list", found["markdown"])
    ]


def lost_of(found):
    losses = found["metadata"].get("losses", [])
    return sum(row["count"] for row in losses if row["kind"] == "recycledRows")


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("kind", ["absolute", "table", "again", "window"])
@pytest.mark.parametrize("main", [True, False], ids=["main", "all"])
def test_scroll_to_end_collects_the_rows_of_a_list_in_order(page, kind, main):
    found = page(f"/rows?{kind}", actions=[TO_END], onlyMainContent=main)
    assert rows_of(found) == list(range(1, 501))
    assert lost_of(found) == 0
    assert "The words behind the list." in found["markdown"]


@pytest.mark.full
def test_a_list_is_chosen_by_its_selector(page):
    found = page("/rows?absolute", actions=[{**TO_END, "selector": "#box"}])
    assert rows_of(found) == list(range(1, 501))


def test_rows_that_time_did_not_suffice_for_are_counted(page):
    found = page("/rows?huge", actions=[{**TO_END, "timeout": 4000}])
    collected = rows_of(found)
    assert len(collected) > 20
    assert abs(lost_of(found) + len(collected) - 100_000) < 100
    assert "4000 ms" in found["warning"]


def test_rows_that_a_table_declares_and_does_not_show_are_counted(page):
    found = page("/rows?table", waitFor=1)
    assert lost_of(found) == 501 - len(rows_of(found)) - 1  # the header


@pytest.mark.full
def test_rows_of_an_earlier_state_of_the_list_do_not_come_back(page):
    text = "document.querySelector('#box').innerHTML = '<p>Nothing was found.</p>'; 0"
    actions = [TO_END, {"type": "executeJavascript", "script": text}]
    found = page("/rows?absolute", actions=actions)
    assert "Nothing was found." in found["markdown"]
    assert rows_of(found) == []
