"""How sentences are judged: by the options, and by which pages of a site they let in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scraper_service.api.v2 import requests
from scraper_service.discovery.crawl_prompt import derived
from scraper_service.options.patterns import Patterns
from tests.support.sentences import SITES

if TYPE_CHECKING:
    from tests.support.sentences import Sentence

URL = "https://site.example/"


def outcome(case: Sentence) -> dict[str, Any]:
    """Return the options that the rules find, and the pages that they let in."""
    paths = [] if case.site == "away" else SITES[case.site].split()
    rows = ",".join(json.dumps(URL + path[1:]) for path in paths).encode()
    found = derived(case.text, URL, [rows] if paths else [])
    options = requests.derived_fields(found.values)
    includes = Patterns(tuple(options.pop("includePaths", ())))
    excludes = Patterns(tuple(options.pop("excludePaths", ())))
    pages = [
        path
        for path in SITES[case.site].split()
        if (not includes or includes.found_in(path)) and not excludes.found_in(path)
    ]
    requests.crawl_options({"url": URL, **requests.derived_fields(found.values)})
    return {**options, "pages": pages}


def wanted_outcome(case: Sentence) -> dict[str, Any]:
    """Return what :func:`outcome` should be."""
    options = dict(case.wanted)
    includes, excludes = options.pop("include", None), options.pop("exclude", [])
    pages = [
        path
        for path in SITES[case.site].split()
        if (includes is None or _is_at(path, includes)) and not _is_at(path, excludes)
    ]
    return {**options, "pages": pages}


def _is_at(path: str, places: list[str]) -> bool:
    return any(
        path.endswith(place[1:])
        if place.startswith("*")
        else path == place or path.startswith(f"{place}/")
        for place in places
    )
