"""DATABASE_URL: the forms that work, and a sentence for each that does not."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path

import pytest

from scraper_service.errors import DatabaseUnusable
from scraper_service.storage.connections import database_url
from scraper_service.storage.database import HEAD, Database
from tests.support import forked_start

WITHOUT_PSYCOPG = Path(__file__).parents[1] / "without_psycopg"
PASSWORD = "s3cr3t"
COMMANDS = {
    "serve": ("serve", "--port", "0"),
    "keys": ("keys", "list"),
    "doctor": ("doctor", "--port", "0"),
    "crawl": ("crawl", "http://127.0.0.2/", "--keep"),
}


def run(folder, *arguments, url, **changes):
    variables = {
        **os.environ,
        "SCRAPER_DATA_DIR": str(folder),
        "SCRAPER_DATABASE_URL": url,
        "SCRAPER_RENDER": "never",
        **changes,
    }
    return forked_start.run(forked_start.SERVICE, arguments, variables, Path.cwd())


def said_in_a_sentence(done):
    """Return the one line that says what is wrong."""
    text = done.stdout + done.stderr
    assert done.returncode not in {0, None}
    assert "Traceback" not in text
    assert PASSWORD not in text
    [line] = [line for line in text.splitlines() if "job database" in line.lower()] or [
        line for line in text.splitlines() if "DATABASE_URL" in line
    ]
    return line


@pytest.mark.full
@pytest.mark.parametrize("name", COMMANDS)
def test_a_missing_database_driver_is_named_with_its_install_command(tmp_path, name):
    url = f"postgresql://scraper:{PASSWORD}@127.0.0.1/jobs"
    done = run(tmp_path, *COMMANDS[name], url=url, PYTHONPATH=str(WITHOUT_PSYCOPG))
    line = said_in_a_sentence(done)
    assert "psycopg is not installed" in line
    assert "pip install 'scraper-service[postgres]'" in line


@pytest.mark.parametrize("name", ["serve", "keys", "doctor"])
def test_a_refused_connection_is_a_sentence_without_the_password(tmp_path, name):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    url = f"postgres://scraper:{PASSWORD}@127.0.0.1:{port}/jobs"
    line = said_in_a_sentence(run(tmp_path, *COMMANDS[name], url=url))
    assert f"127.0.0.1:{port}" in line
    assert "refused" in line


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "postgresql", "postgres"])
def test_every_spelling_of_postgresql_works(tmp_path, postgres, scheme):
    url = postgres().replace("postgresql+psycopg", scheme)
    with closing(Database(tmp_path, url)) as database:
        assert database.engine.dialect.name == "postgresql"
        assert database.engine.dialect.driver == "psycopg"


def test_a_command_takes_postgres_for_postgresql(tmp_path, postgres):
    url = postgres().replace("postgresql+psycopg", "postgres")
    done = run(tmp_path, "keys", "create", url=url)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fc-")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("nonsense", "must be postgresql://"),
        (f"mysql://scraper:{PASSWORD}@127.0.0.1/jobs", "the scheme 'mysql'"),
        (
            f"postgresql+psycopg2://u:{PASSWORD}@h/jobs",
            "the scheme 'postgresql+psycopg2'",
        ),
        (f"postgresql://scraper:{PASSWORD}@127.0.0.1:port/jobs", "is malformed"),
        (f"postgresql://scraper:{PASSWORD}@[::1/jobs", "is malformed"),
        (f"postgresql://scraper:one@{PASSWORD}@127.0.0.1/jobs", "@ is %40"),
        ("sqlite://", "is malformed"),
    ],
)
def test_a_url_of_no_database_is_a_sentence_without_the_password(tmp_path, url, text):
    with pytest.raises(DatabaseUnusable) as found:
        database_url(url, tmp_path)
    assert text in str(found.value)
    assert PASSWORD not in str(found.value)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (f"postgresql://scraper:{PASSWORD}@none.invalid/jobs", "none.invalid"),
        (f"postgresql://scraper:{PASSWORD}@127.0.0.1:99999/jobs", "99999"),
        (f"postgresql://scraper:{PASSWORD}@127.0.0.1/jobs?bad=1", "bad"),
        (f"postgresql://scraper:{PASSWORD}@{'a' * 70}.example/jobs", "aaaa"),
        ("sqlite:////none-such/jobs.sqlite", "No such file"),
    ],
)
def test_a_database_out_of_reach_is_a_sentence(tmp_path, url, text):
    with pytest.raises(DatabaseUnusable) as found:
        Database(tmp_path, url)
    assert text in str(found.value)
    assert PASSWORD not in str(found.value)
    assert "\n" not in str(found.value)


def test_a_wrong_password_is_not_repeated(tmp_path, postgres):
    right = postgres()
    wrong = right.replace(right.split(":")[2].partition("@")[0], PASSWORD)
    with pytest.raises(DatabaseUnusable, match="password authentication") as found:
        Database(tmp_path, wrong)
    assert PASSWORD not in str(found.value)


def test_a_file_that_is_no_database_is_a_sentence(tmp_path):
    (tmp_path / "jobs.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(DatabaseUnusable, match="file is not a database"):
        Database(tmp_path)


def test_a_database_of_a_newer_version_is_left_alone(tmp_path):
    database = Database(tmp_path)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'v9999'")
    database.close()
    with pytest.raises(DatabaseUnusable, match=rf"newer version \(v9999\).*{HEAD}"):
        Database(tmp_path)


def test_a_data_directory_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseUnusable, match=r"data directory .* cannot be made"):
        Database(tmp_path / "file" / "data")
