"""``product``, ``menu`` and ``branding`` from what pages declare and show."""

from __future__ import annotations

import json

import pytest
from firecrawl.v2.types import BrandingProfile, MenuProfile, ProductProfile

from scraper_service.content.formats.branding import NO_PRODUCT, Declared
from scraper_service.content.html.document import parse
from scraper_service.content.metadata.evidence import Evidence
from scraper_service.content.stored_pages import (
    append_browser_styles,
    split_browser_styles,
)

URL = "https://shop.example/kettle"
MODELS = {"product": ProductProfile, "menu": MenuProfile, "branding": BrandingProfile}


def made(name, html, looks=""):
    making = Declared(Evidence(parse(html, URL)), URL, looks)
    found = making.make(name)
    if found is not None:
        MODELS[name].model_validate(found)
        json.dumps(found, allow_nan=False)
    return found, making.warnings


def linked(data, rest="<h1>Kettle</h1>"):
    text = json.dumps({"@context": "https://schema.org", **data})
    return (
        f'<title>Kettle</title><script type="application/ld+json">{text}</script>{rest}'
    )


OFFER = {
    "@type": "Offer",
    "price": "39.90",
    "priceCurrency": "EUR",
    "availability": "https://schema.org/InStock",
    "sku": "K-1",
}


def test_a_product_of_linked_data_with_trailing_commas_and_a_comment():
    text = (
        '// the kettle\n{"@type":"Product","name":"Kettle",/* our best */'
        '"offers":{"@type":"Offer","price":"39.90","priceCurrency":"EUR",},}'
    )
    page = f'<script type="application/ld+json">{text}</script><h1>Kettle</h1>'
    found, _ = made("product", page)
    assert found["title"] == "Kettle"
    assert found["variants"][0]["price"]["amount"] == 39.9


def test_a_product_of_linked_data():
    found, warnings = made(
        "product",
        linked(
            {
                "@type": "Product",
                "name": "Kettle &amp; Co",
                "brand": {"@type": "Brand", "name": "Acme"},
                "category": "Kitchen",
                "description": "<p>Boils <b>water</b>.</p>",
                "gtin13": "4006381333931",
                "color": "Red",
                "image": ["/a.jpg", {"@type": "ImageObject", "url": "/b.jpg"}],
                "offers": OFFER,
            }
        ),
    )
    assert found == {
        "title": "Kettle & Co",
        "brand": "Acme",
        "category": "Kitchen",
        "url": URL,
        "description": "Boils water .",
        "variants": [
            {
                "id": "4006381333931",
                "sku": "K-1",
                "values": {"color": "Red"},
                "price": {"amount": 39.9, "currency": "EUR"},
                "availability": {"inStock": True, "text": "InStock"},
                "images": [
                    {"url": "https://shop.example/a.jpg"},
                    {"url": "https://shop.example/b.jpg"},
                ],
            }
        ],
    }
    assert warnings == []


def test_variants_of_a_group():
    def variant(size, price, availability):
        return {
            "@type": "Product",
            "name": f"Kettle {size}",
            "size": size,
            "offers": {**OFFER, "price": price, "availability": availability},
        }

    group = {
        "@type": "ProductGroup",
        "name": "Kettle",
        "hasVariant": [variant("S", 10, "InStock"), variant("L", 20, "OutOfStock")],
    }
    found, _ = made("product", linked(group))
    assert [
        (v["title"], v["values"], v["price"]["amount"], v["availability"]["inStock"])
        for v in found["variants"]
    ] == [("Kettle S", {"size": "S"}, 10, True), ("Kettle L", {"size": "L"}, 20, False)]


@pytest.mark.parametrize(
    ("offers", "amount", "in_stock"),
    [
        ({"@type": "AggregateOffer", "lowPrice": "5", "priceCurrency": "USD"}, 5, True),
        ([{**OFFER, "availability": "SoldOut"}], 39.9, False),
        ({**OFFER, "availability": "https://schema.org/PreOrder"}, 39.9, True),
        ({**OFFER, "price": "1.299,00 €", "priceCurrency": None}, 1299, True),
        ({"priceSpecification": {"price": 7, "priceCurrency": "GBP"}}, 7, True),
    ],
)
def test_offers(offers, amount, in_stock):
    node = {"@type": "Product", "name": "Kettle", "offers": offers}
    [variant] = made("product", linked(node))[0]["variants"]
    assert variant["price"]["amount"] == amount
    assert variant["price"]["currency"] in {"EUR", "USD", "GBP"}
    assert variant["availability"]["inStock"] is in_stock


def test_a_price_that_fell():
    specification = [
        {"price": 30, "priceCurrency": "EUR"},
        {"price": 50, "priceType": "https://schema.org/StrikethroughPrice"},
    ]
    offer = {**OFFER, "price": 30, "priceSpecification": specification}
    node = {"@type": "Product", "name": "Kettle", "offers": offer}
    [variant] = made("product", linked(node))[0]["variants"]
    assert variant["sale"] == {"originalPrice": {"amount": 50.0, "currency": "EUR"}}


@pytest.mark.parametrize(
    ("shown", "amount"),
    [
        ("<b>€2.50</b><i>12 left</i>", 2.5),
        ("$19<sup>99</sup>", 19.99),
    ],
)
def test_a_shown_price_ends_where_its_element_ends(shown, amount):
    found, _ = made(
        "product",
        f"<h1>Kettle</h1><p class=price>{shown}</p><button>Add to cart</button>",
    )
    assert found["variants"][0]["price"]["amount"] == amount


def test_a_product_of_microdata():
    found, _ = made(
        "product",
        """<div itemscope itemtype="https://schema.org/Product">
        <h1 itemprop="name">Kettle</h1><img itemprop="image" src="k.jpg">
        <div itemprop="offers" itemscope itemtype="https://schema.org/Offer">
        <meta itemprop="priceCurrency" content="USD"><b itemprop="price" content="9.5">9</b>
        <link itemprop="availability" href="https://schema.org/OutOfStock"></div></div>""",
    )
    [variant] = found["variants"]
    assert (found["title"], variant["price"]["amount"]) == ("Kettle", 9.5)
    assert variant["availability"] == {"inStock": False, "text": "OutOfStock"}


def test_a_product_of_meta_tags_and_words():
    found, _ = made(
        "product",
        """<meta property="og:type" content="product"><meta property="og:title"
        content="Kettle"><meta property="product:price:amount" content="12.00"><meta
        property="product:price:currency" content="CHF"><p>Sorry, sold out!""",
    )
    assert found["variants"] == [
        {
            "price": {"amount": 12.0, "currency": "CHF"},
            "availability": {"inStock": False, "text": "sold out"},
        }
    ]
    found, _ = made(
        "product",
        """<h1>Kettle</h1><s class="old-price">$20</s><span class="price">$12.50</span>
        <button>Add to cart</button><p>It boils water. Add to cart now.</p>""",
    )
    # Whose dollars they are is not said.
    price = {"amount": 12.5, "formatted": "$12.50"}
    assert found["variants"][0]["price"] == price


def test_related_products_do_not_decide_the_stock_of_a_product():
    found, _ = made(
        "product",
        """<meta property="og:type" content="product"><title>Clock</title>
        <meta property="product:price:amount" content="24"><h1>Clock</h1><p>In stock</p>
        <button>Add to cart</button><h2>Related</h2><p>Chair: sold out</p>""",
    )
    [variant] = found["variants"]
    assert variant["availability"] == {"inStock": True, "text": "In stock"}


@pytest.mark.parametrize(
    "html",
    [
        "",
        "<h1>An article</h1><p>It costs 5 EUR to read.",
        "<p class=price>free",
        linked({"@type": "Article", "headline": "x"}),
        linked(
            {
                "@graph": [
                    {"@type": "Product", "name": n, "offers": OFFER} for n in "abc"
                ]
            },
            "<h1>All kettles</h1>",
        ),
    ],
)
def test_a_page_without_a_single_product_has_no_product(html):
    assert made("product", html) == (None, [NO_PRODUCT])


def test_the_only_product_with_an_offer_is_the_product_of_the_page():
    names = ("Accessory", "Lamp", "Spare part")
    nodes = [{"@type": "Product", "name": name} for name in names]
    nodes[1]["offers"] = OFFER
    product, _ = made("product", linked({"@graph": nodes}, rest="<h1>Shop</h1>"))
    assert product["title"] == "Lamp"


def test_a_declared_menu():
    node = {
        "@type": "Restaurant",
        "name": "Zur Post",
        "hasMenu": {
            "@type": "Menu",
            "hasMenuSection": {
                "@type": "MenuSection",
                "name": "Soups",
                "hasMenuItem": [
                    {
                        "@type": "MenuItem",
                        "name": "Goulash",
                        "description": "hot",
                        "offers": {"price": "6.50", "priceCurrency": "EUR"},
                        "suitableForDiet": [
                            "https://schema.org/GlutenFreeDiet",
                            "no nuts",
                            "/" * 60_000,
                        ],
                        "nutrition": {"calories": "320 kcal"},
                    }
                ],
            },
        },
    }
    found, _ = made("menu", linked(node))
    [section] = found["sections"]
    [item] = section["items"]
    assert (found["isMenu"], found["merchant"]) == (
        True,
        {"name": "Zur Post", "type": "Restaurant"},
    )
    assert (section["name"], item["name"], item["price"]["amount"]) == (
        "Soups",
        "Goulash",
        6.5,
    )
    assert item["dietary"][:2] == ["GlutenFree", "no nuts"]
    assert item["calories"] == 320.0
    assert (found["currency"], found["sourceUrl"]) == ("EUR", URL)


def test_an_empty_url_is_not_resolved_to_the_base_url():
    base = '<base href="/other/"><h1>Kettle</h1>'
    kettle = {"@type": "Product", "name": "Kettle", "image": "", "offers": OFFER}
    found, _ = made("product", linked(kettle, base))
    assert found["url"] == URL
    assert "images" not in found["variants"][0]
    soup = {"@type": "MenuItem", "name": "Goulash", "image": ""}
    found, _ = made("menu", linked({"@type": "Menu", "hasMenuItem": [soup]}, base))
    [item] = found["sections"][0]["items"]
    assert item["name"] == "Goulash"
    assert not {"url", "images"} & set(item)


def test_a_menu_in_plain_sight():
    rows = "".join(
        f"<div><span>Dish {'abcdef'[n]}</span> <span>{n + 5}.50 €</span></div>"
        for n in range(6)
    )
    page = f"<title>Menu - Our dishes</title><h2>Mains</h2>{rows}"
    found, _ = made("menu", page)
    [section] = found["sections"]
    assert section["name"] == "Mains"
    assert [item["name"] for item in section["items"]] == [
        f"Dish {c}" for c in "abcdef"
    ]
    assert section["items"][0]["price"]["amount"] == 5.5
    assert found["merchant"] == {"name": ""}
    named = '<meta property="og:site_name" content="Zur Post - Vienna">'
    found, _ = made("menu", named + page)
    assert found["merchant"] == {"name": "Zur Post - Vienna"}


def test_a_page_that_is_no_menu():
    found, _ = made("menu", "<title>About us</title><p>Since 1999. 12.00 EUR")
    assert (found["isMenu"], found["confidence"], found["sections"]) == (False, 0.0, [])


PAGE = """<title>Acme</title><meta name="theme-color" content="#f60">
<meta property="og:image" content="/og.png"><link rel="icon" href="/i.svg">
<meta property="og:site_name" content="Acme">
<link rel="stylesheet" href="https://fonts.example/css2?family=Inter:wght@400&family=Lora">
<style>:root{--brand-color:hsl(220 90% 56%);--radius:6px}
/* body{background:red} */
@media print{body{background:#000}}
body{background:#fff;color:rgb(17 24 39);font:400 1rem/1.5 sans-serif;font-family:"Inter",sans-serif}
h1,h2{font-family:Lora;font-size:2.5rem}
a{color:#06c}.btn{border-radius:var(--radius)}
.btn-primary{background:var(--brand-color);color:white}
</style><body><header><a class="site-logo"><img src="/acme.svg"></a></header><h1>Hi</h1>"""


def test_a_brand():
    found, warnings = made("branding", PAGE)
    assert found == {
        "colorScheme": "light",
        "brandName": "Acme",
        "logo": "https://shop.example/acme.svg",
        "colors": {
            "primary": "#2A6DF4",
            "accent": "#FF6600",
            "background": "#FFFFFF",
            "textPrimary": "#111827",
            "link": "#0066CC",
        },
        "fonts": [{"family": "Inter"}, {"family": "Lora"}],
        "typography": {
            "fontFamilies": {"primary": "Inter", "heading": "Lora"},
            "fontSizes": {"h1": "2.5rem", "h2": "2.5rem"},
        },
        "spacing": {"borderRadius": "6px"},
        "components": {
            "buttonPrimary": {
                "background": "#2A6DF4",
                "textColor": "#FFFFFF",
                "borderRadius": "6px",
            }
        },
        "images": {
            "logo": "https://shop.example/acme.svg",
            "favicon": "https://shop.example/i.svg",
            "ogImage": "https://shop.example/og.png",
        },
    }
    assert warnings == []


def test_sheets_that_were_not_read_are_named():
    html = "".join(f'<link rel="stylesheet" href="/css/{n}.css?v=1">' for n in "abcde")
    found, warnings = made("branding", html)
    assert found == {}
    assert "(a.css, b.css, c.css and 2 more)" in warnings[0]


def test_invalid_stylesheet_urls_are_no_error():
    html = '<link rel="stylesheet" href="http://[bad/a.css"><p>text'
    found, warnings = made("branding", html)
    assert found == {}
    assert len(warnings) == 1


def test_styles_computed_by_a_browser_take_precedence():
    looks = "body{color:rgb(255, 255, 255);background-color:rgb(10, 10, 10)}"
    html = '<link rel="stylesheet" href="a.css"><style>body{background:#fff}</style>'
    found, warnings = made("branding", html, looks)
    assert found["colorScheme"] == "dark"
    assert found["colors"]["background"] == "#0A0A0A"
    assert warnings == []


def test_browser_styles_are_appended_to_the_page_and_split_off_again():
    html = "<p>ü</p>".encode()
    assert split_browser_styles(html) == (html, "")
    assert split_browser_styles(append_browser_styles(html, "a{b:<c>}")) == (
        html,
        "a{b:c>}",
    )


@pytest.mark.full(keep=6)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "html",
    [
        "<style>" + "a" * 300_000,
        "<style>" + "@a" * 100_000,
        "<style>" + "/*" * 100_000,
        "<style>" + "{" * 200_000,
        "<style>" + "a{b:c}" * 60_000 + "</style>",
        "<style>:root{"
        + "".join(f"--v{n}:var(--v{n + 1});" for n in range(5000))
        + "}",
        '<style>:root{--a:var(--a)} body{color:var(--a)}</style><p style="color:(((">',
        "<title>menu</title>" + "<div>" * 500 + "a 5.00" + "<p>b 5.00 €" * 3000,
        linked({"@type": "Menu", "hasMenuSection": {"@id": "x"}, "@id": "x"}),
        linked(
            {"@type": "Product", "name": ["a", {"b": []}], "offers": [[[{}]], 5, None]}
        ),
        linked({"@type": "Product", "name": "x", "offers": {"price": "9" * 5000}}),
        linked({"@type": "Product", "name": "x", "offers": {"price": float("inf")}}),
    ],
)
def test_hostile_pages_end_soon(name, html):
    made(name, html)
