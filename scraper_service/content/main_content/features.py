"""The features of the model: a row of numbers for each block of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scraper_service.content.main_content.blocks import PLACES
from scraper_service.content.main_content.kinds import KINDS
from scraper_service.content.main_content.names import LEVELS, Table, names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.content.main_content.blocks import Blocks, Nodes, Walk

Array = Any  # of numpy, one dimension
LONG = 8  # minimum words of a block of prose
PROSE_SHARE = 0.6  # minimum share of the page's prose in its text container
_ENDS = (".", "!", "?", "。", "！", "？", "…", '."', ".”", ":", "।", "؟")  # noqa: RUF001


def table(walk: Walk, kind: Sequence[float]) -> Table:
    """Return the features of all blocks; ``kind`` has the chance of each page kind."""
    nodes, blocks = walk.nodes, walk.blocks
    parent, start, end, depth, path = map(
        _whole, (nodes.parent, nodes.start, nodes.end, nodes.depth, nodes.path)
    )
    parent[0] = 0
    node = _whole(blocks.node)
    words = np.array(blocks.words, dtype=np.float64)
    linked = np.array(blocks.linked, dtype=np.float64)
    out: dict[str, Array] = {}
    made = Table(out, words, node, parent, start, end, path[node])
    _own(out, blocks, words, linked)
    out["tag"] = _tags(walk)
    out["depth"] = depth[node].astype(np.float64)
    names(out, walk, kind, made)
    _places(out, blocks)
    total = max(words.sum(), 1.0)
    sums = {
        "words": _sums(words),
        "linked": _sums(linked),
        "prose": _sums(words * out["sentence"]),
    }
    _containers(out, made, sums, total)
    _repetitions(out, made, _alike(parent, path), sums)
    _heading(out, walk)
    _positions(out, made, sums, total, depth)
    _groups(out, made, linked)
    _neighbours(out)
    _page(out, made, sums, total, kind, nodes)
    return made


def _whole(values: list[int]) -> Array:
    """Return an integer array; naming the type halves the time of the conversion."""
    return np.array(values, dtype=np.intp)


def _sums(values: Array) -> Array:
    """Return the sums of the first 0, 1, 2, ... values."""
    sums = np.zeros(len(values) + 1)
    np.cumsum(values, out=sums[1:])
    return sums


def _tags(walk: Walk) -> Array:
    """Return per block the learned score of its tag in its parent's tag; 0 in the body."""
    known, tag, parent = walk.tables.tags, walk.nodes.tag, walk.nodes.parent
    scores = [
        known.get(f"{tag[parent[node]]} {tag[node]}", 0.0) if node else 0.0
        for node in walk.blocks.node
    ]
    return np.array(scores)


def _alike(parent: Array, path: Array) -> Array:
    """Return per node the number of its parent's children with the same shape."""
    _, kinds, counts = np.unique(
        parent * len(path) + path, return_inverse=True, return_counts=True
    )
    alike: Array = counts[kinds].astype(np.float64)
    return alike


def _heading(out: dict[str, Array], walk: Walk) -> None:
    """Add the depth of the innermost element around both a block and the first h1."""
    nodes = walk.nodes
    shared = np.zeros(len(walk.blocks))
    headings = (n for n, tag in enumerate(nodes.tag) if tag == "h1")
    number = next((n for n in headings if nodes.end[n] > nodes.start[n]), -1)
    chain = []
    while number >= 0:
        chain.append(number)
        number = nodes.parent[number]
    for number in reversed(chain):
        shared[nodes.start[number] : nodes.end[number]] = nodes.depth[number]
    out["depth beside h1"] = out["depth"] - shared
    out["h1 shared"] = shared


def _own(out: dict[str, Array], blocks: Blocks, words: Array, linked: Array) -> None:
    texts = blocks.text
    least = np.maximum(words, 1)
    lengths, ends, commas, sentences = _counted(texts)
    out["words"] = np.log1p(words)
    out["link density"] = linked / least
    out["links"] = np.log1p(_whole(blocks.links))
    out["word length"] = np.minimum(lengths / least, 20)
    out["ends a sentence"] = ends.astype(np.float64)
    out["commas"] = commas / least
    out["sentences"] = np.log1p(sentences)
    out["first words"] = np.array(blocks.first)
    out["phrase"] = np.array(blocks.phrase)
    out["inline names"] = np.array(blocks.inline_low)
    out["same before"], out["same behind"] = _seen(texts)
    sentence = (words >= LONG) & ends & (linked < 0.4 * words)
    out["sentence"] = sentence.astype(np.float64)


def _seen(texts: list[str]) -> Array:
    """Return how often each text occurs before and behind its block, up to 3."""
    known: dict[str, int] = {}
    before = []
    for text in texts:
        count = known.get(text, 0)
        known[text] = count + 1
        before.append(count)
    behind = [known[t] - n - 1 for t, n in zip(texts, before, strict=True)]
    return np.minimum((before, behind), 3).astype(np.float64)


def _counted(texts: list[str]) -> Sequence[Array]:
    """Return per text: length, whether it ends a sentence, commas, sentences."""
    return (
        _whole([len(text) for text in texts]),
        np.array([text.rstrip().endswith(_ENDS) for text in texts]),
        _whole(_counts(texts, ",", "、،")),
        _whole(_counts(texts, ". ", "。")),
    )


def _counts(texts: list[str], mark: str, others: str) -> list[int]:
    """Count a punctuation mark and its equivalents in other scripts."""
    return [
        text.count(mark) + (0 if text.isascii() else sum(map(text.count, others)))
        for text in texts
    ]


def _places(out: dict[str, Array], blocks: Blocks) -> None:
    places = _whole(blocks.places)
    bits = (places >> np.arange(len(PLACES))[:, None]) & 1
    rows = bits.astype(np.float64)
    for name, row in zip(PLACES, rows, strict=True):
        if name not in _USELESS:
            out[f"in {name}"] = row


def _containers(
    out: dict[str, Array],
    made: Table,
    sums: dict[str, Array],
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
        if found.all():
            break
        at = parent[at]
    out["big share"] = big
    out["big density"] = dense
    out["big distance"] = distance


def _repetitions(
    out: dict[str, Array], made: Table, repeated: Array, sums: dict[str, Array]
) -> None:
    """Add the size of the most repeated element around each block: a card, post or row."""
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
    depth: Array,
) -> None:
    count = len(made.node)
    index = np.arange(count)
    before = sums["words"][:-1]
    out["position"] = index / count
    out["words before"] = before / total
    out["number"] = np.minimum(index, 200.0)
    out["number from end"] = np.minimum(count - index, 200.0)
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
    holder = holding[np.argmax(depth[holding])] if len(holding) else 0
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


# Places that add no information to the other features.
_USELESS = frozenset({"details", "p", "a", "dl", "consent"})
_SHIFTED = ("words", "link density", "tag")
_SPREAD = ("link density", "words", "sentence", "first words")


def _neighbours(out: dict[str, Array]) -> None:
    for name in _SHIFTED:
        values = out[name]
        out[f"{name} before"] = _shifted(values, 1)
        out[f"{name} behind"] = _shifted(values, -1)
    for reach in (4, 12):
        index = np.arange(len(out["words"]))
        low = np.maximum(index - reach, 0)
        high = np.minimum(index + reach + 1, len(index))
        for name in _SPREAD:
            sums = _sums(out[name])
            # The mean of up to ``reach`` blocks before and behind.
            out[f"{name} around {reach}"] = (sums[high] - sums[low]) / (high - low)


def _shifted(values: Array, step: int) -> Array:
    """Return the values shifted by ``step`` blocks, filled up with zeros."""
    result = np.zeros(len(values))
    if step > 0:
        result[step:] = values[:-step]
    else:
        result[:step] = values[-step:]
    return result


def _page(
    out: dict[str, Array],
    made: Table,
    sums: dict[str, Array],
    total: float,
    kind: Sequence[float],
    nodes: Nodes,
) -> None:
    count = len(made.node)
    values = {
        "page words": np.log1p(total),
        "page blocks": np.log1p(count),
        "page density": sums["linked"][-1] / total,
        "page prose": sums["prose"][-1] / total,
        "page items": out["items share"].max(),
        "page articles": np.log1p(nodes.tag.count("article")),
        "page has h1": float("h1" in nodes.tag),
    }
    for name, chance in zip(KINDS, kind, strict=True):
        values[f"kind {name}"] = chance
    for name, value in values.items():
        out[name] = np.full(count, value)
    out["share of main"] = np.full(count, (made.words * out["in main"]).sum() / total)
    article = made.words * out["in article"]
    out["share of article"] = np.full(count, article.sum() / total)
