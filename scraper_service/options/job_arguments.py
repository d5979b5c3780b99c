"""Spider arguments of jobs to options, and options of every kind to JSON and back.

``-a url=... -a limit=50 -a delay_s=1`` asks for a crawl, ``-a urls=http://a.com,b.com``
for a batch, ``-a url=... -a search=price`` for a map; all arguments of a page are
allowed beside them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import evolve

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options import urls
from scraper_service.options.arguments import (
    flag,
    options_of,
    read_arguments,
    selectors,
    whole,
    whole_or_none,
)
from scraper_service.options.converter import structured, unstructured
from scraper_service.options.jobs import (
    MAX_BATCH_URLS,
    MAX_DELAY_S,
    MAX_MAP_LIMIT,
    MAX_SEARCH,
    SITEMAP_MODES,
    BatchOptions,
    CrawlOptions,
    MapOptions,
    PageOptions,
    Webhook,
)
from scraper_service.options.patterns import caller_patterns
from scraper_service.options.scrape import ScrapeOptions
from scraper_service.options.structure import short

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.options.arguments import ReadersT

OptionsT: TypeAlias = PageOptions | CrawlOptions | BatchOptions

# By the name of the spider, which is the kind of the job.
KINDS: Mapping[str, type[OptionsT]] = {
    "scrape": PageOptions,
    "crawl": CrawlOptions,
    "batch": BatchOptions,
}

CRAWL_DEFAULTS: Mapping[str, Any] = {
    "limit": 10_000,
    "max_discovery_depth": None,
    "delay_s": None,
    "max_concurrency": None,
    "crawl_entire_domain": False,
    "allow_subdomains": False,
    "allow_external_links": False,
    "include_paths": (),
    "exclude_paths": (),
    "regex_on_full_url": False,
    "ignore_robots_txt": False,
    "robots_user_agent": None,
    "sitemap": "include",
    "deduplicate_similar_urls": True,
    "ignore_query_parameters": False,
    "max_path_depth": None,
    "prompt": None,
    "dedupe_boilerplate": False,
    "webhook": None,
}
BATCH_DEFAULTS: Mapping[str, Any] = {
    "max_concurrency": None,
    "dedupe_boilerplate": False,
    "webhook": None,
}
MAP_DEFAULTS: Mapping[str, Any] = {
    "search": "",
    "limit": 5000,
    "sitemap": "include",
    "include_subdomains": True,
    "ignore_query_parameters": True,
    "filter_by_path": True,
    "include_paths": (),
    "exclude_paths": (),
    "regex_on_full_url": False,
}


def crawl_options(arguments: Mapping[str, str]) -> CrawlOptions:
    """Return the options of a crawl that spider arguments ask for.

    :raises InvalidOptions: with paths that start with the name of the argument.
    """
    values = read_arguments(arguments, _CRAWL_READERS, "url")
    return options_of(CrawlOptions, {**CRAWL_DEFAULTS, **values})


def batch_options(arguments: Mapping[str, str]) -> BatchOptions:
    """Return the options of a batch that spider arguments ask for.

    ``urls`` are separated by commas or white space; ``@name`` stands for the lines of
    a file in UTF-8, where a comma belongs to the address.

    :raises InvalidOptions: with paths that start with the name of the argument.
    """
    values = read_arguments(arguments, _BATCH_READERS, "urls")
    return options_of(BatchOptions, {**BATCH_DEFAULTS, **values})


def map_options(arguments: Mapping[str, str]) -> MapOptions:
    """Return the options of a map that spider arguments ask for.

    :raises InvalidOptions: with paths that start with the name of the argument.
    """
    values = read_arguments(arguments, _MAP_READERS, "url")
    options = options_of(MapOptions, {**MAP_DEFAULTS, **values})
    return evolve(options, scrape=evolve(options.scrape, formats=()))


def options_to_json(options: OptionsT) -> dict[str, Any]:
    """Return ``options`` as JSON values, to be read by :func:`options_from_json`."""
    return unstructured(options)


def webhook_to_json(webhook: Webhook) -> dict[str, Any]:
    """Return ``webhook`` as JSON values, to be read by :func:`webhook_from_json`."""
    return unstructured(webhook)


def webhook_from_json(value: Mapping[str, Any]) -> Webhook:
    """Return the webhook that :func:`webhook_to_json` wrote."""
    return structured(value, Webhook)


def scrape_options_from_json(value: Mapping[str, Any]) -> ScrapeOptions:
    """Return the options of a page that :func:`options_to_json` wrote as ``scrape``."""
    return structured(value, ScrapeOptions)


def options_from_json(kind: str, value: Mapping[str, Any]) -> OptionsT:
    """Return the options of the ``kind`` (of :data:`KINDS`) written as ``value``.

    :raises InvalidOptions: for an unknown key, a missing one, or a wrong value.
    """
    return structured(value, KINDS[kind])


def _count(text: str) -> int:
    if (number := whole(text)) < 1:
        raise ValueError("must be >= 1, got 0")
    return number


def _map_limit(text: str) -> int:
    if (number := _count(text)) > MAX_MAP_LIMIT:
        raise ValueError(f"must be <= {MAX_MAP_LIMIT}, got {number}")
    return number


def _search(text: str) -> str:
    if len(text) > MAX_SEARCH:
        raise ValueError(f"must have at most {MAX_SEARCH} characters, got {len(text)}")
    return text


def _count_or_none(text: str) -> int | None:
    return None if text in {"", "none"} else _count(text)


def _seconds(text: str) -> float | None:
    if text in {"", "none"}:
        return None
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        raise ValueError(f"must be a number of seconds, got {short(text)}")
    if not 0 < (seconds := float(text)) <= MAX_DELAY_S:
        raise ValueError(f"must be > 0 and <= {MAX_DELAY_S}, got {short(text)}")
    return seconds


def _patterns(text: str) -> tuple[str, ...]:
    patterns = tuple(selectors(text))
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise ValueError(f"must be strings, got {short(text)}")
    return caller_patterns(patterns)


def _sitemap(text: str) -> str:
    if text not in SITEMAP_MODES:
        allowed = ", ".join(SITEMAP_MODES)
        raise ValueError(f"must be one of {allowed}, got {short(text)}")
    return text


def _webhook(text: str) -> Webhook:
    value = json.loads(text) if text.lstrip().startswith("{") else {"url": text}
    if isinstance(headers := value.get("headers"), dict):
        value = {**value, "headers": [list(pair) for pair in headers.items()]}
    webhook = structured(value, Webhook)
    urls.caller_headers(webhook.headers)
    return evolve(webhook, url=urls.caller_url(webhook.url))


def _urls(text: str) -> tuple[str, ...]:
    names = _listed(text.strip())
    if not 1 <= len(names) <= MAX_BATCH_URLS:
        text = f"must be 1 to {MAX_BATCH_URLS} addresses, got {len(names)}"
        raise ValueError(text)
    good = []
    issues = []
    for index, name in enumerate(names):
        try:
            good.append(urls.caller_url(name))
        except ValueError as error:
            issues.append(Issue("custom", (index,), str(error)))
    if issues:
        raise InvalidOptions(issues)
    return tuple(good)


def _listed(text: str) -> list[str]:
    if not text.startswith("@"):
        return [name for name in re.split(r"[\s,]+", text) if name]
    try:
        return Path(text[1:]).read_text(encoding="utf-8-sig").split()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read {short(text[1:])}: {error!s:.200}") from None


_JOB_READERS: ReadersT = {
    "max_concurrency": _count_or_none,
    "dedupe_boilerplate": flag,
    "webhook": _webhook,
}

_CRAWL_READERS: ReadersT = {
    **_JOB_READERS,
    "url": urls.caller_url,
    "limit": _count,
    "max_discovery_depth": whole_or_none,
    "delay_s": _seconds,
    "crawl_entire_domain": flag,
    "allow_subdomains": flag,
    "allow_external_links": flag,
    "include_paths": _patterns,
    "exclude_paths": _patterns,
    "regex_on_full_url": flag,
    "ignore_robots_txt": flag,
    "robots_user_agent": str,
    "sitemap": _sitemap,
    "deduplicate_similar_urls": flag,
    "ignore_query_parameters": flag,
    "max_path_depth": whole_or_none,
    "prompt": str,
}

_BATCH_READERS: ReadersT = {**_JOB_READERS, "urls": _urls}

_MAP_READERS: ReadersT = {
    "url": urls.caller_url,
    "search": _search,
    "limit": _map_limit,
    "sitemap": _sitemap,
    "include_subdomains": flag,
    "ignore_query_parameters": flag,
    "filter_by_path": flag,
    "include_paths": _patterns,
    "exclude_paths": _patterns,
    "regex_on_full_url": flag,
}
