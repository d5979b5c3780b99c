"""Adds URLs of the model of the web to a job, as if its earlier pages had led to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

from scraper_service.storage.jobs.job_records import RowState
from tools.bench.scale_worker import HOSTS

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from scraper_service.storage.database import Database

SLICE = 200_000  # URLs of one transaction, which may not take long

# Hosts have a power law, as in ``url_of``. The URLs are claimed in the order of their rows.
_ADD = text(
    "INSERT INTO frontier (job_number, key, url, depth, state, found_on)"
    " SELECT number, n, 'http://host-' || floor(power(:hosts, random()))::int"
    " || '.example/section/a-usual-address-' || n, 1, :state, 1"
    " FROM job, generate_series(CAST(:first AS int), CAST(:last AS int)) AS n WHERE job.id = :job"
)
_COUNT = text("UPDATE job SET open = open + :count WHERE id = :job")


def add_known(database: Database, job_id: str, count: int) -> None:
    """Add the first ``count`` URLs of the model to a job, all of them pending."""
    for first in range(1, count + 1, SLICE):
        database.write_at_once(_add, job_id, first, min(first + SLICE - 1, count))


def _add(connection: Connection, job_id: str, first: int, last: int) -> None:
    values = {"first": first, "last": last, "hosts": HOSTS, "job": job_id}
    connection.execute(_ADD, {**values, "state": int(RowState.PENDING)})
    connection.execute(_COUNT, {"job": job_id, "count": last - first + 1})
