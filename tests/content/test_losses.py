"""Parts of a page that no format contains are named in its metadata."""

from __future__ import annotations

from scraper_service.content.convert import make_content
from scraper_service.content.html.document import parse
from scraper_service.content.losses import Losses, describe
from tests.content.pages import options, source


def test_losses_are_grouped_and_sorted_by_kind():
    losses = Losses()
    losses.add("video", "It has no text.", url="https://a.example/v")
    losses.add("formula", "It is a picture.", text="  a \n b ")
    losses.add("formula", "It is a picture.", count=2)
    assert losses.as_rows() == (
        {"kind": "formula", "count": 3, "reason": "It is a picture.", "texts": ["a b"]},
        {
            "kind": "video",
            "count": 1,
            "reason": "It has no text.",
            "urls": ["https://a.example/v"],
        },
    )
    assert describe(losses.as_rows()) == "3 formulas, 1 video"


def test_a_loss_in_a_dropped_part_is_forgotten():
    page = parse(
        "<nav>Menu <i></i></nav><div><div><b></b></div>Text</div>", "https://a.example"
    )
    menu, wrapper = page.root.find(".//i"), page.root.find(".//b")
    page.losses.add("diagram", "It has no text.", near=menu)
    page.losses.add("frame", "It has no text.", near=wrapper)
    page.body.remove(page.root.find(".//nav"))
    wrapper.getparent().getparent().remove(wrapper.getparent())
    page.losses.settle(page.root)
    assert describe(page.losses.as_rows()) == "1 frame"


def test_a_page_that_breaks_off_has_lost_its_end():
    content = make_content(source("<p>Half a sentence", is_cut=True), options())
    [loss] = content.losses
    assert (loss["kind"], loss["count"]) == ("truncated", 1)


def test_links_alone_have_no_losses():
    content = make_content(source("<p>Half", is_cut=True), options("links"))
    assert content.losses == ()


def test_rows_that_a_table_declares_and_does_not_have_are_counted():
    rows = "".join(f"<tr><td>Name {n}<td>Place {n}" for n in range(30))
    page = f"<h1>People</h1><table aria-rowcount=200>{rows}<tr></table>"
    [loss] = make_content(source(page), options()).losses
    assert (loss["kind"], loss["count"]) == ("recycledRows", 170)
    assert "scrollToEnd" in loss["reason"]


def test_a_table_without_missing_rows_has_no_loss():
    for count in ("2", "1", "-1", "", "x", "9" * 400):
        page = f"<table aria-rowcount='{count}'><tr><td>One<tr><td>Two</table>"
        assert make_content(source(page), options()).losses == ()
