"""Splits the text of a page into sentences, in any script, and compares words of texts.

Sentences are read from Markdown, which web pages, documents and PDF files share.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from attrs import frozen

from scraper_service.content.passes import main_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    from scraper_service.content.html.document import Document

MAX_TEXT = 100_000  # characters of Markdown that are read
PIECE = 90  # characters, about, of a piece in a script without sentence marks

_CLOSING = "\"'\u201d\u2019\u00bb)\\]"
_WIDE_CLOSING = "\u201d\u2019\u300d\u300f\uff09"
_MARKS = r"[.!?\u2026\u061f\u06d4\u0589\u0964\u0965]"
# Marks that end a sentence only before a space, then marks that always do. Possessive,
# for long rows of marks.
_END = re.compile(
    rf"(?<!{_MARKS}){_MARKS}++[{_CLOSING}]*+(?=\s)"
    rf"|[\u3002\uff01\uff1f\uff61]+[{_WIDE_CLOSING}]*|[\u104b\u17d4\u17d5]+"
)
_UNMARKED = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff]")  # Thai, Lao, Khmer
_LAST_WORD = re.compile(r"([\w.]+)\.$")
_MONTH = re.compile(
    r"\s+(?:jan|feb|mär|mar|apr|mai|maj|jun|jul|aug|sep|o[kc]t|nov|de[zsc])",
    re.IGNORECASE,
)
_ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof st jr sr vs etc e.g i.e eg ie cf al inc ltd corp co no nos fig figs "
    "eq sec ch vol pp p ed eds approx dept est gov sen rep rev hon gen col capt lt sgt "
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun u.s u.k "
    "a.m p.m z.b d.h u.a bzw ca ggf inkl usw evtl nr tel str abs bd hrsg vgl sog geb gest "
    "mme mlle m ex env av bd sra srta sr ud uds pág núm art ing dott sig sigg ecc".split()
)


@frozen
class Sentence:
    """A sentence of a page."""

    #: The text with single spaces.
    text: str
    #: Number of the paragraph, from 0.
    paragraph: int


def sentences(markdown: str) -> list[Sentence]:
    """Return the sentences of the paragraphs and list items of a Markdown text."""
    return [
        Sentence(text, number)
        for number, paragraph in enumerate(paragraphs(markdown))
        for text in split(paragraph)
    ]


def paragraphs(markdown: str) -> Iterator[str]:
    """Yield the texts of paragraphs and list items, without headings, tables, code."""
    around: list[str] = []
    for token in _parser().parse(markdown[:MAX_TEXT]):
        if token.nesting == 1:
            around.append(token.type)
        elif token.nesting == -1:
            around.pop()
        elif token.type == "inline" and around and around[-1] == "paragraph_open":
            text = " ".join(_text(token).split())
            if text:
                yield text


def split(paragraph: str) -> Iterator[str]:
    """Yield the sentences of a paragraph."""
    start = 0
    for match in _END.finditer(paragraph):
        end = match.end()
        if match[0][0] in ".!?\u2026" and not _ends(paragraph, match.start(), end):
            continue
        yield from _pieces(paragraph[start:end].strip())
        start = end
    yield from _pieces(paragraph[start:].strip())


def _ends(paragraph: str, stop: int, end: int) -> bool:
    """Return True if a mark ends a sentence, not just a word, number or quote."""
    rest = paragraph[end : end + 12]
    if next((c for c in rest if c.isalnum()), "A").islower():
        return False
    if paragraph[stop] != ".":
        return True
    last = _LAST_WORD.search(paragraph[max(0, stop - 20) : stop + 1])
    if last is None:
        return True
    word = last[1].lower()
    if word.isdecimal():  # an ordinal number before a month, as in German
        return len(word) > 2 or not _MONTH.match(rest)
    is_initial = len(word) == 1 and word.isalpha()
    return not (is_initial or word in _ABBREVIATIONS)


def _pieces(text: str) -> Iterator[str]:
    """Yield a sentence; in a script without sentence marks, pieces cut at spaces."""
    if len(text) <= 2 * PIECE or not _UNMARKED.search(text):
        if text:
            yield text
        return
    piece = ""
    for phrase in text.split(" "):
        piece = f"{piece} {phrase}" if piece else phrase
        if len(piece) >= PIECE:
            yield piece
            piece = ""
    if piece:
        yield piece


def _text(token: Token) -> str:
    parts = []
    for child in token.children or ():
        if child.type in {"text", "code_inline"}:
            parts.append(child.content)
        elif child.type in {"softbreak", "hardbreak"}:
            parts.append(" ")
    return "".join(parts)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415  # loaded on first use

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


MAX_WORDS_TEXT = 20_000  # characters of :func:`main_words`

_WORDS = re.compile(r"\w+")
_SHARED = frozenset(
    "nav header footer aside form script style noscript template select".split()
)


def distinct_words(text: str) -> set[str]:
    """Return the words of a text in lower case, to be compared with those of others."""
    return set(_WORDS.findall(text.lower()))


def word_overlap(words: set[str], others: set[str]) -> float:
    """Return the share of the shorter text's words that the other text has."""
    return len(words & others) / max(1, min(len(words), len(others)))


def likeness(words: set[str], others: set[str]) -> float:
    """Return the similarity of two texts: 1 if both have the same words."""
    return 2 * len(words & others) / max(1, len(words) + len(others))


def main_words(document: Document) -> str:
    """Return the text outside menus, forms and other parts that a site's pages share.

    At most the first :data:`MAX_WORDS_TEXT` characters are returned.
    """
    parts = main_texts(document.root, MAX_WORDS_TEXT, _SHARED)
    return " ".join(parts)[:MAX_WORDS_TEXT]
