"""Scores how well URLs match the words of a search; runs in the converter pool."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote

from attrs import define, field

MAX_WORDS = 50  # of one search
# Points for each word: URLs with more of the words come first, and whole words count
# more than parts of words. Then the position counts: URL and title the same, the
# description less.
WHOLE, PART = 1000, 500
WHOLE_IN, PART_IN = 10, 2
WHOLE_DESCRIBED, PART_DESCRIBED = 5, 1
MIN_PART = 3  # letters of an ASCII word; shorter ones are part of everything

_WORD = re.compile(r"\w+")


@define
class SearchWords:
    """The words of a search, compared without case, accents and order."""

    search: str
    _words: tuple[tuple[str, re.Pattern[str]], ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        words = list(dict.fromkeys(_WORD.findall(_folded(self.search))))[:MAX_WORDS]
        self._words = tuple(
            (word, re.compile(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])"))
            for word in words
        )

    def score(self, url: str, title: str | None, description: str | None) -> int:
        """Return the score of a page; 0 if no word matches."""
        texts = [(_folded(_visible(url)), WHOLE_IN, PART_IN)]
        if title:
            texts.append((_folded(title), WHOLE_IN, PART_IN))
        if description:
            texts.append((_folded(description), WHOLE_DESCRIBED, PART_DESCRIBED))
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


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(part for part in parts if not unicodedata.combining(part))
