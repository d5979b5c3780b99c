"""The job database on both engines, for one suite of contract tests."""

from __future__ import annotations

import pytest

from scraper_service.storage.database import Database


@pytest.fixture(params=["sqlite", "memory", "postgresql"])
def database(request, tmp_path):
    """A fresh job database of each kind."""
    if request.param == "memory":
        opened = Database.in_memory()
    elif request.param == "sqlite":
        opened = Database(tmp_path)
    else:
        make_database = request.getfixturevalue("postgres_tables")
        opened = Database(tmp_path, make_database())
    yield opened
    opened.close()
