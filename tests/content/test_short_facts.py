"""Short facts of the main content: items of lists, bylines, titles and pictures."""

from __future__ import annotations

import numpy as np
import pytest

from scraper_service.content.html.document import parse
from scraper_service.content.main_content.blocks import Walk
from scraper_service.content.main_content.model import (
    KINDS,
    Draft,
    Kind,
    model,
    read_declarations,
    table,
)
from scraper_service.content.main_content.reduction import decide
from scraper_service.content.main_content.rules import add_bylines, correct, unite_cards
from tests.content.pages import URL, markdown

BAR = 0.4
GROUP = "<div class=group><p class=label>Bit {n}</p><div class=size>{n} mm</div></div>"


def draft_of(
    body: str,
    chances: list[float],
    titles: tuple[str, ...] = (),
    kind: str = "",
) -> Draft:
    """Return the draft of a page whose blocks have the given chances."""
    walk = Walk(parse(body, URL).body, model().tables)
    known = np.array(chances)
    made = table(walk, [float(name == kind) if kind else 1 / 7 for name in KINDS])
    return Draft(walk, made, known, BAR, known >= BAR, rules={}, titles=titles)


@pytest.mark.parametrize(
    ("item", "kept"),
    [
        ("<li>{n} g of flour", True),
        ("<li><a href=/{n}>Offer {n}</a>", False),  # links may lead to other pages
    ],
)
def test_a_list_of_which_most_is_kept_is_kept_as_a_whole(item, kept):
    body = "<ul>" + "".join(item.format(n=n) for n in range(5)) + "</ul>"
    draft = draft_of(body, [0.9, 0.9, 0.3, 0.9, 0.3])
    unite_cards(draft)
    assert draft.keep.tolist() == [True, True, kept, True, kept]


def test_labels_of_groups_stay_with_their_facts():
    body = "<div>" + "".join(GROUP.format(n=n) for n in range(5)) + "</div>"
    draft = draft_of(body, [0.9, 0.9, 0.9, 0.9, 0.3, 0.9, 0.9, 0.9, 0.9, 0.3])
    unite_cards(draft)
    assert draft.keep.all()


def test_a_part_that_few_groups_keep_does_not_spread():
    body = "<div>" + "".join(GROUP.format(n=n) for n in range(5)) + "</div>"
    draft = draft_of(body, [0.9, 0.3] * 4 + [0.9, 0.9])
    unite_cards(draft)
    assert draft.keep.tolist() == [True, False] * 4 + [True, True]


SAID = "<p>The stem is the weakest part of those valves, so warm it before you turn it.</p>"
BYLINES = {
    # A class with "user" marks the date, too.
    "a date beside the author": (
        (
            "<div class=user-action-time>asked Mar 2{n}, 2019</div>"
            "<div class=user-details><a href=/users/{n}>marta{n}</a></div>"
        ),
        [True, True],
    ),
    "author and date in one long line": (
        "<p class=author>by The lock keeper {n} of the old canal, Tue Aug 2{n}, 2019 1:47 am</p>",
        [True],
    ),
    "an author beside author and date": (
        (
            "<p><a href=/u/{n}>marta{n}</a></p>"
            "<p class=author>by marta{n}, Tue Aug 2{n}, 2019 1:47 am</p>"
        ),
        [True, True],
    ),
    "a link that shares the post": (
        "<p><a href='https://social.example/sharer?u=https://site.example/{n}'>Share</a></p>",
        [False],
    ),
}


@pytest.mark.parametrize(("byline", "kept"), BYLINES.values(), ids=BYLINES)
def test_author_and_date_come_with_the_post(byline, kept):
    posts = [f"<div>{byline.format(n=n)}{SAID}</div>" for n in range(3)]
    chances = [*(0.1 for _ in kept), 0.9]
    draft = draft_of(f"<main>{''.join(posts)}</main>", chances * 3)
    add_bylines(draft)
    assert draft.keep.tolist() == [*kept, True] * 3


def test_comments_keep_their_authors_on_a_page_that_may_be_a_forum():
    posts = [f"<div><p><a href=/u/{n}>marta{n}</a></p>{SAID}</div>" for n in range(3)]
    draft = draft_of(f"<main>{''.join(posts)}</main>", [0.1, 0.9] * 3)
    chances = dict.fromkeys(KINDS, 0.02) | {"article": 0.6, "forum": 0.3}
    kind = Kind(tuple(chances[name] for name in KINDS))
    found = decide(draft.walk, kind, draft.chances, draft.made, (), 0.75)
    assert all(found.keep)
    assert len(found.posts) == 3


PROSE = "<p>The tide rose over the old wall, and the boats were moved inland.</p>"
TITLE = "Boats moved as the tide rises"


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        (f"<h1>Gazette</h1><h2>{TITLE} again</h2>", [True, True]),
        (f"<p>Harbour news</p><div><b>{TITLE}</b></div>", [False, True]),
        (f"<h1>{TITLE}</h1><h2>{TITLE}</h2>", [True, False]),  # the h1 is the title
        ("<h2>Harbour news</h2><h2>Boats</h2>", [False, False]),
        (f"<nav><p>{TITLE}</nav><p>Harbour", [False, False]),
    ],
)
def test_a_title_that_is_no_h1_is_kept(head, kept):
    draft = draft_of(
        f"<div><div>{head}</div><div>{PROSE}{PROSE}</div></div>",
        [0.1, 0.1, 0.9, 0.9],
        titles=(f"{TITLE} - Harbour Gazette", TITLE),
    )
    correct(draft)
    assert draft.keep.tolist() == [*kept, True, True]


def test_the_declared_picture_before_the_text_stays():
    page = (
        "<meta property=og:image content=https://cdn.example/2025/old-wall-1200x630.jpg?v=2>"
        f"<title>{TITLE}</title><main><div><h1>{TITLE}</h1></div>"
        "<div class=byline><img src=/marta.jpg><p>By Marta</p><p>4 May 2025</p></div>"
        "<div class=hero><p class=share>Share</p><figure><img src=/img/old-wall-300x200.jpg alt=Wall>"
        f"<figcaption>Photo: Marta</figcaption></figure></div><div>{PROSE * 20}</div>"
        "<aside><h2>Related</h2><a href=/w><img src=/img/old-wall.jpg>Older news</a></aside></main>"
    )
    text = markdown(page, only_main_content=True)
    assert text.startswith(f"# {TITLE}\n\n![Wall](")
    assert text.count("![") == 1
    assert "Share" not in text


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        ("https://cdn.example/a/old-wall-1200x630.jpg?v=2", "old-wall"),
        ("/wall-of-the-harbour_20x30@2x.webp", "wall-of-the-harbour"),
        ("https://cdn.example/a.png", ""),  # many URLs contain such a name
        ("http://[", ""),
        ("", ""),
    ],
)
def test_the_name_of_the_declared_picture_is_without_its_size(declared, name):
    page = f"<meta property=og:image content='{declared}'><p>Boats"
    assert read_declarations(parse(page, URL)).picture == name


@pytest.mark.parametrize(
    ("name", "chance", "kept"),
    [
        ("recipe__ingredients", 0.3, True),
        ("recipe__links", 0.3, False),
        ("header-ingredients", 0.01, False),  # the model is sure that it is no content
    ],
)
def test_the_ingredients_of_a_recipe_stay(name, chance, kept):
    items = "".join(f"<li>{n} cups of flour" for n in range(1, 5))
    body = (
        f"<div><div>{PROSE}</div><div class={name}><h2>What you need</h2><ul>{items}</ul></div>"
        f"<div>{PROSE}{PROSE}</div></div>"
    )
    draft = draft_of(body, [0.9, *[chance] * 5, 0.9, 0.9])
    correct(draft)
    assert draft.keep.tolist() == [True, *[kept] * 5, True, True]


def test_the_price_after_the_title_stays_on_a_page_with_another_h1():
    other = "".join(f"<p>Rucksack of kind {n}</p>" for n in range(15))
    draft = draft_of(
        f"<div><h1>Mountain Shop</h1>{other}</div><div><h1>Trailhead</h1><div>119,00 €</div></div>"
        f"<div>{PROSE}</div>",
        [0.1] * 18 + [0.9],
        titles=("Trailhead",),
        kind="product",
    )
    correct(draft)
    assert draft.keep.tolist() == [False] * 16 + [True] * 3


@pytest.mark.parametrize(
    ("aside", "kept"),
    [
        ("<aside class=note><p>Wear gloves, as roses have thorns.</p></aside>", True),
        ("<aside><p><a href=/r>Roses for the small garden</a></p></aside>", False),
        ("<footer><p>Made in the garden of roses</p></footer>", False),
    ],
)
def test_a_note_in_an_aside_of_a_small_article_stays(aside, kept):
    draft = draft_of(f"<article>{PROSE}{aside}{PROSE}</article>", [0.9, 0.9, 0.9])
    correct(draft)
    assert draft.keep.tolist() == [True, kept, True]


@pytest.mark.parametrize(
    ("label", "kept"),
    [
        ("Minimum:", True),
        ("Share", False),
        ("More of what our readers had to say this week:", False),
    ],
)
def test_a_label_with_a_colon_stays_with_its_value(label, kept):
    body = f"<div><div>{PROSE}</div><div><b>{label}</b><ul><li>4 GB of memory</ul></div></div>"
    draft = draft_of(body, [0.9, 0.1, 0.9])
    correct(draft)
    assert draft.keep.tolist() == [True, kept, True]


@pytest.mark.parametrize(
    ("fact", "count", "kept"),
    [
        ("<p>Level {n}</p>", 8, True),
        ("<p><a href=/{n}>Level {n}</a></p>", 8, False),  # links may lead elsewhere
        ("<p>Level {n}</p>", 20, False),
        ("<p>201{n}</p>", 8, False),  # the axis of a chart
    ],
)
def test_a_row_of_short_facts_between_content_stays(fact, count, kept):
    facts = "".join(fact.format(n=n) for n in range(count))
    draft = draft_of(f"<div>{PROSE}{facts}{PROSE}</div>", [0.9, *[0.2] * count, 0.9])
    correct(draft)
    assert draft.keep.tolist() == [True, *[kept] * count, True]
