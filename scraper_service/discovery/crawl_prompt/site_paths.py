"""Turns the topics of a prompt into patterns of the paths of a site."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from attrs import define, field

from scraper_service.discovery.crawl_prompt.topics import ParsedPrompt, parse_prompt

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from scraper_service.discovery.crawl_prompt.topics import TopicT

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
    start = urlsplit(url)
    parsed = parse_prompt(prompt, start.hostname or "")
    patterns = _Patterns(
        parsed,
        [urlsplit(u).path for rows in known for u in json.loads(b"[%s]" % rows)],
    )
    values = parsed.values
    for name, wants in (("include_paths", True), ("exclude_paths", False)):
        if found := patterns.of(wants=wants):
            values[name] = found[:MAX_PATTERNS]
    folder = start.path.rstrip("/")
    if any(not f"{place}/".startswith(folder) for place in patterns.included):
        values["crawl_entire_domain"] = True
    return values, tuple(patterns.warnings())


@define
class _Patterns:
    """The patterns of a prompt for the known paths of a site, percent-encoded."""

    parsed: ParsedPrompt
    paths: Sequence[str]
    #: The paths of the requested topics.
    included: list[str] = field(factory=list)
    #: The topics without a path.
    unclear: list[str] = field(factory=list)
    lacks_years: bool = False
    #: The stems of each segment of the known paths and of the folders above them.
    _places: dict[tuple[str, ...], tuple[frozenset[str], ...]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for path in self.paths:
            parts = tuple(part for part in path.split("/") if part)[:MAX_SEGMENTS]
            for count in range(1, len(parts) + 1):
                if (place := parts[:count]) not in self._places:
                    above = self._places.get(place[:-1], ())
                    self._places[place] = (*above, _stems(place[-1]))

    def of(self, *, wants: bool) -> list[str]:
        """Return the patterns of the requested or of the excluded topics and years."""
        patterns = []
        years = self.parsed.years[wants]
        for topic in self.parsed.topics[wants]:
            is_usual = all(stem(word) in _GROUPS for word in topic)
            if endings := [
                _FILES[stem(word)] for word in topic if stem(word) in _FILES
            ]:
                patterns.append(rf"(?i)\.(?:{endings[0]})$")
            elif places := self._find(topic):
                self.included += places if wants else ()
                patterns += [self._below(x, years if wants else ()) for x in places]
            elif is_usual and not (wants and self.paths):
                patterns.append(_usual_pattern(topic))
            else:
                self.unclear.append(" ".join(topic))
        if years and not (wants and patterns):
            if wants and self.paths and not self._has_year("", years):
                self.lacks_years = True
            else:
                patterns.append(_year_pattern("", years))
        return patterns

    def warnings(self) -> Iterator[str]:
        if self.unclear:
            names = ", ".join(f"{name[:60]!r}" for name in self.unclear[:MAX_UNCLEAR])
            where = "on the site " if self.paths else ""
            yield f"Nothing {where}was found for {names}."
        if self.lacks_years:
            yield "The URLs of the site do not contain the requested years."

    def _below(self, place: str, years: Collection[int]) -> str:
        """Return the pattern of a place, limited to ``years`` if its paths have them."""
        if years and self._has_year(place, years):
            return _year_pattern(place, years)
        self.lacks_years |= bool(years)
        return f"^{re.escape(place)}(?:/|$)"

    def _has_year(self, place: str, years: Collection[int]) -> bool:
        pattern = re.compile(_year_pattern(place, years))
        return any(pattern.search(path) for path in self.paths)

    def _find(self, topic: TopicT) -> list[str]:
        """Return the paths that fit a topic best, without paths below each other."""
        if topic[0].startswith("/"):
            return [topic[0].rstrip("*/")]
        words = [_meanings(word) for word in topic]
        said = frozenset().union(*words)
        best: tuple[int, bool] = (1, False)
        found: list[tuple[str, ...]] = []
        for place, names in self._places.items():
            if said.isdisjoint(names[-1]):
                continue
            here = frozenset().union(*names)
            fit = (sum(bool(word & here) for word in words), names[-1] <= said)
            if fit > best:
                best, found = fit, []
            if fit == best:
                found.append(place)
        outer = set(found)
        kept = [x for x in found if not any(x[:n] in outer for n in range(1, len(x)))]
        return ["/" + "/".join(place) for place in kept[:MAX_PLACES]]


def _stems(segment: str) -> frozenset[str]:
    words = _WORD.findall(unquote(segment).lower())
    return frozenset(stem(word) for word in words if word not in _ENDINGS)


def _year_pattern(place: str, years: Collection[int]) -> str:
    names = "|".join(map(str, sorted(years)))
    head = f"^{re.escape(place)}/(?:.*[/_-])?" if place else r"[/_-]"
    return f"{head}(?:{names})(?:[/_.-]|$)"


def _usual_pattern(topic: TopicT) -> str:
    """Return the pattern of the usual path names of a topic."""
    parts = []
    for word in topic:
        # A short name such as "t" has no endings.
        names = [re.escape(n) + "[a-z]*" * (len(n) > 2) for n in _meanings(word)]
        parts.append("|".join(sorted(names)))
    joined = r"[^/]*[/_-]".join(f"(?:{part})" for part in parts)
    return f"(?:^|/){joined}(?:[/_.-]|$)"
