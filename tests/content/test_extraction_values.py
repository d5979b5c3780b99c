"""Values by rules that look like another value: each page shows what misled the rules."""

from __future__ import annotations

import pytest

from tests.content.test_extraction import INTEGER, NUMBER, STRING, answer, asked

STRINGS = {"type": "array", "items": STRING}
FORM = """<fieldset><input type=radio aria-label="Rate this recipe 1 out of 5 stars">
  <input type=radio aria-label="Rate this recipe 2 out of 5 stars"></fieldset>
  <span role=button aria-label="Rate this recipe 1 out of 5 stars">★</span>"""


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        (FORM, {}),
        (f"{FORM}<p>5 from 8 votes</p>", {"rating": 5, "reviewCount": 8}),
        (
            """<div><span class="score-count">0</span>/<span class="review-score-max">5</span>
            </div><p>0 stars based on 0 reviews</p>""",
            {"reviewCount": 0},
        ),
    ],
    ids=["form", "form and votes", "end of the scale"],
)
def test_a_rating_is_the_given_score_and_not_the_best_possible_score(html, expected):
    schema = asked(rating=NUMBER, reviewCount=INTEGER)
    assert answer(f"<h1>Sourdough</h1>{html}", schema).data == expected


@pytest.mark.parametrize(
    ("text", "is_in_stock"),
    [
        ("<p>Sold out</p><button>Add to basket</button>", False),
        ("<button>Add to basket</button><p>Temporarily out of stock</p>", False),
        ("<p>Available in 3 weeks</p><button>Add to basket</button>", False),
        ("<p>Available again from May</p>", False),
        ("<p>Ausverkauft</p><button>In den Warenkorb</button>", False),
        ("<p>Not available for delivery to islands.</p><p>In stock</p>", True),
        ("<button>Notify me when available</button><button>Buy now</button>", True),
        ("<p>Auf Lager</p>", True),
    ],
)
def test_a_statement_about_stock_counts_more_than_a_button(text, is_in_stock):
    html = f"<title>Lamp</title><main><h1>Lamp</h1><p>€12.50</p>{text}</main>"
    found = answer(html, asked(in_stock={"type": "boolean"})).data
    assert found == {"in_stock": is_in_stock}


def test_sections_are_headings_below_the_title_and_no_links_of_menus():
    html = """<div><h2>Chapter 1</h2><h2>Chapter 2</h2></div><h1>Branches</h1>
    <h2>Creating a branch</h2><p>…</p><h2>Switching <button>Copy</button></h2><p>…</p>"""
    found = answer(html, asked(sections=STRINGS)).data
    assert found == {"sections": ["Creating a branch", "Switching"]}
    html = """<h1>Lean</h1><div class="page-section"><a href="/">Home</a>
    <a href="/bio">Bio</a></div>"""
    assert answer(html, asked(sections=STRINGS)).data == {}


@pytest.mark.parametrize(
    "heading",
    [
        "Module runtime <button>Copy item path</button>",
        "<button>Module runtime</button>",
    ],
)
def test_a_title_does_not_contain_adjacent_buttons(heading):
    found = answer(f"<h1>{heading}</h1>", asked(title=STRING)).data
    assert found == {"title": "Module runtime"}


def test_the_list_below_a_heading_has_all_its_groups():
    html = """<h1>Bread</h1><h3>Instructions</h3>
    <h4>Levain</h4><ul><li>Feed it.</li><li>Let it rest.</li></ul>
    <h4>Dough</h4><div><ol><li>Mix all.</li></ol></div>
    <h3>Notes</h3><ul><li>Wear gloves.</li></ul>"""
    steps = ["Feed it.", "Let it rest.", "Mix all."]
    assert answer(html, asked(instructions=STRINGS)).data == {"instructions": steps}
    html = """<h3>Instructions</h3><ul><li>Feed it.</li><li>Let it rest.</li></ul>
    <h4>More recipes</h4><ul><li>Rolls</li><li>Buns</li></ul>"""
    assert answer(html, asked(instructions=STRINGS)).data == {"instructions": steps[:2]}


@pytest.mark.parametrize(
    ("html", "schema"),
    [
        (
            "".join(
                f"<h3>Certificate {n}</h3><p><b>Cost:</b> ${n}00</p>" for n in (3, 4, 5)
            ),
            asked(price=NUMBER),
        ),
        (
            "<h4>Amazon</h4><div><span>company</span> <span>•</span> 2.3k models</div>",
            asked(company=STRING),
        ),
        (
            """<ul class="version-switcher"><li>Documentation: 5.1</li>
            <li><a href="/6.0/">6.0</a></li><li><a href="/5.2/">5.2</a></li></ul>""",
            asked(version=STRING),
        ),
    ],
    ids=["one of many costs", "label between bullets", "menu of versions"],
)
def test_a_value_that_belongs_to_several_items_is_no_value_of_the_page(html, schema):
    assert answer(f"<h1>Overview</h1>{html}", schema).data == {}
