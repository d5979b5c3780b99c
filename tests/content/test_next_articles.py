"""Main content of an article that a script appended other articles to."""

from __future__ import annotations

import pytest

from tests.content.pages import URL, markdown

SITE = "https://site.example"
LONG = (
    "The council voted on the bridge after a long evening of speeches, and the mayor said"
    " that work on its northern ramp would begin before the first frost of the winter."
)
OTHER = (
    "A bakery at the harbour won the prize for the best rye loaf of the county, which its"
    " owner put down to the old oven and to the patience of her two apprentices."
)
DECLARED = "<meta property=og:type content=article>"
LD = '<script type="application/ld+json">{"@type": "NewsArticle"}</script>'
OWN = f"<article><h1>A vote on the bridge</h1><p>{LONG}</p><p>{LONG}</p></article>"


def main(body, head=""):
    page = f"<html><head><title>A vote on the bridge</title>{head}</head><body>{body}"
    return markdown(page, only_main_content=True)


def article(
    attributes="", heading="<h1>A prize for a loaf</h1>", tag="article", words=OTHER
):
    return f"<{tag} {attributes}>{heading}<p>{words}</p><p>{words}</p></{tag}>"


NEXT = {
    "data-url": article("data-url=/dir/loaf.html"),
    "data-href": article("data-href='https://site.example/loaf'"),
    "itemid": article("itemid='https://site.example/loaf' itemscope"),
    "h2": article("data-url=/loaf", "<h2>A prize for a loaf</h2>"),
    "permalink": article("", "<h2><a href=/loaf>A prize for a loaf</a></h2>"),
    "linked heading": article("", "<a href=/loaf><h2>A prize for a loaf</h2></a>"),
    "div": article("data-url=/loaf", tag="div"),
    "role": article("role=article data-permalink=/loaf", tag="div"),
    "section": article("class=post data-url=/loaf", "<h2>A loaf</h2>", tag="section"),
    "wrapped": f"<div data-url=/loaf>{article()}</div>",
    "id": article("id=post-77 data-canonical-url=/loaf"),
}


@pytest.mark.parametrize("second", NEXT.values(), ids=NEXT)
@pytest.mark.parametrize("head", [DECLARED, LD, ""], ids=["og", "ld", "h1"])
def test_the_article_of_another_page_is_left_out(second, head):
    text = main(f"<main>{OWN}{second}</main>", head)
    assert LONG in text
    assert "loaf" not in text


def test_following_articles_stay_without_onlyMainContent():
    page = DECLARED + OWN + NEXT["data-url"]
    assert OTHER in markdown(page, only_main_content=False)


def test_following_articles_with_other_urls_are_dropped():
    first = OWN.replace("<article>", f"<article data-url={URL}>")
    text = main(f"<div id=feed data-url=/api/feed>{first}{NEXT['data-url']}</div>", LD)
    assert LONG in text
    assert "loaf" not in text


STAYING = {
    "no URL": (DECLARED, article()),
    "no heading": (DECLARED, article("data-url=/loaf", "")),
    "anchor": (DECLARED, article("", "<h2><a href='#loaf'>A prize</a></h2>")),
    "second page": (DECLARED, article("data-url=/dir/page.html/2")),
    "canonical": (
        DECLARED + "<link rel=canonical href=/loaf>",
        article("data-url=/loaf"),
    ),
    "source": (DECLARED, article("", "<h2><a href='//b.example/x'>A prize</a></h2>")),
    "part": (DECLARED, article("data-url=/print", "<h2>A prize</h2>", tag="div")),
    "a small link": (
        DECLARED,
        article("", "<h2>A prize for a loaf <a href=/loaf>Edit</a></h2>"),
    ),
    "live": (LD.replace("NewsArticle", "LiveBlogPosting"), article("data-url=/loaf")),
    "forum": (
        LD.replace("NewsArticle", "DiscussionForumPosting"),
        article("data-url=/loaf"),
    ),
}


@pytest.mark.parametrize(("head", "second"), STAYING.values(), ids=STAYING)
def test_parts_of_the_page_itself_stay(head, second):
    text = main(f"<main>{OWN}{second}</main>", head)
    assert LONG in text
    assert OTHER in text


@pytest.mark.parametrize("title", ["", "<h1>The paper of the town</h1>"])
def test_list_pages_keep_all_of_their_articles(title):
    posts = [
        article(heading=f"<h2><a href=/posts/{n}>Post number {n}</a></h2>")
        for n in range(6)
    ]
    text = main(f"<main>{title}{''.join(posts)}</main>")
    assert all(f"Post number {n}" in text for n in range(6))


def test_a_list_below_a_lead_keeps_its_articles():
    posts = [
        article(heading=f"<h2><a href=/posts/{n}>Post number {n}</a></h2>")
        for n in range(6)
    ]
    text = main(f"<main>{OWN}{''.join(posts)}</main>")
    assert all(f"Post number {n}" in text for n in range(6))
