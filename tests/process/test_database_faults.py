"""Jobs survive what happens to their database: stopped holders of locks, restarts, turns.

``PREEMPTIONS`` and ``RESTARTS`` are how often that happens in the long tests.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time

import psycopg
import pytest

from tests.conftest import KEY
from tests.support.crash import TERMINAL, Invariants, crawl_of, sqlite_of, started
from tests.support.linked_site import named
from tests.support.proxy_line import ProxyLine
from tests.support.waiting import wait_until
from tools.bench.postgres import Postgres, PostgresMissing

PREEMPTIONS = int(os.environ.get("PREEMPTIONS", "200"))
RESTARTS = int(os.environ.get("RESTARTS", "4"))
OTHERS = ("fc-second", "fc-third", "fc-fourth")  # keys, a team each
LEASE_S = 2
LONG_S = 240  # for what takes seconds on a machine that is not busy


@pytest.fixture(scope="module")
def server():
    """A PostgreSQL that may be restarted: nobody else uses it."""
    try:
        found = Postgres()
    except PostgresMissing as error:
        pytest.skip(str(error))
    with found:
        yield found


class Crawls:
    """Starts crawls of linked sites, which look into the cache, and watches them."""

    def __init__(self, site, address):
        self.site = site
        self.address = address
        self.watched = []

    def start(self, service, name):
        reply = service.post("/v2/crawl", self.body(name))
        job = Invariants(
            started(reply),
            crawl_of(name),
            name=name,
            site=self.site,
            database=self.address,
        )
        self.watched.append(job)
        return job

    def body(self, name):
        url = self.site.url(named(name).path(0))
        return {"url": url, "limit": 10_000, "sitemap": "skip"}

    def finish(self, service, seconds=LONG_S):
        for job in self.watched:
            job.wait(service, seconds)
        for job in self.watched:
            job.check(service)


def plain(address):
    return address.replace("postgresql+psycopg:", "postgresql:")


# -- teams that take turns ---------------------------------------------------------------


SLOW_CLAIMS = """
    CREATE FUNCTION claims_take_long() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_sleep(0.03); RETURN NEW; END';
    CREATE TRIGGER slow BEFORE UPDATE ON frontier FOR EACH ROW
        WHEN (NEW.state = 2) EXECUTE FUNCTION claims_take_long()
"""


def take_turns(start_service, site, address, settings, rounds):
    """Have jobs of one team leave for those of three others, ``3 * rounds`` times."""
    service = start_service(
        SCRAPER_API_KEYS=",".join((KEY, *OTHERS)),
        SCRAPER_MAX_RUNNING_JOBS="4",
        SCRAPER_JOB_CONCURRENCY="2",  # claims are small, and many
        **settings,
    )
    crawls = Crawls(site, address)
    if settings:  # so that many jobs leave in the middle of a claim
        with psycopg.connect(plain(address)) as connection:
            connection.execute(SLOW_CLAIMS)
    pages = max(60, 6 * rounds)
    for number in range(5):
        crawls.start(service, f"{pages}-slow20-turn{number}of{rounds}{len(address)}")
    for number in range(rounds):
        body = crawls.body(f"2-turn{number}{len(address)}")
        paths = [
            (started(service.post("/v2/crawl", body, key=key)), key) for key in OTHERS
        ]
        for path, key in paths:
            wait_until(
                lambda path=path, key=key: (
                    service.get(path, key=key).json["status"] in TERMINAL
                ),
                LONG_S,
            )
    for job in crawls.watched:
        job.kills = 3 * rounds  # what was leased is given back, fetched or not
    crawls.finish(service)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.slow_on("sqlite")
def test_crawls_that_alternate_all_end(start_service, site, tmp_path, kind, request):
    address, settings = place(kind, tmp_path, request)
    take_turns(start_service, site, address, settings, 10)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_crawls_that_alternate_many_times_all_end(
    start_service, site, tmp_path, kind, request
):
    address, settings = place(kind, tmp_path, request)
    take_turns(start_service, site, address, settings, PREEMPTIONS // 3 + 1)


def place(kind, tmp_path, request):
    if kind == "sqlite":
        return sqlite_of(tmp_path), {}
    address = request.getfixturevalue("server")()
    return address, {"SCRAPER_DATABASE_URL": address}


# -- restarts ----------------------------------------------------------------------------


def restart(start_service, site, server, ways):
    address = server()
    service = start_service(SCRAPER_DATABASE_URL=address)
    crawls = Crawls(site, address)
    pages = 100 * (len(ways) + 1)
    for number in range(2):
        crawls.start(service, f"{pages}-slow5-restart{number}of{len(ways)}")
    first = crawls.watched[0]
    for number, way in enumerate(ways, 1):
        while first.completed < number * 60:
            assert first.poll(service) not in TERMINAL, "it ended before the restart"
        server.restart(way)
        # What had begun before is retried; what was refused meanwhile says so.
        wait_until(lambda: service.get(first.path).status == 200, LONG_S)
    for job in crawls.watched:
        job.kills = len(ways)  # a page may be fetched again
    crawls.finish(service)
    for job in crawls.watched:
        assert job.read_errors(service) == []


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_restart_of_the_database_fails_no_page(start_service, site, server):
    restart(start_service, site, server, [signal.SIGINT])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_restarts_of_the_database_fail_no_page(start_service, site, server):
    ways = [signal.SIGINT, signal.SIGQUIT] * RESTARTS
    restart(start_service, site, server, ways[:RESTARTS])


# -- processes that stop, or are cut off -------------------------------------------------


@contextlib.contextmanager
def stopped_with_a_locked_job(service, address, name):
    """Stop a service in the middle of the transaction of a page, with its job locked.

    The transaction waits for the rows of the pages under way, which somebody else has
    locked until the process has stopped.
    """
    waits = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE application_name = %s AND wait_event_type = 'Lock'"
    )
    leased = "SELECT 1 FROM frontier WHERE state = 2 FOR UPDATE"
    with psycopg.connect(plain(address), autocommit=True) as watcher:

        def is_waiting():
            return watcher.execute(waits, (name,)).fetchone()[0] > 0

        with psycopg.connect(plain(address)) as other:
            while True:
                wait_until(lambda: other.execute(leased).rowcount, LONG_S)
                # Not for long: the rows may be those of another process alone.
                with contextlib.suppress(AssertionError):
                    wait_until(is_waiting, LEASE_S)
                os.kill(service.pid, signal.SIGSTOP)
                if is_waiting():
                    break
                os.kill(service.pid, signal.SIGCONT)
                other.rollback()
        try:
            yield
        finally:
            os.kill(service.pid, signal.SIGCONT)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_process_stopped_in_a_transaction_does_not_block_others(
    start_service, site, server
):
    address = server()
    settings = {"SCRAPER_LEASE_S": str(LEASE_S)}
    stopping = start_service(
        **settings, SCRAPER_DATABASE_URL=f"{address}?application_name=stopping"
    )
    other = start_service(**settings, SCRAPER_DATABASE_URL=address)
    crawls = Crawls(site, address)
    crawls.start(stopping, "500-slow50-stopped")
    crawls.watched[0].kills = 1
    with stopped_with_a_locked_job(stopping, address, "stopping"):
        for number in range(3):  # it answers at once; without an end it would be never
            crawls.start(other, f"5-meanwhile{number}")
        crawls.finish(other)
    # It goes on as if nothing had been.
    crawls.start(stopping, "20-afterwards")
    crawls.finish(stopping)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_process_cut_off_from_the_database_does_not_block_others(
    start_service, site, server
):
    address = server()
    settings = {"SCRAPER_LEASE_S": str(LEASE_S)}
    with ProxyLine(server.port) as line:
        through = address.replace(f":{server.port}/", f":{line.port}/")
        cut = start_service(**settings, SCRAPER_DATABASE_URL=through)
        crawls = Crawls(site, address)
        job = crawls.start(cut, "300-slow20-cut")
        job.kills = 2
        other = start_service(**settings, SCRAPER_DATABASE_URL=address)
        while job.completed < 30:
            job.poll(other)
        line.cut()
        crawls.start(other, "5-meanwhile")
        crawls.finish(other)
        assert cut.get(job.path).status == 503
        assert cut.post("/v2/crawl", crawls.body("5-cut")).status == 503
        line.mend()
        wait_until(lambda: cut.get(job.path).status == 200, LONG_S)
        # The writer may still be on a connection that was cut.
        body = crawls.body("5-writing")
        wait_until(lambda: cut.post("/v2/crawl", body).status == 200, LONG_S)
        crawls.start(cut, "20-mended")
        crawls.finish(cut)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_process_stopped_with_a_locked_file_loses_no_job(
    start_service, site, tmp_path
):
    """Others answer 503 meanwhile, and go on afterwards."""
    stopping = start_service()
    other = start_service()
    crawls = Crawls(site, sqlite_of(tmp_path))
    crawls.start(stopping, "700-slow5-file")
    crawls.watched[0].kills = 2

    def is_locked():
        with contextlib.closing(
            sqlite3.connect(tmp_path / "jobs.sqlite", timeout=0.5)
        ) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            return False

    while True:
        os.kill(stopping.pid, signal.SIGSTOP)
        if is_locked():
            break
        os.kill(stopping.pid, signal.SIGCONT)
        time.sleep(0.01)
    try:
        assert other.post("/v2/crawl", crawls.body("5-locked")).status == 503
        assert crawls.watched[0].poll(other) == "scraping"  # reading goes on
    finally:
        os.kill(stopping.pid, signal.SIGCONT)
    crawls.start(other, "5-unlocked")
    crawls.finish(other)
