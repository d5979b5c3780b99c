"""What the model looks at: a row of numbers for each block of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define

from scraper_service.formats.main_content.blocks import PLACES
from scraper_service.formats.main_content.kinds import KINDS
from scraper_service.formats.main_content.names import LEVELS, kind_names, names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.formats.main_content.blocks import Block, Node, Walk

Array = Any  # of numpy, one dimension
LONG = 8  # words of a sentence
PROSE_SHARE = 0.6  # of the sentences of a page, which its text container holds
_ENDS = (".", "!", "?", "。", "！", "？", "…", '."', ".”", ":", "।", "؟")  # noqa: RUF001


@define
class Table:
    """The rows of one page, by columns, and where its blocks stand."""

    columns: dict[str, Array]
    words: Array
    node: Array  # of each block
    parent: Array  # of each node
    start: Array
    end: Array
    group: Array  # blocks of one path have one number

    def matrix(self, names: Sequence[str]) -> Array:
        """Return the named columns side by side."""
        columns = self.columns
        return np.stack([columns[name] for name in names], axis=1)


def table(walk: Walk, kind: Sequence[float]) -> Table:
    """Return the features of all blocks; ``kind`` are the chances of each page kind."""
    nodes, blocks = walk.nodes, walk.blocks
    facts = np.array([_node_facts(node) for node in nodes], dtype=np.float64).T
    parent = facts[0].astype(np.intp)
    parent[0] = 0
    start, end = facts[1].astype(np.intp), facts[2].astype(np.intp)
    rows = np.array([_block_facts(b) for b in blocks], dtype=np.float64).T
    node = rows[0].astype(np.intp)
    words, linked = rows[1], rows[2]
    tags = walk.tables.tags
    group, repeated, lca, tag_scores = _shapes(nodes, blocks, tags)
    out: dict[str, Array] = {}
    made = Table(out, words, node, parent, start, end, group[node])
    _own(out, rows, blocks, tag_scores[node])
    names(out, facts[3:9], made)
    kind_names(out, walk, kind, made)
    _places(out, blocks)
    total = max(words.sum(), 1.0)
    sums = {
        "words": np.concatenate(([0.0], np.cumsum(words))),
        "linked": np.concatenate(([0.0], np.cumsum(linked))),
        "prose": np.concatenate(([0.0], np.cumsum(words * out["sentence"]))),
    }
    _containers(out, made, sums, facts, total)
    _repetitions(out, made, repeated, sums)
    _positions(out, made, sums, total, lca, facts)
    _groups(out, made, linked)
    _neighbours(out)
    _page(out, made, sums, total, kind, nodes)
    return made


def _node_facts(node: Node) -> tuple[float, ...]:
    return (
        node.parent,
        node.start,
        node.end,
        node.depth,
        node.low,
        node.high,
        node.low_above,
        node.high_above,
        node.sum_above,
    )


def _block_facts(block: Block) -> tuple[float, ...]:
    text = block.text
    return (
        block.node,
        block.words,
        block.linked,
        block.links,
        len(text),
        text.rstrip().endswith(_ENDS),
        text.count(",") + text.count("、") + text.count("،"),
        text.count(". ") + text.count("。"),
        block.first,
        block.phrase,
        block.inline_low,
    )


def _shapes(
    nodes: list[Node], blocks: list[Block], tags: Any
) -> tuple[Array, Array, Array, Array]:
    """Return by node: number of its path, alike siblings, depth shared with the h1."""
    count = len(nodes)
    paths: dict[tuple[int, str], int] = {}
    group = np.zeros(count, dtype=np.intp)
    siblings: dict[tuple[int, str], int] = {}
    alike = []
    numbers = [0] * count
    tag_scores = np.zeros(count)
    names = [node.shape.partition(".")[0] for node in nodes]
    headed = -1
    for number, node in enumerate(nodes):
        above = node.parent
        key = (numbers[above] if above >= 0 else -1, node.shape)
        numbers[number] = paths.setdefault(key, len(paths))
        pair = (above, node.shape)
        siblings[pair] = siblings.get(pair, 0) + 1
        alike.append(pair)
        name = names[number]
        tag_scores[number] = tags.get(f"{names[above]} {name}", 0.0)
        if headed < 0 and name == "h1" and node.end > node.start:
            headed = number
    group[:] = numbers
    repeated = np.array([siblings[pair] for pair in alike], dtype=np.float64)
    chain = set()
    while headed >= 0:
        chain.add(headed)
        headed = nodes[headed].parent
    shared = np.zeros(count)
    for number, node in enumerate(nodes):
        if number in chain:
            shared[number] = node.depth
        elif node.parent >= 0:
            shared[number] = shared[node.parent]
    return group, repeated, shared, tag_scores


def _own(out: dict[str, Array], rows: Array, blocks: list[Block], tag: Array) -> None:
    words, linked, links, size = rows[1], rows[2], rows[3], rows[4]
    out["words"] = np.log1p(words)
    out["link density"] = linked / np.maximum(words, 1)
    out["links"] = np.log1p(links)
    out["word length"] = np.minimum(size / np.maximum(words, 1), 20)
    out["ends a sentence"] = rows[5]
    out["commas"] = rows[6] / np.maximum(words, 1)
    out["sentences"] = np.log1p(rows[7])
    out["first words"] = rows[8]
    out["phrase"] = rows[9]
    out["inline names"] = rows[10]
    out["tag"] = tag
    out["sentence"] = ((words >= LONG) & (rows[5] > 0) & (linked < 0.4 * words)).astype(
        np.float64
    )


def _places(out: dict[str, Array], blocks: list[Block]) -> None:
    places = np.array([block.places for block in blocks], dtype=np.int64)
    for number, name in enumerate(PLACES):
        if name in _USELESS:
            continue
        out[f"in {name}"] = ((places >> number) & 1).astype(np.float64)


def _containers(
    out: dict[str, Array],
    made: Table,
    sums: dict[str, Array],
    facts: Array,
    total: float,
) -> None:
    start, end, parent = made.start, made.end, made.parent
    words = sums["words"][end] - sums["words"][start]
    linked = sums["linked"][end] - sums["linked"][start]
    density = linked / np.maximum(words, 1)
    prose = (sums["prose"][end] - sums["prose"][start]) / np.maximum(words, 1)
    counts = np.log1p(end - start)
    at = made.node
    for level in range(LEVELS):
        out[f"share {level}"] = words[at] / total
        out[f"density {level}"] = density[at]
        out[f"prose {level}"] = prose[at]
        out[f"blocks {level}"] = counts[at]
        at = parent[at]
    at = made.node
    big = np.zeros(len(at))
    found = np.zeros(len(at), dtype=bool)
    dense = np.zeros(len(at))
    distance = np.zeros(len(at))
    for level in range(12):
        hit = ~found & ((words[at] >= 0.25 * total) | (at == 0))
        big[hit] = words[at][hit] / total
        dense[hit] = density[at][hit]
        distance[hit] = level
        found |= hit
        at = parent[at]
    out["big share"] = big
    out["big density"] = dense
    out["big distance"] = distance


def _repetitions(
    out: dict[str, Array], made: Table, repeated: Array, sums: dict[str, Array]
) -> None:
    """Weigh the most repeated element around each block: a card, a post, a row."""
    at = made.node
    best = np.ones(len(at))
    item = made.node.copy()
    for _ in range(9):
        better = repeated[at] > best
        best = np.where(better, repeated[at], best)
        item = np.where(better, at, item)
        at = made.parent[at]
    start, end = made.start[item], made.end[item]
    words = sums["words"][end] - sums["words"][start]
    linked = sums["linked"][end] - sums["linked"][start]
    out["alike"] = np.log1p(best)
    out["item words"] = np.log1p(words)
    out["item density"] = linked / np.maximum(words, 1)
    out["item prose"] = (sums["prose"][end] - sums["prose"][start]) / np.maximum(
        words, 1
    )
    holder = made.parent[item]
    start, end = made.start[holder], made.end[holder]
    inside = sums["words"][end] - sums["words"][start]
    out["items share"] = inside / max(sums["words"][-1], 1.0)
    out["own siblings"] = np.log1p(repeated[made.node])


def _positions(
    out: dict[str, Array],
    made: Table,
    sums: dict[str, Array],
    total: float,
    lca: Array,
    facts: Array,
) -> None:
    count = len(made.node)
    index = np.arange(count)
    before = sums["words"][:-1]
    out["position"] = index / count
    out["words before"] = before / total
    out["number"] = np.minimum(index, 200.0)
    out["number from end"] = np.minimum(count - index, 200.0)
    out["depth beside h1"] = facts[3][made.node] - lca[made.node]
    out["h1 shared"] = lca[made.node]
    heading = out["in heading"] > 0
    last = np.maximum.accumulate(np.where(heading, index, -1))
    safe = np.maximum(last, 0)
    none = last < 0
    out["heading words"] = np.where(none, 0, out["first words"][safe])
    out["heading phrase"] = np.where(none, 0, out["phrase"][safe])
    out["heading distance"] = np.where(none, 99, np.minimum(index - last, 99))
    out["heading names"] = np.where(none, 0, out["names low"][safe])
    prose = sums["prose"]
    inside = prose[made.end] - prose[made.start]
    holding = np.flatnonzero(inside >= PROSE_SHARE * max(prose[-1], 1.0))
    holder = holding[np.argmax(facts[3][holding])] if len(holding) else 0
    start, end = made.start[holder], made.end[holder]
    out["in text"] = ((index >= start) & (index < end)).astype(np.float64)
    out["from text"] = np.where(
        index < start, index - start, np.maximum(index - end, 0)
    )
    out["text share"] = np.full(
        count, (sums["words"][end] - sums["words"][start]) / total
    )
    sentences = np.flatnonzero(out["sentence"])
    first = sentences[0] if len(sentences) else 0
    out["from first sentence"] = np.clip(index - first, -99, 99)
    out["prose before"] = prose[:-1] / max(prose[-1], 1.0)


def _groups(out: dict[str, Array], made: Table, linked: Array) -> None:
    group = made.group
    count = np.bincount(group)
    words = np.bincount(group, made.words)
    out["group blocks"] = np.log1p(count[group])
    out["group words"] = np.log1p(words[group] / np.maximum(count[group], 1))
    out["group share"] = words[group] / max(made.words.sum(), 1.0)
    out["group density"] = np.bincount(group, linked)[group] / np.maximum(
        words[group], 1
    )
    out["group sentences"] = np.bincount(group, out["sentence"])[group] / count[group]


# Places that told nothing which the rest does not tell.
_USELESS = frozenset({"details", "p", "a", "dl", "consent"})
_SHIFTED = ("words", "link density", "tag")


def _neighbours(out: dict[str, Array]) -> None:
    for name in _SHIFTED:
        values = out[name]
        out[f"{name} before"] = _shifted(values, 1)
        out[f"{name} behind"] = _shifted(values, -1)
    for name in ("link density", "words", "sentence", "first words"):
        for reach in (4, 12):
            out[f"{name} around {reach}"] = _around(out[name], reach)


def _shifted(values: Array, step: int) -> Array:
    """Return what stands ``step`` blocks before; zero beyond the ends."""
    result = np.zeros(len(values))
    if step > 0:
        result[step:] = values[:-step]
    else:
        result[:step] = values[-step:]
    return result


def _around(values: Array, reach: int) -> Array:
    """Return the mean of the blocks up to ``reach`` before and behind."""
    sums = np.concatenate(([0.0], np.cumsum(values)))
    index = np.arange(len(values))
    low = np.maximum(index - reach, 0)
    high = np.minimum(index + reach + 1, len(values))
    return (sums[high] - sums[low]) / (high - low)


def _page(
    out: dict[str, Array],
    made: Table,
    sums: dict[str, Array],
    total: float,
    kind: Sequence[float],
    nodes: list[Node],
) -> None:
    count = len(made.node)
    shapes = [node.shape.partition(".")[0] for node in nodes]
    values = {
        "page words": np.log1p(total),
        "page blocks": np.log1p(count),
        "page density": sums["linked"][-1] / total,
        "page prose": sums["prose"][-1] / total,
        "page items": out["items share"].max(),
        "page articles": np.log1p(shapes.count("article")),
        "page has h1": float("h1" in shapes),
    }
    for name, chance in zip(KINDS, kind, strict=True):
        values[f"kind {name}"] = chance
    for name, value in values.items():
        out[name] = np.full(count, value)
    out["share of main"] = np.full(count, (made.words * out["in main"]).sum() / total)
    article = made.words * out["in article"]
    out["share of article"] = np.full(count, article.sum() / total)
