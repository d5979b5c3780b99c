"""The report of a job: what became of its addresses, and what its hosts were asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import frozen
from sqlalchemy import func, select

from scraper_service.storage import job_listing, jobs
from scraper_service.storage.job_listing import SitemapCounts
from scraper_service.storage.job_records import Job
from scraper_service.storage.politeness import tally_rows
from scraper_service.storage.politeness.tally import HostCounts
from scraper_service.storage.politeness.tally_rows import RobotsRow
from scraper_service.storage.schema import job_host

if TYPE_CHECKING:
    from sqlalchemy import Connection


@frozen
class Totals:
    """Of all hosts of a job."""

    hosts: int
    requests: int
    bytes: int
    wait_s: float


@frozen(kw_only=True)
class JobReport:
    """What a job did, of one moment.

    ``states`` and ``reasons`` count its addresses. ``hosts`` and ``robots`` are at most
    :data:`tally_rows.MAX_HOSTS` each, those that were asked or refused most.
    """

    job: Job
    states: Mapping[str, int]
    reasons: Mapping[str, int]
    sitemaps: SitemapCounts
    robots: tuple[RobotsRow, ...]
    hosts: Mapping[str, HostCounts]
    totals: Totals


def read_report(connection: Connection, job_id: str, team_id: str) -> JobReport | None:
    """Return the report of a job, None if the team has no such job."""
    found = jobs.get_job(connection, job_id, team_id)
    if found is None:
        return None
    states, reasons, sitemaps = job_listing.count_addresses(connection, job_id)
    return JobReport(
        job=found,
        states=states,
        reasons=reasons,
        sitemaps=sitemaps,
        robots=tally_rows.read_robots(connection, job_id),
        hosts=tally_rows.read_hosts(connection, job_id),
        totals=_totals(connection, job_id),
    )


def _totals(connection: Connection, job_id: str) -> Totals:
    columns = job_host.c
    row = connection.execute(
        select(
            func.count(),
            func.sum(columns.requests),
            func.sum(columns.bytes),
            func.sum(columns.wait_s),
        ).where(columns.job_id == job_id)
    ).one()
    # PostgreSQL adds up large integers as decimals; the sum of no row is NULL.
    return Totals(row[0], int(row[1] or 0), int(row[2] or 0), float(row[3] or 0))
