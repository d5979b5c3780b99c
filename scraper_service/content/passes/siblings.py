"""Counts of blocks and names, and searches among siblings of one shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.content.passes.python_forms import (
    Whole,
    Wholes,
    WordTable,
    part_numbers,
    whole_zeros,
    wholes,
    without_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Collection

# The lines from here on are compiled.


def plain_shapes(shapes: Collection[str]) -> dict:
    """Return a name without numbers for each shape; an empty one if all are the same."""
    plain: dict = {}
    are_same = True
    shape: str
    for shape in shapes:
        name = without_numbers(shape)
        if name is not shape and name != shape:
            are_same = False
        plain[shape] = name
    return {} if are_same else plain


def path_numbers(parents: list, shapes: list, plain: dict) -> list:
    """Return the path number of each node; ``plain`` has a name for each shape.

    Nodes have the same number if their names and the numbers of their parents are the same.
    """
    known: dict = {}
    numbers: list = []
    n: Whole
    parent: Whole
    for n in range(len(parents)):
        parent = parents[n]
        above = numbers[parent] if n else 0
        numbers.append(known.setdefault((above, plain[shapes[n]]), len(known)))
    return numbers


def partly_kept(
    nodes: Any,
    paths: list,
    words: list,
    keep: list,
    *,
    by_parent: bool,
    least: Whole,
    most: Whole,
    max_words: Whole,
) -> list:
    """Return the lists of siblings with one path whose blocks are partly kept.

    A list is a list of the ranges of blocks in each sibling. It has ``least`` to ``most``
    siblings of at most ``max_words`` words on average; siblings other than ``li`` have more
    than one block on average. Without ``by_parent``, nodes with the same grandparent are
    siblings, too: several rows form one list.
    """
    parent: Wholes = wholes(nodes.parent)
    start: Wholes = wholes(nodes.start)
    end: Wholes = wholes(nodes.end)
    tags: list = nodes.tag
    count: Whole = len(paths)
    blocks: Whole = len(words)
    words_before: Wholes = whole_zeros(blocks + 1)
    kept_before: Wholes = whole_zeros(blocks + 1)
    n: Whole
    number: Whole
    around: Whole
    path: Whole
    for n in range(blocks):
        own: Whole = int(words[n])
        words_before[n + 1] = words_before[n] + own
        kept_before[n + 1] = kept_before[n] + (1 if keep[n] else 0)
    known: dict = {}
    numbers: Wholes = wholes([-1] * count)
    siblings: Wholes = whole_zeros(count)
    all_blocks: Wholes = whole_zeros(count)
    all_words: Wholes = whole_zeros(count)
    all_kept: Wholes = whole_zeros(count)
    for n in range(1, count):
        if end[n] == start[n]:
            continue
        around = parent[n]
        if not by_parent and around > 0:
            around = parent[around]
        path = paths[n]
        number = known.setdefault(around * (count + 1) + path, len(known))
        numbers[n] = number
        siblings[number] += 1
        all_blocks[number] += end[n] - start[n]
        all_words[number] += words_before[end[n]] - words_before[start[n]]
        all_kept[number] += kept_before[end[n]] - kept_before[start[n]]
    found: dict = {}
    for n in range(1, count):
        number = numbers[n]
        if (
            number >= 0
            and least <= siblings[number] <= most
            and (all_blocks[number] > siblings[number] or tags[n] == "li")
            and all_words[number] <= max_words * siblings[number]
            and 0 < all_kept[number] < all_blocks[number]
        ):
            found.setdefault(number, []).append(range(start[n], end[n]))
    return list(found.values())


def block_counts(
    blocks: Any, prose_words: Whole, longest: Whole
) -> tuple[int, int, int, list[str], int]:
    """Return the numbers of words, of words in links, and of words of prose of a page.

    Then follow its texts shorter than ``longest``, and how many of them have a question.
    Blocks of prose have ``prose_words`` or more, with less than 0.4 of them in links.
    """
    own_words: list = blocks.words
    own_linked: list = blocks.linked
    texts: list = blocks.text
    words: Whole = 0
    linked: Whole = 0
    prose: Whole = 0
    questions: Whole = 0
    short: list = []
    n: Whole
    own: Whole
    in_links: Whole
    for n in range(len(texts)):
        own = own_words[n]
        in_links = own_linked[n]
        words += own
        linked += in_links
        if own >= prose_words and in_links < 0.4 * own:
            prose += own
        text: str = texts[n]
        if len(text) < longest:
            short.append(text)
            if "?" in text:
                questions += 1
    return words, linked, prose, short, questions


def shape_counts(shapes: dict, counted: dict, table: WordTable) -> tuple[dict, dict]:
    """Return how many nodes have each counted tag, and each known part of a name.

    ``shapes`` has a number of nodes for each shape. ``counted`` has the name of the count
    of some tags. Parts are counted by their numbers.
    """
    size: Whole = len(table.numbers)
    of_tags: dict = {}
    counts: Wholes = whole_zeros(size)
    latest: Wholes = whole_zeros(size)
    number: Whole
    part: Whole
    dot: Whole
    shape: str
    found: list = []
    for number, (shape, count) in enumerate(shapes.items(), 1):
        dot = shape.find(".")
        name = counted.get(shape if dot < 0 else shape[:dot])
        if name is not None:
            of_tags[name] = of_tags.get(name, 0) + count
        if dot < 0:
            continue
        for part in part_numbers(shape[dot + 1 :], table):
            if latest[part] != number:
                if not latest[part]:
                    found.append(part)
                latest[part] = number
                counts[part] += int(count)
    return of_tags, {part: counts[part] for part in found}
