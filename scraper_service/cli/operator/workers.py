"""`workers`: print the live processes of a database.

Heavy imports are inside the command, as in :mod:`scraper_service.cli.main`.
"""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from attrs import asdict

from scraper_service.cli.operator.keys import open_database
from scraper_service.cli.settings import data_dir_option
from scraper_service.errors import plural

if TYPE_CHECKING:
    from scraper_service.storage.frontier.workers import LiveWorker


@click.command("workers")
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines.")
@data_dir_option
@click.pass_obj
def workers_command(
    overrides: tuple[str, ...], as_json: bool, data_dir: str | None
) -> None:
    """Print the live processes that share a job database, the oldest first.

    A line has id, kind, host, process id, time of the start, number of running jobs, state
    and what it takes: jobs, operations, checks of monitors. A process that died without a
    word is listed until its lease ends, SCRAPER_LEASE_S after its last heartbeat.
    """
    from scraper_service.storage.frontier.workers import live_workers

    database, _ = open_database(overrides, data_dir)
    with closing(database), database.engine.begin() as connection:
        found = live_workers(connection)
    for each in found:
        click.echo(json.dumps(asdict(each)) if as_json else _line(each))


def _line(each: LiveWorker) -> str:
    started = "-"
    if each.started_at is not None:
        at = datetime.fromtimestamp(each.started_at, UTC)
        started = at.isoformat(timespec="seconds")
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
