"""Derives the options of a crawl from an English prompt by rules, without a language model.

It reads numbers and switches, then topics, paths and years, and finds the topics among the
paths of the site. See docs/how-to/crawling.md, Options from a prompt.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from attrs import frozen

from scraper_service.content.words import fold
from scraper_service.options.urls import url_parts

MAX_PAGES = 10_000_000  # the largest ``limit`` that a prompt can set
MAX_DELAY_S = 60
MAX_DIGITS = 15  # of a number; Python refuses to parse much longer ones

_NUMBERS = """one two three four five six seven eight nine ten eleven twelve
    twenty thirty forty fifty sixty seventy eighty ninety""".split()
_VALUES = dict(zip(_NUMBERS, (*range(1, 13), *range(20, 100, 10)), strict=True))
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 1_000_000}

_GROUPED = re.compile(r"(?<![\d.,])(\d{1,3})((?:[.,\u202f' ]\d{3})+)(?!\d)")
_LONG = re.compile(rf"\d{{{MAX_DIGITS + 1},}}")
_SHORT = re.compile(r"\b(\d+(?:\.\d+)?) ?k\b")
_NUMERAL = re.compile(r"[a-z]+(?:-[a-z]+)?")
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
#: The stems of a path and those of its last segment, by its segments.
PathStemsT: TypeAlias = dict[tuple[str, ...], tuple[frozenset[str], frozenset[str]]]

MAX_TOPICS = 40
MAX_SEGMENTS = 5  # segments of a path that are compared
MAX_PATHS = 12  # paths per topic
MAX_PATTERNS = 50  # patterns in a list
MAX_UNCLEAR = 3  # topics in a warning

# Words of prompts and usual names of paths; the names of a line mean the same.
_SYNONYMS = (
    *("about company", "archive", "author writer", "blog post weblog", "career job"),
    *("cart basket", "changelog release", "contact", "course lecture", "faq", "forum"),
    *("doc documentation manual", "event calendar", "guide howto", "help support"),
    *("legal term", "login signin", "member", "news press", "order", "price pricing"),
    *("privacy", "product item", "project", "reference", "review", "search", "sport"),
    *("signup register", "staff people", "tag label", "thread topic discussion t"),
    *("team", "tutorial lesson", "user profile u", "video clip film", "api", "account"),
    *("english en", "german de", "french fr", "spanish es", "italian it", "dutch nl"),
    *("portuguese pt", "polish pl", "japanese ja", "chinese zh", "russian ru"),
)
_IMAGES = "png|jpe?g|gif|webp|svg"
_FILES = {"pdf": "pdf", "imag": _IMAGES, "pictur": _IMAGES, "photo": _IMAGES}
_ENDINGS = frozenset("html htm php asp aspx jsp md".split())
_WORD = re.compile(r"[^\W_]+")


@frozen
class PromptOptions:
    """The options derived from a prompt."""

    #: The values by the attributes of ``CrawlOptions``.
    values: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    #: True if a language model derived nothing from the prompt.
    is_refused: bool = False


def options_from_prompt(
    prompt: str, url: str, known: Sequence[bytes] = ()
) -> PromptOptions:
    """Return the options that ``prompt`` requests for the site of ``url``.

    ``known`` are JSON arrays of the site's URLs without the brackets, as in maps.
    Without them, topics match the usual names of paths.
    """
    values, warnings = _derive(prompt, url, known)
    if not 1 <= values.get("limit", 1) <= MAX_PAGES:
        del values["limit"]
    return PromptOptions(values, warnings)


def normalize(text: str) -> str:
    """Return ``text`` in lower case, without accents, and with numbers in digits.

    A number with more than :data:`MAX_DIGITS` digits becomes the largest number, and
    each negation becomes "not".
    """
    plain = re.sub("[\u2019`]", "'", fold(text))
    plain = _GROUPED.sub(lambda m: m[1] + re.sub(r"\D", "", m[2]), plain)
    plain = _LONG.sub("9" * MAX_DIGITS, plain)
    plain = _SHORT.sub(lambda m: str(int(float(m[1]) * 1000)), plain)
    plain = _NUMERAL.sub(_in_digits, plain)
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


def stem(word: str) -> str:
    """Return a word without the most common endings."""
    word = re.sub(r"(?<=[a-z]{3})(?<!s)s$", "", word)
    word = re.sub(r"(?<=[a-z]{4})(ation|ing|e)$", "", word)
    return re.sub(r"(?<=[a-z]{3})y$", "i", word)


_GROUPS: dict[str, frozenset[str]] = {}
for _line in _SYNONYMS:
    _group = frozenset(map(stem, _line.split()))
    _GROUPS |= dict.fromkeys(_group, _group)
# Users may be members, but not every member is a user.
_GROUPS["user"] |= {"member"}
_GROUPS["profil"] |= {"member"}


def _meanings(word: str) -> frozenset[str]:
    return _GROUPS.get(stem(word), frozenset({stem(word)}))


def _derive(
    prompt: str, url: str, known: Sequence[bytes]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    start = url_parts(url)
    folder = start.path.rstrip("/")
    values, topics, years = parse_prompt(prompt, start.hostname or "")
    paths = [url_parts(u).path for rows in known for u in json.loads(b"[%s]" % rows)]
    stems = _stems_of_paths(paths)
    unclear: list[str] = []
    lacks_years = False
    for name, wants in (("include_paths", True), ("exclude_paths", False)):
        patterns = []
        for topic in list(dict.fromkeys(topics[wants]))[:MAX_TOPICS]:
            if endings := [x for word in topic if (x := _FILES.get(stem(word)))]:
                patterns.append(rf"(?i)\.(?:{endings[0]})$")
            elif found := _find(topic, stems):
                for path in found:
                    dated = _year_pattern(path, years[wants], paths) if wants else ""
                    patterns.append(dated or f"^{re.escape(path)}(?:/|$)")
                    lacks_years |= wants and bool(years[wants]) and not dated
                    if wants and not f"{path}/".startswith(folder):
                        values["crawl_entire_domain"] = True
            elif all(stem(word) in _GROUPS for word in topic) and not (wants and paths):
                patterns.append(_usual_pattern(topic))
            else:
                unclear.append(" ".join(topic))
        if years[wants] and not (wants and patterns):
            dated = _year_pattern("", years[wants], paths if wants else ())
            patterns += [dated] if dated else []
            lacks_years |= not dated
        if patterns:
            values[name] = patterns[:MAX_PATTERNS]
    warnings = []
    if unclear:
        names = ", ".join(f"{name[:60]!r}" for name in unclear[:MAX_UNCLEAR])
        warnings.append(f"Nothing {'on the site ' * bool(paths)}was found for {names}.")
    if lacks_years:
        warnings.append("The URLs of the site do not contain the requested years.")
    return values, tuple(warnings)


def _stems_of_paths(paths: Sequence[str]) -> PathStemsT:
    """Return the paths and the folders above them, each with its stems."""
    stems: PathStemsT = {}
    for path in paths:
        parts = tuple(part for part in path.split("/") if part)[:MAX_SEGMENTS]
        names: frozenset[str] = frozenset()
        for count, part in enumerate(parts, 1):
            last = _stems(part)
            names |= last
            stems[parts[:count]] = (names, last)
    return stems


def _find(topic: TopicT, stems: PathStemsT) -> list[str]:
    """Return the paths that fit a topic best, without paths below each other."""
    if topic[0].startswith("/"):
        return [topic[0].rstrip("*/")]
    words = [_meanings(word) for word in topic]
    meant = frozenset().union(*words)
    fits = {
        path: (sum(not word.isdisjoint(names) for word in words), last <= meant)
        for path, (names, last) in stems.items()
        if not meant.isdisjoint(last)
    }
    best = max(fits.values(), default=None)
    found = dict.fromkeys(path for path, fit in fits.items() if fit == best)
    kept = [x for x in found if not any(x[:n] in found for n in range(1, len(x)))]
    return ["/" + "/".join(path) for path in kept[:MAX_PATHS]]


def _stems(segment: str) -> frozenset[str]:
    words = _WORD.findall(unquote(segment).lower())
    return frozenset(stem(word) for word in words if word not in _ENDINGS)


def _year_pattern(path: str, years: set[int], paths: Sequence[str]) -> str:
    """Return the pattern of the years below a path.

    It is empty without years, and if none of the known ``paths`` matches it.
    """
    names = "|".join(map(str, sorted(years)))
    head = f"^{re.escape(path)}/(?:.*[/_-])?" if path else r"[/_-]"
    pattern = re.compile(f"{head}(?:{names})(?:[/_.-]|$)")
    fits = bool(years) and (not paths or any(map(pattern.search, paths)))
    return pattern.pattern if fits else ""


def _usual_pattern(topic: TopicT) -> str:
    parts = []
    for word in topic:
        # A short name such as "t" has no endings.
        names = [re.escape(n) + "[a-z]*" * (len(n) > 2) for n in _meanings(word)]
        parts.append("|".join(sorted(names)))
    joined = r"[^/]*[/_-]".join(f"(?:{part})" for part in parts)
    return f"(?:^|/){joined}(?:[/_.-]|$)"
