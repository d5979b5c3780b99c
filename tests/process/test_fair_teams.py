"""Teams get equal shares of the converters, whatever their number of jobs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.crash import sqlite_of, started
from tests.support.linked_site import named
from tests.support.waiting import wait_until
from tests.support.workers import Worker

GATED_CONVERTER = Path(__file__).parents[1] / "gated_converter"
JOBS = 30  # of the first team; each of the others has one
PAGES = 30  # of each job; more than two processes lease of it
KEYS = [f"fc-share-{n}" for n in range(6)]
LONG_S = 600  # on a machine that others use, three services take long for 1,000 pages
# The processes that have leases on a job of one of the others, by job.
SPREAD = (
    "SELECT job_number, count(DISTINCT owner) FROM frontier"
    " WHERE state = 2 AND url LIKE '%-one%' GROUP BY job_number"
)


@pytest.fixture
def order(tmp_path):
    """The folder of the orders to the converters."""
    folder = tmp_path / "order"
    folder.mkdir()
    return folder


@pytest.fixture
def settings(order):
    """Settings of processes whose jobs all have to wait for converters, and for a place."""
    return {
        "SCRAPER_API_KEYS": ",".join(KEYS),
        "SCRAPER_KEY_SECRET": "the secret of all",
        "SCRAPER_ARTEFACTS": "inline",
        "SCRAPER_HOST_CONCURRENCY": "500",
        "SCRAPER_JOB_CONCURRENCY": "2",
        "SCRAPER_MAX_RUNNING_JOBS": "7",
        "SCRAPER_SHUTDOWN_TIMEOUT_S": "1",
        "SCRAPER_MARKDOWN_CONVERTER": "html2text",
        "SCRAPER_CONVERTER_TIMEOUT_S": "600",  # also of those that wait for the order
        "PYTHONPATH": str(GATED_CONVERTER),
        "CONVERSIONS": str(order),
    }


@pytest.mark.full
@pytest.mark.timeout(3 * LONG_S)
@pytest.mark.parametrize("processes", [1, 3], ids=["SQLite", "PostgreSQL"])
def test_a_team_with_thirty_jobs_gets_the_same_share_as_a_team_with_one(
    processes, settings, order, site, tmp_path, start_service, request
):
    with ExitStack() as stack:
        if processes > 1:
            settings["SCRAPER_DATABASE_URL"] = request.getfixturevalue(
                "postgres_tables"
            )()
        service = start_service(**settings)
        for n in range(1, processes):
            worker = Worker(tmp_path / f"worker{n}", **settings)
            stack.callback(worker.stop)
        url = settings.get("SCRAPER_DATABASE_URL") or sqlite_of(tmp_path)
        names = [(f"{PAGES}-many{n}", KEYS[0]) for n in range(JOBS)]
        names += [(f"{PAGES}-one{n}", key) for n, key in enumerate(KEYS[1:])]
        for name, key in names:
            start(service, site, name, key)
        wait_until(lambda: spread(url) == [processes] * 5, LONG_S)
        (order / "go").touch()
        wait_until(lambda: conversions(order, "-one") == 5 * PAGES, LONG_S)
        lines = (order / "order").read_text().split()
        # While all teams have pages left: each of the five has converted half on average.
        ones = [n for n, line in enumerate(lines) if "-one" in line]
        half = ones[len(ones) // 2]
        of_many = sum("-many" in line for line in lines[:half])
        # About as many as of each other team, and not eight to twelve times as many.
        assert of_many < 3 * PAGES // 2, of_many


def start(service, site, name, key):
    urls = [site.url(named(name).path(number)) for number in range(PAGES)]
    started(service.post("/v2/batch/scrape", {"urls": urls, "maxAge": 0}, key=key))


def spread(url):
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return [count for _, count in connection.execute(sa.text(SPREAD))]


def conversions(order, part):
    path = order / "order"
    return path.read_text().count(part) if path.exists() else 0
