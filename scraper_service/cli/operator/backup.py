"""`backup` and `restore`: the data of a service in a folder.

Heavy imports are inside the commands, as in :mod:`scraper_service.cli.main`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scraper_service.cli.operator.audit import record_act
from scraper_service.cli.operator.keys import open_database
from scraper_service.cli.settings import data_dir_option, load_settings
from scraper_service.errors import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scraper_service.storage.files.backup import Manifest

MIB = 2**20


@click.command("backup")
@click.argument("folder", type=click.Path(path_type=Path))
@data_dir_option
@click.pass_obj
def backup_command(
    overrides: tuple[str, ...], folder: Path, data_dir: str | None
) -> None:
    """Copy all data of the service into the new FOLDER, while the service runs.

    The folder has the job database, the secret and all files. Who can read it can use all
    keys of the service. PostgreSQL needs the program pg_dump.
    """
    from scraper_service.storage.files.backup import back_up

    made = _done(back_up, folder, overrides, data_dir)
    _record("service.backed-up", folder, overrides, data_dir, made)
    click.echo(f"{folder}: {_describe(made)}")
    settings: Any = load_settings(overrides, DATA_DIR=data_dir)
    if url := settings["ARTEFACT_STORE"]:
        from scraper_service.storage.files.blob_stores import redact_url

        click.echo(f"without the screenshots and PDFs in {redact_url(url)}", err=True)


@click.command("restore")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@data_dir_option
@click.pass_obj
def restore_command(
    overrides: tuple[str, ...], folder: Path, data_dir: str | None
) -> None:
    """Restore a backup into an empty data directory or PostgreSQL database.

    Running jobs of the backup go on when the service starts. PostgreSQL needs the program
    pg_restore.
    """
    from scraper_service.storage.files.backup import restore

    made = _done(restore, folder, overrides, data_dir)
    _record("service.restored", folder, overrides, data_dir, made)
    click.echo(f"restored {_describe(made)}")


def _done(
    work: Callable[..., Manifest],
    folder: Path,
    overrides: Iterable[str],
    data_dir: str | None,
) -> Manifest:
    """Run ``work``; raise :exc:`click.ClickException` with the reason of a failure."""
    from scraper_service.errors import BackupFailed, DatabaseUnusable

    settings: Any = load_settings(overrides, DATA_DIR=data_dir)
    source = Path(settings["DATA_DIR"])
    try:
        return work(folder, source, settings["DATABASE_URL"], settings["KEY_SECRET"])
    except (BackupFailed, DatabaseUnusable) as error:
        raise click.ClickException(str(error)) from error


def _record(
    action: str,
    folder: Path,
    overrides: Iterable[str],
    data_dir: str | None,
    made: Manifest,
) -> None:
    """Write an act into the audit log, unless that would migrate the database."""
    from scraper_service.storage.database import HEAD

    if made.schema != HEAD:
        return
    database, settings = open_database(overrides, data_dir)
    path = str(folder.absolute())
    record_act(database, settings, action, path, madeAt=made.made_at)


def _describe(made: Manifest) -> str:
    return (
        f"the {made.database} database of {made.made_at} (version {made.version}),"
        f" {plural(made.files, 'file')} of {made.bytes / MIB:.1f} MiB"
    )
