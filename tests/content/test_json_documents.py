"""The format ``json`` of JSON documents: values by the names of their keys."""

from __future__ import annotations

import json

import pytest

from scraper_service.content.convert import make_content
from scraper_service.options import formats
from tests.content.pages import options, source

STRING = {"type": "string"}
NUMBER = {"type": "number"}
LAMPS = [
    {"name": "Harbour Lamp", "unitPrice": 39.9, "inStock": True},
    {"name": "Reading Lamp", "unitPrice": 25, "inStock": False},
]
ROWS = [
    {"name": "Harbour Lamp", "unit_price": 39.9},
    {"name": "Reading Lamp", "unit_price": 25},
]


def asked(**properties):
    return {"type": "object", "properties": properties}


ITEM = asked(name=STRING, unit_price=NUMBER)
LIST = {"type": "array", "items": ITEM}


def made(document, schema=None, prompt=None, content_type="application/json"):
    text = document if isinstance(document, str) else json.dumps(document)
    format_ = formats.Json(schema=schema, prompt=prompt)
    content = make_content(source(text, content_type), options(format_))
    assert content.error is None
    return content


def answer(document, schema=None, prompt=None, **more):
    return json.loads(made(document, schema, prompt, **more).values["json"])


FOUND = {
    "a list by its name": ({"products": LAMPS}, asked(products=LIST), {"products": ROWS}),
    "a list of the whole document": (LAMPS, LIST, ROWS),
    "a list without its name": (LAMPS, asked(products=LIST), {"products": ROWS}),
    "a list of another name": (
        {"page": 1, "hits": LAMPS}, asked(products=LIST), {"products": ROWS},
    ),
    "a list that is deep inside": (
        {"data": {"search": {"edges": [{"node": lamp} for lamp in LAMPS]}}},
        asked(products=LIST), {"products": ROWS},
    ),
    "a list as the schema": ({"data": {"items": LAMPS}}, LIST, ROWS),
    "a list and a count": (
        {"meta": {"totalCount": 2}, "products": LAMPS},
        asked(products=LIST, total_count={"type": "integer"}),
        {"products": ROWS, "total_count": 2},
    ),
    "the only object for a list": ({"product": LAMPS[0]}, asked(products=LIST), {"products": ROWS[:1]}),
    "an object": (LAMPS[0], ITEM, ROWS[0]),
    "an object inside objects": ({"ok": True, "data": {"product": LAMPS[0]}}, ITEM, ROWS[0]),
    "an object in a list of one": (LAMPS[:1], ITEM, ROWS[0]),
    "an object by its name": ({"lamp": LAMPS[0]}, asked(lamp=ITEM), {"lamp": ROWS[0]}),
    "an object without its name": (LAMPS[0], asked(product=ITEM), {"product": ROWS[0]}),
    "nested keys": (
        {"name": "Ann", "address": {"city": "Bergen", "geo": {"lat": 60.4}}},
        asked(name=STRING, city=STRING, address_city=STRING, lat=NUMBER),
        {"name": "Ann", "city": "Bergen", "address_city": "Bergen", "lat": 60.4},
    ),
    "nested schemas": (
        {"user": {"fullName": "Ann", "homeAddress": {"zip-code": "5003"}}},
        asked(user=asked(full_name=STRING, home_address=asked(zipCode=STRING))),
        {"user": {"full_name": "Ann", "home_address": {"zipCode": "5003"}}},
    ),
    "other spellings": (
        {"UnitPrice": 1, "in-stock": True, "Item No": "K1", "release_date": "2024-05-06"},
        asked(unit_price=NUMBER, inStock={"type": "boolean"}, item_no=STRING,
              releaseDate={"type": "string", "format": "date"}),
        {"unit_price": 1, "inStock": True, "item_no": "K1", "releaseDate": "2024-05-06"},
    ),
    "the subject in the name": ({"name": "Lamp"}, asked(product_name=STRING), {"product_name": "Lamp"}),
    "a title that is a name": ({"name": "Lamp"}, asked(title=STRING), {"title": "Lamp"}),
    "texts as other types": (
        {"price": "39,90 €", "stock": "12", "available": "yes", "code": 7, "tags": "new"},
        asked(price=NUMBER, stock={"type": "integer"}, available={"type": "boolean"},
              code=STRING, tags={"type": "array", "items": STRING}),
        {"price": 39.9, "stock": 12, "available": True, "code": "7", "tags": ["new"]},
    ),
    "lists of texts": ({"tags": ["a", "b", 3]}, asked(tags={"type": "array", "items": STRING}),
                       {"tags": ["a", "b", "3"]}),
    "an object as text": ({"author": {"name": "Ann", "id": 3}}, asked(author=STRING), {"author": "Ann"}),
    "a choice": ({"state": "Sold Out"}, asked(state={"enum": ["sold out", "open"]}),
                 {"state": "sold out"}),
    "any value": ({"extra": {"a": [1]}}, asked(extra={}), {"extra": {"a": [1]}}),
    "a URL": ({"url": "/lamp"}, asked(url={"type": "string", "format": "uri"}),
              {"url": "https://site.example/lamp"}),
    "lines": ("\n".join(map(json.dumps, LAMPS)) + "\n", LIST, ROWS),
    "a trailing comma": ('{"products": [{"name": "A", "unit_price": 1,},],}',
                         asked(products=LIST), {"products": [{"name": "A", "unit_price": 1}]}),
}  # fmt: skip


@pytest.mark.parametrize(("document", "schema", "data"), FOUND.values(), ids=FOUND)
def test_json_documents_fill_a_schema(document, schema, data):
    assert answer(document, schema) == data


ABSENT = {
    "another name": ({"colour": "red"}, asked(price=NUMBER)),
    "a word in a text": ({"note": "The price is 30 €"}, asked(price=NUMBER)),
    "the name of another thing": ({"price": 3, "brand": {"name": "Kessel"}}, asked(name=STRING)),
    "two values": ({"from": {"city": "A"}, "to": {"city": "B"}}, asked(city=STRING)),
    "many records": (LAMPS, asked(name=STRING)),
    "null": ({"price": None}, asked(price=NUMBER)),
    "another type": ({"price": {"a": 1}}, asked(price=NUMBER)),
    "out of range": ({"price": 30}, asked(price={"type": "number", "maximum": 5})),
    "a number without end": ('{"price": 1e999}', asked(price=NUMBER)),
    "a list of other things": ({"reviews": [{"stars": 5, "text": "x"}]}, asked(products=LIST)),
    "nothing": ([], asked(price=NUMBER)),
    "text": ('"price"', asked(price=NUMBER)),
}  # fmt: skip


@pytest.mark.parametrize(("document", "schema"), ABSENT.values(), ids=ABSENT)
def test_values_that_a_json_document_lacks_are_not_invented(document, schema):
    content = made(document, schema)
    assert json.loads(content.values["json"]) == {}
    assert content.rule_warnings["json"]


def test_required_fields_that_a_json_document_does_not_have_are_null():
    content = made({"a": 1}, asked(price=NUMBER) | {"required": ["price"]})
    assert json.loads(content.values["json"]) == {"price": None}
    assert "Required by the schema and not found" in content.rule_warnings["json"][0]


def test_a_prompt_names_the_fields_of_a_json_document():
    found = answer({"items": LAMPS}, prompt="for each product: name, unit price")
    assert [list(row.values()) for row in found["products"]] == [
        ["Harbour Lamp", 39.9], ["Reading Lamp", 25],
    ]  # fmt: skip


@pytest.mark.parametrize("mime", ["application/x-ndjson", "application/jsonl"])
def test_json_lines_are_json(mime):
    text = "\n".join(map(json.dumps, LAMPS))
    assert answer(text, LIST, content_type=mime) == ROWS
    page = make_content(source(text, mime), options("markdown"))
    assert json.loads(page.values["markdown"]).startswith('```json\n{"name": "Harbour')


HOSTILE = {
    "deep": '{"a":' * 50_000,
    "nested": '{"data":' * 500 + "1" + "}" * 500,
    "wide": json.dumps({f"name{n}": {f"name{m}": m for m in range(300)} for n in range(300)}),
    "long": json.dumps([{"name": "x", "b": {"name": n}} for n in range(20_000)]),
    "lists": json.dumps([[[{"name": "x"}] * 50] * 50] * 50),
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_strange_json_documents_cause_no_error(text):
    assert set(answer(text, asked(things=LIST, name=STRING))) <= {"things", "name"}


def test_long_lists_end_with_a_warning():
    content = made([{"name": "x"}] * 6000, LIST)
    assert len(json.loads(content.values["json"])) == 5000
    assert "5000 of its 6000 items" in content.rule_warnings["json"][0]
