"""Reads the numbers and switches of an English prompt: counts, delays and scope.

Each phrase is removed from the prompt. The rest of the prompt names topics.
"""

from __future__ import annotations

import math
import re
from typing import Any

from scraper_service.content.text.search_terms import folded

MAX_DELAY_S = 60
MAX_DIGITS = 15  # of a number; Python refuses to parse much longer ones

_NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_VALUES = {word: n for n, word in enumerate(_NUMBERS, 1)}
_VALUES |= {word: 10 * n for n, word in enumerate(_TENS, 2)}
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 1_000_000}

_GROUPED = re.compile(r"(?<![\d.,])(\d{1,3})((?:[.,\u202f' ]\d{3})+)(?!\d)")
_LONG = re.compile(rf"\d{{{MAX_DIGITS + 1},}}")
_SHORT = re.compile(r"\b(\d+(?:\.\d+)?) ?k\b")
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)?")
_SCALED = re.compile(rf"\b(?:(a|\d{{1,6}}) )?({'|'.join(_SCALES)})s?\b")

_TIMES = {"ms": 0.001, "milli": 0.001, "s": 1, "m": 60, "h": 3600}
_LIMITING = re.compile(r"most|max|limit|(?:more|less|fewer) than|up to|stop|first")
_NUMBER = re.compile(
    # The words before, the number, its unit, and "per minute" or the words after.
    r"((?:\b(?:depth|max|maximum|at|most|up|to|no|not|more|less|fewer|than|limit|limited"
    r"|of|is|the|first|top|only|just|stop|after|deeper|do|don't|never|go|going|wait|pause"
    r"|delay|every|each|per|a|least|pages|follow|following|about|around)[ :.]+){0,8})"
    r"(?<![\w.-])(?P<n>\d+(?:\.\d+)?)(?:[ -]?(?:"
    r"(?P<time>milliseconds?|ms|seconds?|secs?|s|minutes?|mins?)"
    r"|(?P<steps>levels?|clicks?|hops?|links?|steps?)"
    r"|(?P<pages>pages?|urls?|documents?|docs|articles?|posts?|items?|results?)|requests?"
    r")\b)?(?![\w-])"
    r"(?: (?:an?|per|each|every) (?P<every>\d*) ?(?P<per>second|minute|hour)s?\b"
    r"|(?: (?:at most|max|in total|deep|away|pause|delay|between)\b)+)?"
)

_NO = (
    r"\b(?:no|not|never|without|exclud\w+|skip\w*|ignor\w+|avoid\w*|except|don'?t|omit\w*"
    r"|leave out|drop)\b"
)
_GAP = r"(?: [\w']+){0,3}? "  # up to three words between two others
_SITE = r"(?:web ?)?(?:site|domain|host)\b"
_OUTSIDE = (
    r"(?:(?:external|outbound|off-?site) (?:links?|(?:web ?)?sites?|pages?|domains?)"
    r"|(?:links? (?:to|on) )?other (?:web ?)?(?:sites?|domains?|hosts?))"
)
_SITEMAP = r"\bsite ?maps?(?:\.xml)?\b"
_QUERY = r"(?:query|url|get)[ -]?(?:strings?|param(?:eter)?s?)\b"
_SIMILAR = r"(?:similar|duplicate) (?:urls?|pages|links|content)\b"

# Patterns with their options. More exact patterns come first.
_FIXED: dict[str, dict[str, Any]] = {
    r"\b(?:slow(?:ly| down)?|gently|careful(?:ly)?)\b": {"delay_s": 1},
    r"\b(?:only|just) (?:the (?:home|front|start) ?page|this page)\b": {"limit": 1},
    rf"{_NO} leave (?:the|this|my) {_SITE}"
    rf"|\b(?:stay|remain|keep) (?:on|within|in) (?:the|this|that)(?: same)? {_SITE}": {
        "allow_external_links": False
    },
    rf"\b(?:whole|entire|complete|full) {_SITE}": {"crawl_entire_domain": True},
    rf"\b(?:only|just)\b{_GAP}{_SITEMAP}|{_SITEMAP}[ -](?:only|alone)\b": {
        "sitemap": "only"
    },
    rf"{_NO}{_GAP}{_SITEMAP}": {"sitemap": "skip"},
    rf"\b(?:us(?:e|ing)|includ(?:e|ing)|with|from){_GAP}{_SITEMAP}": {
        "sitemap": "include"
    },
    rf"\bkeep{_GAP}{_QUERY}": {"ignore_query_parameters": False},
    rf"(?:{_NO}|\bstrip|\bremove){_GAP}{_QUERY}": {"ignore_query_parameters": True},
    rf"\b(?:treat|keep){_GAP}{_SIMILAR}(?: as (?:different|separate))?": {
        "deduplicate_similar_urls": False
    },
    rf"(?:{_NO}|\bmerge){_GAP}(?:{_SIMILAR}|duplicates\b)": {
        "deduplicate_similar_urls": True
    },
}
_PHRASES = {re.compile(pattern, re.ASCII): given for pattern, given in _FIXED.items()}
# Words with their option, which a negation before or after them switches off.
_SWITCHES = {
    re.compile(
        rf"({_NO}{_GAP})?\b{words}\b((?: [\w']+){{0,2}} (?:not|out|off|alone)\b)?",
        re.ASCII,
    ): name
    for words, name in (
        ("sub-?domains?", "allow_subdomains"),
        (_OUTSIDE, "allow_external_links"),
    )
}


def normalize(text: str) -> str:
    """Return ``text`` in lower case, without accents, and with numbers in digits.

    A number with more than :data:`MAX_DIGITS` digits becomes the largest number.
    """
    plain = re.sub("[\u2019`]", "'", folded(text))
    plain = _GROUPED.sub(lambda m: m[1] + re.sub(r"\D", "", m[2]), plain)
    plain = _LONG.sub("9" * MAX_DIGITS, plain)
    plain = _SHORT.sub(lambda m: str(int(float(m[1]) * 1000)), plain)
    plain = _WORD.sub(_in_digits, plain)
    plain = _SCALED.sub(_product, plain)
    return re.sub(r"\s+", " ", plain).strip()


def _in_digits(match: re.Match[str]) -> str:
    parts = match[0].split("-")
    if any(part not in _VALUES for part in parts):
        return match[0]
    return str(sum(_VALUES[part] for part in parts))


def _product(match: re.Match[str]) -> str:
    count = match[1]
    return str((int(count) if count and count != "a" else 1) * _SCALES[match[2]])


def read_phrases(text: str) -> tuple[dict[str, Any], str]:
    """Return the options of a normalized prompt, and the prompt without their phrases."""
    values: dict[str, Any] = {}

    def take_number(match: re.Match[str]) -> str:
        given = _option(match)
        for name, value in given.items():
            values.setdefault(name, value)
        return " , " if given else match[0]

    text = _NUMBER.sub(take_number, text)
    for pattern, given in _PHRASES.items():
        text, count = pattern.subn(" , ", text)
        if count:
            values = {**given, **values}
    for pattern, name in _SWITCHES.items():
        if match := pattern.search(text):
            values.setdefault(name, not (match[1] or match[2]))
            text = pattern.sub(" , ", text)
    if values.get("delay_s", 0) > MAX_DELAY_S:
        del values["delay_s"]
    return values, text


def _option(match: re.Match[str]) -> dict[str, Any]:
    """Return the option that a number sets; none for a number without such words."""
    number, words = float(match["n"]), match[0]
    if match["per"] and number:
        seconds = int(match["every"] or 1) * _TIMES[match["per"][0]] / number
        return {"delay_s": max(1, math.ceil(seconds))}
    if match["time"]:
        if not re.search(r"wait|pause|delay|every|each|per |between", words):
            return {}
        unit = re.match(r"ms|milli|[smh]", match["time"])
        assert unit is not None
        return {"delay_s": max(1, math.ceil(number * _TIMES[unit[0]]))}
    if match["steps"] or "depth" in match[1]:
        return {"max_discovery_depth": int(number)}
    # Without a word such as "most", a year is a year.
    is_limit = match["pages"] and not 1990 <= number < 2040
    return {"limit": int(number)} if is_limit or _LIMITING.search(match[1]) else {}
