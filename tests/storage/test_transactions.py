"""What functions declare of their transactions."""

from __future__ import annotations

import ast
import asyncio
import importlib
import pkgutil
import re
import string
from pathlib import Path

import pytest
from sqlalchemy import func, select

from scraper_service import storage
from scraper_service.errors import JobNotFound
from scraper_service.storage.database import Database
from scraper_service.storage.jobs import job_rows
from scraper_service.storage.schema import team
from scraper_service.storage.transactions import locking_of, transaction

PACKAGE = Path(storage.__file__).parents[1]
WRITTEN = re.compile(
    r"\b(?:(?:write(?:_later|_blocking)?|writing|store)\(|partial\([\w.]+\.write,)"
    r"\s*(?:\w+\.)*(\w+)"
)
LOCKING = {"lock_job", "lock_own_job", "lock_team", "lock_monitor", "holds"}
LOCKING |= {"with_for_update"}


def declared():
    """Yield the functions of the stores that declare what they lock."""
    found = pkgutil.walk_packages(storage.__path__, f"{storage.__name__}.")
    for name in [each.name for each in found if "migrations" not in each.name]:
        for each in vars(importlib.import_module(name)).values():
            if "locking" in getattr(each, "__dict__", {}):
                yield each


def test_names_of_locks_are_made_of_arguments():
    functions = list(declared())
    assert len(functions) > 50
    for function in functions:
        locking = locking_of(function)
        fields = [field for _, field, *_ in string.Formatter().parse(locking.name)]
        names = {field.partition(".")[0].partition("[")[0] for field in fields if field}
        assert names <= set(locking.parameters), function


def test_a_name_is_made_of_any_kind_of_argument():
    @transaction(first="{team_id}/{mode}")
    def count(connection, team_id, *, mode="crawl"):
        pass

    locking = locking_of(count)
    assert locking.name_of(("team",), {"mode": "map"}) == "!team/map"
    assert locking.name_of((), {"team_id": "team", "mode": "map"}) == "!team/map"
    assert not locking.is_row
    assert locking_of(lambda connection: None).name_of((), {}) == ""


@pytest.mark.parametrize("verb", ["write", "write_later", "read"])
def test_an_error_that_is_returned_is_raised_after_the_commit(tmp_path, verb):
    def add(connection):
        if verb != "read":
            job_rows.make_team(connection, "team")
        return JobNotFound("no job")

    database = Database(tmp_path)
    with pytest.raises(JobNotFound):
        asyncio.run(getattr(database, verb)(add))
    if verb != "read":
        with pytest.raises(JobNotFound):
            database.write_blocking(add)
        count = select(func.count()).select_from(team).where(team.c.id == "team")
        assert database.write_blocking(lambda c: c.scalar(count)) == 1
    database.close()


def test_functions_that_lock_declare_it():
    """The writer could otherwise lock in another order than other processes."""
    texts = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    written = {name for text in texts.values() for name in WRITTEN.findall(text)}
    functions = [
        node
        for path, text in texts.items()
        if path.is_relative_to(PACKAGE / "storage")
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
        and node.name in written
        and LOCKING & set(_names(node))
    ]
    assert len(functions) > 35
    assert [node.name for node in functions if not node.decorator_list] == []


def _names(node):
    """Yield names of functions, and those of the methods that wait for a lock."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif (
            isinstance(each, ast.Call)
            and isinstance(each.func, ast.Attribute)
            and "skip_locked" not in {keyword.arg for keyword in each.keywords}
        ):
            yield each.func.attr
