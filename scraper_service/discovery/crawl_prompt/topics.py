"""Reads the topics, paths and years of an English prompt, requested and excluded."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from attrs import define, field

from scraper_service.content.html.page_urls import url_parts
from scraper_service.discovery.crawl_prompt.phrases import normalize, read_phrases

#: The words of a topic, or a single path, which begins with a slash.
TopicT: TypeAlias = tuple[str, ...]

MAX_TOPICS = 40
FIRST_YEAR, LAST_YEAR = 1990, 2039

# Words that name no topic.
FILLER = frozenset(
    """
    a about's all also am an any are area around as at away be been below best between
    bother can click come complete concerning content coverage crawl description do
    document domain each entire entry every fetched file find focus follow followed
    following for from full get give go grab has have here homepage host i i'd i'm in
    info information inside interested into is it item its just latest like list look
    make material me more my need new of off old on online our over page part please post
    published publish recent related relevant request resource result scrape section see
    should site some start stuff such text that the their them then there these they
    thing this those to too under us use using version edition view visit via want we web
    website were what where which who whole will with within work would you your article
    """.split()
)
AND = frozenset("and or plus as nor".split())
ONLY = frozenset(
    """only just solely exclusively limited include including want need get collect crawl
    fetch scrape keep""".split()
)
# The negations of other languages keep an excluded path from being requested.
NOT = frozenset(
    """skip except excepting excluding exclude excludes without not no avoid avoiding
    ignore ignoring omit omitting minus never nothing none drop dropping
    ohne kein keine nicht sans sauf pas sin salvo""".split()
)
# A following "but" excludes: "everything but the blog" excludes the blog.
ALL = frozenset("everything anything all whatever".split())

_PATH = re.compile(r"(?<![\w/.])(https?://[^\s,;\"'<>)]+|/[\w\-.~%/*+@]*[\w*/])")
_OTHERWISE = (
    r"apart from|aside from|other than|leave out|stay (?:away from|out of)|rather than"
    r"|not interested in|(?:do not|don'?t|never)(?: (?:crawl|visit|follow|include|fetch"
    r"|scrape|want|need|touch|go|get|care|bother|into|about|to|any|with))*"
)
# Phrases, and the words of this module that replace them.
_PHRASES = {
    r"\bleave\b([^.;,]{1,60}?)\b(?:alone|out)\b": r" skip \1 , ",
    r"\bversion (\d+)\b": r"v\1",
    r"\b(?:nothing|none|not|no) (\w+)(?: than)? (\d{4})\b": r" skip \1 \2 only ",
    r"\bnot only\b": " ",
    # A language qualifies the topic before it.
    r",( (?:in )?(?:english|german|french|spanish)\b)": r"\1",
    r"\b(?:as well as|along with)\b": " and ",
    r"\bbut only\b": " only ",
    rf"\b(?:{_OTHERWISE})\b": " skip ",
    r"\b(?:log|sign)[ -](in|up|on)\b": r"log\1",
    # "about" before a word; alone it is the name of a page.
    r"\babout\b(?= \w)(?! (?:us|me|pages?|section|and|or)\b)": " ",
}
_TOKEN = re.compile(r"v?\d+(?:-\d+)?|[a-z][a-z0-9']*(?:-[a-z0-9]+)*|[,.;:!?()&+]")
_SINCE = frozenset("since starting after newer later".split())
_BEFORE = frozenset("before until till prior older earlier".split())


@define
class ParsedPrompt:
    """What a prompt requests and excludes, read one word after the other."""

    host: str
    #: The values by the attributes of ``CrawlOptions``.
    values: dict[str, Any] = field(factory=dict)
    #: The requested (True) and excluded (False) topics.
    topics: dict[bool, list[TopicT]] = field(factory=lambda: {True: [], False: []})
    #: The requested (True) and excluded (False) years.
    years: dict[bool, set[int]] = field(factory=lambda: {True: set(), False: set()})
    #: True if the next topics are requested, False if they are excluded.
    _wants: bool = True
    #: The words of the current topic.
    _words: list[str] = field(factory=list)
    _all: bool = False
    _range: str = ""

    def read(self, text: str) -> None:
        """Read a part of the prompt without paths."""
        values, text = read_phrases(normalize(text))
        self.values = {**values, **self.values}
        for pattern, words in _PHRASES.items():
            text = re.sub(pattern, words, text)
        for token in _TOKEN.findall(text):
            self._take(token)
        self._end_topic()

    def add_path(self, path: str) -> None:
        """Add a path, or the path of a URL; URLs of other hosts are ignored."""
        if path.startswith("http"):
            parts = url_parts(path)
            path = parts.path if parts.hostname == self.host else ""
        if path.strip("*/"):
            self.topics[self._wants].append((path,))

    def _take(self, word: str) -> None:
        if word in ".;!?":
            self._turn(wants=True)
        elif word in ",:()&+" or word in AND:
            self._end_topic()
        elif word in ALL:
            self._all = True
        elif word == "but":
            self._end_topic()
            self._wants = not self._all
        elif word in ONLY or word in NOT:
            self._turn(wants=word in ONLY)
        elif word in _SINCE or word in _BEFORE:
            self._range = word
        elif word.isdigit():
            self._add_years(int(word))
        else:
            self._add_word(word.removesuffix("'s"))

    def _add_word(self, word: str) -> None:
        if word == "news" or FILLER.isdisjoint((word, word.removesuffix("s"))):
            self._words.append(word)
            self._all = False

    def _add_years(self, year: int) -> None:
        first = last = year
        if self._range in _BEFORE:
            first, last = FIRST_YEAR, year - 1
        elif self._range in _SINCE:
            # "since 2022" includes 2022, "nothing after 2022" does not exclude it.
            first, last = year if self._wants else year + 1, LAST_YEAR
        if FIRST_YEAR <= year <= LAST_YEAR:
            self.years[self._wants].update(range(first, last + 1))
            self._range = ""

    def _turn(self, *, wants: bool) -> None:
        self._end_topic()
        self._wants, self._all = wants, False

    def _end_topic(self) -> None:
        if self._words:
            self.topics[self._wants].append(tuple(self._words))
            self._words = []


def parse_prompt(prompt: str, host: str) -> ParsedPrompt:
    """Parse a prompt for the site of ``host``."""
    found = ParsedPrompt(host)
    for number, part in enumerate(_PATH.split(prompt)):
        if number % 2:
            found.add_path(part)
        else:
            found.read(part)
    for wants, topics in found.topics.items():
        found.topics[wants] = list(dict.fromkeys(topics))[:MAX_TOPICS]
    return found
