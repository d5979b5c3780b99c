"""Searches among the nodes of a page that are siblings of one shape."""

from __future__ import annotations

from typing import Any

from scraper_service.content.passes.arrays import Whole, Wholes, whole_zeros, wholes

# The lines from here on are compiled.


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
    siblings, of more than one block and at most ``max_words`` words on average. Without
    ``by_parent``, nodes with the same grandparent are siblings, too: several rows form one
    list.
    """
    parent: Wholes = wholes(nodes.parent)
    start: Wholes = wholes(nodes.start)
    end: Wholes = wholes(nodes.end)
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
            and all_blocks[number] > siblings[number]
            and all_words[number] <= max_words * siblings[number]
            and 0 < all_kept[number] < all_blocks[number]
        ):
            found.setdefault(number, []).append(range(start[n], end[n]))
    return list(found.values())
