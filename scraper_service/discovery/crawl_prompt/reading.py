"""A sentence taken apart: what it sets, what it wants and what it does not want."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from attrs import define, field, frozen

from scraper_service.discovery.crawl_prompt.numbers import folded
from scraper_service.discovery.crawl_prompt.settings import taken
from scraper_service.discovery.crawl_prompt.vocabulary import (
    ALL,
    AND,
    FILLER,
    LANGUAGES,
    NOT,
    ONLY,
)

MAX_TOPICS = 40
FIRST_YEAR, LAST_YEAR = 1990, 2039

_PATH = re.compile(r"(?<![\w/.])(?:https?://[^\s,;\"'<>)]+|/[\w\-.~%/*+@]*[\w*/])")
_HELD = re.compile(r"^qpath(\d+)q$")
_OTHERWISE = (
    r"apart from|aside from|other than|leave out|leaving out|left out|leave off"
    r"|stay away from|stay out of|keep out|rather than|not interested in|but not"
    r"|mit ausnahme von|ausgenommen|abgesehen von|aber nicht|aber ohne|mais pas"
    r"|a l'exception d\w+|pero no|a excepcion de|excepto por"
    r"|(?:do not|don'?t|never)(?: (?:crawl|visit|follow|include|fetch|scrape|want"
    r"|need|touch|go|get|care|collect|open|read|download|into|about|to|any))*"
)
_ABOUT = (
    r"(^|[,.;]|\b(?:pages?|articles?|posts?|stor(?:y|ies)|documents?|docs|news|info|all"
    r"|content|information|(?:any|every|some|no)?things?|stuff|only|just|is|are|talks?))"
)
# Several words that mean one of the vocabulary.
_PHRASES = (
    (r"\b(?:leave|let)\b([^.;,]{1,60}?)\b(?:alone|out|be)\b", r" skip \1 , "),
    (r"\bversion (\d+)\b", r"v\1"),
    (r"\bnot only\b", " "),
    (r"\b(?:as well as|along with)\b", " and "),
    (r"\bbut only\b|\baber nur\b|\bmais seulement\b|\bpero solo\b", " only "),
    (rf"\b(?:{_OTHERWISE})\b", " skip "),
    (r"\b(?:log|sign)[ -](in|up|on)\b", r"log\1"),
    # The word between two others; alone it is the name of a page.
    (rf"{_ABOUT} +about\b(?= \w)(?! (?:us|me|pages?|section|and|or)\b)", r"\1"),
)
_TOKEN = re.compile(
    r"qpath\d+q|v?\d+(?:-\d+)?|[a-z][a-z0-9']*(?:-[a-z0-9]+)*|[,.;:!?()&+]"
)
_ENDS, _BETWEEN = frozenset(".;!?"), frozenset(",:()&+")
_SINCE = frozenset("since after ab seit depuis desde newer nach starting".split())
_BEFORE = frozenset("before until till prior older earlier vor bis avant antes".split())
_UNWANTED_YEARS = re.compile(
    r"\b(?:nothing|none|not|no (?:\w+ )?)\s?(?:from )?"
    r"(?P<side>older|before|prior|earlier|newer|after|later)(?: than| to)? (?P<year>\d{4})"
)
_CODES = frozenset(LANGUAGES.values())


@frozen
class Topic:
    """What a part of the sentence is about: its words, or a ``path`` as it was given."""

    words: tuple[str, ...]
    path: str | None = None

    @property
    def text(self) -> str:
        return self.path or " ".join(self.words)


@frozen
class Wish:
    """A sentence as it was understood.

    ``values`` are options of a crawl by their names inside the service. ``years`` are
    those that are wanted, ``other_years`` those that are not.
    """

    values: Mapping[str, Any]
    wanted: tuple[Topic, ...]
    unwanted: tuple[Topic, ...]
    years: tuple[int, ...]
    other_years: tuple[int, ...]


def read(sentence: str, host: str) -> Wish:
    """Return what a sentence says; addresses of other hosts than ``host`` are no topic."""
    paths: list[str] = []

    def hold(match: re.Match[str]) -> str:
        found = match[0]
        if found.startswith("http"):
            try:
                parts = urlsplit(found)
            except ValueError:
                return " "
            if parts.hostname != host:
                return " "
            found = parts.path
        paths.append(found)
        return f" qpath{len(paths) - 1}q "

    text = folded(_PATH.sub(hold, sentence))
    reader = _Reader(paths)
    text = _UNWANTED_YEARS.sub(reader.leave_out, text)
    values, rest = taken(text)
    for pattern, said in _PHRASES:
        rest = re.sub(pattern, said, rest)
    for token in _TOKEN.findall(rest):
        reader.take(token)
    reader.flush()
    return Wish(
        values,
        _in_languages(dict.fromkeys(reader.topics[True]))[:MAX_TOPICS],
        tuple(dict.fromkeys(reader.topics[False]))[:MAX_TOPICS],
        tuple(sorted(reader.years[True])),
        tuple(sorted(reader.years[False])),
    )


def _in_languages(topics: Iterable[Topic]) -> tuple[Topic, ...]:
    """Return topics; a language beside other ones is what they are to be in."""
    languages = [x for x in topics if x.words and _CODES.issuperset(x.words)]
    others = [x for x in topics if x not in languages]
    if not others or len(languages) != 1:
        return tuple(topics)
    [language] = languages
    return tuple(
        each if each.path else Topic((*each.words, *language.words)) for each in others
    )


@define
class _Reader:
    """Goes through the words; ``wants`` is whether it is told what to do, or what not."""

    paths: list[str]
    wants: bool = True
    words: list[str] = field(factory=list)
    topics: dict[bool, list[Topic]] = field(factory=lambda: {True: [], False: []})
    years: dict[bool, set[int]] = field(factory=lambda: {True: set(), False: set()})
    _all: bool = False
    _range: str = ""

    def take(self, token: str) -> None:
        held = _HELD.match(token)
        # A sentence may contain such a word itself.
        if held and (number := int(held[1])) < len(self.paths):
            self.flush()
            self.topics[self.wants].append(Topic((), self.paths[number]))
        elif token in _ENDS:
            self.flush()
            self.wants, self._all = True, False
        elif token in _BETWEEN or token in AND:
            self.flush()
        elif token in ALL:
            self._all = True
        elif token == "but":  # noqa: S105  # a word
            self.flush()
            self.wants = not self._all
        elif token in ONLY or token in NOT:
            self.flush()
            self.wants, self._all = token in ONLY, False
        elif token in _SINCE or token in _BEFORE:
            self._range = token
        elif token.isdigit():
            self._year(int(token))
        else:
            self._word(token)

    def _word(self, token: str) -> None:
        word = token.removesuffix("'s")
        if word in LANGUAGES:
            self.words.append(LANGUAGES[word])
        elif word == "news" or FILLER.isdisjoint((word, word.removesuffix("s"))):
            self.words.append(word)
            self._all = False

    def leave_out(self, match: re.Match[str]) -> str:
        """Take note of years before or after one of which nothing is wanted."""
        year = int(match["year"])
        if FIRST_YEAR <= year <= LAST_YEAR:
            is_before = match["side"] in _BEFORE
            years = range(FIRST_YEAR, year) if is_before else range(year + 1, LAST_YEAR)
            self.years[False].update(years)
        return " "

    def _year(self, number: int) -> None:
        if not FIRST_YEAR <= number <= LAST_YEAR:
            return
        wants = self.wants
        if self._range in _SINCE and self._range:
            self.years[wants].update(range(number, LAST_YEAR + 1))
        elif self._range in _BEFORE and self._range:
            self.years[wants].update(range(FIRST_YEAR, number))
        else:
            self.years[wants].add(number)
        self._range = ""

    def flush(self) -> None:
        """End a topic."""
        if self.words:
            self.topics[self.wants].append(Topic(tuple(self.words)))
            self.words = []
