"""The jobs that benchmarks store are like those of the service."""

from __future__ import annotations

import asyncio

import pytest

from scraper_service.storage.database import Database
from scraper_service.storage.files import page_sources
from scraper_service.storage.frontier import leases
from scraper_service.storage.jobs import job_rows
from tools.bench import exports, stored


@pytest.fixture
def ask(tmp_path):
    opened = []

    def call(function, *args):
        if not opened:
            opened.append(Database(tmp_path))
        return opened[0].write_blocking(function, *args)

    yield call
    for database in opened:
        database.close()


def test_pages_that_are_read(ask, tmp_path):
    job_id = asyncio.run(stored.prepare(tmp_path, stored.fill_pages, 30))
    assert len(ask(job_rows.read_pages, job_id, 0, 100, 10**9)) == 30


def test_urls_that_wait(ask, tmp_path):
    job_id = asyncio.run(
        stored.prepare(tmp_path, stored.fill_frontier, 30, "http://127.0.0.2/")
    )
    assert len(ask(leases.claim, job_id, "owner", 100).rows) == 30


def test_pages_with_responses(ask, tmp_path):
    job_id = asyncio.run(exports.prepare(tmp_path, 30))
    found, behind = ask(page_sources.read_archived, job_id, 0, 100, 10**9)
    assert (len(found), behind) == (30, 30)
