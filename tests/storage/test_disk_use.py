"""The bytes of teams: files, and the joining of their rows."""

from __future__ import annotations

import concurrent.futures
from contextlib import closing

import pytest
from sqlalchemy import func, select, update

from scraper_service.storage.accounts import disk_use
from scraper_service.storage.database import Database
from scraper_service.storage.files import artefacts
from scraper_service.storage.jobs import job_deletion, job_rows
from scraper_service.storage.schema import artefact, job
from scraper_service.storage.schema import disk_use as disk_use_table

TEAM, OTHER = "team", "other"
ROUNDS = 40


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request):
    return (
        ""
        if request.param == "sqlite"
        else request.getfixturevalue("postgres_tables")()
    )


@pytest.fixture
def database(url, tmp_path):
    with closing(Database(tmp_path, url)) as opened:
        for team in (TEAM, OTHER):
            opened.write_blocking(job_rows.make_team, team)
        yield opened


def used(database, team=TEAM):
    with database.engine.begin() as connection:
        return disk_use.read_used(connection, team)


def rows(database):
    with database.engine.begin() as connection:
        return connection.scalar(select(func.count()).select_from(disk_use_table))


def fold_all(database):
    while database.write_blocking(disk_use.fold):
        pass


def test_a_file_of_a_call_counts_once_until_it_expires(database):
    def hold(name, holder, **options):
        database.write_blocking(artefacts.hold, name, holder, **options)

    counted = {"team_id": TEAM, "size": 700}
    hold("a.png", "call", **counted)
    hold("a.png", "call", **counted)
    assert used(database) == 700
    hold("a.png", "another call", **counted)
    hold("a.png", f"{artefacts.CACHED}key")  # of the page cache
    assert (used(database), used(database, OTHER)) == (1400, 0)
    database.write_blocking(lambda c: c.execute(update(artefact).values(expires_at=1)))
    assert database.write_blocking(artefacts.expire) == 3
    assert used(database) == 0


def test_a_file_of_a_job_counts_once_until_its_job_is_deleted(database):
    def queue(connection):
        columns = {"team_id": TEAM, "kind": "crawl", "version": 2, "url": "http://a"}
        job_rows.queue_job(connection, "job", options="{}", **columns)

    database.write_blocking(queue)
    for name in ("a.png", "a.png", "b.png"):
        database.write_blocking(artefacts.hold_for_job, "job", name, 500)
    assert used(database) == 1000
    stored = select(job.c.stored)
    assert database.write_blocking(lambda c: c.scalar(stored)) == 1000
    database.write_blocking(job_deletion.hide, "job")
    assert used(database) == 0
    # A file that comes late is counted, and no more with the rest of the job.
    database.write_blocking(artefacts.hold_for_job, "job", "c.png", 300)
    assert used(database) == 300
    while database.write_blocking(job_deletion.expire):
        pass
    database.write_blocking(artefacts.hold_for_job, "job", "d.png", 300)
    assert used(database) == 0


def test_rows_are_joined_without_a_change_of_the_sums(database):
    for size in range(1, 51):
        database.write_blocking(disk_use.add, TEAM, size)
        database.write_blocking(disk_use.add, OTHER, -size)
    fold_all(database)
    assert (used(database), used(database, OTHER)) == (1275, -1275)
    assert rows(database) == 2


def test_parallel_processes_lose_no_bytes_of_the_disk_use(database, url, tmp_path):
    def work(_):
        with closing(Database(tmp_path, url)) as own:
            for _ in range(ROUNDS):
                own.write_blocking(disk_use.add, TEAM, 3)
                own.write_blocking(disk_use.add, OTHER, 2)
                own.write_blocking(disk_use.fold)

    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        list(threads.map(work, range(3)))
    fold_all(database)
    assert used(database) == 3 * 3 * ROUNDS
    assert used(database, OTHER) == 3 * 2 * ROUNDS
    assert rows(database) == 2
