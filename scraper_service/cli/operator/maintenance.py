"""Commands that maintain a service: `backup`, `restore`, `gc`, `workers` and `audit`.

Heavy imports are inside the commands, as in :mod:`scraper_service.cli.main`.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict

from scraper_service.cli.operator.accounts import find_team_id
from scraper_service.cli.settings import (
    data_dir_option,
    load_settings,
    open_database,
    operator,
    transaction,
)
from scraper_service.cli.terminal import utc
from scraper_service.errors import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy.settings import Settings

    from scraper_service.storage.accounts.audit import AuditEntry
    from scraper_service.storage.database import Database
    from scraper_service.storage.files.backup import Manifest
    from scraper_service.storage.frontier.leases import LiveWorker


MIB = 2**20


def record_act(
    database: Database,
    settings: Settings,
    action: str,
    target: str | None = None,
    **detail: Any,
) -> None:
    """Write an act of the operator on the whole service, and close the database."""
    from scraper_service.storage.accounts import audit

    with transaction(database) as connection:
        actor = operator(settings)
        audit.record(connection, actor, action, target, **detail)


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


@click.command("gc")
@data_dir_option
@click.pass_obj
def gc_command(overrides: tuple[str, ...], data_dir: str | None) -> None:
    """Delete expired jobs, pages and files now.

    The service does so by itself, at its start and while it runs. Deleted rows leave space in
    the file of SQLite that later rows use.
    """
    from scraper_service.crawling.artefacts import shared_artefacts
    from scraper_service.errors import ServiceUnavailable
    from scraper_service.services.upkeep import expire, expire_charges

    database, settings = open_database(overrides, data_dir)

    async def expire_all() -> None:
        await expire(database, settings)
        await expire_charges(database, settings)
        files = shared_artefacts(settings)
        while await files.sweep(database):
            pass

    with closing(database):
        folder = database.data_dir
        before = _bytes_of(folder)
        try:
            asyncio.run(expire_all())
        except (ServiceUnavailable, ValueError) as error:
            raise click.ClickException(str(error)) from error
        record_act(database, settings, "service.gc")
    after = _bytes_of(folder)
    click.echo(f"{folder}: {after / MIB:.1f} MiB, before {before / MIB:.1f} MiB")


def _bytes_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    found = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # the service has just deleted it
            if path.is_file():
                found += path.stat().st_size
    return found


@click.command("workers")
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines.")
@data_dir_option
@click.pass_obj
def workers_command(
    overrides: tuple[str, ...], as_json: bool, data_dir: str | None
) -> None:
    """Print the live processes that share a job database, the oldest first.

    A line has id, kind, host, process id, time of the start, number of running jobs, state
    and what it takes: jobs, operations (model jobs), checks of monitors. A process that died without a
    word is listed until its lease ends, SCRAPER_LEASE_S after its last heartbeat.
    """
    from scraper_service.storage.frontier.leases import live_workers

    database, _ = open_database(overrides, data_dir)
    with closing(database), database.engine.begin() as connection:
        found = live_workers(connection)
    for each in found:
        click.echo(json.dumps(asdict(each)) if as_json else _line(each))


def _line(each: LiveWorker) -> str:
    started = "-" if each.started_at is None else utc(each.started_at)
    return "  ".join(
        (
            each.id,
            each.kind or "unknown",
            each.host or "-",
            str(each.pid or "-"),
            started,
            plural(each.jobs, "job"),
            "draining" if each.drains else "running",
            ",".join(each.takes) or "-",
        )
    )


SLICE = 500  # entries in memory


@click.command("audit")
@click.option(
    "--since",
    metavar="TIME",
    callback=lambda _context, _parameter, given: _seconds(given),
    help="Only entries from this day or time on (ISO 8601), in UTC if it names no time"
    " zone.",
)
@click.option(
    "--team", "team_name", help="Only entries of the team with this id or name."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines.")
@data_dir_option
@click.pass_obj
def audit_command(
    overrides: tuple[str, ...],
    since: float,
    team_name: str | None,
    as_json: bool,
    data_dir: str | None,
) -> None:
    """Print the audit log, the oldest entry first.

    A line has time, action, target, result, key or `-`, peer, team and details. The setting
    AUDIT_DAYS says how long entries are kept.
    """
    from scraper_service.storage.accounts.audit import read_oldest
    from scraper_service.storage.transactions import ListPosition

    database, _ = open_database(overrides, data_dir)
    after, team_id = ListPosition(since, ""), None
    with closing(database):
        if team_name:
            with database.engine.begin() as connection:
                team_id = find_team_id(connection, team_name)
            if team_id is None:
                raise click.ClickException(f"no team has the id or name {team_name!r}")
        while True:
            # A transaction each: a reader that waits must not hold up the database.
            with database.engine.begin() as connection:
                found = read_oldest(connection, team_id, after, SLICE)
            if not found:
                return
            for entry in found:
                click.echo(_entry_json(entry) if as_json else _entry_line(entry))
            after = ListPosition(found[-1].at, found[-1].id)


def _seconds(given: str | None) -> float:
    """Return a time in seconds since 1970, 0 for none; raise :exc:`click.BadParameter`."""
    from scraper_service.options.jobs import iso_seconds

    try:
        return 0.0 if given is None else iso_seconds(given)
    except ValueError:
        raise click.BadParameter(
            "must be a day or a time in ISO 8601, such as 2026-01-31 or"
            f" 2026-01-31T12:00:00Z, got {str(given)[:60]!r}"
        ) from None


def _entry_json(entry: AuditEntry) -> str:
    facts = {
        "id": entry.id,
        "at": utc(entry.at),
        "action": entry.action,
        "target": entry.target,
        "teamId": entry.team_id,
        "keyId": entry.key_id,
        "keyName": entry.key_name,
        "peer": entry.peer,
        "result": entry.result,
        "detail": entry.detail,
    }
    return json.dumps(facts)


def _entry_line(entry: AuditEntry) -> str:
    detail = " ".join(f"{k}={json.dumps(v)}" for k, v in entry.detail.items())
    key = f"{entry.key_name or 'key'} ({entry.key_id})" if entry.key_id else "-"
    # JSON for names that callers choose, so that no letter of them moves the terminal.
    parts = (
        *(utc(entry.at), entry.action, entry.target or "-", entry.result),
        *(key, entry.peer, f"team {entry.team_id or '-'}", detail),
    )
    return "  ".join(
        part if part.isprintable() else json.dumps(part) for part in parts if part
    )
