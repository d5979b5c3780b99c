"""`gc`: delete what has expired, and give its space back.

Heavy imports are inside the commands, as in :mod:`scraper_service.cli.main`.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import click

from scraper_service.cli.operator.audit import record_act
from scraper_service.cli.operator.keys import open_database
from scraper_service.cli.settings import data_dir_option

if TYPE_CHECKING:
    from pathlib import Path

MIB = 2**20


@click.command("gc")
@click.option(
    "--compact",
    is_flag=True,
    help="Make a SQLite file smaller too. No service may use it meanwhile, and the disk needs"
    " room for another copy.",
)
@data_dir_option
@click.pass_obj
def gc_command(overrides: tuple[str, ...], compact: bool, data_dir: str | None) -> None:
    """Delete expired jobs, pages and files now.

    The service does so by itself, at its start and while it runs. Deleted rows leave room in
    the file of SQLite that later rows use.
    """
    from scraper_service.crawling.artefacts import shared_artefacts
    from scraper_service.errors import ServiceUnavailable
    from scraper_service.services.upkeep import expire, expire_charges
    from scraper_service.storage.connections import is_sqlite

    database, settings = open_database(overrides, data_dir)

    async def expire_all() -> None:
        await expire(database, settings)
        await expire_charges(database, settings)
        files = shared_artefacts(settings)
        while await files.sweep(database):
            pass

    with closing(database):
        url, folder = database.engine.url, database.data_dir
        if compact and not is_sqlite(url):
            text = "--compact is for SQLite: PostgreSQL does it by itself"
            raise click.UsageError(text)
        before = _bytes_of(folder)
        try:
            asyncio.run(expire_all())
        except (ServiceUnavailable, ValueError) as error:
            raise click.ClickException(str(error)) from error
        record_act(database, settings, "service.gc", compact=False)
    if compact:
        _compact(url.database)
        database, settings = open_database(overrides, data_dir)
        with closing(database):
            record_act(database, settings, "service.gc", compact=True)
    after = _bytes_of(folder)
    click.echo(f"{folder}: {after / MIB:.1f} MiB, before {before / MIB:.1f} MiB")


def _compact(path: str | None) -> None:
    """Write a SQLite file anew. Raises :exc:`click.ClickException`."""
    try:
        with closing(
            sqlite3.connect(path or "", timeout=0, isolation_level=None)
        ) as connection:
            # Only the last connection to a file may end its write-ahead log.
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("VACUUM")
    except sqlite3.Error as error:
        text = f"the file was not made smaller: {error}; stop what uses it first"
        raise click.ClickException(text) from error


def _bytes_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    found = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # the service has just deleted it
            if path.is_file():
                found += path.stat().st_size
    return found
