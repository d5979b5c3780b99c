"""Turns the topics of a prompt into patterns of the paths of a site."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from scraper_service.discovery.crawl_prompt.topics import parse_prompt
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.discovery.crawl_prompt.topics import TopicT

#: The stems of a path and those of its last segment, by its segments.
PlacesT: TypeAlias = dict[tuple[str, ...], tuple[frozenset[str], frozenset[str]]]

MAX_TOPICS = 40
MAX_SEGMENTS = 5  # segments of a path that are compared
MAX_PLACES = 12  # paths per topic
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


def derive(
    prompt: str, url: str, known: Sequence[bytes]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return options and warnings; see :func:`scraper_service.discovery.crawl_prompt.options_from_prompt`."""
    start = url_parts(url)
    folder = start.path.rstrip("/")
    values, topics, years = parse_prompt(prompt, start.hostname or "")
    paths = [url_parts(u).path for rows in known for u in json.loads(b"[%s]" % rows)]
    places = _places(paths)
    unclear: list[str] = []
    lacks_years = False
    for name, wants in (("include_paths", True), ("exclude_paths", False)):
        patterns = []
        for topic in list(dict.fromkeys(topics[wants]))[:MAX_TOPICS]:
            if endings := [x for word in topic if (x := _FILES.get(stem(word)))]:
                patterns.append(rf"(?i)\.(?:{endings[0]})$")
            elif found := _find(topic, places):
                for place in found:
                    dated = _year_pattern(place, years[wants], paths) if wants else ""
                    patterns.append(dated or f"^{re.escape(place)}(?:/|$)")
                    lacks_years |= wants and bool(years[wants]) and not dated
                    if wants and not f"{place}/".startswith(folder):
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


def _places(paths: Sequence[str]) -> PlacesT:
    """Return the paths and the folders above them, each with its stems."""
    places: PlacesT = {}
    for path in paths:
        parts = tuple(part for part in path.split("/") if part)[:MAX_SEGMENTS]
        names: frozenset[str] = frozenset()
        for count, part in enumerate(parts, 1):
            last = _stems(part)
            names |= last
            places[parts[:count]] = (names, last)
    return places


def _find(topic: TopicT, places: PlacesT) -> list[str]:
    """Return the paths that fit a topic best, without paths below each other."""
    if topic[0].startswith("/"):
        return [topic[0].rstrip("*/")]
    words = [_meanings(word) for word in topic]
    said = frozenset().union(*words)
    fits = {
        place: (sum(not word.isdisjoint(names) for word in words), last <= said)
        for place, (names, last) in places.items()
        if not said.isdisjoint(last)
    }
    best = max(fits.values(), default=None)
    found = dict.fromkeys(place for place, fit in fits.items() if fit == best)
    kept = [x for x in found if not any(x[:n] in found for n in range(1, len(x)))]
    return ["/" + "/".join(place) for place in kept[:MAX_PLACES]]


def _stems(segment: str) -> frozenset[str]:
    words = _WORD.findall(unquote(segment).lower())
    return frozenset(stem(word) for word in words if word not in _ENDINGS)


def _year_pattern(place: str, years: set[int], paths: Sequence[str]) -> str:
    """Return the pattern of the years below a place.

    It is empty without years, and if none of the known ``paths`` matches it.
    """
    names = "|".join(map(str, sorted(years)))
    head = f"^{re.escape(place)}/(?:.*[/_-])?" if place else r"[/_-]"
    pattern = re.compile(f"{head}(?:{names})(?:[/_.-]|$)")
    fits = bool(years) and (not paths or any(map(pattern.search, paths)))
    return pattern.pattern if fits else ""


def _usual_pattern(topic: TopicT) -> str:
    """Return the pattern of the usual path names of a topic."""
    parts = []
    for word in topic:
        # A short name such as "t" has no endings.
        names = [re.escape(n) + "[a-z]*" * (len(n) > 2) for n in _meanings(word)]
        parts.append("|".join(sorted(names)))
    joined = r"[^/]*[/_-]".join(f"(?:{part})" for part in parts)
    return f"(?:^|/){joined}(?:[/_.-]|$)"
