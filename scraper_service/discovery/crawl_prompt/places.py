"""Where on a site a topic lives: its own paths, or what paths are usually called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from attrs import define, field

from scraper_service.discovery.crawl_prompt.vocabulary import (
    FILES,
    GROUPS,
    meanings,
    stem,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.discovery.crawl_prompt.reading import Topic

MAX_SEGMENTS = 5  # of a path, that are looked at
MAX_PLACES = 12  # that one topic may have

_ENDINGS = frozenset("html htm php asp aspx jsp md".split())
_WORD = re.compile(r"[^\W_]+")


@define
class Site:
    """The places of a site: every path that is known, and every folder above one.

    ``paths`` are as in addresses, percent-encoded; none where nothing is known.
    """

    paths: Sequence[str]
    _places: dict[tuple[str, ...], tuple[frozenset[str], ...]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._places = {}
        for path in self.paths:
            parts = tuple(part for part in path.split("/") if part)[:MAX_SEGMENTS]
            for count in range(1, len(parts) + 1):
                if (place := parts[:count]) not in self._places:
                    above = self._places[place[:-1]] if count > 1 else ()
                    self._places[place] = (*above, _stems(place[-1]))

    def places(self, topic: Topic) -> list[str]:
        """Return the paths that fit a topic best, none below another of them."""
        words = [meanings(word) for word in topic.words]
        best: tuple[int, bool] = (1, False)
        found: list[tuple[str, ...]] = []
        for place, names in self._places.items():
            here = [bool(word & names[-1]) for word in words]
            if not any(here):
                continue
            above = frozenset().union(*names[:-1])
            covered = sum(
                near or bool(word & above)
                for near, word in zip(here, words, strict=True)
            )
            said = frozenset().union(*words)
            fit = (covered, names[-1] <= said)
            if fit > best:
                best, found = fit, []
            if fit == best:
                found.append(place)
        outer = set(found)
        kept = [
            place
            for place in found
            if not any(place[:count] in outer for count in range(1, len(place)))
        ]
        return ["/" + "/".join(place) for place in kept[:MAX_PLACES]]

    def has_year(self, place: str, years: Iterable[int]) -> bool:
        """Tell whether an address at or below ``place`` has one of these years."""
        pattern = re.compile(year_pattern(place, years))
        return any(pattern.search(path) for path in self.paths)


def at(path: str) -> str:
    """Return the pattern of a path with all below it."""
    return f"^{re.escape(path.rstrip('/*'))}(?:/|$)"


def year_pattern(place: str, years: Iterable[int]) -> str:
    """Return the pattern of addresses at or below a path that have a year in it."""
    names = _span(sorted(years))
    head = f"^{re.escape(place.rstrip('/'))}/(?:.*[/_-])?" if place else r"[/_-]"
    return f"{head}(?:{names})(?:[/_.-]|$)"


def _span(years: list[int]) -> str:
    return "|".join(map(str, years))


def file_pattern(topic: Topic) -> str | None:
    """Return the pattern of a kind of files, None if the topic is none."""
    endings = [FILES[stem(word)] for word in topic.words if stem(word) in FILES]
    return rf"(?i)\.(?:{endings[0]})$" if endings else None


def is_common(topic: Topic) -> bool:
    """Tell whether sites have places of this name."""
    return bool(topic.words) and all(stem(word) in GROUPS for word in topic.words)


def usual(topic: Topic) -> str:
    """Return the pattern of what places of a topic are usually called."""
    parts = []
    for word in topic.words:
        names = sorted(meanings(word))
        longer = [f"{re.escape(name)}[a-z]*" for name in names if len(name) > 2]
        parts.append("|".join([*longer, *(re.escape(n) for n in names if len(n) <= 2)]))
    joined = r"[^/]*[/_-]".join(f"(?:{part})" for part in parts)
    return f"(?:^|/){joined}(?:[/_.-]|$)"


def _stems(segment: str) -> frozenset[str]:
    words = _WORD.findall(unquote(segment).lower())
    return frozenset(stem(word) for word in words if word not in _ENDINGS)
