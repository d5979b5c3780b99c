"""The measures of content quality: word F1, shingle F1, snippets.

They follow the published descriptions of WCXB and of article-extraction-benchmark. Words
are runs of ``\\w``; word F1 compares them in lower case. Markdown is rendered first, so
that markup, URLs and images do not count.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from typing import TYPE_CHECKING

from attrs import define
from lxml import etree, html
from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from collections.abc import Sequence

SHINGLE = 4  # words
_WORD = re.compile(r"\w+")
_IMAGE = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
_BLOCK_END = re.compile(
    r"(</?(?:p|li|td|th|h\d|pre|blockquote|tr|div)\b|<br)", re.IGNORECASE
)
_RENDERER = MarkdownIt("commonmark", {"html": True, "maxNesting": 200}).enable(
    ["table", "strikethrough"]
)


@define
class Score:
    """The scores of a page from 0 to 1; None if the page has nothing to score."""

    word_f1: float
    #: None if no text was extracted.
    shingle_precision: float | None
    #: None if the known text is empty.
    shingle_recall: float | None
    shingle_f1: float
    #: The share of the wanted snippets in the text.
    wanted: float | None = None
    #: The share of the unwanted snippets in the text.
    unwanted: float | None = None


def text_of(markdown: str) -> str:
    """Return the visible text of the rendered Markdown."""
    page = _IMAGE.sub(" ", _RENDERER.render(markdown.replace("\0", "")))
    if not page.strip():
        return ""
    spaced = _BLOCK_END.sub(r" \1", page)
    tree = html.document_fromstring(f"<body>{spaced}</body>")
    etree.strip_elements(tree, "script", "style", "template", with_tail=False)
    return str(tree.text_content())


def score_of(text: str, truth: str) -> Score:
    """Compare the extracted text with the known text."""
    _, _, f1 = _compare(_words(text.lower()), _words(truth.lower()))
    got, known = _shingles(text), _shingles(truth)
    precision, recall, both = _compare(got, known)
    return Score(f1, precision if got else None, recall if known else None, both)


def snippets_in(text: str, snippets: Sequence[str]) -> float | None:
    """Return the share of the snippets that occur in the text; None without snippets."""
    if not snippets:
        return None
    plain = " ".join(text.lower().split())
    found = sum(" ".join(s.lower().split()) in plain for s in snippets)
    return found / len(snippets)


def mean_score(scores: Sequence[Score]) -> Score:
    """Return the means of the scores, ignoring None."""

    def mean(name: str) -> float:
        values = [v for s in scores if (v := getattr(s, name)) is not None]
        return statistics.mean(values) if values else 0.0

    return Score(
        mean("word_f1"),
        mean("shingle_precision"),
        mean("shingle_recall"),
        mean("shingle_f1"),
        mean("wanted"),
        mean("unwanted"),
    )


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text))


def _shingles(text: str) -> Counter[tuple[str, ...]]:
    words = _WORD.findall(text)
    if not words:
        return Counter()
    count = max(1, len(words) - SHINGLE + 1)
    return Counter(tuple(words[n : n + SHINGLE]) for n in range(count))


def _compare(got: Counter, known: Counter) -> tuple[float, float, float]:  # type: ignore[type-arg]
    """Return precision, recall and F1 of two multisets."""
    if not got or not known:
        same = float(not got and not known)
        return same, same, same
    common = sum((got & known).values())
    precision, recall = common / sum(got.values()), common / sum(known.values())
    total = precision + recall
    return precision, recall, 2 * precision * recall / total if total else 0.0
