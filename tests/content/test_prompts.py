"""Sentences to data by rules alone: what is asked for of which page, and what is found."""

from __future__ import annotations

import json

import pytest

from scraper_service import convert

URL = "https://shop.example/backpacks"
PRODUCT = """<title>Trail 30 backpack | Peak Store</title><nav><a href="/">Home</a></nav>
<main><h1>Trail 30</h1><p class="price">89.50 EUR</p><p>A light backpack for a day
outside, with a cover for the rain.</p><dl><dt>Rating</dt><dd>4.6 of 5</dd>
<dt>Brand</dt><dd>Larch</dd><dt>Weight</dt><dd>980 g</dd></dl></main>"""
FACTS = {
    "@context": "https://schema.org",
    "@type": "Product",
    "name": "Trail 30",
    "offers": {"@type": "Offer", "price": "89.50", "priceCurrency": "EUR"},
}
DECLARED = f'{PRODUCT}<script type="application/ld+json">{json.dumps(FACTS)}</script>'
OTHERS = """<section><h2>Others bought</h2><ul>
<li class="card"><a href="/p/1"><h3>Tin Mug</h3></a><b class="price">9.00 EUR</b></li>
<li class="card"><a href="/p/2"><h3>Wool Hat</h3></a><b class="price">19.00 EUR</b></li>
<li class="card"><a href="/p/3"><h3>Rope</h3></a><b class="price">29.00 EUR</b></li>
</ul></section>"""
PACKS = [
    {"name": "Trail 30", "price": 89.5, "rating": 4.6, "link": "/p/30"},
    {"name": "City 18", "price": 59, "rating": 4.1, "link": "/p/18"},
    {"name": "Summit 45", "price": 149, "rating": 4.8, "link": "/p/45"},
    {"name": "Ridge 22", "price": 75, "rating": 3.9, "link": "/p/22"},
]
CARDS = "".join(
    f'<li class="card"><a href="{p["link"]}"><h2>{p["name"]}</h2></a>'
    f'<span class="price">{p["price"]:.2f} EUR</span>'
    f'<span class="rating">{p["rating"]}</span></li>'
    for p in PACKS
)
LISTING = f"<title>Backpacks</title><main><h1>Backpacks</h1><ul>{CARDS}</ul></main>"
ARTICLE = """<title>Rivers in spring</title><main><article><h1>Rivers in spring</h1>
<p class="byline">By <a rel="author" href="/a">Mara Lind</a></p>
<time datetime="2024-04-09">9 April 2024</time><p>The rivers of the valley carry more
water than in the ten years before, and the meadows beside them are wet.</p>
<p>Who walks there needs boots and a map of the paths.</p></article></main>"""
TEASERS = [
    ("Oil for chairs", "Ida Lind", "2026-03-01", "/b/1"),
    ("Five knots", "Tom Beck", "2026-05-17", "/b/2"),
    ("Winter here", "Ida Lind", "2025-12-24", "/b/3"),
]
BLOG = "<title>Blog</title><main><h1>Blog</h1>{}</main>".format(
    "".join(
        f'<article><h2><a href="{url}">{title}</a></h2><p>By {author} on <time datetime="{date}">'
        f"{date}</time></p><p>A short teaser for people who like to read it.</p></article>"
        for title, author, date, url in TEASERS
    )
)
NAMELESS = BLOG.replace("By Ida Lind on", "").replace("By Tom Beck on", "")
OF_SITE = f'<meta name="author" content="Larch Works">{NAMELESS}'
CONTACT = """<title>Contact | Larch Works</title><main><h1>Contact</h1>
<p>Email: <a href="mailto:hello@larch.example">hello@larch.example</a></p>
<p>Phone: <a href="tel:+431234567">+43 1 234567</a></p>
<p>Address: 12 Mill Lane, 1010 Vienna</p><h2>Opening hours</h2>
<ul><li>Mon-Fri 9:00-17:00</li><li>Sat 10:00-14:00</li></ul></main>"""

ONE = {"name": "Trail 30", "price": 89.5}
TITLED = {"title": "Rivers in spring", "author": "Mara Lind"}
MAIL, PHONE = "hello@larch.example", "+43 1 234567"


def packs(*names):
    url = URL.removesuffix("/backpacks")
    whole = [{**pack, "link": url + pack["link"]} for pack in PACKS]
    return [{name: pack[name] for name in names} for pack in whole]


def teasers(*names):
    host = URL.removesuffix("/backpacks")
    rows = [
        {"title": title, "author": author, "date": date, "url": host + url}
        for title, author, date, url in TEASERS
    ]
    return [{name: row[name] for name in names} for row in rows]


TITLED_ROWS = teasers("title", "author")
DATED_ROWS = teasers("title", "author", "date")
SENTENCES = [
    # A page about one thing.
    (PRODUCT, "name and price", ONE),
    (PRODUCT, "name/price", ONE),
    (PRODUCT, "I want the name and the price", ONE),
    (PRODUCT, "get me the name and price of the backpack", ONE),
    (PRODUCT, "the backpack's price and name", ONE),
    (PRODUCT, "what does the backpack cost?", {"price": 89.5}),
    (PRODUCT, "How much does it cost?", {"price": 89.5}),
    (PRODUCT, "product details: name, price", ONE),
    (PRODUCT, "price of the Trail 30 backpack", {"price": 89.5}),
    (PRODUCT, "name and price of backpacks", {"backpacks": [ONE]}),
    (PRODUCT, "price of backpacks", {"backpacks": [{"price": 89.5}]}),
    (PRODUCT, "names and prices of all backpacks", {"backpacks": [ONE]}),
    (PRODUCT, "for each backpack: name, price", {"backpacks": [ONE]}),
    (
        PRODUCT,
        "the price, name and rating of each product",
        {"products": [{**ONE, "rating": 4.6}]},
    ),
    (DECLARED + OTHERS, "name and price of backpacks", {"backpacks": [ONE]}),
    # A list.
    (LISTING, "name and price of backpacks", {"backpacks": packs("name", "price")}),
    (LISTING, "price of backpacks", {"backpacks": packs("price")}),
    (LISTING, "price and name of the backpacks", {"backpacks": packs("name", "price")}),
    (
        LISTING,
        "names and prices of all backpacks",
        {"backpacks": packs("name", "price")},
    ),
    (
        LISTING,
        "The price, name and rating of each product.",
        {"products": packs("price", "name", "rating")},
    ),
    (LISTING, "for each backpack: name, price", {"backpacks": packs("name", "price")}),
    (
        LISTING,
        "For every backpack give me the name and the price",
        {"backpacks": packs("name", "price")},
    ),
    (
        LISTING,
        "list all products with price and link",
        {"products": packs("price", "link")},
    ),
    (LISTING, "each backpack's name, price", {"backpacks": packs("name", "price")}),
    (LISTING, "backpack names and prices", {"backpacks": packs("name", "price")}),
    (LISTING, "the names and the prices", {"items": packs("name", "price")}),
    (LISTING, "products (name, price)", {"products": packs("name", "price")}),
    (LISTING, "products: name, price", {"products": packs("name", "price")}),
    (LISTING, "what do the backpacks cost", {"backpacks": packs("price")}),
    # An article.
    (
        ARTICLE,
        "title, author and date of the article",
        {**TITLED, "date": "2024-04-09"},
    ),
    (ARTICLE, "What is the title and who is the author?", TITLED),
    (ARTICLE, "the article's title and author", TITLED),
    (ARTICLE, "title and author of articles", {"articles": [TITLED]}),
    (ARTICLE, "the name of the author", {"author": "Mara Lind"}),
    (ARTICLE, "the author's name", {"author": "Mara Lind"}),
    (ARTICLE, "names of the authors", {"authors": "Mara Lind"}),
    (ARTICLE, "title/date", {"title": "Rivers in spring", "date": "2024-04-09"}),
    # A blog's list of articles.
    (
        BLOG,
        "for each article: title, author, date, url",
        {"articles": teasers("title", "author", "date", "url")},
    ),
    (BLOG, "title, author and date of articles", {"articles": DATED_ROWS}),
    (BLOG, "title, author and date of posts", {"posts": DATED_ROWS}),
    (BLOG, "posts: title, author, date", {"posts": DATED_ROWS}),
    (BLOG, "list of articles: title, author", {"articles": TITLED_ROWS}),
    (BLOG, "list of all posts with title and author", {"posts": TITLED_ROWS}),
    (OF_SITE, "for each post: title, date", {"posts": teasers("title", "date")}),
    # A company.
    (CONTACT, "email and phone of the company", {"email": MAIL, "phone": PHONE}),
    (
        CONTACT,
        "the company's email and phone number",
        {"email": MAIL, "phone_number": PHONE},
    ),
    (CONTACT, "What is the phone number of the company?", {"phone_number": PHONE}),
    (
        CONTACT,
        "address and opening hours of the shop",
        {
            "address": "12 Mill Lane, 1010 Vienna",
            "opening_hours": ["Mon-Fri 9:00-17:00", "Sat 10:00-14:00"],
        },
    ),
]


@pytest.mark.full(keep=3)
@pytest.mark.parametrize(("page", "prompt", "data"), SENTENCES)
def test_a_prompt_returns_the_requested_fields_that_the_page_has(page, prompt, data):
    found = convert(page, url=URL, prompt=prompt, formats=["markdown"])
    assert found.data == data
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("page", "prompt", "data", "names"),
    [
        (PRODUCT, "price and colour of the backpack", {"price": 89.5}, "colour"),
        (
            PRODUCT,
            "name, price and seller of backpacks",
            {"backpacks": [ONE]},
            "backpacks.seller",
        ),
        (CONTACT, "phone and fax of the company", {"phone": PHONE}, "fax"),
        (BLOG, "title, author, date", {"title": "Blog"}, "author, date"),
        (
            OF_SITE,
            "for each article: title, author, date, url",
            {"articles": teasers("title", "date", "url")},
            "articles.author",
        ),
        (ARTICLE, "name and price of backpacks", {}, "backpacks"),
        (ARTICLE, "name and email of each author", {}, "authors"),
        (ARTICLE, "calories, servings", {}, "calories, servings"),
    ],
)
def test_fields_of_a_prompt_that_the_page_lacks_are_named(page, prompt, data, names):
    found = convert(page, url=URL, prompt=prompt, formats=["markdown"])
    assert found.data == data
    assert found.warnings == (f"Not found: {names}.",)


def test_required_fields_of_a_schema_that_the_page_lacks_are_named():
    text = {"type": "string"}
    seller = {"type": "object", "properties": {"vat_id": text}}
    schema = {
        "type": "object",
        "properties": {"name": text, "isbn": text, "fax": text, "seller": seller},
        "required": ["isbn"],
    }
    found = convert(PRODUCT, url=URL, schema=schema, formats=["markdown"])
    assert found.data == {"name": "Trail 30", "isbn": None}
    assert found.warnings == (
        "Required by the schema and not found: /isbn.",
        "Not found: fax, seller.",
    )


def test_a_missing_value_without_a_name_is_reported():
    found = convert(PRODUCT, url=URL, schema={"allOf": [{"$ref": "#"}]})
    told = "Required by the schema and not found: the whole value."
    assert told in found.warnings
    assert "" not in found.warnings


@pytest.mark.parametrize("prompt", ["Summarize this page", "How can I reach you?"])
def test_a_prompt_without_a_field_returns_the_key_facts_with_a_warning(prompt):
    found = convert(CONTACT, url=URL, prompt=prompt)
    assert found.data["title"] == "Contact"
    [told] = found.warnings
    assert told.startswith("No requested field was understood from the prompt; give a ")
    assert convert(CONTACT, url=URL, formats=["json"]).warnings == ()


def test_words_of_other_things_stay_in_the_names_of_fields():
    page = "<h1>X</h1><dl><dt>Rate of interest</dt><dd>4 percent</dd></dl>"
    assert convert(page, prompt="rate of interest").data == {
        "rate_of_interest": "4 percent"
    }
    page = "<h1>X</h1><p>Terms of service: by post</p>"
    assert convert(page, prompt="terms of service").data == {
        "terms_of_service": "by post"
    }


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "prompt",
    [
        "x s" + "ands" * 400 + "1",
        "all product names" + "ands" * 400 + "1",
        "from its" + " and its" * 200 + " !1",
        "if backpacks" + " and backpacks" * 100 + " 1",
        "is pages please" + " & pages please" * 100 + "1",
    ],
)
def test_no_prompt_takes_for_ever(prompt):
    # Time that doubles with each word would not end.
    assert convert("<h1>Page</h1>", prompt=prompt).warnings
