"""How much there is to read."""

from __future__ import annotations

import re

# Silent reading of English; Brysbaert, How many words do we read per minute?, 2019.
WORDS_PER_MINUTE = 238
# Of Chinese, about; Japanese is read a little faster.
CHARACTERS_PER_MINUTE = 500

_CHARACTER = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def reading(text: str) -> dict[str, str]:
    """Return ``word_count`` and ``reading_time`` (ISO 8601) of a text; none if empty.

    Both are texts, as the interface document wants values of metadata to be. Where
    words are not set apart by spaces, each character counts.
    """
    characters = len(_CHARACTER.findall(text)) if not text.isascii() else 0
    if characters:
        text = _CHARACTER.sub(" ", text)
    words = sum(word[0].isalnum() or _is_word(word) for word in text.split())
    minutes = words / WORDS_PER_MINUTE + characters / CHARACTERS_PER_MINUTE
    if not words + characters:
        return {}
    return {
        "word_count": str(words + characters),
        "reading_time": f"PT{max(1, round(minutes))}M",
    }


def _is_word(text: str) -> bool:
    """Tell what has letters or digits from what is only punctuation."""
    return any(map(str.isalnum, text))
