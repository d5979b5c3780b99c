"""Lists of objects by rules: which elements of a page are the items, and what they say."""

from __future__ import annotations

from tests.content.test_extraction import STRING, answer, asked


def listed(name, **properties):
    return asked(**{name: {"type": "array", "items": asked(**properties)}})


POST = {"author": STRING, "text": STRING}
THREAD = """<div itemscope itemtype="https://schema.org/DiscussionForumPosting">
  <h1 itemprop="headline">Goats</h1>
  <p><b itemprop="author">Ada</b> <span itemprop="text">Do goats swim?</span></p>
  <div itemprop="comment" itemscope itemtype="https://schema.org/Comment">
    <b itemprop="author">Bob</b> <span itemprop="text">They do.</span></div>
  <div itemprop="comment" itemscope itemtype="https://schema.org/Comment">
    <b itemprop="author">Cleo</b> <span itemprop="text">Mine never did.</span></div>
</div>"""


def test_the_posts_of_a_thread_include_its_first_post():
    found = answer(THREAD, listed("posts", **POST)).data
    assert [post["author"] for post in found["posts"]] == ["Ada", "Bob", "Cleo"]
    assert found["posts"][0]["text"] == "Do goats swim?"
    found = answer(THREAD, listed("comments", **POST)).data
    assert [comment["author"] for comment in found["comments"]] == ["Bob", "Cleo"]


def test_the_date_of_an_item_is_the_day_and_not_its_whole_line():
    lines = [
        ("Posted Mar 6, 2026 17:33 UTC (Fri) by jzb", "Mar 6, 2026 17:33 UTC"),
        ("#2 2024-08-03 14:22:38", "2024-08-03 14:22:38"),
        ("by Ada » Tue Aug 27, 2019 4:08 am", "Tue Aug 27, 2019 4:08 am"),
        ("7 March 12:46 PM EST - Desktop - 9 Comments", "7 March 12:46 PM EST"),
        ("Nov 2019", "Nov 2019"),
    ]
    html = "".join(
        f"""<div class="entry"><h3><a href="/{n}">Entry {n} of the club</a></h3>
        <p>Founded: Dec 11, 2021</p><p>A plan from 2024 to move all to the new hall</p>
        <p>{line}</p></div>"""
        for n, (line, _) in enumerate(lines)
    )
    found = answer(html, listed("entries", title=STRING, date=STRING)).data["entries"]
    assert [entry["date"] for entry in found] == [date for _, date in lines]


def test_the_author_of_an_item_stands_before_the_date_of_its_byline():
    lines = {
        "By Ida Lind on 2026-03-01": "Ida Lind",
        "Posted by ann at 2026-03-01 10:00": "ann",
        "By Ida Lind, March 1, 2026": "Ida Lind",
        "By Ida Lind on Tuesday, 3 March 2026": "Ida Lind",
        "By Ann-Marie Beck \u2013 3 hours ago": "Ann-Marie Beck",
        "By Friday, March 6, 2026": None,
        "By the end of May 3": None,
    }
    html = "".join(
        f'<div class="entry"><h3><a href="/{n}">Entry {n}</a></h3><p>{line}</p></div>'
        for n, line in enumerate(lines)
    )
    fields = {"title": STRING, "author": STRING, "url": STRING}
    found = answer(html, listed("entries", **fields)).data["entries"]
    assert [entry.get("author") for entry in found] == [*lines.values()]


def test_many_alike_elements_are_the_items_rather_than_two_in_a_layout_named_items():
    columns = """<div class="grid"><div class="col flex items-center"><h2>
    <a href="/featured">The featured recipe of this week</a></h2></div>
    <div class="col flex items-center"><h1>Fryer</h1> <a href="/ad">An advert</a></div></div>"""
    cards = "".join(
        f'<article class="card"><a href="/{n}">Recipe {n} of rice</a></article>'
        for n in range(8)
    )
    found = answer(columns + cards, listed("items", title=STRING, url=STRING)).data
    assert [item["title"] for item in found["items"]] == [
        f"Recipe {n} of rice" for n in range(8)
    ]


def test_the_url_of_a_teaser_is_the_link_to_its_full_text():
    html = "".join(
        f"""<div class="entry"><h2>Entry {n} of the club</h2><p>Members met in a
        <a href="https://town.example/">town</a> of their own choice, as they do.</p>
        <p><a href="/entry/{n}">Full Story</a> (<a href="/entry/{n}#c">comments: 3</a>)</p></div>"""
        for n in range(4)
    )
    found = answer(html, listed("entries", title=STRING, url=STRING)).data["entries"]
    assert [e["url"] for e in found] == [
        f"https://shop.example/entry/{n}" for n in range(4)
    ]


def test_the_text_of_a_post_is_not_its_date_again():
    html = "".join(
        f"<li><p>Mod Sharon</p><p>2{n}/11/2025 at 7:07 pm</p></li>" for n in range(4)
    )
    found = answer(f"<ul>{html}</ul>", listed("posts", date=STRING, text=STRING)).data
    assert not any("text" in post for post in found.get("posts", ()))


def test_posts_in_the_comments_of_a_page_are_its_posts():
    comments = "".join(
        f"""<li class="comment"><a href="/user/ada{n}">ada{n}</a>
        <p>The problems of {n} goats are well known to all of us here.</p></li>"""
        for n in range(6)
    )
    parts = "".join(
        f"""<div class="wrap"><a href="/user/{name}">{name}</a>
        <p>The goats in the hills of {name} have seen all that there is to see.</p></div>"""
        for name in ("bea", "cleo")
    )
    html = f'<h1>Goats</h1>{parts}<ul class="comments">{comments}</ul>'
    found = answer(html, listed("posts", **POST)).data["posts"]
    assert [post["author"] for post in found] == [f"ada{n}" for n in range(6)]
