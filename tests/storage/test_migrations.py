"""The migrations and the tables say the same."""

from __future__ import annotations

import json
import warnings

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from scraper_service.errors import DatabaseUnusable
from scraper_service.storage.database import HEAD, Database, migrate
from scraper_service.storage.schema import metadata

# FTS5 keeps a full-text index in tables of its own.
SHADOWS = "search_index_"


def described(engine):
    """Return all that a database knows of its tables."""
    found = {}
    with engine.connect() as connection:
        look = inspect(connection)
        for table in look.get_table_names():
            if table.startswith(SHADOWS):
                continue
            lists = [
                look.get_columns(table),
                look.get_indexes(table),
                look.get_foreign_keys(table),
                look.get_unique_constraints(table),
                look.get_check_constraints(table),
            ]
            if engine.dialect.name == "postgresql":
                options = text("SELECT reloptions FROM pg_class WHERE relname = :name")
                lists.append(connection.scalars(options, {"name": table}).all())
                forms = text(
                    "SELECT attname || attstorage::text FROM pg_attribute"
                    " WHERE attrelid = CAST(:name AS regclass) AND attnum > 0"
                    " AND NOT attisdropped"
                )
                lists.append(connection.scalars(forms, {"name": table}).all())
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
    beside = ("alembic_version", "search_index")  # not among SQLAlchemy's tables
    assert [each for each in found if not any(n in str(each) for n in beside)] == []


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
    beside = {"alembic_version", "search_index"}
    assert described(database.engine).keys() == {*metadata.tables, *beside}
    database.close()


def test_the_head_is_the_newest_migration():
    folder = ScriptDirectory("scraper_service/storage/migrations")
    assert folder.get_current_head() == HEAD


@pytest.mark.parametrize("revision", ["0017", "r0001"])
def test_a_layout_from_before_the_first_release_is_refused(
    migrated, tmp_path, revision
):
    with migrated.begin() as connection:
        statement = f"UPDATE alembic_version SET version_num = '{revision}'"
        connection.exec_driver_sql(statement)
    url = migrated.url.render_as_string(hide_password=False)
    with pytest.raises(DatabaseUnusable, match="before the first release"):
        Database(tmp_path / "new", url)


OLD = f"""
INSERT INTO team (id, name, created_at) VALUES ('t', 't', '2026-01-01 00:00:00');
INSERT INTO activity (id, team_id, endpoint, version, at) VALUES ('c', 't', 'map', 2, 7);
INSERT INTO job (id, team_id, kind, version, state, url, options, open, done, failed,
    pages, held, skipped, credits, created_at, expires_at)
  VALUES ('kept', 't', 'crawl', 2, 'scraping', 'http://{"x" * 400}', '{{"scrape":
      {{"zero_data_retention": false}}}}', 1, 0, 0, 0, 0, 9, 0, 5, 9),
    ('hidden', 't', 'crawl', 2, 'queued', 'http://b/', '{{"scrape":
      {{"zero_data_retention": true}}}}', 1, 0, 0, 0, 0, 0, 0, 5, 9);
INSERT INTO frontier (job_id, key, url, depth, state) VALUES
  ('kept', 1, 'u', 1, 5), ('kept', 2, 'u', 1, 6), ('kept', 3, 'u', 1, 3);
INSERT INTO secret (job_id, part, body)
  VALUES ('kept', 'options', 'a'), ('hidden', 'webhook', 'b')
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_jobs_of_the_first_release_are_listed(kind, tmp_path, request):
    if kind == "sqlite":
        engine = create_engine(f"sqlite:///{tmp_path / 'old.sqlite'}")
    else:
        engine = create_engine(request.getfixturevalue("postgres")())
    with engine.begin() as connection:
        migrate(connection, "r0002")
        for statement in OLD.split(";"):
            connection.exec_driver_sql(statement)
        migrate(connection)
        columns = "target, skipped, started_at, retention_s, secrets"
        rows = f"SELECT id, {columns} FROM job ORDER BY id"
        kept = "http://" + "x" * 293
        assert list(connection.exec_driver_sql(rows)) == [
            ("hidden", None, 0, None, 86_400, None),
            ("kept", kept, 2, 5, 86_400, "headers"),
        ]
        calls = "SELECT expires_at FROM activity"
        assert connection.exec_driver_sql(calls).scalar() == 86_407
    engine.dispose()


def test_what_was_stored_before_disk_quotas_is_counted(tmp_path, request):
    for engine in (
        create_engine(f"sqlite:///{tmp_path / 'old.sqlite'}"),
        create_engine(request.getfixturevalue("postgres")()),
    ):
        with engine.begin() as connection:
            migrate(connection, "r0015")
            for statement in STORED_BEFORE:
                connection.execute(text(statement))
            migrate(connection)
        with engine.connect() as connection:
            uses = "SELECT team_id, SUM(bytes) FROM disk_use GROUP BY team_id"
            found = {row[0]: int(row[1]) for row in connection.execute(text(uses))}
            stored = connection.scalar(text("SELECT stored FROM job"))
        engine.dispose()
        assert (found, stored) == ({"t": 9, "u": 3}, 6)


_COUNTS = "open, done, failed, pages, held, credits"
STORED_BEFORE = (
    (
        "INSERT INTO team (id, name, created_at) VALUES ('t', '', '2026-01-01 00:00:00'),"
        " ('u', '', '2026-01-01 00:00:00')"
    ),
    f"""INSERT INTO job (id, team_id, kind, version, state, url, options, {_COUNTS},
        created_at, expires_at)
        VALUES ('j', 't', 'crawl', 2, 'completed', '', '{{}}', 0, 0, 0, 1, 0, 0, 1, 9)""",
    (
        "INSERT INTO page (id, job_id, seq, size, frontier_id, body)"
        " VALUES ('p', 'j', 0, 99, 1, 'abc')"
    ),
    (
        "INSERT INTO page_source (page_id, job_id, size, facts, head, body)"
        " VALUES ('p', 'j', 99, '{}', 'a', 'bc')"
    ),
    (
        "INSERT INTO scrape (id, team_id, body, expires_at)"
        " VALUES ('s', 't', 'abc', 9), ('v', 'u', 'abc', 9)"
    ),
)


IN_JOBS = f"""
INSERT INTO team (id, name, created_at) VALUES ('t', 't', '2026-01-01 00:00:00');
INSERT INTO job (id, team_id, kind, version, state, url, options, {_COUNTS},
    created_at, expires_at)
  VALUES ('a', 't', 'crawl', 2, 'scraping', 'http://a/', '{{}}', 1, 0, 0, 1, 0, 0, 1, 9),
    ('b', 't', 'crawl', 2, 'scraping', 'http://b/', '{{}}', 1, 0, 0, 0, 0, 0, 2, 9);
INSERT INTO frontier (job_id, key, url, depth, state, token, owner, page_id, code)
  VALUES ('a', 1, 'u', 1, 3, 7, NULL, 'p', NULL), ('b', 1, 'v', 2, 2, 4, 'o', NULL, 'x'),
    ('a', 2, 'w', 0, 1, 0, NULL, NULL, NULL);
INSERT INTO page (id, job_id, seq, size, frontier_id, body)
  VALUES ('p', 'a', 0, 9, 1, 'abc');
INSERT INTO page_source (page_id, job_id, size, facts, head, body)
  VALUES ('p', 'a', 9, 'f', 'h', 'b');
INSERT INTO event (job_id, kind, page_id, at) VALUES ('a', 'started', NULL, 1),
  ('b', 'started', NULL, 2), ('a', 'page', 'p', 3), ('b', 'gone', NULL, 4);
INSERT INTO page_text (job_id, host, url, fingerprint, blocks)
  VALUES ('b', 'h', 'u', -1, '');
DELETE FROM event WHERE kind = 'gone'
"""
OF_JOBS = {
    "frontier": (
        "id, key, url, depth, state, token, owner, page_id, code",
        "frontier.id",
    ),
    "page": ("seq, size, frontier_id, body", "seq"),
    "page_source": ("page_id, size, facts, head, body", "page_id"),
    "event": ("kind, page_id, at, row_id", "event.id"),
    "page_text": ("host, page_text.url, fingerprint, blocks", "page_text.id"),
}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_rows_of_jobs_stay_when_jobs_get_numbers(kind, tmp_path, request):
    if kind == "sqlite":
        engine = create_engine(f"sqlite:///{tmp_path / 'old.sqlite'}")
    else:
        engine = create_engine(request.getfixturevalue("postgres")())

    def rows(connection, on):
        found = {}
        for table, (columns, order) in OF_JOBS.items():
            names = ", ".join(
                name if "." in name else f"{table}.{name}"
                for name in columns.split(", ")
            )
            query = (
                f"SELECT job.id, {names} FROM {table} JOIN job ON {on} ORDER BY {order}"
            )
            found[table] = [
                [bytes(x) if isinstance(x, memoryview) else x for x in row]
                for row in connection.exec_driver_sql(query)
            ]
        return found

    with engine.begin() as connection:
        migrate(connection, "r0028")
        for statement in IN_JOBS.split(";"):
            connection.exec_driver_sql(statement)
        before = rows(connection, "job.id = job_id")
        assert all(before.values())
        migrate(connection)
        assert rows(connection, "job.number = job_number") == before
        newest = connection.exec_driver_sql(
            "INSERT INTO event (job_number, kind, at)"
            " SELECT number, 'new', 5 FROM job WHERE id = 'a' RETURNING id"
        ).scalar()
        # SQLite has given the number of the newest event again before, too.
        assert newest == (5 if kind == "postgresql" else 4)
    engine.dispose()
