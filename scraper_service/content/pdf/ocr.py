"""Recognises the text of scanned pages, and notices a text layer that is no text.

The program ``tesseract`` reads pictures of pages. It is an optional system package, such as
Debian's ``tesseract-ocr``, and uses all installed languages.

A font without a map to Unicode may give plain letters that are no language. Most of their
codes are shifted by a fixed number of places in the table of characters.
"""

from __future__ import annotations

import functools
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
MAX_SHIFT = 31  # places in the table of characters
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
_PRINTABLE = "".join(map(chr, range(33, 127)))
_EDGES = string.punctuation


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
    return _is_shifted(text)


def _is_language(text: str) -> bool:
    return len(_COMMON.intersection(text.lower().split())) >= MIN_HITS


def _share(words: list[str]) -> float:
    found = sum(word.strip(_EDGES).lower() in _COMMON for word in words)
    return found / max(len(words), 1)


def _is_shifted(text: str) -> bool:
    for places in filter(None, range(-MAX_SHIFT, MAX_SHIFT + 1)):
        table = {ord(c): ord(c) + places for c in _PRINTABLE}
        words = text.translate(table).split()
        hits = {word.strip(_EDGES).lower() for word in words} & _COMMON
        if len(hits) > 2 * MIN_HITS - 1 and _share(words) > MIN_SHARE:
            return True
    return False
