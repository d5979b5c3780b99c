"""From a sentence and what is known of a site to options of a crawl."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from attrs import define, field

from scraper_service.discovery.crawl_prompt.places import (
    Site,
    at,
    file_pattern,
    is_common,
    usual,
    year_pattern,
)
from scraper_service.discovery.crawl_prompt.reading import Wish, read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.discovery.crawl_prompt.reading import Topic

MAX_PATTERNS = 50  # of one list
MAX_UNCLEAR = 3  # that a warning tells of

NO_YEARS = "The addresses of the site do not tell the years that were asked for."


def made(
    prompt: str, url: str, known: Sequence[bytes]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return options and warnings; see :func:`scraper_service.discovery.crawl_prompt.entry.derived`."""
    parts = urlsplit(url)
    wish = read(prompt, parts.hostname or "")
    making = _Making(Site(_paths(known, parts.netloc)), wish)
    values = dict(wish.values)
    if includes := making.includes():
        values["include_paths"] = includes[:MAX_PATTERNS]
    if excludes := making.excludes():
        values["exclude_paths"] = excludes[:MAX_PATTERNS]
    start = parts.path.rstrip("/")
    if start and any(not f"{place}/".startswith(start) for place in making.included):
        values["crawl_entire_domain"] = True
    return values, tuple(making.warnings())


def _paths(known: Sequence[bytes], host: str) -> list[str]:
    found = []
    for rows in known:
        for address in json.loads(b"[%s]" % rows):
            parts = urlsplit(address)
            if _plain(parts.netloc) == _plain(host) and parts.path not in {"", "/"}:
                found.append(parts.path)
    return found


def _plain(host: str) -> str:
    return host.lower().removeprefix("www.")


@define
class _Making:
    site: Site
    wish: Wish
    included: list[str] = field(factory=list)
    unclear: list[str] = field(factory=list)
    _lacks_years: bool = False

    def includes(self) -> list[str]:
        patterns: list[str] = []
        years = self.wish.years
        for topic in self.wish.wanted:
            if pattern := file_pattern(topic):
                patterns.append(pattern)
                continue
            places = self._places(topic)
            self.included += places
            patterns += [self._dated(place) for place in places]
            if not places and not self.site.paths and is_common(topic):
                patterns.append(usual(topic))
            elif not places:
                self.unclear.append(topic.text)
        if years and not patterns:
            if not self.site.paths or self.site.has_year("", years):
                patterns.append(year_pattern("", years))
            else:
                self._lacks_years = True
        return patterns

    def _dated(self, place: str) -> str:
        """Return the pattern of a place, of the years wanted if there are any."""
        years = self.wish.years
        if not years:
            return at(place)
        if self.site.has_year(place, years):
            return year_pattern(place, years)
        self._lacks_years = True
        return at(place)

    def excludes(self) -> list[str]:
        patterns: list[str] = []
        for topic in self.wish.unwanted:
            if pattern := file_pattern(topic):
                patterns.append(pattern)
            elif places := self._places(topic):
                patterns += [at(place) for place in places]
            elif not self.site.paths or is_common(topic):
                patterns.append(usual(topic))
            else:
                self.unclear.append(topic.text)
        if years := self.wish.other_years:
            patterns.append(year_pattern("", years))
        return patterns

    def _places(self, topic: Topic) -> list[str]:
        if topic.path is not None:
            return (
                [topic.path.rstrip("*").rstrip("/")] if topic.path.strip("*/") else []
            )
        return self.site.places(topic)

    def warnings(self) -> list[str]:
        found = []
        if self.unclear:
            names = ", ".join(f"{name[:60]!r}" for name in self.unclear[:MAX_UNCLEAR])
            where = "on the site " if self.site.paths else ""
            found.append(f"Nothing {where}was found for {names}.")
        if self._lacks_years:
            found.append(NO_YEARS)
        return found
