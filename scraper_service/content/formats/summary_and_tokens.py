"""Shortens pages: by their own sentences, and by tokens of Markdown, in parts and blocks.

The count of tokens is an estimate that needs no vocabulary: a token is four ASCII characters, one
character of Han, Kana or Hangul, or two others. A language model chooses blocks to drop by
their numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

from scraper_service.content.words import (
    WIDE,
    Sentence,
    is_wide,
    may_stand,
    sentences,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from scraper_service.items import BlockT
    from scraper_service.options.scrape import ScrapeOptions

GAP = "\n\n"  # between blocks, and between parts

# Quarters of a token.
_ASCII, _OTHER, _CJK = 1, 2, 4
_TOKEN = 4
_ASCII_BYTES = bytes(range(128))
_GAP_SIZE = len(GAP)

_CJK_TEXT = re.compile(
    "[\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u303b\u3040-\u30ff"
    "\u3105-\u312f\u3131-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff]+"
)
_HEADING = re.compile(r"#{1,6}(?:[ \t]|$)")
_DELIMITERS = re.compile(r"[ \t|:-]*-[ \t|:-]*")
_FENCE = re.compile(r"([ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)*)(`{3,}|~{3,})")
_SENTENCE = re.compile(
    r"(?<=[.!?\u3002\uff01\uff1f])[ \t\n]+|(?<=[\u3002\uff01\uff1f])"
)
_WORD = re.compile(r"[ \t\n]+")
MAX_SHOWN = 600  # characters of a block: enough to classify it


@frozen
class MarkdownPart:
    """One part of a Markdown text."""

    text: str
    #: The number of the part, from 1. It may be more than :attr:`count`.
    page: int
    #: How many parts the text has; at least 1.
    count: int
    #: Tokens of the part.
    tokens: int

    @property
    def is_beyond(self) -> bool:
        """Whether the text has no such part."""
        return self.page > self.count

    @property
    def as_json(self) -> bytes:
        """The text as JSON."""
        return json.dumps(self.text, ensure_ascii=False).encode()

    @property
    def chunk(self) -> dict[str, int]:
        """The part as ``metadata.chunk`` describes it."""
        found = {"page": self.page, "pageCount": self.count, "tokenCount": self.tokens}
        if self.page < self.count:
            found["nextPage"] = self.page + 1
        return found


def count_and_cut(text: str, options: ScrapeOptions) -> tuple[int, MarkdownPart | None]:
    """Return the tokens of a Markdown text, and the part that ``options`` want."""
    count = count_tokens(text)
    if options.max_tokens is None:
        return count, None
    return count, part_of(text, options.max_tokens, options.page or 1)


def beyond(part: MarkdownPart) -> str:
    """Return the warning about a part that the text does not have."""
    return f"The Markdown has {part.count} parts: there is no part {part.page}."


def count_tokens(text: str) -> int:
    """Return the estimated number of tokens of ``text``: 0 for an empty text."""
    return -(-_size(text) // _TOKEN)


def part_of(markdown: str, max_tokens: int, page: int) -> MarkdownPart:
    """Return part ``page`` (from 1) of a text in parts of at most ``max_tokens`` tokens.

    A part beyond the last one is empty.
    """
    texts = parts(markdown, max_tokens)
    text = texts[page - 1] if page <= len(texts) else ""
    return MarkdownPart(text, page, len(texts), count_tokens(text))


def cut_page(body: bytes, max_tokens: int, page: int) -> bytes:
    """Return the JSON of a page object with part ``page`` of its Markdown.

    ``metadata`` gets ``chunk``; a page without Markdown stays as it is.
    """
    found = json.loads(bytes(body))
    if not isinstance(found.get("markdown"), str):
        return bytes(body)
    part = part_of(found["markdown"], max_tokens, page)
    found["markdown"] = part.text
    found["metadata"]["chunk"] = part.chunk
    if part.is_beyond:
        found["warning"] = " ".join(filter(None, [found.get("warning"), beyond(part)]))
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="replace")


def parts(markdown: str, max_tokens: int) -> list[str]:
    """Cut a Markdown text into parts of at most ``max_tokens`` tokens each.

    Cuts between blocks, best before a heading. A longer block is cut between lines, then
    sentences, words and characters. A table repeats its header, and a fence is closed and
    opened again. The parts, joined with a blank line, give the text but for these repeats
    and for white space at cuts inside of blocks. An empty text has one empty part.
    """
    limit = max_tokens * _TOKEN
    if _size(markdown) <= limit:
        return [markdown]
    blocks = [piece for block in _blocks(markdown) for piece in _fitting(block, limit)]
    return [GAP.join(group) for group in _groups(blocks, limit)]


def _size(text: str) -> int:
    """Return the size of ``text`` in quarters of a token."""
    if text.isascii():
        return len(text) * _ASCII
    # The search in what is not ASCII alone takes a tenth of the time.
    encoded = text.encode(errors="surrogatepass")
    others = encoded.translate(None, _ASCII_BYTES).decode(errors="surrogatepass")
    cjk = sum(map(len, _CJK_TEXT.findall(others)))
    ascii_size = len(text) - len(others)
    return ascii_size * _ASCII + cjk * _CJK + (len(others) - cjk) * _OTHER


def _blocks(markdown: str) -> Iterator[str]:
    """Yield the texts between blank lines. Code with blank lines is a single block."""
    waiting: list[str] = []
    for text in markdown.split(GAP):
        waiting.append(text)
        # The fence of a block opens in its first piece, so later ones can only close it.
        if is_open(waiting[0]) and (len(waiting) == 1 or not is_open(text)):
            continue
        yield GAP.join(waiting)
        waiting = []
    if waiting:  # a fence that is never closed
        yield GAP.join(waiting)


def _groups(blocks: list[str], limit: int) -> Iterator[list[str]]:
    """Yield the blocks of each part."""
    sizes = [_size(block) for block in blocks]
    first = 0
    while first < len(blocks):
        end, size = first + 1, sizes[first]
        while end < len(blocks) and size + _GAP_SIZE + sizes[end] <= limit:
            size += _GAP_SIZE + sizes[end]
            end += 1
        if end < len(blocks):
            end = _best_cut(blocks, sizes, first, end)
        yield blocks[first:end]
        first = end


def _best_cut(blocks: list[str], sizes: list[int], first: int, end: int) -> int:
    """Return where the part ends: before a heading in its second half, else at ``end``.

    A heading never ends a part, unless the part has nothing else.
    """
    whole = sum(sizes[first:end])
    kept = whole
    for index in range(end, first, -1):
        if index < end:
            kept -= sizes[index]
        if kept * 2 < whole:
            break
        if _HEADING.match(blocks[index]):
            end = index
            break
    while end > first + 1 and _HEADING.match(blocks[end - 1]):
        end -= 1
    return end


def _fitting(block: str, limit: int) -> Iterator[str]:
    """Yield ``block``, in pieces if it is larger than ``limit``."""
    if _size(block) <= limit:
        yield block
        return
    lines = block.split("\n")
    for run in _runs(lines):
        if len(run) < len(lines):
            yield from _fitting("\n".join(run), limit)
        elif (fence := _FENCE.match(run[0])) and _size(run[0]) * 4 <= limit:
            yield from _split_code(run, fence, limit)
        elif _is_table(run) and _size(run[0] + run[1]) * 2 <= limit:
            head = f"{run[0]}\n{run[1]}\n"
            rows = _pack(run[2:], "\n", limit - _size(head), (_WORD,))
            yield from (head + text for text in rows)
        else:
            yield from _pack(run, "\n", limit, (_SENTENCE, _WORD))


def _runs(lines: list[str]) -> Iterator[list[str]]:
    """Yield the lines of a block: those of each fence, and those between fences."""
    run: list[str] = []
    fence = ""
    for line in lines:
        found = _FENCE.match(line)
        if fence:
            run.append(line)
            if found and found[2].startswith(fence):
                yield run
                run, fence = [], ""
            continue
        if found:
            if run:
                yield run
            run, fence = [line], found[2]
        else:
            run.append(line)
    if run:
        yield run


def _is_table(lines: list[str]) -> bool:
    return (
        len(lines) > 2
        and "|" in lines[0]
        and "|" in lines[1]
        and bool(_DELIMITERS.fullmatch(lines[1]))
    )


def _split_code(lines: list[str], fence: re.Match[str], limit: int) -> Iterator[str]:
    """Yield the code in pieces, each with the opening and closing line of the whole."""
    opening = lines[0]
    closing = " " * len(fence[1]) + fence[2]
    end = lines[-1].strip(" \t>")
    if len(lines) > 1 and end and not end.strip(fence[2][0]):
        closing, lines = lines[-1], lines[:-1]
    inner_limit = limit - _size(f"{opening}\n\n{closing}")
    for text in _pack(lines[1:], "\n", inner_limit, ()):
        yield f"{opening}\n{text}\n{closing}"


def _pack(
    pieces: Iterable[str], gap: str, limit: int, smaller: tuple[re.Pattern[str], ...]
) -> Iterator[str]:
    """Yield ``pieces``, joined by ``gap`` as long as they fit into ``limit``.

    Pieces that do not fit are cut after matches of ``smaller``, at last anywhere.
    """
    kept: list[str] = []
    size = 0
    for piece in pieces:
        own = _size(piece)
        if kept and size + len(gap) + own > limit:
            yield gap.join(kept)
            kept, size = [], 0
        if own > limit:
            yield from _cut(piece, limit, smaller)
            continue
        size += own + (len(gap) if kept else 0)
        kept.append(piece)
    if kept:
        yield gap.join(kept)


def _cut(text: str, limit: int, smaller: tuple[re.Pattern[str], ...]) -> Iterator[str]:
    if smaller:
        pattern, *others = smaller
        for piece in _pack(_split(text, pattern), "", limit, tuple(others)):
            if kept := piece.rstrip(" \t"):
                yield kept
        return
    # No character is larger than a token.
    step = limit if text.isascii() else limit // _TOKEN
    yield from (text[first : first + step] for first in range(0, len(text), step))


def _split(text: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """Yield ``text`` in pieces that each end with a match, the last one excepted."""
    last = 0
    for found in pattern.finditer(text):
        if found.end() > last:
            yield text[last : found.end()]
            last = found.end()
    if last < len(text):
        yield text[last:]


def number_blocks(value: bytes) -> str:
    """Return the Markdown of a JSON text with a number before each block."""
    return "\n\n".join(
        f"[{number}] {block[:MAX_SHOWN]}"
        for number, block in enumerate(_blocks(json.loads(value)), 1)
    )


def drop_blocks(value: bytes, numbers: Collection[int]) -> bytes:
    """Return the JSON text of Markdown without the blocks of these numbers.

    Return ``value`` unchanged if no block would remain.
    """
    blocks = list(_blocks(json.loads(value)))
    kept = [block for n, block in enumerate(blocks, 1) if n not in numbers]
    if not kept:
        return value
    return json.dumps("\n\n".join(kept), ensure_ascii=False).encode()


MAX_BLOCKS = 500  # blocks of a page that are compared


def markdown_blocks(markdown: str) -> tuple[BlockT, ...]:
    """Return hash, start and end of each block with words.

    The hash has 64 bits, signed. Start and end (exclusive) count bytes in the JSON text
    of the Markdown. Code with blank lines is a single block.
    """
    found: list[BlockT] = []
    start = 1  # after the opening quote
    for block in _blocks(markdown):
        if is_open(block):  # the last one: its fence is never closed
            break
        size = len(json.dumps(block, ensure_ascii=False).encode()) - 2
        if len(found) < MAX_BLOCKS and any(map(str.isalnum, block)):
            found.append((_hash(block), start, start + size))
        start += size + len(r"\n\n")
    return tuple(found)


def is_open(block: str) -> bool:
    """Return True if the block leaves a code fence open."""
    if "```" not in block and "~~~" not in block:
        return False
    lines = (line.lstrip(" >-+*0123456789.") for line in block.split("\n"))
    return sum(line.startswith(("```", "~~~")) for line in lines) % 2 == 1


def _hash(block: str) -> int:
    text = " ".join(block.split()).encode(errors="replace")
    digest = hashlib.blake2b(text, digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def without_blocks(value: bytes, spans: list[tuple[int, int]]) -> bytes:
    """Return the JSON text of Markdown without the blocks at ``spans``, in order."""
    parts, last = [], 1
    for start, end in spans:
        parts.append(value[last:start])
        last = min(end + len(rb"\n\n"), len(value) - 1)
    parts.append(value[last:-1])
    text = b"".join(parts)
    if text and spans and spans[-1][1] == len(value) - 1:
        text = text[: -len(rb"\n\n")]  # the separator before the last block
    return b'"%s"' % text


MAX_SENTENCES = 200  # of a page that are compared
DAMPING = 0.85
ROUNDS = 30
ALIKE = 0.5  # cosine from which two sentences are duplicates

_LETTERS = re.compile(r"[^\W_]+")


def summary(markdown: str, title: str = "", description: str = "") -> str:
    """Return two to five sentences of a page, in page order.

    A short page may give fewer. A page without sentences gives ``description``.
    """
    found = [s for s in sentences(markdown) if may_stand(s.text)][:MAX_SENTENCES]
    if not found:
        return description
    wanted = min(5, max(2, 2 + len(found) // 8))
    if len(found) > wanted:
        found = _best(found, title, wanted)
    are_wide = all(is_wide(s.text) and not s.text.isascii() for s in found)
    has_spaces = any(" " in s.text.strip() for s in found)
    glue = "" if are_wide and not has_spaces else " "
    return glue.join(s.text for s in found)


def _words(text: str) -> list[str]:
    """Return the words of a text; in scripts without spaces, pairs of characters."""
    found = []
    for word in _LETTERS.findall(text.lower()):
        if WIDE.search(word):
            found += [word[i : i + 2] for i in range(max(1, len(word) - 1))]
        elif len(word) > 1:
            found.append(word[:6] if word.isalpha() and len(word) > 6 else word)
    return found


def _best(found: list[Sentence], title: str, wanted: int) -> list[Sentence]:
    counts = [Counter(_words(s.text)) for s in found]
    vectors = _vectors(counts)
    alike = vectors @ vectors.T
    np.fill_diagonal(alike, 0.0)
    scores = _ranks(alike) * _weights(found, counts, title)
    chosen: list[int] = []
    for number in np.argsort(-scores, kind="stable"):
        if all(alike[number, other] < ALIKE for other in chosen):
            chosen.append(int(number))
        if len(chosen) == wanted:
            break
    return [found[number] for number in sorted(chosen)]


def _vectors(counts: list[Counter[str]]) -> np.ndarray:
    """Return a row of unit length for each sentence; rare words weigh more."""
    seen = Counter(word for count in counts for word in count)
    columns = {word: i for i, word in enumerate(w for w, n in seen.items() if n > 1)}
    rows = np.zeros((len(counts), max(1, len(columns))))
    for row, count in zip(rows, counts, strict=True):
        for word, times in count.items():
            if (column := columns.get(word)) is not None:
                row[column] = times * math.log(len(counts) / seen[word] + 0.1)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, 1, lengths)


def _ranks(alike: np.ndarray) -> np.ndarray:
    sums = alike.sum(axis=1, keepdims=True)
    steps = np.where(sums > 0, alike / np.where(sums > 0, sums, 1), 1 / len(alike))
    ranks = np.full(len(alike), 1 / len(alike))
    for _ in range(ROUNDS):
        ranks = (1 - DAMPING) / len(alike) + DAMPING * (steps.T @ ranks)
    return ranks


def _weights(
    found: list[Sentence], counts: list[Counter[str]], title: str
) -> np.ndarray:
    """Return the weight of each sentence by position and words of the title."""
    named = set(_words(title))
    weights = []
    for sentence, count in zip(found, counts, strict=True):
        lead = 1 + 1 / (1 + sentence.paragraph)
        shared = len(named & count.keys()) / len(named) if named else 0
        weights.append(lead * (1 + shared))
    return np.array(weights)
