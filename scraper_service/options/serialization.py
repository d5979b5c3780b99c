"""The kinds of jobs, and options of every kind as JSON values, for the job database and scrapyd.

Only the service writes these values, so that errors name no path.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import attrs
import cattrs
from cattrs.strategies import configure_tagged_union

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options.actions import Action
from scraper_service.options.crawl import (
    BatchOptions,
    CrawlOptions,
    PageOptions,
)
from scraper_service.options.extraction import (
    AgentOptions,
    ExtractOptions,
    LlmsTextOptions,
    ResearchOptions,
)
from scraper_service.options.formats import Format
from scraper_service.options.parsing import short
from scraper_service.options.scrape import Parser, ScrapeOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

OptionsT: TypeAlias = PageOptions | CrawlOptions | BatchOptions

# What a process takes of the work of all teams, each with a limit of its own.
JOBS = "jobs"  # crawls and batches
OPERATIONS = "operations"  # extract, agent, deep research and llms.txt jobs
CHECKS = "checks"  # of monitors
#: The settings with the most jobs of a process.
LIMITS = {
    JOBS: "MAX_RUNNING_JOBS",
    OPERATIONS: "MAX_RUNNING_OPERATIONS",
    CHECKS: "MONITOR_CONCURRENCY",
}


@attrs.frozen
class JobKind:
    """A kind of jobs."""

    #: In the database.
    name: str
    #: A key of :data:`LIMITS`. Spiders run :data:`JOBS`, in any number of processes. A
    #: coroutine runs another job, in one process at a time.
    work: str
    #: The class of its options, None for a check, whose options are those of its monitor.
    options: Any
    #: In the activity, and before the dot in the types of webhook events.
    endpoint: str
    #: In lists of jobs.
    listed: str


#: By :attr:`JobKind.name`.
KINDS = {
    name: JobKind(name, *facts)
    for name, *facts in (
        ("crawl", JOBS, CrawlOptions, "crawl", "crawl"),
        ("batch", JOBS, BatchOptions, "batch_scrape", "batch_scrape"),
        ("extract", OPERATIONS, ExtractOptions, "extract", "extract"),
        ("llmstxt", OPERATIONS, LlmsTextOptions, "llmstxt", "llmstxt"),
        (
            "deep_research",
            OPERATIONS,
            ResearchOptions,
            "deep_research",
            "deep_research",
        ),
        ("agent", OPERATIONS, AgentOptions, "agent", "agent"),
        ("monitor_check", CHECKS, None, "monitor", "monitor_check"),
    )
}
MONITOR_CHECK = "monitor_check"


def kinds_of(*work: str) -> tuple[str, ...]:
    """Return the names of the kinds of some work."""
    return tuple(name for name, kind in KINDS.items() if kind.work in work)


CRAWLED = kinds_of(JOBS)

_UNIONS: dict[str, Any] = {"formats": Format, "actions": Action, "parsers": Parser}


def unstructure(options: object) -> dict[str, Any]:
    """Return ``options`` of any kind as JSON values."""
    result: dict[str, Any] = _converter().unstructure(options)
    return result


def structure(value: Any, kind: type[T]) -> T:
    """Return the options of ``kind`` from JSON values.

    :raises InvalidOptions: for unknown keys, missing keys and wrong values.
    """
    try:
        return _converter().structure(value, kind)
    except (
        cattrs.ForbiddenExtraKeysError,
        ValueError,
        TypeError,
        LookupError,
    ) as error:
        raise InvalidOptions([Issue("custom", (), f"{error!r:.300}")]) from error


#: The options that change what a browser shows, without the URL.
REPLAYED = (
    *("headers", "location", "mobile", "wait_for_ms", "actions", "session", "profile"),
    *("block_ads", "skip_tls_verification", "site_rules"),
)


def replay_to_json(options: PageOptions, usual: ScrapeOptions) -> dict[str, Any]:
    """Return what opens a page again in a browser, as JSON values.

    ``scrape`` is left out if all that matters is as in ``usual``.
    """
    scrape = options.scrape
    if all(getattr(scrape, name) == getattr(usual, name) for name in REPLAYED):
        return {"url": options.url}
    formats: dict[str, Any] = {"formats": ()}
    return {
        "url": options.url,
        "scrape": unstructure(attrs.evolve(scrape, **formats)),
    }


def replay_from_json(value: Mapping[str, Any], usual: ScrapeOptions) -> PageOptions:
    """Return the page from the JSON values of :func:`replay_to_json`."""
    found = value.get("scrape")
    scrape = usual if found is None else structure(found, ScrapeOptions)
    return PageOptions(url=value["url"], scrape=scrape)


def options_from_json(kind: str, value: Mapping[str, Any]) -> Any:
    """Return options from the JSON values of :func:`unstructure`.

    ``kind`` is a key of :data:`KINDS`, or ``scrape`` for those of a page.

    :raises InvalidOptions: for unknown keys, missing keys and wrong values.
    """
    found: type[Any] = PageOptions if kind == "scrape" else KINDS[kind].options
    return structure(value, found)


@functools.cache
def _converter() -> cattrs.Converter:
    """Return a converter that converts no types and refuses unknown keys."""
    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=False)
    for kind in (bool, int, float, str):
        converter.register_structure_hook(kind, _exactly)
    for union in _UNIONS.values():
        configure_tagged_union(union, converter, tag_generator=_tag, tag_name="type")
    return converter


def _tag(kind: Any) -> str:
    return str(kind.type)


def _exactly(value: Any, kind: Any) -> Any:
    accepted = {int, float} if kind is float else {kind}
    if type(value) not in accepted:
        raise TypeError(f"must be of type {kind.__name__}, got {short(value)}")
    return value
