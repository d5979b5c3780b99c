"""Tables with a header in extracted data: its cells are names, and no values."""

from __future__ import annotations

import pytest

from tests.content.test_extraction import INTEGER, NUMBER, STRING, answer, asked

STRINGS = {"type": "array", "items": STRING}
TASKS = [
    {"task": "Paint fence", "who": "Ann", "until": "May 3"},
    {"task": "Fix gate", "who": "Bob", "until": "May 9"},
]


def row(*cells, tag="td", style="{}", **attributes):
    own = "".join(f' {name.strip("_")}="{value}"' for name, value in attributes.items())
    made = "".join(f"<{tag}>{style.format(cell)}</{tag}>" for cell in cells)
    return f"<tr{own}>{made}</tr>"


NAMES = ("Task", "Who", "Until")
ROWS = "".join(row(*task.values()) for task in TASKS)
HEADERS = {
    "header cells": row(*NAMES, tag="th"),
    "a thead": f"<thead>{row(*NAMES)}</thead>",
    "bold cells": row(*NAMES, style="<b>{}</b>"),
    "a class": row(*NAMES, class_="table-header"),
    "its column of digits": row(*NAMES),
    "two rows": "<tr><th rowspan=2>Task</th><th rowspan=2>Who</th><th>Time</th></tr>"
    "<tr><th>Until</th></tr>",
    "a title": "<tr><th colspan=3>Rota</th></tr>" + row(*NAMES, tag="th"),
}


def page(*rows):
    return f"<h1>Village work</h1><table>{''.join(rows)}</table>"


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_the_rows_below_a_header_are_the_items_of_lists(header):
    html = page(header, ROWS)
    item = asked(task=STRING, who=STRING, until=STRING)
    found = answer(html, asked(tasks={"type": "array", "items": item}))
    assert found.data == {"tasks": TASKS}
    assert answer(html, asked(tasks=STRINGS)).data == {
        "tasks": ["Paint fence", "Fix gate"]
    }
    assert answer(html, asked(who=STRINGS)).data == {"who": ["Ann", "Bob"]}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_a_header_cell_is_not_the_value_of_the_previous_cell(header):
    schema = asked(task=STRING, who=STRING, facts={"type": "object"})
    assert answer(page(header, ROWS), schema).data == {}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_the_only_row_below_a_header_has_the_values_of_single_fields(header):
    rows = [row(*TASKS[0].values())]
    if header == HEADERS["its column of digits"]:
        rows.append(row("", "", ""))
    schema = asked(task=STRING, who=STRING)
    assert answer(page(header, *rows), schema).data == {
        "task": "Paint fence",
        "who": "Ann",
    }


def test_cells_with_the_names_of_requested_fields_are_a_header():
    html = page(row("Plant", "Colour"), row("Rose", "red"), row("Iris", "blue"))
    item = asked(plant=STRING, colour=STRING)
    found = answer(html, asked(plants={"type": "array", "items": item}))
    assert found.data == {
        "plants": [
            {"plant": "Rose", "colour": "red"},
            {"plant": "Iris", "colour": "blue"},
        ]
    }
    schema = asked(plants=STRINGS, colour=STRINGS)
    assert answer(html, schema).data == {
        "plants": ["Rose", "Iris"],
        "colour": ["red", "blue"],
    }


def test_a_column_of_numbers_is_a_list_of_numbers():
    html = page(row("Task", "Hours", tag="th"), row("Weed", "2"), row("Mow", "1.5"))
    schema = asked(hours={"type": "array", "items": NUMBER})
    assert answer(html, schema).data == {"hours": [2, 1.5]}


def test_a_table_of_headers_alone_has_no_values():
    schema = asked(task=STRING, who=STRING, tasks=STRINGS)
    assert answer(page(HEADERS["header cells"]), schema).data == {}


def test_a_header_that_recurs_is_no_row():
    html = page(HEADERS["header cells"], ROWS, HEADERS["header cells"], ROWS)
    item = asked(task=STRING, who=STRING)
    found = answer(html, asked(tasks={"type": "array", "items": item}))
    assert [task["who"] for task in found.data["tasks"]] == ["Ann", "Bob"] * 2


PAIRS = {
    "header cells": "<tr><th>{}</th><td>{}</td></tr>",
    "cells": "<tr><td>{}</td><td>{}</td></tr>",
    "bold cells": "<tr><td><b>{}</b></td><td>{}</td></tr>",
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("header", ["", row("Property", "Value", tag="th")])
def test_rows_of_pairs_are_labels_and_values(pair, header):
    facts = {"Colour": "blue", "Height": "56 cm", "Beds": "40"}
    html = page(header, *(pair.format(*fact) for fact in facts.items()))
    schema = asked(colour=STRING, height=STRING, beds=INTEGER)
    assert answer(html, schema).data == {
        "colour": "blue",
        "height": "56 cm",
        "beds": 40,
    }
    schema = asked(specifications={"type": "object"})
    assert answer(html, schema).data == {"specifications": facts}


def test_a_title_above_pairs_is_no_header_of_them():
    html = page(
        "<tr><th colspan=2>Price: €5</th></tr>",
        "<tr><th>Altitude</th><td>2,340 m</td></tr>",
    )
    assert answer(html, asked(price=NUMBER, altitude=STRING)).data == {
        "price": 5,
        "altitude": "2,340 m",
    }


def test_each_table_without_header_cells_has_a_header_of_its_own():
    html = page(row("Size", "Left"), row("XL", "4")) + page(
        row("Plant", "Colour"), row("Rose", "red"), row("Iris", "blue")
    )
    item = asked(plant=STRING, colour=STRING)
    assert answer(html, asked(plants={"type": "array", "items": item})).data == {
        "plants": [
            {"plant": "Rose", "colour": "red"},
            {"plant": "Iris", "colour": "blue"},
        ]
    }
    schema = asked(size=STRING, left=INTEGER, plants=STRINGS, colour=STRINGS)
    assert answer(html, schema).data == {
        "size": "XL",
        "left": 4,
        "plants": ["Rose", "Iris"],
        "colour": ["red", "blue"],
    }


def test_a_row_over_all_columns_is_no_item_of_a_column():
    north = "<tr><td colspan=3>In the north</td></tr>"
    html = page(HEADERS["header cells"], north, ROWS)
    assert answer(html, asked(tasks=STRINGS)).data == {
        "tasks": ["Paint fence", "Fix gate"]
    }
