"""Values of form fields, prices that are written twice, and links to edit a page."""

from __future__ import annotations

import pytest

from tests.content.pages import convert, markdown, value

PROSE = "<p>" + "The keepers mend the nets while the boats rest on the sand. " * 8
SHOWN = {
    "a choice": ("<label for=s>Size:</label> <select id=s><option>S<option selected>M</select>", "Size: M"),
    "a choice in a label": ("<label>Colour <select><option>Red<option selected>Blue</select></label>", "Colour Blue"),
    "a choice behind a colon": ("Version: <select><option selected>2.1<option>2.0</select> of May", "Version: 2.1 of May"),
    "choices": ("<label>Days: <select multiple><option selected>Mo<option>Tu<option selected>We</select></label>",
                "Days: Mo, We"),
    "no choice": ("<label>Size: <select><option>S<option>M</select></label>", "Size:"),
    "a prompt": ("<label>Size: <select><option selected>Select a size<option>M</select></label>", "Size:"),
    "a sort order": ("<label>Sort by: <select><option selected>Price</select></label>", "Sort by:"),
    "a language": ("<label>Boats: <select name=lang><option selected>English</select></label>", "Boats:"),
    "a read-only field": ("<label>Serial <input value='AB 12' readonly></label>", "Serial AB 12"),
    "a disabled field": ("Serial: <input type=text value=AB disabled>", "Serial: AB"),
    "a text area": ("<textarea>All rights stay with us.</textarea>", "All rights stay with us."),
    "a text area with lines": ("<textarea>one\n  two</textarea>", "```\none\n  two\n```"),
    "an output": ("Total: <output>42 EUR</output>", "Total: 42 EUR"),
    "a meter": ("Disk: <meter value=3 max=5></meter>", "Disk: 3/5"),
    "a meter with text": ("Disk: <meter value=3 max=5>3 of 5</meter>", "Disk: 3 of 5"),
    "a bar": ("Done: <progress value=0.7></progress>", "Done: 0.7"),
    "a password": ("<label>Key <input type=password value=abc readonly></label>", "Key"),
    "a hidden field": ("Key <input type=hidden value=abc>", "Key"),
}  # fmt: skip


@pytest.mark.parametrize(("page", "text"), SHOWN.values(), ids=SHOWN)
def test_values_of_fields_are_text(page, text):
    assert markdown(f"<div>{page}</div>") == text
    assert text in markdown(f"<main>{PROSE}<div>{page}</div>{PROSE}", only_main_content=True)  # fmt: skip


LOST = {
    "a choice without a label": ("<p>x</p><select><option selected>Blue</select>", "Blue"),
    "a field with a value": ("<label>Depth <input value='3 m'></label>", "Depth: 3 m"),
    "a text area of markup": ("<label>Embed <textarea><iframe src=x></textarea></label>", "Embed: <iframe src=x>"),
}  # fmt: skip


@pytest.mark.parametrize(("page", "text"), LOST.values(), ids=LOST)
def test_values_that_are_not_shown_are_recorded(page, text):
    (row,) = convert(f"<main>{page}</main>", "markdown").losses
    assert (row["kind"], row["count"], row["texts"]) == ("formField", 1, [text])


@pytest.mark.parametrize(
    "page",
    [
        "<label>Amount <input name=qty value=1></label>",
        "<form role=search><label>Search <input name=q value=tide></label></form>",
        "<label>Mail <input type=email name=email value=a@b.example></label>",
        "<label>Colour <select><option>Red</select></label>",
    ],
)
def test_controls_of_a_page_are_no_losses(page):
    assert not convert(f"<p>The tide.</p>{page}", "markdown").losses


def test_html_has_the_fields_themselves():
    page = "<label>Size <select><option>S<option selected>M</select></label>"
    html = value(convert(page, "html", "markdown"), "html")
    assert html.count("M</option>") == html.count(">M") == 1


PRICES = {
    "raised cents": "<span class=a-offscreen>$19.99</span><span aria-hidden=true>$19<sup>99</sup></span>",
    "pieces": (
        "<span class=a-offscreen>$19.99</span><span aria-hidden=true><span>$</span><span>19<i>.</i></span>"
        "<span>99</span></span>"
    ),
    "hidden by a style": (
        "<style>.a-offscreen{display:none}</style><span class=a-offscreen>$19.99</span>"
        "<span aria-hidden=true>$19<sup>99</sup></span>"
    ),
    "drawn first": "<span aria-hidden=true>$<b>19</b>99</span><span class=sr-only>$19.99</span>",
}  # fmt: skip


@pytest.mark.parametrize("price", PRICES.values(), ids=PRICES)
@pytest.mark.parametrize("main", [False, True])
def test_a_price_for_the_eye_and_for_screen_readers_is_there_once(price, main):
    page = (
        f"<main>{PROSE}<p>Price: <span class=a-price>{price}</span> a night</p>{PROSE}"
    )
    found = markdown(page, only_main_content=main)
    assert "Price: $19.99 a night" in found
    assert found.count("19") == 1


def test_different_texts_for_the_eye_and_for_screen_readers_stay():
    page = "<p><span class=a-offscreen>Was $30, now </span><span aria-hidden=true>$25</span></p>"
    assert markdown(page) == "Was $30, now $25"


EDIT = "https://github.com/harbour/docs/edit/main/tides.md"


@pytest.mark.parametrize(
    "label",
    ["Edit this page", "✏️ Edit this page on GitHub", "Edit on GitHub", "Suggest edits", "Improve this page",
     "Edit page", "Seite bearbeiten", "Modifier cette page", "Editar esta página"],
)  # fmt: skip
def test_links_to_edit_a_page_are_no_main_content(label):
    page = f"<main><h1>Tides</h1>{PROSE}<p><a href={EDIT}>{label}</a></p>{PROSE}</main>"
    assert EDIT not in markdown(page, only_main_content=True)
    assert EDIT in markdown(page)


@pytest.mark.parametrize(
    "label", ["How to edit this page", "the file on GitHub", "Edit", "tides.md"]
)
def test_other_links_to_a_repository_stay(label):
    page = f"<main><h1>Tides</h1>{PROSE}<p>See <a href={EDIT}>{label}</a> there.</p>{PROSE}</main>"
    assert EDIT in markdown(page, only_main_content=True)


def test_endless_fields_are_read():
    fields = (
        "<label for=a>" * 100
        + "<p><select id=a><option selected>x</select><textarea>y" * 3000
    )
    assert "x" in markdown(fields)
