"""The kinds of jobs: who runs them, and the names that callers see."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from scraper_service.options.crawl import BatchOptions, CrawlOptions
from scraper_service.options.extraction import (
    AgentOptions,
    ExtractOptions,
    LlmsTextOptions,
    ResearchOptions,
)

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


@frozen
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
