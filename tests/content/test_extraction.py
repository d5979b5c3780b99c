"""Answers to schemas and prompts by rules alone, from each kind of place on a page."""

from __future__ import annotations

import json

import pytest

from scraper_service.content.html.cleaning import clean
from scraper_service.content.html.document import parse
from scraper_service.content.structured_data.extract import extract
from scraper_service.content.structured_data.page import ExtractionPage
from scraper_service.errors import SchemaRefused

URL = "https://shop.example/things/page.html"
STRING = {"type": "string"}
NUMBER = {"type": "number"}
INTEGER = {"type": "integer"}


def answer(html, schema=None, prompt=None, url=URL):
    document = parse(html, url)
    page = ExtractionPage(document)
    clean(document)
    return extract(page, schema, prompt)


def asked(**properties):
    return {"type": "object", "properties": properties}


def ld(data):
    return f'<script type="application/ld+json">{json.dumps(data)}</script>'


PRODUCT = {
    "@context": "https://schema.org",
    "@type": "Product",
    "name": "Blue Kettle",
    "sku": "K-100",
    "brand": {"@type": "Brand", "name": "Kessel"},
    "aggregateRating": {"ratingValue": "4.5", "reviewCount": 12},
    "offers": {
        "@type": "Offer",
        "price": "49.90",
        "priceCurrency": "EUR",
        "availability": "https://schema.org/InStock",
    },
    "additionalProperty": [{"name": "Volume", "value": "1.7 l"}],
}


# -- kinds of places -----------------------------------------------------------------


def test_json_ld_is_matched_by_the_meaning_of_field_names():
    schema = asked(
        productName=STRING,
        current_price=NUMBER,
        currency=STRING,
        in_stock={"type": "boolean"},
        maker=STRING,
        article_number=STRING,
        average_rating=NUMBER,
        num_reviews=INTEGER,
        volume=STRING,
    )
    found = answer(ld(PRODUCT) + "<h1>Blue Kettle</h1>", schema)
    assert found.data == {
        "productName": "Blue Kettle",
        "current_price": 49.9,
        "currency": "EUR",
        "in_stock": True,
        "maker": "Kessel",
        "article_number": "K-100",
        "average_rating": 4.5,
        "num_reviews": 12,
        "volume": "1.7 l",
    }
    assert found.missing == ()
    assert found.warnings == ()


def test_references_between_nodes_are_followed():
    graph = {
        "@graph": [
            {
                "@type": "NewsArticle",
                "headline": "Rain ahead",
                "author": {"@id": "#jo"},
                "datePublished": "2024-05-03T10:00:00+02:00",
            },
            {"@type": "Person", "@id": "#jo", "name": "Jo Doe"},
        ]
    }
    schema = asked(byline=STRING, date={"type": "string", "format": "date"})
    assert answer(ld(graph), schema).data == {"byline": "Jo Doe", "date": "2024-05-03"}


def test_microdata_and_rdfa_are_read():
    microdata = """<div itemscope itemtype="https://schema.org/Recipe">
      <h1 itemprop="name">Leek soup</h1>
      <time itemprop="cookTime" datetime="PT1H15M">a while</time>
      <span itemprop="recipeIngredient">2 leeks</span>
      <span itemprop="recipeIngredient">1 l water</span>
      <div itemprop="nutrition" itemscope><span itemprop="calories">120 kcal</span></div>
    </div>"""
    schema = asked(
        name=STRING,
        cook_time=STRING,
        cooking_time_minutes=INTEGER,
        ingredients={"type": "array", "items": STRING},
        calories=INTEGER,
    )
    assert answer(microdata, schema).data == {
        "name": "Leek soup",
        "cook_time": "1 hour 15 minutes",
        "ingredients": ["2 leeks", "1 l water"],
        "calories": 120,
    } | {"cooking_time_minutes": 75}
    rdfa = """<div vocab="https://schema.org/" typeof="Event">
      <span property="name">Harbour Day</span>
      <meta property="startDate" content="2026-07-04">
      <div property="location" typeof="Place"><b property="name">Old Pier</b></div>
    </div>"""
    schema = asked(
        name=STRING, start_date={"type": "string", "format": "date"}, venue=STRING
    )
    assert answer(rdfa, schema).data == {
        "name": "Harbour Day",
        "start_date": "2026-07-04",
        "venue": "Old Pier",
    }


def test_meta_tags_are_read():
    head = """<head><title>Lamp | Shop</title>
      <meta property="og:title" content="Lamp">
      <meta property="product:price:amount" content="20.50">
      <meta property="product:price:currency" content="CHF">
      <meta property="og:image" content="/lamp.jpg">
      <meta name="description" content="It gives light."></head>"""
    schema = asked(
        price=NUMBER,
        currency=STRING,
        image={"type": "string", "format": "uri"},
        description=STRING,
    )
    found = answer(head + "<body><p>Hello</p></body>", schema)
    assert found.data == {
        "price": 20.5,
        "currency": "CHF",
        "image": "https://shop.example/lamp.jpg",
        "description": "It gives light.",
    }


@pytest.mark.parametrize(
    "html",
    [
        "<table><tr><th>Weight</th><td>2 kg</td></tr><tr><th>x</th><td>y</td></tr></table>",
        "<dl><dt>Weight</dt><dd>2 kg</dd><dt>Age</dt><dd>3</dd></dl>",
        "<p>Weight: 2 kg</p>",
        "<p><b>Weight:</b> 2 kg</p>",
        "<ul><li><span>Weight</span><span>2 kg</span></li></ul>",
        "<div><div>Weight:</div><div>2 kg</div></div>",
        "<p><b>SKU:</b> 5 <b>Weight:</b> 2 kg <b>Size:</b> L</p>",
        '<p><span class="item-weight">2 kg</span></p>',
    ],
    ids="row definition colon bold spans divs inside class".split(),
)
def test_a_value_is_found_by_its_label(html):
    page = f"<h1>A thing</h1><p>Some words about it.</p>{html}"
    assert answer(page, asked(item_weight=STRING)).data == {"item_weight": "2 kg"}


def test_labels_of_unknown_field_names_are_found():
    page = "<h1>Drill</h1><dl><dt>Chuck capacity</dt><dd>13 mm</dd></dl>"
    schema = asked(
        chuckCapacity=STRING,
        c={"type": "integer", "description": "chuck capacity"},
    )
    found = answer(page, schema)
    assert found.data == {"chuckCapacity": "13 mm", "c": 13}


def test_the_price_is_the_amount_near_the_heading_that_is_not_struck_out():
    page = """<title>Blue Kettle</title><h1>Blue Kettle</h1>
      <p><del>$59.00</del> <span>$49.00</span></p><button>Add to cart</button>
      <p>In stock</p><div class="related-products"><p>$5.00</p></div>"""
    schema = asked(
        price=NUMBER,
        old_price=NUMBER,
        currency=STRING,
        available={"type": "boolean"},
    )
    assert answer(page, schema).data == {
        "price": 49,
        "old_price": 59,
        "currency": "USD",
        "available": True,
    }


def test_contact_data_are_found_in_links_and_texts():
    page = """<h1>Visit us</h1><p>Call <a href="tel:+43155512">+43 1 555 12</a></p>
      <p><a href="mailto:info@ship.example?subject=x">Write</a></p>
      <p>12 Harbour Street, Springfield, IL 62701</p>
      <p>Mon-Fri 9:00 am - 5 pm</p>
      <footer><a href="https://www.facebook.com/ship">f</a></footer>"""
    schema = asked(
        phone=STRING,
        email={"type": "string", "format": "email"},
        address=STRING,
        opening_hours=STRING,
        social_links={"type": "array", "items": {"type": "string", "format": "uri"}},
    )
    assert answer(page, schema).data == {
        "phone": "+43 1 555 12",
        "email": "info@ship.example",
        "address": "12 Harbour Street, Springfield, IL 62701",
        "opening_hours": "Mon-Fri 9:00 am - 5 pm",
        "social_links": ["https://www.facebook.com/ship"],
    }


def test_lists_are_found_below_headings_and_next_to_labels():
    page = """<h1>Clerk</h1><h2>Requirements</h2><ul><li>Can count</li>
      <li>- Can write</li></ul><h2>How we thank you</h2><ul><li>Cake</li><li>Tea</li></ul>
      <p><b>Tags:</b> <a href="/a">sea</a>, <a href="/b">port</a></p>
      """
    texts = {"type": "array", "items": STRING}
    schema = asked(
        requirements=texts,
        thanks={**texts, "description": "how they thank you"},
        tags=texts,
        headings=texts,
    )
    assert answer(page, schema).data == {
        "requirements": ["Can count", "Can write"],
        "thanks": ["Cake", "Tea"],
        "tags": ["sea", "port"],
        "headings": ["Requirements", "How we thank you"],
    }


# -- records -------------------------------------------------------------------------

CARDS = "".join(
    f"""<li class="card"><a href="/p/{n}"><img src="/i/{n}.jpg"></a>
    <h3><a href="/p/{n}">Cup {n}</a></h3><span class="price">€{n}.50</span>
    <p>{n}0 reviews</p></li>"""
    for n in range(1, 6)
)
MENU = "<nav><ul>" + "<li><a href='/m'>Menu entry</a></li>" * 9 + "</ul></nav>"


def test_cards_become_records():
    item = asked(name=STRING, price=NUMBER, url={"type": "string", "format": "uri"}) | {
        "required": ["name"]
    }
    item["properties"]["review_count"] = INTEGER
    schema = asked(title=STRING, products={"type": "array", "items": item})
    found = answer(f"{MENU}<h1>Cups</h1><ul>{CARDS}</ul>", schema)
    assert found.data["title"] == "Cups"
    assert found.data["products"][1] == {
        "name": "Cup 2",
        "price": 2.5,
        "url": "https://shop.example/p/2",
        "review_count": 20,
    }
    assert len(found.data["products"]) == 5


def test_an_array_schema_returns_a_list():
    schema = {"type": "array", "items": asked(name=STRING, price=NUMBER)}
    found = answer(f"<h1>Cups</h1><ul>{CARDS}</ul>", schema)
    assert found.data[0] == {"name": "Cup 1", "price": 1.5}


def test_rows_of_a_table_become_records_by_the_words_of_its_columns():
    page = """<h1>Ports</h1><table><tr><th>Port</th><th>Ships a year</th>
      <th>Open since</th></tr><tr><td>Aa</td><td>1,200</td><td>1901</td></tr>
      <tr><td>Bb</td><td>90</td><td>none</td></tr></table>"""
    item = asked(port=STRING, ships_per_year=INTEGER, open_since=INTEGER)
    schema = asked(ports={"type": "array", "items": item})
    found = answer(page, schema)
    assert found.data == {
        "ports": [
            {"port": "Aa", "ships_per_year": 1200, "open_since": 1901},
            {"port": "Bb", "ships_per_year": 90},
        ]
    }


def test_headings_with_their_content_and_terms_become_records():
    page = "<h1>Help</h1>" + "".join(
        f"<h3>How is {n}?</h3><p>It is {n}, as far as anybody has ever been told.</p>"
        for n in ("rain", "snow", "wind")
    )
    item = asked(question=STRING, answer=STRING) | {"required": ["question"]}
    schema = asked(faq={"type": "array", "items": item})
    assert answer(page, schema).data["faq"][2] == {
        "question": "How is wind?",
        "answer": "It is wind, as far as anybody has ever been told.",
    }
    page = (
        "<dl>" + "".join(f"<dt>-{n}</dt><dd>Does {n}.</dd>" for n in "abcd") + "</dl>"
    )
    item = asked(option=STRING, description=STRING)
    schema = asked(options={"type": "array", "items": item})
    found = answer(page, schema)
    assert [x["description"] for x in found.data["options"]] == [
        f"Does {n}." for n in "abcd"
    ]


def test_posts_of_a_thread_become_records():
    page = "<title>Old boats - Forum</title><h1>Old boats</h1>" + "".join(
        f"""<div class="post"><a class="username" href="/u/{who}">{who}</a>
        <time datetime="2024-03-0{n}T10:00:00Z">{n} March</time>
        <div class="post-body"><p>Text {n} of somebody who knows very much of boats.</p>
        </div><span>{n} likes</span></div>"""
        for n, who in enumerate(("ann", "bob", "cleo"), 1)
    )
    item = asked(
        author=STRING,
        date={"type": "string", "format": "date"},
        body=STRING,
        likes=INTEGER,
    )
    schema = asked(title=STRING, posts={"type": "array", "items": item})
    found = answer(page, schema)
    assert found.data["title"] == "Old boats"
    assert found.data["posts"][2] == {
        "author": "cleo",
        "date": "2024-03-03",
        "body": "Text 3 of somebody who knows very much of boats.",
        "likes": 3,
    }


def test_records_of_structured_data_are_read():
    review = {"@type": "Review", "reviewBody": "Fine.", "author": {"name": "Al"}}
    data = {**PRODUCT, "review": [review, {**review, "reviewBody": "Good."}]}
    item = asked(reviewer=STRING, text=STRING)
    schema = asked(reviews={"type": "array", "items": item})
    found = answer(ld(data), schema)
    assert found.data == {
        "reviews": [
            {"reviewer": "Al", "text": "Fine."},
            {"reviewer": "Al", "text": "Good."},
        ]
    }


# -- types and rules -----------------------------------------------------------------


def test_values_have_the_type_of_the_field_or_are_left_out():
    page = """<h1>Cup</h1><dl><dt>Height</dt><dd>12.5 cm</dd><dt>Year</dt><dd>1987</dd>
      <dt>Dishwasher</dt><dd>Yes</dd><dt>State</dt><dd>As new</dd>
      <dt>Made on</dt><dd>3 May 1987</dd><dt>Glaze</dt><dd>blue</dd>
      <dt>Views</dt><dd>1.2k</dd></dl>"""
    schema = asked(
        height=NUMBER,
        year=INTEGER,
        dishwasher={"type": "boolean"},
        state={"enum": ["as_new", "used"]},
        made_on={"type": "string", "format": "date"},
        glaze=INTEGER,
        views=INTEGER,
    )
    assert answer(page, schema).data == {
        "height": 12.5,
        "year": 1987,
        "dishwasher": True,
        "state": "as_new",
        "made_on": "1987-05-03",
        "views": 1200,
    }


def test_rules_of_the_schema_choose_among_values():
    page = """<p>Code: abc</p><p>Code: 12-34</p><p>Depth: 900</p><p>Depth: 9</p>"""
    schema = asked(
        code={"type": "string", "pattern": r"^\d+-\d+$"},
        depth={"type": "integer", "maximum": 100},
    )
    assert answer(page, schema).data == {"code": "12-34", "depth": 9}
    schema = asked(code={"type": "string", "pattern": r"^z"})
    assert answer(page, schema).data == {}


def test_the_second_type_of_anyOf_is_used_if_the_first_does_not_fit():
    schema = asked(size={"anyOf": [INTEGER, STRING, {"type": "null"}]})
    assert answer("<p>Size: large</p>", schema).data == {"size": "large"}
    assert answer("<p>Size: 42</p>", schema).data == {"size": 42}


def test_required_values_that_are_not_found_are_null_and_named():
    schema = asked(title=STRING, isbn=STRING, price=NUMBER, pages=INTEGER)
    schema["required"] = ["title", "isbn", "price"]
    page = "<h1>About ducks</h1><p>A long story of ducks without any numbers.</p>"
    found = answer(page, schema)
    assert found.data == {"title": "About ducks", "isbn": None, "price": None}
    assert found.missing == ("/isbn", "/price")
    assert found.warnings == ()


def test_an_article_without_a_product_has_no_price():
    page = """<title>Ducks</title><h1>Ducks</h1><p>Feeding a duck for a year costs some
      $300, say those who do it.</p><div class="related"><p>Price: $9</p></div>"""
    schema = asked(price=NUMBER, rating=NUMBER, sku=STRING, author=STRING)
    assert answer(page, schema).data == {}


def test_nested_objects_are_read_from_their_node_or_from_labels():
    schema = asked(
        rating=asked(value=NUMBER, count=INTEGER),
        offer=asked(price=NUMBER, currency=STRING),
        brand=asked(name=STRING),
    )
    schema["properties"]["rating"]["properties"] = {
        "ratingValue": NUMBER,
        "reviewCount": INTEGER,
    }
    assert answer(ld(PRODUCT), schema).data == {
        "rating": {"ratingValue": 4.5, "reviewCount": 12},
        "offer": {"price": 49.9, "currency": "EUR"},
        "brand": {"name": "Kessel"},
    }
    page = "<h1>Us</h1><p>Email: a@b.example</p><p>Phone: +49 30 1234567</p>"
    schema = asked(contact=asked(email=STRING, phone=STRING, fax=STRING))
    assert answer(page, schema).data == {
        "contact": {"email": "a@b.example", "phone": "+49 30 1234567"}
    }


def test_an_object_without_names_has_the_facts_of_the_table():
    page = "<h1>X</h1><table><tr><td>Wood</td><td>oak</td></tr><tr><td>Age</td><td>9</td></tr></table>"
    schema = asked(specifications={"type": "object"})
    assert answer(page, schema).data == {"specifications": {"Wood": "oak", "Age": "9"}}


def test_hidden_texts_are_no_values():
    page = '<h1>X</h1><p style="display:none">Price: $5</p><p hidden>SKU: 77</p>'
    assert answer(page, asked(price=NUMBER, sku=STRING)).data == {}


# -- prompts -------------------------------------------------------------------------


def test_a_prompt_yields_its_named_fields():
    found = answer(
        ld(PRODUCT) + "<h1>Blue Kettle</h1>",
        prompt="Extract the price, the brand name and the rating from this page.",
    )
    assert found.data == {"price": 49.9, "brand_name": "Kessel", "rating": 4.5}


@pytest.mark.parametrize(
    "prompt",
    [
        "Get the names and prices of all products",
        "List all products with their name and price",
        "all product names and prices",
    ],
)
def test_a_prompt_for_all_things_yields_records(prompt):
    found = answer(f"<h1>Cups</h1><ul>{CARDS}</ul>", prompt=prompt)
    assert found.data["products"][0] == {"name": "Cup 1", "price": 1.5}


def test_questions_are_understood():
    page = ld(PRODUCT) + "<h1>Blue Kettle</h1>"
    assert answer(page, prompt="How much is it? Is it in stock?").data == {
        "price": 49.9,
        "in_stock": True,
    }


@pytest.mark.parametrize("prompt", [None, "", "Summarize this page in two sentences."])
def test_without_fields_the_key_facts_are_given(prompt):
    facts = answer(ld(PRODUCT) + "<h1>Blue Kettle</h1>", prompt=prompt).data
    assert facts["name"] == "Blue Kettle"
    assert facts["price"] == 49.9
    assert facts["currency"] == "EUR"
    assert "author" not in facts


# -- bounds --------------------------------------------------------------------------


def test_hostile_schemas_are_refused():
    with pytest.raises(SchemaRefused, match="at most"):
        answer("<p>x</p>", asked(**{f"p{n}": STRING for n in range(5000)}))


@pytest.mark.full
def test_extraction_from_hostile_pages_ends():
    data = '{"@type":"Product","offers":' * 5000 + "1" + "}" * 5000
    page = f'<script type="application/ld+json">{data}</script>'
    page += "<div class='a'>" * 3000 + "</div>" * 3000 + "<p>Price: $5</p>"
    page += "<ul>" + "<li class='x'><a href='/a'>b 1</a></li>" * 40_000 + "</ul>"
    item = asked(name=STRING, price=NUMBER, date=STRING) | {"required": ["price"]}
    schema = asked(price=NUMBER, items={"type": "array", "items": item})
    assert answer(page, schema).data["price"] == 5
    cycle = {"@id": "#a", "@type": "Product", "isRelatedTo": {"@id": "#a"}}
    assert answer(ld(cycle), asked(isRelatedTo=asked(name=STRING))).data == {}


@pytest.mark.parametrize("html", ["", "<p>", "text", "<table></table>", "<h1></h1>"])
def test_empty_pages_have_no_values(html):
    schema = asked(title=STRING, things={"type": "array", "items": asked(a=STRING)})
    schema["required"] = ["price"]
    schema["properties"]["price"] = NUMBER
    assert answer(html, schema).data["price"] is None
