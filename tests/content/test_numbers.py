"""Numbers of thousands of digits, and of none, wherever a page or document has one."""

from __future__ import annotations

import json
import math

import pytest

from scraper_service.content.documents.files import KINDS, parse_digits
from scraper_service.content.structured_data import values
from scraper_service.options import formats
from tests.content import officemaker
from tests.content.pages import convert

#: What takes the place of a number; Python parses no more than 4,300 digits.
NUMBERS = {
    "5,000 digits": "9" * 5000,
    "400 digits": "9" * 400,
    "zeros": "0" * 5000 + "2",
    "dots": "1.2.3",
    "exponent": "1e999",
    "infinity": "Infinity",
    "not a number": "NaN",
    "Arabic": "\u0663" * 5000,
    "superscript": "\u00b2",
    "Ethiopic": "\u1369",
}
SCHEMA = {
    "type": "object",
    "properties": {
        name: {"type": kind}
        for name, kind in {
            "price": "number",
            "rating": "number",
            "reviews": "integer",
            "calories": "integer",
            "duration": "integer",
            "year": "integer",
            "stock": "number",
            "published": "string",
            "phone": "string",
        }.items()
    },
}
PAGE = """<html lang=en><head><title>Shop</title>
<meta http-equiv=refresh content="{n}; url=/next">
<meta name=price content="{n}"><meta property="product:price:amount" content="{n}">
<meta property="article:published_time" content="{n}-{n}-{n}T{n}:{n}:{n}">
<meta property="og:image:width" content="{n}"><meta name=viewport content="width={n}">
<meta name="date" content="{n}">
<style>body {{color: rgb({n}, {n}, {n}); background: hsl({n} {n}% {n}%)}}
h1 {{color: rgba({n},{n},{n},{n}); font-size: {n}px}}</style>
<script type="application/ld+json">{{"@context": "https://schema.org", "@graph": [
{{"@type": "Product", "name": "Lamp", "sku": "{n}", "offers": {{"@type": "Offer",
  "price": "{n}", "priceCurrency": "EUR", "inventoryLevel": {{"value": "{n}"}}}},
  "aggregateRating": {{"ratingValue": "{n}", "reviewCount": "{n}", "bestRating": "{n}"}}}},
{{"@type": "Restaurant", "name": "Inn", "hasMenu": {{"@type": "Menu", "hasMenuSection": {{
  "@type": "MenuSection", "name": "Soup", "hasMenuItem": {{"@type": "MenuItem",
  "name": "Leek", "nutrition": {{"calories": "{n} cal"}}, "offers": {{"price": "{n}"}}
  }}}}}}}},
{{"@type": "Recipe", "name": "Soup", "cookTime": "PT{n}M", "totalTime": "P{n}DT{n}H"}}
]}}</script>
<script type="application/ld+json">{{"@type": "Product", "name": "B", "price": {n}}}</script>
<script id="__NEXT_DATA__" type="application/json">{{"price": {n}}}</script></head>
<body style="background-color: rgb({n},{n},{n})"><main>
<h1>Lamp</h1><p>Price: ${n} and {n} EUR, {n} stars, {n} out of 5, {n} reviews, {n}k sold,
{n} calories, Duration: {n} hours {n} minutes, Year: {n}, {n} in stock, phone {n}.</p>
<dl><dt>Price<dd>{n}<dt>Rating<dd>{n}/5<dt>Reviews<dd>{n}<dt>Duration<dd>{n} h</dl>
<ol start="{n}"><li value="{n}">one<li value="-{n}">two</ol>
<table border={n}><tr><td colspan="{n}" rowspan="{n}">a<td>b<tr><td>c<td>d</table>
<img src=/a.png width="{n}" height="{n}" srcset="/b.png {n}w, /c.png {n}x" sizes="{n}px">
<p style="font-size:{n}px;opacity:{n};left:-{n}px;color:rgb({n},{n},{n})">small print</p>
<a href="/page/{n}?p={n}">{n}</a> <a href="http://site.example:{n}/">port</a>
<time datetime="{n}">{n}/{n}/{n}</time> <sup><a href="#n{n}">{n}</a></sup>
<math><msup><mn>{n}</mn><mn>{n}</mn></msup></math> &#{n}; &#x{n};
</main></body></html>"""
ALL = (
    *("markdown", "html", "raw_html", "links", "images"),
    formats.Summary(),
    formats.Json(schema=SCHEMA),
    formats.Json(prompt="the price, the rating and how many reviews", key="extract"),
    formats.Branding(),
    formats.Product(),
    formats.Menu(),
)


@pytest.mark.full(keep=3)
@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
def test_a_page_of_odd_numbers_is_read(number):
    for main in (False, True):
        content = convert(PAGE.format(n=number), *ALL, only_main_content=main)
        assert content.error is None
        for value in content.values.values():
            json.loads(value, parse_constant=pytest.fail)


@pytest.mark.full(keep=12)
@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize(
    ("content_type", "text"),
    [
        ("application/rtf", r"{{\rtf1\ansi\fs{n}\u{n}? \b{n} text\par}}"),
        ("text/csv", "a,b\n{n},{n}\n"),
        ("application/json", '{{"price": {n}}}'),
        ("application/rss+xml", "<rss><channel><ttl>{n}</ttl></channel></rss>"),
    ],
)
def test_a_text_document_of_odd_numbers_is_read(number, content_type, text):
    text = text.format(n=number)
    assert convert(text, content_type=content_type).error is None


def office_file(kind, n):
    if kind == "xlsx":
        cells = f'<c r="A1" s="{n}"><v>{n}</v></c><c r="B{n}" t="s"><v>{n}</v></c>'
        rows = f'<row r="1">{cells}<c r="C1" s="1"><v>{n}</v></c></row>'
        merged = f'<mergeCells><mergeCell ref="A1:B{n}"/></mergeCells>'
        return officemaker.xlsx(
            ("S", "visible", rows), formats=("0.00E+00",), after=merged
        )
    if kind == "pptx":
        return officemaker.pptx(
            officemaker.shape("title", "First")
            + officemaker.shape(
                "body", f'<a:p><a:pPr lvl="{n}"/><a:r><a:t>point</a:t></a:r></a:p>'
            )
        )
    if kind == "odt":
        return officemaker.odf(
            "text",
            f'<text:h text:outline-level="{n}">Head</text:h>'
            f'<text:p>a<text:s text:c="{n}"/>b</text:p>',
        )
    cell = (
        f'<table:table-cell office:value="{n}" office:value-type="float"'
        f' table:number-columns-spanned="{n}" table:number-columns-repeated="{n}">'
        f"<text:p>{n}</text:p></table:table-cell>"
    )
    return officemaker.odf(
        "spreadsheet",
        f'<table:table table:name="S"><table:table-row table:number-rows-repeated="{n}">'
        f"{cell}</table:table-row></table:table>",
    )


@pytest.mark.full(keep=12)
@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("kind", ["xlsx", "pptx", "odt", "ods"])
def test_an_office_document_of_odd_numbers_is_read(number, kind):
    mime = KINDS[kind].mime_types[0]
    content = convert(office_file(kind, number), content_type=mime)
    assert content.error is None, content.error


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
def test_the_first_number_of_a_text_is_finite(number):
    readers = (
        values.number_of,
        values.price_of,
        values.amount_of,
        values.rating_of,
        values.seconds_of,
        values.year_of,
    )
    for reader in readers:
        for text in (number, f"${number}", f"{number} million", f"{number} hours"):
            found = reader(text)
            amount = found[0] if isinstance(found, tuple) else found
            assert amount is None or math.isfinite(amount)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", 3),
        (" 007 ", 7),
        ("0", 0),
        ("0" * 5000 + "2", 2),
        ("9" * 5000, 10**15 - 1),
        ("", 5),
        ("-1", 5),
        ("1.5", 5),
        ("\u0663", 5),
        ("\u00b2", 5),
    ],
)
def test_digits_are_bounded(text, number):
    assert parse_digits(text, 5) == number
