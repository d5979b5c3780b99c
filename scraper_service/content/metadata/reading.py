"""How much there is to read."""

from __future__ import annotations

import re

from scraper_service.content.passes import compiled

# Silent reading of English; Brysbaert, How many words do we read per minute?, 2019.
WORDS_PER_MINUTE = 238
# Of Chinese, about; Japanese is read a little faster.
CHARACTERS_PER_MINUTE = 500

_ASCII = bytes(range(128))
_CHARACTER = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def reading(text: str) -> dict[str, str]:
    """Return ``word_count`` and ``reading_time`` (ISO 8601) of a text; none if empty.

    Both are texts, as the interface document wants values of metadata to be. Where
    words are not set apart by spaces, each character counts.
    """
    characters = 0
    if not text.isascii():  # without ASCII there is little left to look through
        rest = text.encode(errors="ignore").translate(None, _ASCII).decode()
        characters = len(_CHARACTER.findall(rest))
    if characters:
        text = _CHARACTER.sub(" ", text)
    count = _spoken(text) if compiled is None else compiled.spoken(text)
    minutes = count / WORDS_PER_MINUTE + characters / CHARACTERS_PER_MINUTE
    if not count + characters:
        return {}
    return {
        "word_count": str(count + characters),
        "reading_time": f"PT{max(1, round(minutes))}M",
    }


def _spoken(text: str) -> int:
    """Return how many words have a letter or a digit."""
    words = text.split()
    odd = [word for word in words if not word[0].isalnum()]
    return len(words) - sum(not any(map(str.isalnum, word)) for word in odd)
