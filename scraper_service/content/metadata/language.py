"""Finds the language of a page, declared or detected, and its reading time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scraper_service.content.passes import word_counts

if TYPE_CHECKING:
    from scraper_service.content.metadata.evidence import Evidence

LEAST_TEXT = 80  # characters for the detection of a language
MAX_TEXT = 5_000
# Below it are most wrong guesses, and those for names, codes and lists of goods.
LEAST_PROBABILITY = 0.99
_CURRENT_TAGS = {"iw": "he"}  # of the detector

_TAG = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*")


def language_of(evidence: Evidence) -> str | None:
    """Return the page's language as a tag such as ``en`` or ``de-AT``; None if unknown.

    The ``lang`` of ``<html>`` comes first, as written. Then come other declarations.
    The detection from the words of the page comes last.
    """
    root = evidence.root
    declared = (root.get("lang") or root.get("xml:lang") or "").strip()
    if declared:
        return declared[:100]
    header = evidence.first("http-equiv content-language")
    for given in (header.split(",")[0], evidence.first("og:locale", "dc.language")):
        if _TAG.fullmatch(given.strip()):
            return given.strip().replace("_", "-")[:100]
    return detect_language(evidence.words)


def detect_language(text: str) -> str | None:
    """Return the detected language of ``text``; None for short or unclear texts."""
    text = " ".join(text[:MAX_TEXT].split())
    if len(text) < LEAST_TEXT:
        return None
    import gcld3  # noqa: PLC0415  # few pages need it

    detector = gcld3.NNetLanguageIdentifier(0, 4 * MAX_TEXT)  # least and most bytes
    found = detector.FindLanguage(text.encode(errors="ignore"))
    if found.probability < LEAST_PROBABILITY:
        return None
    return _CURRENT_TAGS.get(found.language, str(found.language))


# Silent reading of English; Brysbaert, How many words do we read per minute?, 2019.
WORDS_PER_MINUTE = 238
# About right for Chinese; Japanese is read a little faster.
CHARACTERS_PER_MINUTE = 500


def reading(text: str) -> dict[str, str]:
    """Return ``word_count`` and ``reading_time`` (ISO 8601); empty without words.

    Both values are strings, as all metadata. In scripts without spaces, each character
    counts as a word.
    """
    count, characters = word_counts(text)
    minutes = count / WORDS_PER_MINUTE + characters / CHARACTERS_PER_MINUTE
    if not count + characters:
        return {}
    return {
        "word_count": str(count + characters),
        "reading_time": f"PT{max(1, round(minutes))}M",
    }
