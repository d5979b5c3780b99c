"""Cards: siblings of the same shape; a part is kept or dropped in all cards of a list.

The model scores each block alone. Without this rule, one card could keep only its price
and the next card only its name. In other lists, such as groups of facts, a part without
links that most siblings keep is kept in all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scraper_service.content.main_content.kinds import PRICE
from scraper_service.content.passes import partly_kept, path_numbers, plain_shapes

if TYPE_CHECKING:
    from scraper_service.content.main_content.drafts import Draft

LEAST_CARDS = 3
MAX_CARDS = 1_000  # per list; longer lists stay as they are
MAX_LISTS = 200
MAX_WORDS = 100  # mean words per card
MOST_CARDS = 0.7  # minimum share of cards with a link or a price
MAX_ALIKE = 4  # blocks of one shape that are distinguished within a card
MAJORITY = 0.6  # share of cards in which a part must be kept to stay everywhere
LINKED = 0.5  # mean share of linked words from which a part is one of links
LEAST_TITLED = 0.5  # minimum share of cards with a title
LEAST_LIKELY = 0.3  # minimum chance of titles that stay, as a factor on the bar
FORUM = 0.5  # chance of a forum from which rows of siblings are separate lists
LEAST_KEPT = 0.25  # share of a list's words; with fewer kept, the whole list is dropped

Column = list[int]  # the blocks of one part in all cards of a list


def unite_cards(draft: Draft) -> None:
    """Keep or drop each part of a card in all cards of a list; complete other lists.

    The titles stay if enough of the cards stays. Otherwise the cards are dropped: a price
    without a name is useless.
    """
    paths = _paths(draft)
    lists = _lists(draft, paths)
    headed = draft.made.columns["in heading"].tolist() if lists else []
    density = draft.made.columns["link density"]
    for cards in lists:
        is_plain = max(map(len, cards)) == 1  # items of one block
        are_cards = not is_plain and _are_cards(draft, cards)
        columns = _columns(draft, cards, paths)
        keep = draft.keep.tolist()  # quicker for a few values than numpy
        for column in columns:
            kept = sum([keep[number] for number in column]) / len(column)
            if len(column) >= LEAST_CARDS and 0 < kept < 1:
                if are_cards:
                    stays = kept >= MAJORITY or _chance(draft, column) >= draft.bar
                    draft.set_keep(column, bool(stays), "as in the other cards")
                elif kept >= MAJORITY and density[column].mean() < LINKED:
                    draft.set_keep(column, True, "as in the other items")
        if not are_cards:
            continue
        for column in columns:
            if _is_button(draft, column, headed):
                draft.set_keep(column, False, "said in all cards")
        blocks = [number for card in cards for number in card]
        now_kept = draft.keep[blocks]
        title = _titles(draft, columns, len(cards), headed)
        if title is None or not now_kept.any() or draft.keep[title].all():
            continue
        weight = draft.made.words[blocks] + 1.0
        if (weight * now_kept).sum() < LEAST_KEPT * weight.sum():
            draft.set_keep(blocks, False, "little of a card")
        elif _chance(draft, title) >= LEAST_LIKELY * draft.bar:
            draft.set_keep(title, True, "the title of a card")


def _paths(draft: Draft) -> list[int]:
    """Return the path number of each node, comparing class names without numbers."""
    nodes, shapes = draft.walk.nodes, draft.walk.shapes
    plain = plain_shapes(shapes)
    if not plain or len(set(plain.values())) == len(shapes):
        return nodes.path
    return path_numbers(nodes.parent, nodes.shape, plain)


def _lists(draft: Draft, paths: list[int]) -> list[list[range]]:
    """Return the lists of small siblings of one shape that are partly kept.

    Siblings with a single block count only if they are items of a list.
    """
    made = draft.made
    found = partly_kept(
        draft.walk.nodes,
        paths,
        made.words.tolist(),
        draft.keep.tolist(),
        by_parent=bool(made.columns["kind forum"][0] >= FORUM),
        least=LEAST_CARDS,
        most=MAX_CARDS,
        max_words=MAX_WORDS,
    )
    return found[:MAX_LISTS]


def _are_cards(draft: Draft, cards: list[range]) -> bool:
    """Return True if most of the siblings have a link or a price."""
    blocks = draft.walk.blocks
    least = MOST_CARDS * len(cards)
    count = 0
    for card in cards:
        texts = blocks.text[card.start : card.stop]
        count += any(blocks.linked[card.start : card.stop]) or any(
            map(PRICE.search, texts)
        )
    return count >= least


def _columns(draft: Draft, cards: list[range], paths: list[int]) -> list[Column]:
    """Return the blocks of all cards, grouped by their part of a card."""
    node = draft.walk.blocks.node
    found: dict[tuple[int, int], Column] = {}
    for card in cards:
        seen: dict[int, int] = {}
        for number in card:
            shape = paths[node[number]]
            seen[shape] = min(seen.get(shape, 0) + 1, MAX_ALIKE)
            found.setdefault((shape, seen[shape]), []).append(number)
    return list(found.values())


def _titles(
    draft: Draft, columns: list[Column], count: int, headed: list[float]
) -> Column | None:
    """Return the headings of the cards, or else their first links with distinct texts.

    ``headed`` has for each block 1 in a heading, else 0.
    """
    blocks = draft.walk.blocks
    density = draft.made.columns["link density"]
    full = [column for column in columns if len(column) >= LEAST_TITLED * count]
    for column in full:
        is_headed = sum([headed[n] for n in column]) > LEAST_TITLED * len(column)
        if is_headed and not _is_button(draft, column, headed):
            return column
    for column in full:
        if (
            np.count_nonzero(density[column] >= 0.9) / len(column) > MOST_CARDS
            and draft.made.words[column].mean() >= 2
            and len({blocks.text[number] for number in column}) > len(column) / 2
        ):
            return column
    return None


def _is_button(draft: Draft, column: Column, headed: list[float]) -> bool:
    """Return True if all cards have the same linked heading, such as "Read more".

    A heading with a picture does not count: dropping it would drop the picture.
    """
    texts = draft.walk.blocks.text
    return bool(
        len(column) >= LEAST_CARDS
        and headed[column[0]]
        and all(headed[number] for number in column)
        and draft.made.columns["link density"][column].min() >= 0.9
        and len({texts[number].strip() for number in column}) == 1
        and not _has_picture(draft, column[0])
    )


def _has_picture(draft: Draft, block: int) -> bool:
    """Return True if an element with this block alone contains a picture."""
    nodes, node = draft.walk.nodes, draft.walk.blocks.node[block]
    above = nodes.parent[node]
    while above > 0 and nodes.end[above] - nodes.start[above] == 1:
        node, above = above, nodes.parent[above]
    return next(draft.walk.elements[node].iter("img"), None) is not None


def _chance(draft: Draft, column: Column) -> float:
    weight = draft.made.words[column] + 1.0
    return float((draft.chances[column] * weight).sum() / weight.sum())
