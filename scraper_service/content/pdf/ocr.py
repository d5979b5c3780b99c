"""Recognises the text of scanned pages, and notices a text layer that is no text.

The program ``tesseract`` reads pictures of pages. It is an optional system package, such as
Debian's ``tesseract-ocr``, and uses all installed languages.

A font without a map to Unicode may give plain letters that are no language, as each
stands for another one. Most such codes are shifted: by a fixed number of positions in the
alphabet, or in the table of characters.
"""

from __future__ import annotations

import functools
import re
import string
import subprocess
from typing import TYPE_CHECKING

from scraper_service.options.limits import RECOGNISER

if TYPE_CHECKING:
    from scraper_service.content.pdf.lines import PageText

DPI = 200
PAGE_TIMEOUT_S = 30.0
QUICK = 600  # characters that prove a language in nearly all pages
SAMPLE = 6000
MIN_WORDS = 25  # fewer words prove nothing
MIN_HITS = 3  # distinct common words of a text in a language
MIN_SHARE = 0.12  # of all words: common words of a text whose shift is undone
MAX_SHARE = 0.06  # of all words: common words of a text of codes, by chance
MAX_SHIFT = 31  # positions in the table of characters
MIN_KINDS = 15  # distinct letters; DNA has 4
MIN_SHORT = 0.15  # of all words: those of up to 3 letters, in any language
MAX_SHORT_KINDS = 0.5  # of the short words: distinct ones, as short words recur
MIN_ODD = 0.3  # of the words from 4 letters: those that cannot be spoken
MIN_VOCABULARY = 20  # distinct words; tables of abbreviations have few
# The most frequent words of European languages.
_COMMON = frozenset(
    "the of and to in is that for it with as was on be by are this from at or an not "
    "der die und das von zu mit den auf ist ein eine nicht dem des sich im für als "
    "de la le les et des en du un une que est pour dans sur par qui il au "
    "el los las y por con para una se del su al es "
    "di che il non per una sono della con da si gli "
    "do da em os no na um uma com não ao "
    "het een van en dat op te zijn voor met niet "
    "och att det som på av är för den med ikke til og på af jeg ja on ei "
    "w na nie się jest z do że v se je na že i u da za "
    "dan yang di ke untuk ve bir bu az egy hogy nem și cu pe".split()
)
_ALPHABET = string.ascii_lowercase
_PRINTABLE = "".join(map(chr, range(33, 127)))
_EDGES = string.punctuation
_ODD = re.compile("[^aeiouy]{4}|[aeiouy]{4}|^[^aeiouy]+$")


def recognise_text(picture: bytes, timeout_s: float | None = None) -> str:
    """Return the text in ``picture``, an image file in any format Tesseract reads.

    :raises OSError: if the program cannot be started.
    :raises subprocess.SubprocessError: if the program fails or exceeds ``timeout_s``.
    """
    limit = min(PAGE_TIMEOUT_S, PAGE_TIMEOUT_S if timeout_s is None else timeout_s)
    command = [RECOGNISER, "stdin", "stdout", "--dpi", str(DPI)]
    if languages := _languages():
        command += ["-l", languages]
    done = subprocess.run(  # noqa: S603  # a fixed program reads the picture from stdin
        command, input=picture, capture_output=True, timeout=max(limit, 0.1), check=True
    )
    return done.stdout.decode("utf-8", "replace").replace("\f", "")


@functools.cache
def _languages() -> str:
    done = subprocess.run(  # noqa: S603
        [RECOGNISER, "--list-langs"], capture_output=True, timeout=10, check=True
    )
    names = done.stdout.decode("utf-8", "replace").split("\n")[1:]
    return "+".join(name for name in names if name and name not in {"osd", "equ"})


MIN_EVEN, MAX_EVEN = 0.05, 0.1  # chance that two letters of a text are equal


def has_shifted_codes(page: PageText) -> bool:
    """Return True if the lines of a page are plain letters, but no language."""
    text = ""
    for line in page.lines:
        text += line.text + "\n"
        if len(text) > QUICK:
            break
    if _is_language(text):
        return False
    text = "\n".join(line.text for line in page.lines)[:SAMPLE]
    words = text.split()
    if len(words) < MIN_WORDS or not text.isascii() or _is_language(text):
        return False
    if _share(words) > MAX_SHARE:
        return False
    return _is_shifted(text) or _is_substituted(words)


def _is_language(text: str) -> bool:
    return len(_COMMON.intersection(text.lower().split())) >= MIN_HITS


def _share(words: list[str]) -> float:
    found = sum(word.strip(_EDGES).lower() in _COMMON for word in words)
    return found / max(len(words), 1)


def _is_shifted(text: str) -> bool:
    """Return True if the text becomes a language when its codes are shifted."""
    lower = text.lower()
    tables = [
        (lower, str.maketrans(_ALPHABET, _ALPHABET[n:] + _ALPHABET[:n]))
        for n in range(1, 26)
    ]
    tables += [
        (text, {ord(c): ord(c) + n for c in _PRINTABLE})
        for n in range(-MAX_SHIFT, MAX_SHIFT + 1)
        if n
    ]
    for source, table in tables:
        words = source.translate(table).split()
        hits = {word.strip(_EDGES).lower() for word in words} & _COMMON
        if len(hits) > 2 * MIN_HITS - 1 and _share(words) > MIN_SHARE:
            return True
    return False


def _is_substituted(words: list[str]) -> bool:
    """Return True for words that recur as in a language, but cannot be spoken."""
    plain = [word for w in words if (word := w.strip(_EDGES).lower()).isalpha()]
    letters = "".join(plain)
    if len(plain) < 0.7 * len(words) or len(plain) < MIN_WORDS:
        return False
    counts = [letters.count(letter) for letter in _ALPHABET]
    even = sum(n * n for n in counts) / len(letters) ** 2
    short = [word for word in plain if len(word) <= 3]
    long = [word for word in plain if len(word) > 3]
    odd = sum(bool(_ODD.search(word)) for word in long)
    return (
        sum(map(bool, counts)) >= MIN_KINDS
        and MIN_EVEN < even < MAX_EVEN
        and len(short) >= MIN_SHORT * len(plain)
        and len(set(short)) <= MAX_SHORT_KINDS * len(short)
        and len(set(plain)) >= MIN_VOCABULARY
        and odd >= MIN_ODD * len(long) > 0
    )
