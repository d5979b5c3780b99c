"""The migrations and the tables say the same."""

from __future__ import annotations

import json
import warnings

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect

from scraper_service.errors import DatabaseUnusable
from scraper_service.storage.database import HEAD, Database, migrate
from scraper_service.storage.schema import metadata


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
    folder = ScriptDirectory("scraper_service/storage/migrations")
    assert folder.get_current_head() == HEAD


def test_a_layout_from_before_the_first_release_is_refused(migrated, tmp_path):
    with migrated.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0017'")
    url = migrated.url.render_as_string(hide_password=False)
    with pytest.raises(DatabaseUnusable, match="before the first release"):
        Database(tmp_path / "new", url)
