"""The migrations and the tables say the same."""

from __future__ import annotations

import json
import warnings
from contextlib import closing
from functools import partial

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, select

from scraper_service.jobs import frontier, job_secrets, store
from scraper_service.jobs.database import HEAD, Database, migrate
from scraper_service.jobs.tables import metadata


def described(engine):
    """Return all that a database knows of its tables."""
    found = {}
    with engine.connect() as connection:
        look = inspect(connection)
        for table in look.get_table_names():
            lists = [
                look.get_columns(table),
                look.get_indexes(table),
                look.get_foreign_keys(table),
                look.get_unique_constraints(table),
                look.get_check_constraints(table),
            ]
            ordered = [sorted(map(plain, each)) for each in lists]
            found[table] = [look.get_pk_constraint(table), *ordered]
    return found


def plain(entry):
    return json.dumps(entry, default=str, sort_keys=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def migrated(request, tmp_path):
    """A database that was empty before the migrations were run."""
    if request.param == "sqlite":
        engine = create_engine(f"sqlite:///{tmp_path / 'migrated.sqlite'}")
    else:
        engine = create_engine(request.getfixturevalue("postgres")())
    with engine.begin() as connection:
        migrate(connection)
    yield engine
    engine.dispose()


def test_migrated_tables_are_those_of_the_code(migrated):
    with migrated.connect() as connection, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = MigrationContext.configure(connection)
        found = compare_metadata(context, metadata)
    assert [change for change in found if "alembic_version" not in str(change)] == []


def test_a_new_database_is_as_a_migrated_one(migrated, tmp_path, request):
    url = ""
    if migrated.dialect.name == "postgresql":
        url = request.getfixturevalue("postgres")()
    database = Database(tmp_path / "new", url)
    new, old = described(database.engine), described(migrated)
    database.close()
    assert new.keys() == old.keys()
    assert [name for name in new if new[name] != old[name]] == []


def test_a_migrated_database_is_taken_as_it_is(migrated, tmp_path):
    if migrated.dialect.name != "sqlite":
        pytest.skip("the same on both")
    (tmp_path / "old").mkdir()
    (tmp_path / "migrated.sqlite").rename(tmp_path / "old" / "jobs.sqlite")
    database = Database(tmp_path / "old")
    assert described(database.engine).keys() == {*metadata.tables, "alembic_version"}
    database.close()


def test_the_head_is_the_newest_migration():
    folder = ScriptDirectory("scraper_service/jobs/migrations")
    assert folder.get_current_head() == HEAD


CANARY = "canary-1234"
OLD_JOBS = ("completed", "scraping")


@pytest.fixture
def old(migrated):
    """A database from before secrets of jobs were encrypted, with two jobs in it."""
    secret = [["Cookie", CANARY]]
    typed = [{"type": "write", "text": CANARY}]
    scrape = {"headers": secret, "actions": typed, "mobile": True}
    with migrated.begin() as connection:
        connection.exec_driver_sql("DROP TABLE secret")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0016'")
        connection.exec_driver_sql(
            "INSERT INTO team (id, name, created_at)"
            " VALUES ('team', 'team', '2026-01-01 00:00:00')"
        )
        for state in OLD_JOBS:
            row = {
                **dict.fromkeys(("open", "done", "failed", "pages", "held"), 0),
                "id": state,
                "state": state,
                "team_id": "team",
                "kind": "batch",
                "version": 2,
                "url": "http://a.example/",
                "credits": 0,
                "created_at": 1,
                "expires_at": 9e9,
                "options": json.dumps({"url": "http://a.example/", "scrape": scrape}),
            }
            connection.execute(metadata.tables["job"].insert(), row)
            add(connection, "frontier", job_id=state, key=1, state=1)
            options = json.dumps(scrape)
            add(connection, "frontier", job_id=state, key=2, state=1, options=options)
            hook = {"url": "http://b.example/", "headers": secret, "events": []}
            connection.execute(
                metadata.tables["webhook"].insert(),
                {"job_id": state, "receiver": "b:80", "config": json.dumps(hook)},
            )
    return migrated


def add(connection, table, **values):
    row = {"url": "http://a.example/", "depth": 0, **values}
    connection.execute(metadata.tables[table].insert(), row)


def test_secrets_of_old_jobs_are_encrypted_or_dropped(old, tmp_path):
    url = old.url.render_as_string(hide_password=False)
    with closing(Database(tmp_path / "new", url, "a secret")) as database:
        parts = {
            name: [str(row) for row in rows]
            for name, rows in all_rows(database).items()
        }
        assert not [name for name, rows in parts.items() if CANARY in str(rows)]
        whole = database.write_at_once(store.get_whole_job, "scraping")
        scrape = json.loads(whole.options)["scrape"]
        assert scrape["headers"] == [["Cookie", CANARY]]
        assert scrape["actions"] == [{"type": "write", "text": CANARY}]
        rows = database.write_at_once(frontier.claim, "scraping", "owner", 9).rows
        assert [row.options and json.loads(row.options) for row in rows] == [
            None,
            scrape,
        ]
        read = partial(database.write_at_once, job_secrets.read)
        assert read("scraping", "webhook") == [["Cookie", CANARY]]
        for part in ("options", "webhook", "old 0", "old 1"):
            assert read("completed", part) is None
        ended = database.write_at_once(store.get_whole_job, "completed")
        scrape = json.loads(ended.options)["scrape"]
        assert scrape == {"headers": [], "actions": [], "mobile": True}
    if old.dialect.name == "sqlite":
        left = [p for p in tmp_path.rglob("*") if p.is_file()]
        assert not [path for path in left if CANARY.encode() in path.read_bytes()]


def all_rows(database):
    tables = [metadata.tables[name] for name in metadata.tables]
    return {
        table.name: database.write_at_once(
            lambda c, t=table: c.execute(select(t)).all()
        )
        for table in tables
    }
