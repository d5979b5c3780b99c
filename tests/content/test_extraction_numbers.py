"""Numbers of neighbouring elements, and numbers with units, in extracted data."""

from __future__ import annotations

import pytest

from scraper_service.content.html.document import parse
from scraper_service.content.structured_data.selectors import read_selectors
from tests.content.test_extraction import INTEGER, NUMBER, STRING, answer, asked, ld

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


HEIGHTS = {
    "56 cm": 56,
    "about 56 centimetres": 56,
    "22 in (56 cm)": 56,
    "56 cm / 22 in": 56,
    # no unit, another unit or measure, or more than a single amount
    **dict.fromkeys(("1.2 m", "1,200 mm", "22 in"), None),
    **dict.fromkeys(("56", "56 kg", "56 m2", "56 km/h", "-5 m", "1.125 m"), None),
    **dict.fromkeys(("5 ft 4 in", "5 ft, 4 in", "1 m 20 cm", "5' 4 in"), None),
    **dict.fromkeys(("50-60 cm", "50 to 60 cm", "50 x 40 x 30 cm", "1/2 m"), None),
}


@pytest.mark.parametrize(("text", "height"), HEIGHTS.items(), ids=HEIGHTS)
def test_a_number_has_the_unit_at_the_end_of_its_name(text, height):
    page = f"<h1>Chair</h1><dl><dt>Height</dt><dd>{text}</dd></dl>"
    expected = {"height_cm": height} if height else {}
    assert answer(page, asked(height_cm=NUMBER)).data == expected
    assert answer(page, asked(height_cm=STRING)).data in ({"height_cm": text}, {})


@pytest.mark.parametrize(
    ("label", "text", "name", "value"),
    [
        ("Height (cm)", "56.5", "height_cm", 56.5),
        ("Height (cm)", "565 mm", "heightCm", None),
        ("Net weight", "7.5 kg", "net_weight_kg", 7.5),
        ("Weight", "7.5 kg", "weightG", None),
        ("Weight", "12 lbs", "weight_pounds", 12),
        ("Volume", "1.7 l", "volume_ml", None),
        ("Walking time", "2 h 30 min", "walking_time_minutes", 150),
        ("Walking time", "2 h 30 min", "walkingTimeHours", 2.5),
        ("Age", "18", "age_min", None),
        ("Price", "$12.50", "price_usd", 12.5),
        ("Price", "$12.50", "price_eur", None),
        ("Price", "12.50", "price_eur", 12.5),
        ("Price", "£3", "price_pounds", 3),
        ("Price", "€3", "price_per_kg", None),
        ("Revenue", "$1.2M", "revenue_usd", 1200000),
        ("Revenue", "$1.2M", "revenue_eur", None),
    ],
)
def test_units_at_the_end_of_names_are_no_part_of_labels(label, text, name, value):
    page = f"<h1>Thing</h1><p>{label}: {text}</p>"
    expected = {name: value} if value else {}
    assert answer(page, asked(**{name: NUMBER})).data == expected


def test_columns_with_and_without_units_are_read():
    rows = "<tr><td>Alba<td>2,340 m<td>3.5<tr><td>Bera<td>1,990 m<td>12"
    page = f"<h1>Huts</h1><table><tr><th>Hut<th>Altitude<th>Way (km){rows}</table>"
    item = asked(hut=STRING, altitude_m=NUMBER, way_km=NUMBER)
    assert answer(page, asked(huts={**LIST, "items": item})).data["huts"] == [
        {"hut": "Alba", "altitude_m": 2340, "way_km": 3.5},
        {"hut": "Bera", "altitude_m": 1990, "way_km": 12},
    ]


def test_units_and_currencies_of_structured_data_count():
    weight = {"@type": "QuantitativeValue", "value": 1.2, "unitCode": "KGM"}
    product = {
        "@type": "Product",
        "name": "Kettle",
        "weight": weight,
        "height": "56 cm",
        "offers": {"price": "49.90", "priceCurrency": "EUR"},
    }
    names = ("weight_kg", "height_cm", "price_usd", "price_eur")
    found = answer(ld(product), asked(**dict.fromkeys(names, NUMBER))).data
    assert found == {"weight_kg": 1.2, "height_cm": 56, "price_eur": 49.9}


def test_the_currency_of_a_meta_price_counts():
    page = "".join(
        f'<meta property="product:price:{name}" content="{value}">'
        for name, value in (("amount", "49.90"), ("currency", "EUR"))
    )
    names = ("price_usd", "price_eur")
    found = answer(f"<head>{page}</head>", asked(**dict.fromkeys(names, NUMBER)))
    assert found.data == {"price_eur": 49.9}
