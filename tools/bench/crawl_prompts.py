"""Compare crawl prompts by their options and by the pages that they allow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scraper_service.discovery.crawl_prompt import options_from_prompt
from scraper_service.options import v2_requests as requests
from scraper_service.options.urls import Patterns
from tools.bench.crawl_prompt_cases import SITES

if TYPE_CHECKING:
    from tools.bench.crawl_prompt_cases import Sentence

URL = "https://site.example/"


def outcome(case: Sentence) -> dict[str, Any]:
    """Return the options from the rules, and the pages that these options allow."""
    paths = [] if case.site == "away" else SITES[case.site].split()
    rows = ",".join(json.dumps(URL + path[1:]) for path in paths).encode()
    found = options_from_prompt(case.text, URL, [rows] if paths else [])
    options = requests.crawl_body(found.values)
    includes = Patterns(tuple(options.pop("includePaths", ())))
    excludes = Patterns(tuple(options.pop("excludePaths", ())))
    pages = [
        path
        for path in SITES[case.site].split()
        if (not includes or includes.first_match(path))
        and not excludes.first_match(path)
    ]
    requests.crawl_options({"url": URL, **requests.crawl_body(found.values)})
    return {**options, "pages": pages}


def wanted_outcome(case: Sentence) -> dict[str, Any]:
    """Return the expected result of :func:`outcome`."""
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
