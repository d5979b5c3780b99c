"""Every wait for the job database ends, and what did not happen is tried again."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from urllib.parse import urlsplit

import psycopg
import pytest
from sqlalchemy import text

from scraper_service.errors import ServiceUnavailable
from scraper_service.options.spider_arguments import batch_options
from scraper_service.storage import connections, write_queue
from scraper_service.storage import database as database_module
from scraper_service.storage import postgres as bounded_connections
from scraper_service.storage.accounts.credits import top_up
from scraper_service.storage.database import MIGRATION_LOCK, Database
from scraper_service.storage.frontier import leases
from scraper_service.storage.jobs import runs
from scraper_service.storage.jobs.admission import Terms, create_job
from scraper_service.storage.jobs.job_rows import make_team
from scraper_service.storage.transactions import lock_job, transaction
from tests.support.pgbouncer import PROGRAM, PgBouncer
from tests.support.proxy_line import ProxyLine
from tests.support.waiting import wait_until

TEAM = "team"
BOUND_S = 60  # far more than any wait may take; without an end it would be for ever


@pytest.fixture
def url(postgres):
    return postgres()


@pytest.fixture
def opened(tmp_path, url):
    found = Database(tmp_path, url)
    yield found
    found.close()


def plain(url):
    return url.replace("postgresql+psycopg:", "postgresql:")


@contextlib.contextmanager
def idle_with(url, statement, *values):
    """Somebody who is silent in the middle of a transaction, and stays."""
    with psycopg.connect(plain(url)) as other:
        other.execute(statement, values)
        yield other


def run(*works):
    """Return what coroutines came to, errors included, and the seconds it took."""

    async def gathered():
        return await asyncio.wait_for(
            asyncio.gather(*works, return_exceptions=True), BOUND_S
        )

    began = time.monotonic()
    return asyncio.run(gathered()), time.monotonic() - began


def begin(database, count=1):
    """Store jobs of one page each; return their ids."""
    options = batch_options({"urls": "http://a.test/"})

    async def store():
        await database.write(make_team, TEAM)
        terms = Terms(team_id=TEAM)
        return [
            (await database.write(create_job, terms, options, 2)).id
            for _ in range(count)
        ]

    return asyncio.run(store())


@transaction(row="{job_id}")
def lock(connection, job_id):
    return lock_job(connection, job_id).state


LOCK = "SELECT 1 FROM job WHERE id = %s FOR UPDATE"


def test_a_transaction_that_is_left_alone_is_ended(opened):
    """So a process that is stopped in the middle of one keeps nothing locked."""

    def settings(connection):
        names = ("idle_in_transaction_session_timeout", "lock_timeout")
        names = (*names, "statement_timeout", "transaction_isolation")
        return [connection.scalar(text(f"SHOW {name}")) for name in names]

    @transaction(apart=True)
    def settings_apart(connection):
        return settings(connection)

    [written, read, shared], _ = run(
        opened.write(settings), opened.read(settings), opened.write(settings_apart)
    )
    assert written == ["5s", "1s", "20s", "read committed"]
    assert read == ["1min", "8s", "20s", "repeatable read"]
    assert shared == ["5s", "8s", "20s", "read committed"]


def test_a_locked_job_does_not_delay_other_jobs(opened, url, monkeypatch):
    monkeypatch.setattr(write_queue, "ASIDE", connections.Waits(lock_s=3600))
    first, *others = begin(opened, 5)

    async def main():
        with idle_with(url, LOCK, first):
            late = [asyncio.ensure_future(opened.write(lock, first)) for _ in range(3)]
            for _ in range(5):  # one behind the other, so that none rides along
                for name in others:
                    await opened.write(lock, name)
            await opened.write(make_team, "other")
            await opened.write(leases.beat, "owner", 5)
            assert not any(task.done() for task in late)
        assert await asyncio.gather(*late) == ["queued"] * 3

    [found], _ = run(main())
    assert found is None


def test_many_locked_jobs_do_not_delay_another_job(opened, url):
    locked = begin(opened, 12)
    [free] = begin(opened)

    async def main():
        every = "SELECT 1 FROM job WHERE id <> %s FOR UPDATE"
        with idle_with(url, every, free):
            late = [asyncio.ensure_future(opened.write(lock, name)) for name in locked]
            await asyncio.sleep(0.2)  # they have begun
            await opened.write(lock, free)
            assert not any(task.done() for task in late)
        assert await asyncio.gather(*late) == ["queued"] * 12

    [found], _ = run(main())
    assert found is None


def test_a_lock_that_is_never_let_go_is_an_error(opened, url, monkeypatch):
    monkeypatch.setattr(write_queue, "ASIDE", connections.Waits(lock_s=0.2))
    [job_id] = begin(opened)
    with idle_with(url, LOCK, job_id):
        found, _ = run(*(opened.write(lock, job_id) for _ in range(3)))
        assert [type(each) for each in found] == [ServiceUnavailable] * 3
    assert run(opened.write(lock, job_id))[0] == ["queued"]


def test_a_locked_team_does_not_delay_readers(opened, url):
    """A team's row is waited for in no thread that reads, nor by signs of life."""
    [job_id] = begin(opened)

    async def main():
        row = "SELECT 1 FROM team WHERE id = %s FOR UPDATE"
        with idle_with(url, row, TEAM):
            late = [
                asyncio.ensure_future(
                    opened.write(top_up, TEAM, job_id, number, "page", 1)
                )
                for number in range(10)
            ]
            await asyncio.sleep(0.2)
            await opened.read(lambda connection: connection.scalar(text("SELECT 1")))
            await opened.write(leases.beat, "owner", 5)
            assert not any(task.done() for task in late)
        await asyncio.gather(*late)

    [found], _ = run(main())
    assert found is None


def test_the_leases_of_dead_processes_are_returned_past_a_locked_job(opened, url):
    jobs = begin(opened, 2)

    for job_id in jobs:
        run(opened.write(leases.claim, job_id, "gone", 10))
    with idle_with(url, LOCK, jobs[0]):
        found, _ = run(*(opened.write(leases.reap, name) for name in jobs))
        assert found == [0, 1]
    assert run(opened.write(leases.reap, jobs[0]))[0] == [1]


def test_a_job_that_is_locked_is_taken_later_without_a_wait(opened, url):
    [job_id] = begin(opened)
    with idle_with(url, LOCK, job_id):
        assert run(opened.write(runs.take, job_id, "owner"))[0] == [None]
    assert run(opened.write(runs.take, job_id, "owner"))[0] != [None]


def test_a_process_that_stops_amid_its_statements_keeps_no_lock(
    opened, url, monkeypatch
):
    """The server waits for the rest of a pipeline without a time-out of its own."""
    monkeypatch.setattr(connections, "HALF_SENT_S", 0.5)
    monkeypatch.setattr(write_queue, "ASIDE", connections.Waits(lock_s=0.2))
    [job_id] = begin(opened)
    address = f"{plain(url)}?application_name={connections.APPLICATION}"
    with contextlib.closing(psycopg.connect(address, autocommit=True)) as other:
        line = other.pgconn
        line.enter_pipeline_mode()
        for statement in (
            "BEGIN",
            f"SELECT 1 FROM job WHERE id = '{job_id}' FOR UPDATE",
        ):
            line.send_query_params(statement.encode(), None)
        line.send_flush_request()
        line.flush()

        def is_locked():
            found, _ = run(opened.write(lock, job_id))
            return isinstance(found[0], ServiceUnavailable)

        wait_until(is_locked)
        wait_until(lambda: run(opened.write(connections.end_half_sent))[0] == [1])
        assert not is_locked()


# -- connections that end ----------------------------------------------------------------


def end_connections(url):
    with psycopg.connect(plain(url), autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_connections_that_ended_are_replaced(opened, url):
    one = text("SELECT 1")
    for _ in range(3):
        works = (lambda c: c.scalar(one) for _ in range(20))
        assert run(*map(opened.read, works))[0] == [1] * 20
        assert run(opened.write(lambda c: c.scalar(one)))[0] == [1]
        apart = transaction(apart=True)(lambda c: c.scalar(one))
        assert run(opened.write(apart))[0] == [1]
        end_connections(url)


def test_a_group_whose_connection_ended_is_repeated(opened, url):
    calls = []

    def count(connection, number):
        connection.execute(
            text("INSERT INTO worker (id, until) VALUES (:id, 0)"), {"id": str(number)}
        )
        calls.append(number)
        if len(calls) == 3:
            end_connections(url)

    found, _ = run(*(opened.write(count, number) for number in range(5)))
    assert found == [None] * 5
    rows = text("SELECT count(*) FROM worker")
    assert run(opened.read(lambda connection: connection.scalar(rows)))[0] == [5]


def test_a_transaction_that_slept_is_repeated(opened, url, monkeypatch):
    """As that of a process that goes on after it was stopped."""
    monkeypatch.setattr(write_queue, "SHARING", connections.Waits(idle_s=0.2, lock_s=1))
    [job_id] = begin(opened)
    slept = []

    @transaction(row="{job_id}")
    def sleep(connection, job_id):
        lock_job(connection, job_id)
        if not slept:
            slept.append(job_id)
            time.sleep(1)
        return lock(connection, job_id)

    assert run(opened.write(sleep, job_id))[0] == ["queued"]


# -- a server that says nothing ----------------------------------------------------------


def through(url, port):
    address = urlsplit(url)
    user = address.netloc.rpartition("@")[0]
    return address._replace(netloc=f"{user}@127.0.0.1:{port}").geturl()


def test_a_silent_database_server_is_given_up(tmp_path, url, postgres, monkeypatch):
    monkeypatch.setattr(bounded_connections, "SILENCE_S", 0.5)
    monkeypatch.setitem(bounded_connections.NETWORK, "connect_timeout", 2)
    one = text("SELECT 1")
    with ProxyLine(postgres.port) as line:
        opened = Database(tmp_path, through(url, line.port))
        assert run(opened.read(lambda c: c.scalar(one)))[0] == [1]
        line.cut()
        works = [opened.write(lambda c: c.scalar(one)) for _ in range(50)]
        works += [opened.read(lambda c: c.scalar(one)) for _ in range(4)]
        found, _ = run(*works)
        assert {type(each) for each in found} == {ServiceUnavailable}
        line.mend()
        assert run(opened.read(lambda c: c.scalar(one)))[0] == [1]
        assert run(opened.write(lambda c: c.scalar(one)))[0] == [1]
        opened.close()


def test_a_read_does_not_wait_for_ever_for_a_thread(opened, monkeypatch):
    monkeypatch.setattr(database_module, "READ_S", 0.5)
    ends = threading.Event()
    slow = [opened.read(lambda _: ends.wait(BOUND_S)) for _ in range(4)]

    async def main():
        tasks = [asyncio.ensure_future(each) for each in slow]
        await asyncio.sleep(0)
        with pytest.raises(ServiceUnavailable):
            await opened.read(lambda _: 1)
        ends.set()
        await asyncio.gather(*tasks, return_exceptions=True)

    assert run(main())[0] == [None]


def test_a_migration_that_goes_nowhere_is_an_error(tmp_path, url, monkeypatch):
    monkeypatch.setattr(database_module, "MIGRATING", connections.Waits(lock_s=0.2))
    with (
        idle_with(url, "SELECT pg_advisory_lock(%s)", MIGRATION_LOCK),
        pytest.raises(Exception, match="lock timeout"),
    ):
        Database(tmp_path, url)
    Database(tmp_path, url).close()


# -- a pooler between --------------------------------------------------------------------


@pytest.fixture
def pooled(tmp_path, url):
    with PgBouncer(url) as pooler:
        found = Database(tmp_path, pooler.url)
        yield found
        found.close()


@pytest.mark.skipif(PROGRAM is None, reason="PgBouncer is not installed")
def test_limits_and_locks_work_with_a_transaction_pooler(pooled, url):
    opened = pooled
    jobs = begin(opened, 3)
    lock_time = text("SHOW lock_timeout")
    for _ in range(20):  # statements that are used often would be prepared
        works = (opened.write(lock, name) for name in jobs)
        assert run(*works)[0] == ["queued"] * 3
        times = [opened.read(lambda c: c.scalar(lock_time)) for _ in range(8)]
        assert run(*times)[0] == ["8s"] * 8
    with idle_with(url, LOCK, jobs[0]):
        assert run(opened.write(lock, jobs[1]))[0] == ["queued"]
    end_connections(url)
    assert run(opened.write(lock, jobs[1]))[0] == ["queued"]


# -- SQLite ------------------------------------------------------------------------------


def test_a_file_that_is_locked_fails_a_group_at_once(tmp_path, monkeypatch):
    """And not one function after the other, each after its own wait."""
    monkeypatch.setattr(database_module, "BUSY_TIMEOUT_MS", 1000)
    opened = Database(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "jobs.sqlite")) as other:
        other.execute("BEGIN IMMEDIATE")
        found, took_s = run(*(opened.write(make_team, f"{n}") for n in range(50)))
        assert {type(each) for each in found} == {ServiceUnavailable}
        assert took_s < 10
        read = opened.read(lambda c: c.scalar(text("SELECT count(*) FROM team")))
        assert run(read)[0] == [0]
    assert run(*(opened.write(make_team, f"{n}") for n in range(50)))[0] == [None] * 50
    opened.close()
