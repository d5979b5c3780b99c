"""Numbers of neighbouring elements, and numbers with units, in extracted data."""

from __future__ import annotations

import pytest

from scraper_service.content.html.document import parse
from scraper_service.content.structured_data.selectors import read_selectors
from tests.content.test_extraction import INTEGER, NUMBER, STRING, answer, asked

LIST = {"type": "array"}
# The number and the text at the start of a value.
BESIDE = {
    "spans": ("<span>€2.50</span><span>12 left</span>", 2.5, "€2.50 12 left"),
    "three digits": ("<span>12</span><span>300 sold</span>", 12, "12 300 sold"),
    "styles": ("<b>12</b><i>300</i>", 12, "12 300"),
    "a line break": ("2.50<br>120 left", 2.5, "2.50 120 left"),
    "blocks": ("<div>2.50</div><div>120 left</div>", 2.5, "2.50 120 left"),
    "list items": ("<ul><li>2<li>120</ul>", 2, "2 120"),
    "cells": ("<table><tr><td>2<td>120</table>", 2, "2 120"),
    "a sign at the end": ("<span>2.50€</span><span>12 left</span>", 2.5, "2.50€"),
    "a footnote": ("12,450<sup>2</sup>", 12450, "12,450 2"),
    "a number in a text": ("1 300 200 sold", 1300200, "1 300 200 sold"),
    "cents": ("$1,019<sup>99</sup>", 1019.99, "$1,019.99"),
    "cents before the sign": ("19<sup>99</sup> €", 19.99, "19.99 €"),
    "cents in an element of that name": (
        '<span>$19</span><span class="price-fraction">99</span>',
        19.99,
        "$19.99",
    ),
    "a mark in an element": (
        "<span>$1,299<span>.</span></span><span>99</span>",
        1299.99,
        "$1,299.99",
    ),
    "a fraction": ("<span>19</span><span>.99</span>", 19.99, "19.99"),
}


@pytest.mark.parametrize(("html", "number", "text"), BESIDE.values(), ids=BESIDE)
def test_numbers_of_two_elements_are_two_numbers(html, number, text):
    page = f"<h1>Tea</h1><dl><dt>Cost of it</dt><dd>{html}</dd></dl>"
    found = answer(page, asked(cost_of_it=NUMBER)).data
    assert found == {"cost_of_it": number}

    fields = {"fields": [{"name": "cost", "selector": "dd", "type": "text"}]}
    document = parse(page, "https://shop.example/")
    assert read_selectors(document, fields)[0]["cost"].startswith(text)
    assert read_selectors(document, fields, asked(cost=NUMBER))[0] == {"cost": number}


def test_prices_of_records_end_before_the_next_element():
    teas = "".join(
        f"<li><h3>{name}</h3><span>€{price}</span><span>{left} left</span></li>"
        for name, price, left in (("Mint", "2.50", 12), ("Sage", "3.50", 120))
    )
    item = asked(name=STRING, price=NUMBER)
    found = answer(f"<h1>Teas</h1><ul>{teas}</ul>", asked(teas={**LIST, "items": item}))
    assert found.data["teas"] == [
        {"name": "Mint", "price": 2.5},
        {"name": "Sage", "price": 3.5},
    ]


def test_a_date_ends_before_the_next_number():
    page = "<h1>Tea</h1><p>Updated: <b>2024-05-03</b><i>12 comments</i></p>"
    found = answer(page, asked(updated={**STRING, "format": "date"}))
    assert found.data == {"updated": "2024-05-03"}


def test_texts_of_two_elements_have_an_ordinary_space():
    page = "<h1>Tea</h1><table><tr><th>Sizes</th><td><b>12</b><i>300</i></td></tr>"
    page += "<tr><th>Kind</th><td>green</td></tr></table>"
    data = answer(page, asked(sizes=STRING, specifications={"type": "object"})).data
    assert data["sizes"] == "12 300"
    assert data["specifications"]["Sizes"] == "12 300"


def test_the_number_of_a_price_ends_before_the_next_number():
    page = "<h1>Tea</h1><p>Price: € 3.500 120 left</p><p>Stock: 4</p>"
    data = answer(page, asked(price=NUMBER, stock=INTEGER)).data
    assert data == {"price": 3500, "stock": 4}


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("1 299,00 €", 1299),
        ("₹12,34,567.50", 1234567.5),
        ("19€99", 19.99),
        ("CHF 1'299.-", 1299),
        ("$1.99-2.99", 1.99),
    ],
)
def test_prices_of_many_countries_are_read(text, price):
    assert answer(f"<h1>Tea</h1><p>Price: {text}</p>", asked(price=NUMBER)).data == {
        "price": price
    }
