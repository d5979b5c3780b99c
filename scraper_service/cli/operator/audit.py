"""`audit`: print who changed keys, teams and jobs, and what the operator did.

Heavy imports are inside the commands, as in :mod:`scraper_service.cli.main`.
"""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from scraper_service.cli.operator.keys import (
    find_team_id,
    open_database,
    operator,
    transaction,
)
from scraper_service.cli.settings import data_dir_option

if TYPE_CHECKING:
    from scrapy.settings import Settings

    from scraper_service.storage.accounts.audit import AuditEntry
    from scraper_service.storage.database import Database

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
    from scraper_service.storage.accounts.audit import AuditPosition, read_oldest

    database, _ = open_database(overrides, data_dir)
    after, team_id = AuditPosition(since, ""), None
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
                click.echo(_json(entry) if as_json else _line(entry))
            after = AuditPosition(found[-1].at, found[-1].id)


def _seconds(given: str | None) -> float:
    """Return a time in seconds since 1970, 0 for none; raise :exc:`click.BadParameter`."""
    if given is None:
        return 0.0
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise click.BadParameter(
            "must be a day or a time in ISO 8601, such as 2026-01-31 or"
            f" 2026-01-31T12:00:00Z, got {given[:60]!r}"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _time(entry: AuditEntry) -> str:
    return datetime.fromtimestamp(entry.at, UTC).isoformat(timespec="seconds")


def _json(entry: AuditEntry) -> str:
    facts = {
        "id": entry.id,
        "at": _time(entry),
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


def _line(entry: AuditEntry) -> str:
    detail = " ".join(f"{k}={json.dumps(v)}" for k, v in entry.detail.items())
    key = f"{entry.key_name or 'key'} ({entry.key_id})" if entry.key_id else "-"
    # JSON for names that callers choose, so that no letter of them moves the terminal.
    parts = (
        *(_time(entry), entry.action, entry.target or "-", entry.result),
        *(key, entry.peer, f"team {entry.team_id or '-'}", detail),
    )
    return "  ".join(
        part if part.isprintable() else json.dumps(part) for part in parts if part
    )


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
