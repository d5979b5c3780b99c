"""Backups of a running service, and what they restore, on SQLite and PostgreSQL."""

from __future__ import annotations

import json
import signal
from contextlib import closing

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from scraper_service.cli.main import main
from scraper_service.storage.database import Database
from scraper_service.storage.files.backup import MANIFEST
from tests.support.crash import read_rows, sqlite_of
from tests.support.linked_site import LinkedSite
from tests.support.waiting import wait_until

PAGES = 120
SITE = LinkedSite.named(f"{PAGES}-slow100-backup")  # 12 s, one page at a time
FIRST = 10  # pages before the backup


def run(*arguments):
    """Run a command; return its exit code and all that it says."""
    done = CliRunner().invoke(main, list(map(str, arguments)))
    return done.exit_code, done.output.strip()


def tables_of(address):
    """Return all rows of all tables, each table sorted."""
    engine = sa.create_engine(address)
    tables = sa.MetaData()
    tables.reflect(engine)
    with engine.connect() as connection:
        found = {
            name: sorted(map(repr, connection.execute(sa.select(table))))
            for name, table in tables.tables.items()
        }
    engine.dispose()
    return found


@pytest.fixture(params=["sqlite", "postgresql"])
def places(request, tmp_path):
    """Return for a name: the data folder, the settings of commands, the database's URL."""

    def place(name):
        folder = tmp_path / name
        if request.param == "sqlite":
            return folder, (), sqlite_of(folder)
        address = request.getfixturevalue("postgres")()
        return folder, ("-s", f"DATABASE_URL={address}"), address

    return place


def started(start_service, folder, settings):
    url = settings[1].partition("=")[2] if settings else None
    return start_service(folder, SCRAPER_DATABASE_URL=url)


@pytest.mark.full
@pytest.mark.slow_on("postgresql")
def test_a_backup_under_load_is_consistent_and_its_job_continues(
    places, site, start_service, tmp_path
):
    folder, settings, _ = places("old")
    service = started(start_service, folder, settings)
    start = {"url": site.url(SITE.path(0)), "limit": PAGES, "sitemap": "skip"}
    body = {**start, "maxConcurrency": 1}
    job_id = service.post("/v2/crawl", body).json["id"]
    kept = folder / "artefacts" / "ab" / f"{'ab' * 32}.png"
    kept.parent.mkdir(parents=True, mode=0o700)
    kept.write_bytes(b"a picture")
    code, key = run(*settings, "keys", "create", "--data-dir", folder)
    key = key.splitlines()[-1]
    assert code == 0

    def completed():
        return service.get(f"/v2/crawl/{job_id}?limit=1").json["completed"]

    wait_until(lambda: completed() > FIRST)
    code, text = run(*settings, "backup", tmp_path / "copy", "--data-dir", folder)
    assert code == 0, text
    assert "1 file of" in text
    assert completed() < PAGES, "the backup was not made under load"
    service.stop(signal.SIGKILL)

    folder, settings, address = places("new")
    code, text = run(*settings, "restore", tmp_path / "copy", "--data-dir", folder)
    assert code == 0, text
    assert (folder / kept.relative_to(tmp_path / "old")).read_bytes() == b"a picture"
    rows = read_rows(address, job_id)
    assert FIRST < len(rows.pages) < PAGES
    assert len(rows.ledger) == len(rows.pages)

    service = started(start_service, folder, settings)
    assert service.get("/v2/team/credit-usage", key=key).status == 200
    path = f"/v2/crawl/{job_id}?limit=1"
    found = wait_until(
        lambda: (status := service.get(path).json)["status"] == "completed" and status
    )
    assert (found["completed"], found["total"]) == (PAGES, PAGES)
    rows = read_rows(address, job_id)
    assert len({row["frontier_id"] for row in rows.pages}) == PAGES
    assert len(rows.ledger) == PAGES


def test_a_restored_database_equals_the_source(places, site, start_service, tmp_path):
    folder, settings, source = places("old")
    service = started(start_service, folder, settings)
    urls = [site.url("/article"), site.url("/status/404")]
    job_id = service.post("/v2/batch/scrape", {"urls": urls}).json["id"]
    path = f"/v2/batch/scrape/{job_id}"
    wait_until(lambda: service.get(path).json["status"] == "completed")
    assert service.stop() == 0
    code, text = run(*settings, "backup", tmp_path / "copy", "--data-dir", folder)
    assert code == 0, text
    folder, settings, address = places("new")
    assert run(*settings, "restore", tmp_path / "copy", "--data-dir", folder)[0] == 0
    found, expected = tables_of(address), tables_of(source)
    assert (
        len(found.pop("audit")) == len(expected.pop("audit")) > 0
    )  # tests/end_to_end/test_audit.py
    assert found == expected
    assert len(found["page"]) == len(urls)
    modes = {path.stat().st_mode & 0o077 for path in tmp_path.glob("copy/**/*")}
    assert modes == {0}
    again = run(*settings, "restore", tmp_path / "copy", "--data-dir", folder)
    url = sa.make_url(address)
    taken = "the job database exists already, or a part of one (jobs.sqlite-wal)"
    if url.get_backend_name() == "postgresql":
        place = f"{url.host}:{url.port}"
        taken = f"the PostgreSQL database {url.database} at {place} is not empty"
    assert again == (1, f"Error: {taken}: restore into an empty one")


@pytest.fixture
def copy(tmp_path):
    """A backup of a data folder with one key."""
    folder = tmp_path / "old"
    assert run("keys", "create", "--data-dir", folder)[0] == 0
    code, text = run("backup", tmp_path / "copy", "--data-dir", folder)
    assert code == 0, text
    return tmp_path / "copy"


def changed(copy, **values):
    path = copy / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def damage(copy):
    path = copy / "jobs.sqlite"
    found = bytearray(path.read_bytes())
    found[-100] ^= 1
    path.write_bytes(found)


@pytest.mark.full(keep=2)
@pytest.mark.parametrize(
    ("change", "options", "fault"),
    [
        (damage, (), "jobs.sqlite is missing or damaged"),
        (lambda copy: (copy / "key.secret").unlink(), (), "key.secret is missing"),
        (lambda copy: changed(copy, schema="v9999"), (), "tables of a newer version"),
        (lambda copy: changed(copy, schema="r0034"), (), "by an earlier version"),
        (lambda copy: changed(copy, form=99), (), "made by a newer version"),
        (lambda copy: (copy / MANIFEST).write_text("{"), (), "is no backup"),
        (lambda copy: changed(copy, another=1), (), "is no backup"),
        (lambda _: None, ("-s", "KEY_SECRET=another"), "belongs to another secret"),
        (
            lambda _: None,
            ("-s", "DATABASE_URL=postgresql://u:p@127.0.0.1:1/d"),
            "the backup is of sqlite, and SCRAPER_DATABASE_URL names a PostgreSQL",
        ),
    ],
)
def test_a_backup_that_does_not_fit_is_refused(copy, tmp_path, change, options, fault):
    change(copy)
    code, text = run(*options, "restore", copy, "--data-dir", tmp_path / "new")
    assert code == 1
    assert fault in text
    assert not (tmp_path / "new" / "jobs.sqlite").exists()


def test_no_database_is_restored_next_to_the_log_of_another(copy, tmp_path):
    new = tmp_path / "new"
    new.mkdir()
    (new / "jobs.sqlite-wal").write_bytes(b"rows of an earlier database")
    code, text = run("restore", copy, "--data-dir", new)
    assert code == 1
    assert "or a part of one (jobs.sqlite-wal): restore into an empty one" in text
    assert [path.name for path in new.iterdir()] == ["jobs.sqlite-wal"]


def test_another_secret_in_the_data_folder_is_not_replaced(copy, tmp_path):
    new = tmp_path / "new"
    new.mkdir()
    (new / "key.secret").write_text("another")
    code, text = run("restore", copy, "--data-dir", new)
    assert code == 1
    assert f"remove {new / 'key.secret'} if it is not needed" in text
    assert (new / "key.secret").read_text() == "another"


def test_a_backup_needs_an_empty_target_and_an_existing_source(copy, tmp_path):
    code, text = run("backup", copy, "--data-dir", tmp_path / "old")
    assert code == 1
    assert "exists already: name a new folder" in text
    code, text = run("backup", tmp_path / "b", "--data-dir", tmp_path / "nowhere")
    assert code == 1
    assert "there is no data directory" in text
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "empty").mkdir()
    code, text = run("backup", tmp_path / "b", "--data-dir", tmp_path / "empty")
    assert code == 1
    assert "there is no job database" in text
    assert {path.name for path in tmp_path.iterdir()} == {"old", "copy", "empty"}


def test_missing_programs_of_postgresql_are_named(postgres, tmp_path, monkeypatch):
    options = ("-s", f"DATABASE_URL={postgres()}")
    old = tmp_path / "old"
    assert run(*options, "keys", "create", "--data-dir", old)[0] == 0
    monkeypatch.setenv("PATH", str(tmp_path))
    code, text = run(*options, "backup", tmp_path / "copy", "--data-dir", old)
    assert code == 1
    assert "pg_dump is missing: install the client programs" in text
    assert {path.name for path in tmp_path.iterdir()} == {"old"}


def test_a_failure_of_postgresql_is_named_without_the_password(tmp_path):
    (tmp_path / "old").mkdir()
    options = ("-s", "DATABASE_URL=postgresql://u:hidden@127.0.0.1:1/d")
    code, text = run(*options, "backup", tmp_path / "b", "--data-dir", tmp_path / "old")
    assert code == 1
    assert "the job database at 127.0.0.1:1 cannot be opened" in text
    assert "hidden" not in text


def test_a_backup_warns_that_files_of_object_storage_are_missing(tmp_path):
    data = tmp_path / "data"
    with closing(Database(data)):
        pass
    arguments = ["backup", str(tmp_path / "backup"), "--data-dir", str(data)]
    store = ["-s", "ARTEFACT_STORE=s3://bucket/prefix"]
    done = CliRunner().invoke(main, [*store, *arguments])
    assert done.exit_code == 0, done.output
    assert "without the screenshots and PDFs in s3://bucket/prefix" in done.stderr
