"""Words of searches: splits texts into words that compare, and scores URLs by words.

Words are folded and become stems; Chinese, Japanese and Korean text becomes pairs of
characters.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from urllib.parse import unquote

import Stemmer
from attrs import define, field

MAX_WORD = 64  # characters; the rest of a longer word becomes a further word

# Snowball's stemmers by the language of a page (ISO 639-1).
LANGUAGES = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "eo": "esperanto",
    "et": "estonian",
    "eu": "basque",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nb": "norwegian",
    "ne": "nepali",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}

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
    """Return the URL without its scheme and percent-encoding."""
    rest = url.partition("://")[2]
    return unquote(rest) if "%" in rest else rest
