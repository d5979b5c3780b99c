"""Jobs survive whatever happens to the service's process.

``CRASH_KILLS`` is the number of kills, 12 unless given; ``CRASH_SEED`` repeats a run.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import os
import random
import signal
import sqlite3
import time
import uuid
from typing import NamedTuple

import pytest
import sqlalchemy as sa

from tests.support.crash import (
    TERMINAL,
    Invariants,
    batch_of,
    crawl_of,
    fetches,
    kill,
    sqlite_of,
    started,
)
from tests.support.linked_site import named
from tests.support.waiting import WAIT_S, wait_until

KILLS = int(os.environ.get("CRASH_KILLS", "12"))
SEED = os.environ.get("CRASH_SEED", "tides")
LEASE_S = 2
SETTINGS = {"SCRAPER_LEASE_S": str(LEASE_S)}
FRESH = {"maxAge": 0}  # fetches are counted: nothing may come from a cache
POLL_S = 0.05
CANCEL_S = 5  # no fetch begins later than this after a job was cancelled
RACES = max(30, KILLS)
SECONDS_PER_KILL = 100  # far more than one takes


def patience(kills):
    return pytest.mark.timeout(600 + kills * SECONDS_PER_KILL)


class Database(NamedTuple):
    kind: str
    address: str
    settings: dict[str, str]


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    """An empty database and the settings that name it."""
    if request.param == "sqlite":
        return Database("sqlite", sqlite_of(tmp_path), SETTINGS)
    address = request.getfixturevalue("postgres_tables")()
    settings = {**SETTINGS, "SCRAPER_DATABASE_URL": address}
    return Database("postgresql", address, settings)


class Jobs:
    """Starts jobs on linked sites and watches them."""

    def __init__(self, site, database):
        self.site = site
        self.database = database
        self.watched = []

    def crawl(self, service, name, limit=10_000):
        body = {
            "url": self.site.url(named(name).path(0)),
            "limit": limit,
            "sitemap": "skip",
            "scrapeOptions": FRESH,
        }
        expected = crawl_of(name, limit if limit < named(name).size else None)
        return self._watch(service.post("/v2/crawl", body), expected, name)

    def batch(self, service, name, numbers):
        urls = [self.site.url(named(name).path(number)) for number in numbers]
        reply = service.post("/v2/batch/scrape", {"urls": urls, **FRESH})
        failing = named(name).flaky_pages()
        return self._watch(reply, batch_of(numbers, failing), name)

    def _watch(self, reply, expected, name):
        job = Invariants(
            started(reply),
            expected,
            name=name,
            site=self.site,
            database=self.database,
        )
        self.watched.append(job)
        return job

    @property
    def delivered(self):
        return sum(job.completed for job in self.watched)

    def poll(self, service):
        """Return whether all have ended."""
        states = [job.poll(service) for job in self.watched]
        return TERMINAL.issuperset(states)

    def note_kill(self):
        for job in self.watched:
            job.kills += 1

    def finish(self, service):
        for job in self.watched:
            job.wait(service)
        for job in self.watched:
            job.check(service)


def run_until(jobs, service, rng):
    """Poll until a random moment; return whether the jobs ended before it.

    Two of three moments come after so many pages that every address leased before the
    last kill has had its turn, the others in the first second.
    """
    pages = jobs.delivered + rng.randint(40, 120) if rng.random() < 0.67 else 0
    end = time.monotonic() + (WAIT_S if pages else rng.random())
    while not jobs.poll(service):
        if time.monotonic() > end:
            assert not pages, "no progress after a restart"
            return False
        if pages and jobs.delivered >= pages:
            time.sleep(rng.random() / 10)
            return False
        time.sleep(POLL_S)
    return True


def survive(start_service, settings, begin, *, kills, end_process=kill, seed=SEED):
    """End the service at random moments, ``kills`` times, through as many rounds of
    jobs as that takes; ``begin(service, number)`` starts the jobs of a round.
    """
    rng = random.Random(seed)
    rounds = 0
    while kills > 0:
        service = start_service(**settings)
        jobs = begin(service, rounds)
        while kills > 0 and not run_until(jobs, service, rng):
            end_process(service)
            jobs.note_kill()
            kills -= 1
            service = start_service(**settings)
        jobs.finish(service)
        assert service.stop() == 0
        rounds += 1


def crawls(site, address, label):
    """Return a function that starts three crawls: all, limited, with bad pages."""

    def begin(service, number):
        jobs = Jobs(site, address)
        name = f"{label}{number}"
        jobs.crawl(service, f"500-slow5-all{name}")
        jobs.crawl(service, f"500-slow5-limited{name}", limit=137)
        jobs.crawl(service, f"120-slow5-flaky10-{name}")
        return jobs

    return begin


@pytest.mark.full
@pytest.mark.slow_on("postgresql")
@patience(KILLS)
def test_crawls_survive_kills(start_service, site, database):
    label, address, settings = database
    kills = KILLS if label == "sqlite" else max(6, KILLS // 3)
    begin = crawls(site, address, label)
    survive(start_service, settings, begin, kills=kills)


@pytest.mark.full
@pytest.mark.slow_on("postgresql")
@patience(KILLS)
def test_batches_survive_kills(start_service, site, database):
    label, address, settings = database

    def begin(service, number):
        jobs = Jobs(site, address)
        twice = (*range(297), 5, 5, 7)
        jobs.batch(service, f"300-slow5-batch{label}{number}", twice)
        jobs.batch(service, f"60-slow5-flaky10-batch{label}{number}", range(60))
        return jobs

    survive(start_service, settings, begin, kills=max(4, KILLS // 4))


@pytest.mark.full
@patience(KILLS)
def test_crawls_survive_sigterm(start_service, site, tmp_path):
    def end(service):
        assert service.stop() == 0

    begin = crawls(site, sqlite_of(tmp_path), "term")
    kills = max(5, KILLS // 4)
    survive(start_service, SETTINGS, begin, kills=kills, end_process=end)


@pytest.mark.slow
@patience(2)
def test_a_started_job_survives_a_kill(start_service, site, tmp_path):
    address = sqlite_of(tmp_path)
    for number in range(3):
        service = start_service(**SETTINGS)
        jobs = Jobs(site, address)
        jobs.crawl(service, f"20-atonce{number}")
        kill(service)
        jobs.note_kill()
        service = start_service(**SETTINGS)
        jobs.finish(service)
        service.stop()


@pytest.mark.full
@patience(1)
def test_an_idempotency_key_is_still_used_after_a_kill(start_service, site):
    body = {"url": site.url(named("3-once").path(0))}
    headers = {"x-idempotency-key": str(uuid.uuid4())}
    service = start_service(**SETTINGS)
    assert service.post("/v2/crawl", body, headers=headers).status == 200
    kill(service)
    service = start_service(**SETTINGS)
    assert service.post("/v2/crawl", body, headers=headers).status == 409


def holds_a_lock(address, name):
    """Tell whether the service of this name is inside a transaction."""
    engine = sa.create_engine(address, poolclass=sa.NullPool)
    if engine.dialect.name == "postgresql":
        busy = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = :name AND state <> 'idle'"
        )
        with engine.connect() as connection:
            return connection.scalar(sa.text(busy), {"name": name}) > 0
    path = address.removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(path, timeout=0.2)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
        except sqlite3.OperationalError:
            return True
    return False


@contextlib.contextmanager
def stopped_outside_a_transaction(service, address, name):
    """Stop the service's process for a while, at a moment when it holds no lock."""
    for attempt in range(200):
        os.kill(service.pid, signal.SIGSTOP)
        if not holds_a_lock(address, name):
            break
        os.kill(service.pid, signal.SIGCONT)
        time.sleep(0.01 + 0.001 * attempt)  # a busy machine needs longer to go on
    else:
        pytest.fail("the service held its lock whenever it was stopped")
    try:
        yield
    finally:
        os.kill(service.pid, signal.SIGCONT)


def named_settings(settings, name):
    """Have the connections of a service carry its name, where they can."""
    if address := settings.get("SCRAPER_DATABASE_URL"):
        address += f"?application_name={name}"
        return {**settings, "SCRAPER_DATABASE_URL": address}
    return settings


@pytest.mark.full
@pytest.mark.slow_on("sqlite")
@patience(4)
def test_a_process_that_slept_past_its_lease_does_no_harm(
    start_service, site, database
):
    label, address, settings = database
    names = ("early", "late")
    services = [start_service(**named_settings(settings, name)) for name in names]
    jobs = Jobs(site, address)
    for number in range(2):
        jobs.crawl(services[number], f"350-slow400-sleep{label}{number}")
    for name, sleeper, awake in zip(names, services, services[::-1], strict=True):
        before = jobs.delivered
        while jobs.delivered < before + 30:
            assert not jobs.poll(awake), "the jobs ended too early for this test"
        with stopped_outside_a_transaction(sleeper, address, name):
            end = time.monotonic() + 2 * LEASE_S + 1
            while time.monotonic() < end:
                jobs.poll(awake)
                time.sleep(0.1)
        jobs.note_kill()  # what it had leased was fetched again
    jobs.finish(services[0])
    for job in jobs.watched:
        job.check(services[1])


@pytest.mark.full
def test_pages_claimed_again_while_they_run_are_not_refetched(
    start_service, site, tmp_path
):
    """A process that lost its leases and claims the same pages fetches none anew."""
    service = start_service(SCRAPER_LEASE_S="100")  # no other look returns a lease
    address = sqlite_of(tmp_path)
    jobs = Jobs(site, address)
    job = jobs.crawl(service, "10-slow3000-lost")
    wait_until(lambda: job.poll(service) and job.completed == 1)
    engine = sa.create_engine(address, poolclass=sa.NullPool)
    lose = sa.text("UPDATE frontier SET state = 1, owner = NULL WHERE state = 2")

    def lost():
        with engine.begin() as connection:
            return connection.execute(lose).rowcount

    for _ in range(4):
        wait_until(lost)
    jobs.note_kill()  # on a busy machine a page may end between two claims
    jobs.finish(service)
    job.check(service)


@pytest.mark.full
def test_two_processes_share_jobs(start_service, site, database):
    label, address, settings = database
    settings = {**settings, "SCRAPER_LEASE_S": "100"}  # nothing is to be fetched twice
    services = [start_service(**settings) for _ in range(2)]
    jobs = Jobs(site, address)
    jobs.crawl(services[0], f"300-slow5-shared-{label}")
    jobs.crawl(services[1], f"300-slow5-sharedlimited-{label}", limit=137)
    jobs.finish(services[1])
    assert deadlocks(address) == 0
    for job in jobs.watched:
        job.check(services[0])


def deadlocks(address):
    """Return how often transactions waited for each other in a circle."""
    engine = sa.create_engine(address, poolclass=sa.NullPool)
    if engine.dialect.name != "postgresql":
        return 0  # it has one writer at a time
    with engine.connect() as connection:
        connection.execute(sa.text("SELECT pg_stat_force_next_flush()"))
        return connection.scalar(
            sa.text(
                "SELECT deadlocks FROM pg_stat_database"
                " WHERE datname = current_database()"
            )
        )


@pytest.mark.full
@patience(KILLS // 4)
def test_cancel_races(start_service, site, tmp_path):
    """A DELETE, or two at once, meets the job at any moment of its life."""
    service = start_service(SCRAPER_LEASE_S="100")  # nothing is to be fetched twice
    jobs = Jobs(site, sqlite_of(tmp_path))
    rng = random.Random(SEED)
    waits = [rng.random() * 1.5 for _ in range(RACES)]

    def race(number):
        name = f"40-slow20-race{number}"
        job = jobs.crawl(service, name)
        end = time.monotonic() + waits[number]
        while time.monotonic() < end:
            job.poll(service)
        with concurrent.futures.ThreadPoolExecutor(2) as pair:
            path = job.path
            replies = [pair.submit(service.request, "DELETE", path) for _ in range(2)]
        answers = {reply.result().status for reply in replies}
        assert answers in ({200}, {409}), "one winner"
        state = job.poll(service)
        assert state == ("cancelled" if answers == {200} else "completed")
        return job, name

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        raced = list(threads.map(race, range(RACES)))
    time.sleep(CANCEL_S)
    after = {name: fetches(site, f"/site/{name}/") for _, name in raced}
    time.sleep(3)
    states = collections.Counter(job.state for job, _ in raced)
    for job, name in raced:
        job.poll(service)
        assert fetches(site, f"/site/{name}/") == after[name], "fetched after the end"
        if job.state == "completed":
            job.check(service)
        else:
            job.check_rows()
    assert states["cancelled"] > RACES // 10, states
    assert service.stop() == 0


@pytest.mark.slow
def test_a_cancelled_job_stays_so_after_a_restart(start_service, site, tmp_path):
    service = start_service(**SETTINGS)
    jobs = Jobs(site, sqlite_of(tmp_path))
    job = jobs.crawl(service, "500-slow20-cancelled")
    while job.completed < 20:
        job.poll(service)
    assert service.request("DELETE", job.path).status == 200
    kill(service)
    service = start_service(**SETTINGS)
    assert job.poll(service) == "cancelled"
    time.sleep(LEASE_S + 1)
    before = fetches(site, job.prefix)
    time.sleep(LEASE_S)
    assert job.poll(service) == "cancelled"
    assert fetches(site, job.prefix) == before
    job.check_rows()
    assert service.request("DELETE", job.path).status == 200


@pytest.mark.parametrize("name", ["1", "7", "500", "500-flaky10", "40-flaky2"])
def test_every_page_of_a_linked_site_can_be_reached(name):
    site = named(name)
    assert site.reachable() == frozenset(range(site.size))


def test_postgres_makes_empty_databases(postgres):
    first, second = postgres(), postgres()
    assert first != second
    engine = sa.create_engine(first, poolclass=sa.NullPool)
    with engine.connect() as connection:
        assert "PostgreSQL" in connection.scalar(sa.text("SELECT version()"))
        assert sa.inspect(connection).get_table_names() == []
    engine.dispose()
