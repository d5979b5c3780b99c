"""`gc`: what has expired is deleted, and its space returned."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial

import pytest
from click.testing import CliRunner

from scraper_service.cli.main import main
from tests.support.waiting import wait_until


def run(*arguments):
    done = CliRunner().invoke(main, list(map(str, arguments)))
    return done.exit_code, done.output.strip()


def has_ended(service, job_id):
    found = service.get(f"/v2/batch/scrape/{job_id}").json
    return found["status"] == "completed"


@pytest.fixture
def folder(tmp_path, site, start_service):
    """A data folder with an expired and a kept batch of one large page."""
    service = start_service(tmp_path)
    body = {"urls": [site.url("/big")], "maxAge": 0}
    for _ in range(2):
        job_id = service.post("/v2/batch/scrape", body).json["id"]
        wait_until(partial(has_ended, service, job_id))
    assert service.stop() == 0
    with closing(sqlite3.connect(tmp_path / "jobs.sqlite")) as connection, connection:
        # Random bytes: they take their room in the file.
        connection.execute("UPDATE page SET body = randomblob(8000000)")
        connection.execute("UPDATE job SET expires_at = 1 WHERE id <> ?", (job_id,))
    return tmp_path


def jobs_of(folder):
    with closing(sqlite3.connect(folder / "jobs.sqlite")) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM job")
    return count


def test_expired_jobs_go_and_their_space_comes_back(folder):
    path = folder / "jobs.sqlite"
    before = path.stat().st_size
    assert before > 16_000_000
    code, text = run("gc", "--data-dir", folder)
    assert (code, jobs_of(folder)) == (0, 1), text
    assert path.stat().st_size >= before
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")  # as docs/how-to/operating.md says
    assert path.stat().st_size < before - 7_000_000
    code, text = run("gc", "--compact", "--data-dir", folder)
    assert (code, jobs_of(folder)) == (2, 1)
    assert "No such option" in text


def test_expired_jobs_of_postgresql_go(postgres, tmp_path):
    code, text = run("-s", f"DATABASE_URL={postgres()}", "gc", "--data-dir", tmp_path)
    assert code == 0, text
