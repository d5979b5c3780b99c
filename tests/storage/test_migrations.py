"""The migrations and the tables say the same."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import warnings

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from scraper_service.errors import DatabaseUnusable
from scraper_service.storage.database import HEAD, Database, create_statements, migrate
from scraper_service.storage.schema import metadata
from tests.support.waiting import WAIT_S

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


def test_migrated_tables_equal_the_tables_of_the_code(migrated):
    with migrated.connect() as connection, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = MigrationContext.configure(connection)
        found = compare_metadata(context, metadata)
    beside = ("alembic_version", "search_index")  # not among SQLAlchemy's tables
    assert [each for each in found if not any(n in str(each) for n in beside)] == []


def test_a_new_database_equals_a_migrated_database(migrated, tmp_path, request):
    url = ""
    if migrated.dialect.name == "postgresql":
        url = request.getfixturevalue("postgres")()
    database = Database(tmp_path / "new", url)
    new, old = described(database.engine), described(migrated)
    database.close()
    assert new.keys() == old.keys()
    assert [name for name in new if new[name] != old[name]] == []


def test_a_migrated_database_is_opened_unchanged(migrated, tmp_path):
    if migrated.dialect.name != "sqlite":
        pytest.skip("the same on both")
    (tmp_path / "old").mkdir()
    (tmp_path / "migrated.sqlite").rename(tmp_path / "old" / "jobs.sqlite")
    database = Database(tmp_path / "old")
    beside = {"alembic_version", "search_index"}
    assert described(database.engine).keys() == {*metadata.tables, *beside}
    database.close()


def test_another_layout_has_another_version():
    """Change ``HEAD`` with the tables, then this digest.

    Otherwise a database of the old layout would be opened, and fail in its first statement.
    """
    layout = "\n".join(sorted(create_statements("sqlite")))
    digest = hashlib.sha256(layout.encode()).hexdigest()[:12]
    assert (HEAD, digest) == ("v0005", "90d49ad721bd")


def test_the_head_is_the_newest_migration():
    folder = ScriptDirectory("scraper_service/storage/migrations")
    assert folder.get_current_head() == HEAD


@pytest.mark.parametrize("revision", ["0017", "r0034", "v0001"])
def test_a_layout_from_before_the_first_release_is_refused(
    migrated, tmp_path, revision
):
    with migrated.begin() as connection:
        statement = f"UPDATE alembic_version SET version_num = '{revision}'"
        connection.exec_driver_sql(statement)
    url = migrated.url.render_as_string(hide_password=False)
    with pytest.raises(DatabaseUnusable, match="by an earlier version"):
        Database(tmp_path / "new", url)


def test_tables_of_a_newer_version_are_refused_with_advice(migrated, tmp_path):
    engine = migrated
    url = engine.url.render_as_string(hide_password=False)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'v9999'"))
    engine.dispose()
    done = subprocess.run(
        (
            *(sys.executable, "-m", "scraper_service", "serve", "--port", "0"),
            *("--data-dir", str(tmp_path)),
        ),
        env={**os.environ, "SCRAPER_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 1
    assert "newer version (v9999)" in done.stderr
    assert "install the newer version" in done.stderr
    assert "Traceback" not in done.stderr
    with engine.connect() as connection:
        found = connection.execute(text("SELECT version_num FROM alembic_version"))
        assert found.scalar() == "v9999"
