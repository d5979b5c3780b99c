"""Commands for operators of a service: keys, teams and their limits.

Heavy imports are inside the commands, as in :mod:`scraper_service.cli.main`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from scraper_service.cli.settings import (
    data_dir_option,
    open_database,
    operator,
    transaction,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from scraper_service.storage.accounts.teams import TeamRow


UNLIMITED = "unlimited"
MIB = 2**20
MAX_DAYS = 3650  # of a key
SCOPES = ("read", "scrape", "admin")  # as in scraper_service.options.limits
NO_LIMIT, USUAL_LIMIT = -1, -2  # as in scraper_service.storage.accounts.teams


class Amount(click.ParamType[int]):
    """A number of at least ``low``, or ``unlimited``.

    With ``has_default`` also ``default``, for the value of the settings.
    """

    name = "number|unlimited"

    def __init__(self, low: int, *, has_default: bool = False):
        self._low = low
        self._words = {UNLIMITED: NO_LIMIT}
        if has_default:
            self._words["default"] = USUAL_LIMIT
            self.name += "|default"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        if isinstance(value, int):
            return value
        if value in self._words:
            return self._words[value]
        if not (value.isascii() and value.isdigit()) or len(value) > 15:
            words = " or ".join(self._words)
            self.fail(f"must be a number or {words}, got {value!r}", param, ctx)
        if int(value) < self._low:
            words = " or ".join(self._words)
            self.fail(f"must be >= {self._low}, or {words}; got {value}", param, ctx)
        return int(value)


class Rate(click.ParamType["tuple[str, int | None]"]):
    """A rate: ``MODE=NUMBER``, or ``MODE=default`` for the rate of the service."""

    name = "mode=number"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, int | None]:
        from scraper_service.options.limits import Mode

        if isinstance(value, tuple):
            return value
        mode, _, number = value.partition("=")
        if mode not in set(Mode):
            modes = ", ".join(Mode)
            self.fail(f"the mode must be one of {modes}, got {mode!r}", param, ctx)
        if number == "default":
            return mode, None
        if not (number.isascii() and number.isdigit()) or len(number) > 9:
            self.fail(f"must be MODE=NUMBER or MODE=default, got {value!r}", param, ctx)
        return mode, int(number)


def limit_options(command: Any) -> Any:
    """Add the options for the limits of a team."""
    options = (
        click.option(
            "--credits",
            "credits_left",
            type=Amount(0),
            help="Credits that the team may spend from now on.",
        ),
        click.option(
            "--rate",
            "rates",
            type=Rate(),
            multiple=True,
            metavar="MODE=N",
            help="Calls per minute of a mode (scrape, crawl, map, extract, search,"
            " crawlStatus, extractStatus, account); 0 is unlimited, `default` is"
            " the value in SCRAPER_RATE_LIMITS. May be repeated.",
        ),
        click.option(
            "--concurrency",
            type=Amount(1),
            help="Pages that the team may fetch at a time, in all its jobs and scrapes.",
        ),
        click.option(
            "--disk-mb",
            type=Amount(1, has_default=True),
            help="MiB that the team may store, or `unlimited`; `default` is the value"
            " in SCRAPER_TEAM_DISK_MB.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group("keys")
def keys_group() -> None:
    """Create, list and revoke API keys."""


@keys_group.command("create")
@click.option("--name", default="", help="A name for the key.")
@click.option(
    "--team",
    "team_name",
    help="Id or name of the team; a new name creates a team.  [default: a new team]",
)
@click.option(
    "--expires-in",
    "days",
    type=click.IntRange(1, MAX_DAYS),
    help="Days until the key ends.  [default: it does not]",
)
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default=SCOPES[-1],
    show_default=True,
    help="What the key may do: read jobs and usage; scrape, which also starts and cancels"
    " jobs; or admin, which also changes settings of the team and deletes jobs.",
)
@limit_options
@data_dir_option
@click.pass_obj
def create_key_command(
    overrides: tuple[str, ...],
    name: str,
    team_name: str | None,
    days: int | None,
    scope: str,
    credits_left: int | None,
    rates: tuple[tuple[str, int | None], ...],
    concurrency: int | None,
    disk_mb: int | None,
    data_dir: str | None,
) -> None:
    """Create a key and print it; it is shown only now.

    Standard error shows the team of the key, and whether the team is new, and names the
    folder of a new job database. Credits, rates,
    concurrency and disk quota can be given only for a new team.
    """
    from scraper_service.options.limits import KeyScope
    from scraper_service.storage.accounts import teams
    from scraper_service.storage.secrets import key_secret

    if team_name is not None and not team_name.strip():
        raise click.UsageError("--team must be a name or an id, got an empty text")
    database, settings = open_database(overrides, data_dir, creates=True)
    secret = key_secret(database.data_dir, settings["KEY_SECRET"])
    change = teams.TeamChange(
        credits=credits_left,
        concurrency=concurrency,
        rates=dict(rates),
        disk_mb=disk_mb,
    )
    with transaction(database) as connection:
        if not teams.is_known_secret(connection, secret):
            raise click.ClickException(teams.MISMATCH)
        known = find_team_id(connection, team_name) if team_name else None
        if known is not None and change != teams.TeamChange():
            raise click.UsageError(
                f"the team {team_name!r} exists: change what it may do with `teams set`"
            )
        team_id = known or teams.create_team(connection, team_name or name)
        teams.change_team(connection, team_id, change, operator(settings))
        life = None if days is None else timedelta(days=days)
        key = teams.create_key(
            connection,
            secret,
            name,
            team_id,
            life,
            KeyScope(scope),
            operator(settings),
        )
        team = next(t for t in teams.list_teams(connection) if t.id == team_id)
    click.echo(f"{'the team' if known else 'a new team'}: {describe(team)}", err=True)
    click.echo(key)


@keys_group.command("list")
@data_dir_option
@click.pass_obj
def list_keys_command(overrides: tuple[str, ...], data_dir: str | None) -> None:
    """List keys: id, last characters, state, scope, creation, name, expiry, team, limits."""
    from scraper_service.storage.accounts import teams

    database, _ = open_database(overrides, data_dir)
    with transaction(database) as connection:
        of_team = {team.id: team for team in teams.list_teams(connection)}
        for key in teams.list_keys(connection):
            made = key.created_at.strftime("%Y-%m-%d %H:%M")
            ends = f"  until {key.expires_at:%Y-%m-%d %H:%M}" if key.expires_at else ""
            team = describe(of_team[key.team_id])
            click.echo(
                f"{key.id}  ...{key.hint}  {key.state:7}  {key.scope:6}  {made}  {key.name or '-'}{ends}"
                f"  team {team}"
            )


@keys_group.command("revoke")
@click.argument("key_id")
@data_dir_option
@click.pass_obj
def revoke_key_command(
    overrides: tuple[str, ...], key_id: str, data_dir: str | None
) -> None:
    """Revoke the key with the id KEY_ID; `keys list` shows the ids."""
    from scraper_service.storage.accounts import teams

    database, settings = open_database(overrides, data_dir)
    with transaction(database) as connection:
        if not teams.revoke_key(connection, key_id, operator(settings)):
            raise click.ClickException(f"no valid key has the id {key_id}")
    click.echo(f"revoked {key_id}")


@keys_group.command("forget-secret")
@data_dir_option
@click.pass_obj
def forget_secret_command(overrides: tuple[str, ...], data_dir: str | None) -> None:
    """Let services start with a new secret, because the old one is lost.

    All API keys, stored sessions and secrets of running jobs are unreadable then: create
    new keys. Services that run keep their secret until they end.
    """
    from scraper_service.storage.accounts import teams

    database, _ = open_database(overrides, data_dir)
    with transaction(database) as connection:
        teams.forget_secret(connection)
    click.echo(
        "the next service may have any secret; keys of the old one are not valid"
    )


@click.group("teams")
def teams_group() -> None:
    """List teams, and change their limits."""


@teams_group.command("list")
@data_dir_option
@click.pass_obj
def list_teams_command(overrides: tuple[str, ...], data_dir: str | None) -> None:
    """List teams: id, name, remaining credits, concurrency, rates, stored bytes."""
    from scraper_service.storage.accounts import teams

    database, _ = open_database(overrides, data_dir)
    with transaction(database) as connection:
        for team in teams.list_teams(connection):
            click.echo(describe(team))


@teams_group.command("set")
@click.argument("team")
@click.option("--name", help="A new name.")
@click.option("--add-credits", type=click.IntRange(1, 10**15), help="Credits to add.")
@limit_options
@data_dir_option
@click.pass_obj
def set_team_command(
    overrides: tuple[str, ...],
    team: str,
    name: str | None,
    add_credits: int | None,
    credits_left: int | None,
    rates: tuple[tuple[str, int | None], ...],
    concurrency: int | None,
    disk_mb: int | None,
    data_dir: str | None,
) -> None:
    """Change the TEAM with this id or name, also while the service runs.

    --credits does not include credits that running jobs have reserved. Reserved credits
    that a job does not use are added later.
    """
    from scraper_service.storage.accounts import teams

    if credits_left is not None and add_credits is not None:
        raise click.UsageError("give --credits or --add-credits, not both")
    change = teams.TeamChange(
        name=name,
        credits=credits_left,
        more_credits=add_credits,
        concurrency=concurrency,
        rates=dict(rates),
        disk_mb=disk_mb,
    )
    if change == teams.TeamChange():
        raise click.UsageError("say what to change, such as --credits 1000")
    database, settings = open_database(overrides, data_dir)
    with transaction(database) as connection:
        team_id = find_team_id(connection, team)
        if team_id is None:
            raise click.ClickException(f"no team has the id or name {team!r}")
        try:
            teams.change_team(connection, team_id, change, operator(settings))
        except ValueError as error:
            raise click.ClickException(str(error)) from error
        changed = next(t for t in teams.list_teams(connection) if t.id == team_id)
        click.echo(describe(changed))


def find_team_id(connection: Connection, text: str) -> str | None:
    """Return the id of the team with this id or name, None if no team matches.

    Raises :exc:`click.ClickException` if several teams have the name.
    """
    from scraper_service.storage.accounts import teams

    found = teams.teams_named(connection, text)
    if len(found) > 1:
        ids = ", ".join(found)
        raise click.ClickException(f"{len(found)} teams have the name {text!r}: {ids}")
    return found[0] if found else None


def describe(team: TeamRow) -> str:
    """Return a line that describes a team and its limits."""
    left = UNLIMITED
    if team.credits is not None:
        left = f"{team.credits} of {team.plan_credits}"
    quota = {None: "default", 0: UNLIMITED}.get(team.disk_mb, f"{team.disk_mb} MiB")
    rates = ",".join(f"{mode}={count}" for mode, count in sorted(team.rates.items()))
    return (
        f"{team.id}  {team.name or '-'}  credits {left}"
        f"  concurrency {team.concurrency or UNLIMITED}  rates {rates or 'default'}"
        f"  disk {team.disk_used / MIB:.1f} MiB of {quota}"
    )
