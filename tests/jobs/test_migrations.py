"""The migrations and the tables say the same."""

from __future__ import annotations

import warnings

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from scraper_service.jobs.database import HEAD
from scraper_service.jobs.tables import metadata


def test_migrated_tables_are_those_of_the_code(database):
    with database.engine.connect() as connection, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = MigrationContext.configure(connection)
        found = compare_metadata(context, metadata)
    assert [change for change in found if "alembic_version" not in str(change)] == []


def test_the_head_is_the_newest_migration():
    folder = ScriptDirectory("scraper_service/jobs/migrations")
    assert folder.get_current_head() == HEAD
