"""Short facts of the main content: items of lists, bylines, titles and pictures."""

from __future__ import annotations

import numpy as np
import pytest

from scraper_service.content.html.document import parse
from scraper_service.content.main_content.blocks import Walk
from scraper_service.content.main_content.cards import unite_cards
from scraper_service.content.main_content.drafts import Draft
from scraper_service.content.main_content.features import table
from scraper_service.content.main_content.model import model
from tests.content.pages import URL

BAR = 0.4
GROUP = "<div class=group><p class=label>Bit {n}</p><div class=size>{n} mm</div></div>"


def draft_of(body: str, chances: list[float], titles: tuple[str, ...] = ()) -> Draft:
    """Return the draft of a page whose blocks have the given chances."""
    walk = Walk(parse(body, URL).body, model().tables)
    known = np.array(chances)
    made = table(walk, [1 / 7] * 7)
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
