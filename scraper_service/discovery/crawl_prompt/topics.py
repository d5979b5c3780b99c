"""Reads the topics, paths and years of an English prompt, requested and excluded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from scraper_service.discovery.crawl_prompt.phrases import normalize, read_phrases
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The words of a topic, or a single path, which begins with a slash.
TopicT: TypeAlias = tuple[str, ...]

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
ONLY = frozenset(
    """only just solely exclusively limited include including want need get collect crawl
    fetch scrape keep""".split()
)
# A following "but" excludes: "everything but the blog" excludes the blog.
ALL = frozenset("everything anything all whatever".split())
STOPS = frozenset(".;!?")  # the next topic is requested again
ENDS = ONLY | STOPS | frozenset(", : ( ) & + and or plus as but not".split())
SINCE = frozenset("since starting after newer later".split())
BEFORE = frozenset("before until till prior older earlier".split())

_PATH = re.compile(r"(?<![\w/.])(https?://[^\s,;\"'<>)]+|/[\w\-.~%/*+@]*[\w*/])")
_TOKEN = re.compile(r"v?\d+(?:-\d+)?|[a-z][a-z0-9']*(?:-[a-z0-9]+)*|[,.;:!?()&+]")


class ParsedPrompt(NamedTuple):
    """What a prompt requests and excludes."""

    #: The values by the attributes of ``CrawlOptions``.
    values: dict[str, Any]
    #: The requested (True) and excluded (False) topics.
    topics: dict[bool, list[TopicT]]
    #: The requested (True) and excluded (False) years.
    years: dict[bool, set[int]]


def parse_prompt(prompt: str, host: str) -> ParsedPrompt:
    """Parse a prompt for the site of ``host``, one word after the other."""
    parsed = ParsedPrompt({}, {True: [], False: []}, {True: set(), False: set()})
    wants, has_all, bound = True, False, ""
    topic: list[str] = []
    for word in _tokens(prompt, host, parsed.values):
        if topic and (word in ENDS or word.startswith("/")):
            parsed.topics[wants].append(tuple(topic))
            topic = []
        if word.startswith("/"):
            parsed.topics[wants].append((word,))
        elif word in STOPS or word in ONLY or word == "not":
            wants, has_all = word != "not", False
        elif word == "but":
            wants = not has_all
        elif word in ALL:
            has_all = True
        elif word in SINCE or word in BEFORE:
            bound = word
        elif word.isdigit() and FIRST_YEAR <= int(word) <= LAST_YEAR:
            parsed.years[wants].update(_years(int(word), bound, wants=wants))
            bound = ""
        elif word not in ENDS and _is_topic(word):
            topic.append(word.removesuffix("'s"))
            has_all = False
    return parsed


def _tokens(prompt: str, host: str, values: dict[str, Any]) -> Iterator[str]:
    """Return the words, signs and paths of a prompt, and add its options to ``values``.

    URLs become their paths; those of other hosts are left out.
    """
    for number, part in enumerate(_PATH.split(prompt)):
        if number % 2 == 0:
            found, text = read_phrases(normalize(part))
            values |= {**found, **values}
            yield from (*_TOKEN.findall(text), ",")
            continue
        url = url_parts(part) if part.startswith("http") else None
        path = part if url is None else url.path if url.hostname == host else ""
        if path.strip("*/"):
            yield path


def _is_topic(word: str) -> bool:
    word = word.removesuffix("'s")
    is_filler = word in FILLER or word.removesuffix("s") in FILLER
    return word == "news" or not (is_filler or word.isdigit())


def _years(year: int, bound: str, *, wants: bool) -> range:
    if bound in BEFORE:
        return range(FIRST_YEAR, year)
    # "since 2022" includes 2022, "nothing after 2022" does not exclude it.
    first = year + 1 if bound in SINCE and not wants else year
    return range(first, LAST_YEAR + 1 if bound in SINCE else year + 1)
