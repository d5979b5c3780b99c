"""Words of texts as searches compare them: folded, in their stems, CJK in pairs."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import Stemmer

MAX_WORD = 64  # characters; the rest of a longer one is a word of its own

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

# Words that tell nothing of a page, folded; they are left out of a query with others.
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
# Letters and digits, with the signs that some scripts write above, below or around them;
# an underscore is none, but the class is one without it only where it is taken out first.
_WORD = re.compile(
    "[\\w\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff]"
    f"{{1,{MAX_WORD}}}"
)
# Scripts that are written without spaces between words: Han, kana, Thai, Lao, Khmer.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]+"
)


def folded(text: str) -> str:
    """Return a text without case, accents and compatibility forms."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold())
    kept = "".join(c for c in apart if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", kept).replace("\u0131", "i")


def tokens_of(text: str) -> list[str]:
    """Return the words of a text in their order, in lower case, with their accents.

    Text of a script without spaces becomes pairs of characters that overlap.
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
    """Tell whether a character is of a script without spaces between words."""
    return _UNSPACED.match(character) is not None


def words_of(text: str) -> list[str]:
    """Return the words of a text as :func:`tokens_of` does, folded."""
    return [folded(token) for token in tokens_of(text)]


def stem(token: str, language: str) -> str:
    """Return the folded stem of a token in a language, the word where none is known."""
    return stems([token], language)[0]


def stems(tokens: list[str], language: str) -> list[str]:
    """Return :func:`stem` of each of some tokens."""
    stemmer = _stemmer(language)
    found = tokens if stemmer is None else stemmer.stemWords(tokens)
    return [folded(each) for each in found]


def language_code(tag: str | None) -> str:
    """Return the language of a tag such as ``de-AT``, empty if none is known of it."""
    code = (tag or "").replace("_", "-").partition("-")[0].lower()
    return code if code in LANGUAGES else ""


@lru_cache(maxsize=len(LANGUAGES) + 1)
def _stemmer(language: str) -> Stemmer.Stemmer | None:
    name = LANGUAGES.get(language)
    return Stemmer.Stemmer(name) if name in Stemmer.algorithms() else None


def _pieces(word: str) -> list[str]:
    """Return the parts of a word that mixes scripts, and pairs of what has no spaces."""
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
