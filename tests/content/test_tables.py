"""Spans, row groups and limits of tables, in Markdown and in extracted records."""

from __future__ import annotations

import pytest

from scraper_service.content.html.document import parse
from scraper_service.content.markdown.writer import data_rows
from tests.content.pages import convert, markdown, value

HEAD = "<thead><tr><th>Region<th>Part<th>Stock</thead>"
TABLES = {
    "to the end of the group": (
        HEAD + "<tbody><tr><td rowspan=0>North<td>Bolt<td>4<tr><td>Nut<td>9</tbody>"
        "<tbody><tr><td>South<td>Cog<td>1</tbody>",
        ["North|Bolt|4", "|Nut|9", "South|Cog|1"],
    ),
    "a span ends with its group": (
        (
            "<thead><tr><th>Item<th>Euro</thead>"
            "<tbody><tr><td rowspan=3>Rent<td>800<tr><td>820</tbody>"
            "<tfoot><tr><td>Total<td>1620</tfoot>"
        ),
        ["Rent|800", "|820", "Total|1620"],
    ),
    "groups written in another order": (
        (
            "<tfoot><tr><td>Total<td>3</tfoot><tbody><tr><td>Pen<td>1<tr><td>Ink<td>2</tbody>"
            "<thead><tr><th>Item<th>Euro</thead>"
        ),
        ["Pen|1", "Ink|2", "Total|3"],
    ),
    "rows outside groups are a group": (
        (
            "<thead><tr><th>Item<th>Euro</thead><tbody><tr><td rowspan=5>Pen<td>1</tbody>"
            "<tr><td rowspan=9>Ink<td>2<tr><td>3<tfoot><tr><td>Total<td>6</tfoot>"
        ),
        ["Pen|1", "Ink|2", "|3", "Total|6"],
    ),
    "a later head stands where it is": (
        (
            "<thead><tr><th>Item<th>Euro</thead><tbody><tr><td>Pen<td>1</tbody>"
            "<thead><tr><th>Paper<th></thead><tbody><tr><td>A4<td>2</tbody>"
        ),
        ["Pen|1", "Paper|", "A4|2"],
    ),
    "a row without cells is below a span": (
        "<tr><th>Item<th>Euro<tr><td rowspan=2>Pen<td>1</tr><tr></tr><tr><td>Ink<td>2",
        ["Pen|1", "Ink|2"],
    ),
    "a span behind a gap": (
        "<tr><th>A<th>B<th>C<tr><td>a<td>b<td rowspan=2>c<tr><td>d<tr><td>e<td>f<td>g",
        ["a|b|c", "d||", "e|f|g"],
    ),
    "spans that overlap": (
        (
            "<tr><th>A<th>B<th>C<tr><td>a<td rowspan=2>b<td>c<tr><td colspan=2>d<td>e"
            "<tr><td>f<td>g<td>h"
        ),
        ["a|b|c", "d||e", "f|g|h"],
    ),
    "rows of a form": (
        "<tr><th>A<th>B<tr><td>a<td>b</td></tr><form><tr><td>c<td>d</form>",
        ["a|b", "c|d"],
    ),
    "a column span beyond all columns": (
        "<tr><th>A<th>B<tr><td>a<td>b<tr><td>Note<td colspan=1000>c",
        ["a|b", "Note|c"],
    ),
}


@pytest.mark.parametrize("only_main", [False, True])
@pytest.mark.parametrize(("rows", "expected"), TABLES.values(), ids=TABLES)
def test_each_cell_stands_below_its_header(rows, expected, only_main):
    page = f"<main><h1>Stock</h1><p>All we have in the shop.</p><table>{rows}</table></main>"
    lines = markdown(page, only_main_content=only_main).splitlines()
    found = [line for line in lines if line.startswith("|")][2:]
    assert ["|".join(c.strip() for c in f.split("|")[1:-1]) for f in found] == expected


def test_a_span_of_many_rows_covers_all_of_them():
    rows = "".join(f"<tr><td>part {n}" for n in range(400))
    page = (
        f"<table><tr><th>A<th>B<tbody><tr><td rowspan=401>North<td>first{rows}</table>"
    )
    assert "|  | part 399 |" in markdown(page).replace("|   |", "|  |")


def test_records_repeat_a_cell_in_each_of_its_rows():
    rows, _ = TABLES["to the end of the group"]
    table = parse(f"<table>{rows}</table>", "https://a.example").root.find(".//table")
    grid = data_rows(table, repeat=True)
    assert [cell.text for cell in grid[2]] == ["North", "Nut", "9"]


def test_a_wide_table_is_a_table():
    cells = "".join(f"<td>day {n}" for n in range(366))
    found = markdown(f"<table><tr>{cells}<tr>{cells}</table>")
    assert found.splitlines()[0].count("|") == 367


def test_a_table_whose_spans_are_too_large_is_lost_as_a_table_only():
    row = "<tr>" + "<td colspan=600>cell" * 3
    page = f"<table><caption>Plan</caption>{2 * row}</table>"
    content = convert(page, "markdown")
    assert value(content, "markdown").count("cell") == 6
    [loss] = content.losses
    assert (loss["kind"], loss["count"], loss["texts"]) == ("table", 1, ["Plan"])


def test_hostile_spans_cost_little():
    row = "<tr>" + "<td colspan=1000 rowspan=60000>x"
    assert "x" in markdown(f"<table>{20_000 * row}</table>")
