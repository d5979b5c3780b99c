"""The report of a crawl: counts of its URLs, and its requests by host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen
from sqlalchemy import Row, cast, func, select

from scraper_service.storage.frontier.page_counts import PageCounts, parse_counts
from scraper_service.storage.job_records import Job
from scraper_service.storage.jobs import job_listing, job_store
from scraper_service.storage.jobs.job_listing import SitemapCounts
from scraper_service.storage.politeness import request_counts
from scraper_service.storage.politeness.request_counts import HostCounts, RobotsRow
from scraper_service.storage.schema import job, job_host

if TYPE_CHECKING:
    from sqlalchemy import Connection


@frozen(kw_only=True)
class JobReport:
    """The report of a job at one moment."""

    job: Job
    #: Numbers of URLs by state.
    states: Mapping[str, int]
    #: Numbers of URLs by reason.
    reasons: Mapping[str, int]
    sitemaps: SitemapCounts
    #: At most :data:`request_counts.MAX_HOSTS`, those with the most refused URLs.
    robots: tuple[RobotsRow, ...]
    #: At most :data:`request_counts.MAX_HOSTS`, those with the most requests.
    hosts: Mapping[str, HostCounts]
    counts: PageCounts
    #: Sums over all hosts: ``hosts``, ``requests``, ``bytes`` and ``wait_s``.
    totals: Row[Any]
    #: Numbers of the Scrapy stats of its crawlers, by name.
    stats: Mapping[str, float]


def read_report(connection: Connection, job_id: str, team_id: str) -> JobReport | None:
    """Return the report of a job, None if the team has no such job."""
    found = job_store.get_job(connection, job_id, team_id)
    if found is None:
        return None
    states, reasons, sitemaps = job_listing.count_by_state(connection, job_id)
    return JobReport(
        job=found,
        states=states,
        reasons=reasons,
        sitemaps=sitemaps,
        robots=request_counts.read_robots(connection, job_id),
        hosts=request_counts.read_hosts(connection, job_id),
        counts=parse_counts(
            connection.scalar(select(job.c.page_counts).where(job.c.id == job_id))
        ),
        totals=_totals(connection, job_id),
        stats=request_counts.read_stats(connection, job_id),
    )


def _totals(connection: Connection, job_id: str) -> Row[Any]:
    columns = job_host.c
    sums = (
        # PostgreSQL sums large integers as decimals.
        func.coalesce(cast(func.sum(column), column.type), 0).label(column.name)
        for column in (columns.requests, columns.bytes, columns.wait_s)
    )
    query = select(func.count().label("hosts"), *sums).where(columns.job_id == job_id)
    return connection.execute(query).one()
