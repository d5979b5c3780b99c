"""Reads the numbers, switches and negations of an English prompt.

Each phrase is removed from the prompt. The rest of the prompt names topics.
"""

from __future__ import annotations

import math
import re
from typing import Any

from scraper_service.content.search.words import fold

MAX_DELAY_S = 60
MAX_DIGITS = 15  # of a number; Python refuses to parse much longer ones

_NUMBERS = """one two three four five six seven eight nine ten eleven twelve
    twenty thirty forty fifty sixty seventy eighty ninety""".split()
_VALUES = dict(zip(_NUMBERS, (*range(1, 13), *range(20, 100, 10)), strict=True))
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 1_000_000}

_GROUPED = re.compile(r"(?<![\d.,])(\d{1,3})((?:[.,\u202f' ]\d{3})+)(?!\d)")
_LONG = re.compile(rf"\d{{{MAX_DIGITS + 1},}}")
_SHORT = re.compile(r"\b(\d+(?:\.\d+)?) ?k\b")
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)?")
_SCALED = re.compile(rf"\b(?:(a|\d{{1,6}}) )?({'|'.join(_SCALES)})s?\b")

_TIMES = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}  # in seconds
_LIMITING = re.compile(r"most|max|limit|(?:more|less|fewer) than|up to|stop|first")
_NUMBER = re.compile(
    # The words before, the number, its unit, and "per minute" or the words after.
    r"((?:\b(?:depth|max|maximum|at|most|up|to|not|more|less|fewer|than|limit|limited|of|is"
    r"|the|first|top|only|just|stop|after|deeper|go|going|wait|pause|delay|every|each|per|a"
    r"|least|pages|follow|following|about|around)[ :.]+){0,8})"
    r"(?<![\w.-])(?P<n>\d+(?:\.\d+)?)(?:[ -]?(?:"
    r"(?P<time>ms|seconds?|secs?|s|minutes?|mins?)"
    r"|(?P<steps>levels?|clicks?|hops?|links?|steps?)"
    r"|(?P<pages>pages?|urls?|documents?|docs|articles?|posts?|items?|results?)|requests?"
    r")\b)?(?![\w-])"
    r"(?: (?:an?|per|each|every) (?P<every>\d*) ?(?P<per>second|minute|hour)s?\b"
    r"|(?: (?:at most|max|in total|deep|away|pause|delay|between)\b)+)?"
)

# The negations of other languages keep an excluded path from being requested.
_NEGATION = (
    r"(?<![\w'-])(?:apart from|other than|leave out|stay (?:away from|out of)|no|nothing"
    r"|none|not interested in|not|without|minus|ohne|keine?|nicht|sans|sauf|pas|sin"
    r"|(?:except|exclud|ignor|skip|omit|avoid|drop)(?:s|es?|[pt]?ing)?"
    r"|(?:do not|don'?t|never)(?: (?:crawl|visit|follow|include|fetch|scrape|want|need"
    r"|touch|go|get|care|bother|into|about|to|any|with)\b)*)(?![\w'-])"
)
# Phrases, and the words that replace them. Then "not" is the only negation.
_REPLACED = {
    r"milliseconds?\b": "ms",
    r"\bversion (\d+)\b": r"v\1",
    r"\bnot only\b": " ",
    _NEGATION: "not",
    r"\bleave\b([^.;,]{1,60}?)\b(?:alone|out)\b": r"not \1 not , ",
    r"\bnot (older|newer|earlier|later|before|after|since|from)(?: than)? (\d{4})\b": (
        r"not \1 \2 want "
    ),
    # A language qualifies the topic before it.
    r",( (?:in )?(?:english|german|french|spanish)\b)": r"\1",
    r"\b(?:as well as|along with)\b": "and",
    r"\bbut only\b": "only",
    r"\b(?:log|sign)[ -](in|up|on)\b": r"log\1",
    # "about" before a word; alone it is the name of a page.
    r"\babout\b(?= \w)(?! (?:us|me|pages?|section|and|or)\b)": "",
}

_GAP = r"(?: [\w']+){0,3}? "  # up to three words between two others
_OFF = r"(?: [\w']+){0,2} (?:not|out|off|alone)\b"  # a negation after the words
_SITE = r"(?:web ?)?(?:site|domain|host)\b"
_STAY = (
    rf"\bnot leave (?:the|this|my) {_SITE}"
    rf"|\b(?:stay|remain|keep) (?:on|within|in) (?:the|this|that)(?: same)? {_SITE}"
)
_OUTSIDE = (
    rf"({_STAY})|(\bnot{_GAP})?\b"
    r"(?:(?:external|outbound|off-?site) (?:links?|(?:web ?)?sites?|pages?|domains?)"
    rf"|(?:links? (?:to|on) )?other (?:web ?)?(?:sites?|domains?|hosts?))\b({_OFF})?"
)
_SUBDOMAINS = rf"(\bnot{_GAP})?\bsub-?domains?\b({_OFF})?"
_MAPS = r"\bsite ?maps?(?:\.xml)?\b"
_ONLY_MAPS = rf"\b(?:only|just)\b{_GAP}{_MAPS}|{_MAPS}[ -](?:only|alone)\b"
_USE_MAPS = rf"\b(?:(not)|us(?:e|ing)|includ(?:e|ing)|with|from){_GAP}{_MAPS}"
_QUERY = (
    rf"\b(?:(keep)|not|strip|remove){_GAP}"
    r"(?:query|url|get)[ -]?(?:strings?|param(?:eter)?s?)\b"
)
_SIMILAR = (
    rf"\b(?:(treat|keep)|not|merge){_GAP}(?:(?:similar|duplicate)"
    r" (?:urls?|pages|links|content)|duplicates)\b(?: as (?:different|separate))?"
)
# Patterns with an option and its value. If a group matches, the last value counts.
_SWITCHES: dict[str, tuple[Any, ...]] = {
    r"\b(?:slow(?:ly| down)?|gently|careful(?:ly)?)\b": ("delay_s", 1),
    r"\b(?:only|just) (?:the (?:home|front|start) ?page|this page)\b": ("limit", 1),
    rf"\b(?:whole|entire|complete|full) {_SITE}": ("crawl_entire_domain", True),
    _ONLY_MAPS: ("sitemap", "only"),
    _USE_MAPS: ("sitemap", "include", "skip"),
    _QUERY: ("ignore_query_parameters", True, False),
    _SIMILAR: ("deduplicate_similar_urls", True, False),
    _SUBDOMAINS: ("allow_subdomains", True, False),
    _OUTSIDE: ("allow_external_links", True, False),
}


def normalize(text: str) -> str:
    """Return ``text`` in lower case, without accents, and with numbers in digits.

    A number with more than :data:`MAX_DIGITS` digits becomes the largest number, and
    each negation becomes "not".
    """
    plain = re.sub("[\u2019`]", "'", fold(text))
    plain = _GROUPED.sub(lambda m: m[1] + re.sub(r"\D", "", m[2]), plain)
    plain = _LONG.sub("9" * MAX_DIGITS, plain)
    plain = _SHORT.sub(lambda m: str(int(float(m[1]) * 1000)), plain)
    plain = _WORD.sub(_in_digits, plain)
    plain = _SCALED.sub(
        lambda m: str(int((m[1] or "1").replace("a", "1")) * _SCALES[m[2]]), plain
    )
    plain = " ".join(plain.split())
    for pattern, words in _REPLACED.items():
        plain = re.sub(pattern, words, plain)
    return " ".join(plain.split())


def _in_digits(match: re.Match[str]) -> str:
    values = [_VALUES.get(part) for part in match[0].split("-")]
    return match[0] if None in values else str(sum(filter(None, values)))


def read_phrases(text: str) -> tuple[dict[str, Any], str]:
    """Return the options of a normalized prompt, and the prompt without their phrases."""
    values: dict[str, Any] = {}

    def take_number(match: re.Match[str]) -> str:
        given = _option(match)
        for name, value in given.items():
            values.setdefault(name, value)
        return " , " if given else match[0]

    text = _NUMBER.sub(take_number, text)
    for pattern, (name, *given) in _SWITCHES.items():
        if match := re.search(pattern, text):
            values.setdefault(name, given[-1] if match.lastindex else given[0])
            text = re.sub(pattern, " , ", text)
    if values.get("delay_s", 0) > MAX_DELAY_S:
        del values["delay_s"]
    return values, text


def _option(match: re.Match[str]) -> dict[str, Any]:
    """Return the option that a number sets; none for a number without such words."""
    number, unit = float(match["n"]), match["time"]
    if match["per"] and number:
        seconds = int(match["every"] or 1) * _TIMES[match["per"][0]] / number
    elif unit and re.search(r"wait|pause|delay|every|each|per |between", match[0]):
        seconds = number * _TIMES["ms" if unit == "ms" else unit[0]]
    elif match["steps"] or (not unit and "depth" in match[1]):
        return {"max_discovery_depth": int(number)}
    else:
        # Without a word such as "most", a year is a year.
        is_limit = match["pages"] and not 1990 <= number < 2040
        is_limit = is_limit or (not unit and _LIMITING.search(match[1]))
        return {"limit": int(number)} if is_limit else {}
    return {"delay_s": max(1, math.ceil(seconds))}
