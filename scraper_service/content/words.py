"""Words and sentences of texts, in any script.

Words of searches are folded and become stems; Chinese, Japanese and Korean text becomes
pairs of characters. URLs are scored by words. Words of two texts are compared; the
fingerprints of duplicates differ in few bits. Patterns match in any case. Sentences are
read from Markdown, which web pages, documents and PDF files share. Instructions to a
language model are found by their words.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote
from zlib import crc32

import Stemmer
from attrs import define, field, frozen

from scraper_service.content.passes import main_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    from scraper_service.content.html.document import Document

MAX_WORD = 64  # characters; the tail of a longer word becomes a further word

# Snowball's stemmers by the language of a page (ISO 639-1).
LANGUAGES = dict(
    pair.split("=")
    for pair in (
        "ar=arabic ca=catalan cs=czech da=danish de=german el=greek en=english "
        "es=spanish eo=esperanto et=estonian eu=basque fa=persian fi=finnish "
        "fr=french ga=irish hi=hindi hu=hungarian hy=armenian id=indonesian "
        "it=italian lt=lithuanian nb=norwegian ne=nepali nl=dutch nn=norwegian "
        "no=norwegian pl=polish pt=portuguese ro=romanian ru=russian sr=serbian "
        "sv=swedish ta=tamil tr=turkish yi=yiddish"
    ).split()
)

# Words that are too common to find pages, folded. Queries with other words omit them.
COMMON = frozenset(
    """
    a about an and are as at be but by can did do does for from had has have how i if in
    is it its may of on or our so such than that the their them then there these they
    this to was we were what when where which who why will with you your
    als am auf aus bei das dem den der des die durch ein eine einen einer eines es fur
    hat ich im ist mit nach nicht oder sich sie sind uber um und von vor wie wird zu zum
    zur au aux avec ce ces cette dans de du elle en est et il ils je la le les leur mais
    ne nous ou par pas plus pour qu que qui sa se ses son sont sur un une vous
    al como con del el las los mas no para pero por sin su sus y da dei della delle di e
    gli lo nel o per piu una ao com das dos em mais na nas nos os pela pelo uma het een
    van voor niet op te met zijn
    """.split()
)

_PLAIN_WORD = re.compile(f"[a-z0-9]{{1,{MAX_WORD}}}")
# Letters and digits, with the marks that some scripts write above, below or around
# letters. The class includes the underscore; tokens_of() replaces underscores first.
_WORD = re.compile(
    "[\\w\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff]"
    f"{{1,{MAX_WORD}}}"
)
# Scripts without spaces between words: Han, kana, Thai, Lao, Burmese, Khmer.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]+"
)
MAX_WORDS = 50  # of one search
MIN_PART = 3  # letters of an ASCII word; shorter ones are part of everything
_WORD_OF_URL = re.compile(r"\w+")


class AnyCase:
    """A pattern in lower case that matches text in any case; several are alternatives.

    With ``re.IGNORECASE`` an expression tries all its alternatives at each character.
    Therefore it only searches texts that match in lower case, and few texts do.
    """

    def __init__(self, *patterns: str):
        pattern = "|".join(patterns)
        self._lower = re.compile(pattern)
        self._any = re.compile(pattern, re.IGNORECASE)

    def is_in(self, text: str) -> bool:
        """Return True if ``text`` has a match."""
        return self._lower.search(_lower(text)) is not None

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match in ``text``."""
        return self._any.search(text) if self.is_in(text) else None

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Return all matches in ``text``."""
        return self._any.finditer(text) if self.is_in(text) else iter(())


def _lower(text: str) -> str:
    """Return ``text`` in lower case, with one letter for those that ``re`` takes as alike."""
    lower = text.lower()
    if lower.isascii():
        return lower
    return lower.replace("i\u0307", "i").replace("\u0131", "i").replace("\u017f", "s")


def fold(text: str) -> str:
    """Return a text without case, accents and compatibility forms."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold())
    kept = "".join(c for c in apart if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", kept).replace("\u0131", "i")


def tokens_of(text: str) -> list[str]:
    """Return the words of a text in order, in lower case, with accents.

    Text in a script without spaces becomes overlapping pairs of characters.
    """
    if text.isascii():
        return _PLAIN_WORD.findall(text.lower())
    text = unicodedata.normalize("NFKC", text.casefold()).replace("_", " ")
    words: list[str] = _WORD.findall(text)
    if not _UNSPACED.search(text):
        return words
    found: list[str] = []
    for word in words:
        if _UNSPACED.search(word):
            found += _pieces(word)
        else:
            found.append(word)
    return found


def is_unspaced(character: str) -> bool:
    """Return True if a character is of a script without spaces between words."""
    return _UNSPACED.match(character) is not None


def words_of(text: str) -> list[str]:
    """Return the words of :func:`tokens_of`, folded."""
    return [fold(token) for token in tokens_of(text)]


def stem(token: str, language: str) -> str:
    """Return the folded stem of a token; the folded token in an unknown language."""
    return stems([token], language)[0]


def stems(tokens: list[str], language: str) -> list[str]:
    """Return the :func:`stem` of each token."""
    stemmer = _stemmer(language)
    found = tokens if stemmer is None else stemmer.stemWords(tokens)
    return [fold(each) for each in found]


def language_code(tag: str | None) -> str:
    """Return the language of a tag such as ``de-AT``; empty if it has no stemmer."""
    code = (tag or "").replace("_", "-").partition("-")[0].lower()
    return code if code in LANGUAGES else ""


@lru_cache(maxsize=len(LANGUAGES) + 1)
def _stemmer(language: str) -> Stemmer.Stemmer | None:
    name = LANGUAGES.get(language)
    return Stemmer.Stemmer(name) if name in Stemmer.algorithms() else None


def _pieces(word: str) -> list[str]:
    """Split a word of mixed scripts; text of scripts without spaces becomes pairs."""
    found: list[str] = []
    end = 0
    for match in _UNSPACED.finditer(word):
        if match.start() > end:
            found.append(word[end : match.start()])
        run = match[0]
        found += [run[n : n + 2] for n in range(len(run) - 1)] or [run]
        end = match.end()
    if end < len(word):
        found.append(word[end:])
    return found


# Points for each word: URLs with more of the words come first, and whole words count
# more than parts of words. Then the position counts: URL and title the same, the
# description less.
WHOLE, PART = 1000, 500
WHOLE_IN, PART_IN = 10, 2
WHOLE_DESCRIBED, PART_DESCRIBED = 5, 1


@define
class SearchWords:
    """The words of a search, compared without case, accents and order."""

    search: str
    _words: tuple[tuple[str, re.Pattern[str]], ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        words = list(dict.fromkeys(_WORD_OF_URL.findall(fold(self.search))))[:MAX_WORDS]
        self._words = tuple(
            (word, re.compile(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])"))
            for word in words
        )

    def score(self, url: str, title: str | None, description: str | None) -> int:
        """Return the score of a page; 0 if no word matches."""
        texts = [(fold(_visible(url)), WHOLE_IN, PART_IN)]
        if title:
            texts.append((fold(title), WHOLE_IN, PART_IN))
        if description:
            texts.append((fold(description), WHOLE_DESCRIBED, PART_DESCRIBED))
        total = 0
        for word, whole in self._words:
            is_long = len(word) >= MIN_PART or not word.isascii()
            best = 0
            for text, whole_in, part_in in texts:
                if word not in text:
                    continue
                if whole.search(text):
                    best = WHOLE
                    total += whole_in
                elif is_long:
                    best = best or PART
                    total += part_in
            total += best
        return total


def _visible(url: str) -> str:
    rest = url.partition("://")[2]
    return unquote(rest) if "%" in rest else rest


# -- sentences, and words of two texts -------------------------------------------------

MAX_TEXT = 100_000  # characters of Markdown that are read
PIECE = 90  # characters, about, of a piece in a script without sentence marks
SHORTEST, LONGEST = 30, 450  # characters of a sentence that may stand by itself
# The same for scripts that need fewer characters.
SHORTEST_WIDE, LONGEST_WIDE = 10, 200
WIDE = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0eff\u1780-\u17ff]"
)

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


def may_stand(text: str) -> bool:
    """Return True for a whole sentence of some length, mostly of letters."""
    wide = is_wide(text)
    shortest, longest = (SHORTEST_WIDE, LONGEST_WIDE) if wide else (SHORTEST, LONGEST)
    if not shortest <= len(text) <= longest:
        return False
    if text.endswith((":", "\uff1a")) or text.count("(") != text.count(")"):
        return False  # the sentence goes on elsewhere
    letters = sum(c.isalpha() or c.isspace() for c in text)
    # Prices, codes and lists of names are not sentences.
    return letters >= 0.7 * len(text) and (wide or text.count(" ") >= 4)


def is_wide(text: str) -> bool:
    """Return True if most of a text is in a script without spaces."""
    return 2 * len(WIDE.findall(text)) > len(text.replace(" ", ""))


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
        yield from _pieces_of(paragraph[start:end].strip())
        start = end
    yield from _pieces_of(paragraph[start:].strip())


def _ends(paragraph: str, stop: int, end: int) -> bool:
    """Return True if a mark ends a sentence, not just a word, number or quote."""
    tail = paragraph[end : end + 12]
    if next((c for c in tail if c.isalnum()), "A").islower():
        return False
    if paragraph[stop] != ".":
        return True
    last = _LAST_WORD.search(paragraph[max(0, stop - 20) : stop + 1])
    if last is None:
        return True
    word = last[1].lower()
    if word.isdecimal():  # an ordinal number before a month, as in German
        return len(word) > 2 or not _MONTH.match(tail)
    is_initial = len(word) == 1 and word.isalpha()
    return not (is_initial or word in _ABBREVIATIONS)


def _pieces_of(text: str) -> Iterator[str]:
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


# -- instructions to a language model ---------------------------------------------------

MAX_EXCERPT = 80  # characters
# Every text that the expression matches contains at least one of these words.
_INSTRUCTION_WORDS = (
    "instruct|prompt| ai |assistant|llm|language model|anweisung|instruc|istruzioni|指示"
    "|指令|chatgpt|claude|gemini|system:"
).split("|")
_INSTRUCTION = re.compile(
    r"(?:ignore|disregard|forget|override|bypass)\s+(?:\w+\s+){0,4}"
    r"(?:instructions?|prompts?|rules|directions|context|guidelines|messages)"
    r"|(?:system|developer)\s+(?:prompt|message|instructions?)\s*[:\]]"
    r"|\byou are (?:now )?(?:an? )?(?:\w+\s+){0,3}(?:ai|assistant|language model|llm|chatbot|agent)\b"
    r"|(?:attention|note|instructions?|message|important)\b[^.!?]{0,30}\b(?:to|for)\b[^.!?]{0,20}"
    r"\b(?:ai|llms?|language models?|chatgpt|claude|gemini|agents?|assistants?|crawlers)\b"
    r"|(?:if you are|as) an? (?:ai|llm|large language model|language model|ai \w+)\b"
    r"|(?:do not|don't|never) (?:tell|mention|reveal|inform)\b[^.!?]{0,30}\b(?:user|human|anyone)"
    r"|(?:new|updated|following|hidden|secret) instructions?\s*:"
    r"|(?:ignorier|missachte|vergiss)\w*\s+(?:\w+\s+){0,4}(?:anweisung|vorgab|regeln)"
    r"|(?:ignore[zr]?|oublie[zr]?)\s+(?:\w+\s+){0,4}(?:instructions|consignes)"
    r"|(?:ignora|olvida|descarta)\w*\s+(?:\w+\s+){0,4}(?:instrucciones|instruções|istruzioni)"
    r"|(?:忽略|无视|無視|忘记)[^。]{0,12}(?:指令|指示|提示)|(?:指示|命令)[^。]{0,8}無視",
    re.IGNORECASE,
)


def may_instruct(text: str) -> bool:
    """Return False if no part of ``text`` instructs a language model."""
    lower = f" {text} ".lower()
    return any(sign in lower for sign in _INSTRUCTION_WORDS)


def instruction_in(text: str) -> str | None:
    """Return the excerpt of ``text`` that instructs a language model, or None."""
    if not may_instruct(text):
        return None
    match = _INSTRUCTION.search(text)
    if not match:
        return None
    excerpt = text[match.start() : match.start() + MAX_EXCERPT]
    return " ".join(excerpt.split()).replace('"', "'")


# -- duplicates ------------------------------------------------------------------------

MAX_COMPARED = 200_000  # characters that count
# 2**128 / golden ratio, odd, in parts of 32 bits, lowest first. The hash of a word is
# its CRC times this number, from the 40th bit on: these bits depend on all others.
_SPREAD = (0x5CEDC835, 0xF39CC060, 0x7F4A7C15, 0x9E3779B9)


def fingerprint(text: str) -> int:
    """Return the simhash of the words of ``text``: 64 bits, 0 for no words.

    Each word counts once, and the order of words does not matter. Texts that share
    98 % of their words differ in about 4 bits; texts that share half of their words
    differ in about 21. The result is the same in every process.

    Source: Charikar, Similarity estimation techniques from rounding algorithms, 2002.
    """
    words = set(text[:MAX_COMPARED].lower().encode(errors="replace").split())
    if not words:
        return 0
    import numpy as np  # noqa: PLC0415  # only converter processes load it

    sums = np.fromiter(map(crc32, words), np.uint64, len(words))
    first, second, third, fourth = map(np.uint64, _SPREAD)
    low = ((sums * first) >> np.uint64(32)) + sums * second  # less than 2**64
    hashes = (
        (low >> np.uint64(8))
        + (sums * third << np.uint64(24))
        + (sums * fourth << np.uint64(56))
    )
    bits = np.unpackbits(hashes.astype("<u8").view(np.uint8), bitorder="little")
    counts = bits.reshape(-1, 64).sum(axis=0, dtype=np.uint32)
    most = np.packbits(counts > len(words) / 2, bitorder="little")
    return int.from_bytes(most.tobytes(), "little")


def distance(one: int, other: int) -> int:
    """Return the number of bits in which two fingerprints differ."""
    return (one ^ other).bit_count()
