"""The report of a job beside what the service knows and allows at this moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from attrs import frozen

from scraper_service.storage.politeness.crawl_reports import JobReport
from scraper_service.storage.politeness.host_turns import MAX_CRAWL_DELAY_S
from scraper_service.storage.politeness.hosts import MAX_PAUSE_S, HostReport
from scraper_service.storage.politeness.pace import HostPace

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


@frozen
class Report:
    """The report of a job, and the limits of the service.

    ``pace`` returns how this process asks a host now, for all jobs.
    """

    facts: JobReport
    pace: Callable[[str], HostReport]
    host_concurrency: int
    job_concurrency: int
    user_agent: str
    max_crawl_delay_s: float = MAX_CRAWL_DELAY_S
    max_pause_s: float = MAX_PAUSE_S

    @classmethod
    def within(cls, settings: BaseSettings, facts: JobReport) -> Self:
        """Return the report of a job of this service."""
        return cls(
            facts,
            HostPace.shared(settings).report,
            settings.getint("HOST_CONCURRENCY"),
            settings.getint("JOB_CONCURRENCY"),
            str(settings["USER_AGENT"]),
        )
