"""Load and check the settings of a command, and open its job database."""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy.settings import Settings
    from sqlalchemy import Connection

    from scraper_service.storage.accounts.audit import Actor
    from scraper_service.storage.database import Database


def data_dir_option(command: Any) -> Any:
    """Add the option for the data directory of the service."""
    return click.option(
        "--data-dir",
        type=click.Path(file_okay=False),
        help="Data directory of the service.  [default: data]",
    )(command)


def env_file_option(command: Any) -> Any:
    """Add the option for a file of environment variables, which is read before all others."""

    def read(_: click.Context, __: click.Parameter, path: str | None) -> None:
        if path is not None:
            read_env_file(Path(path))

    return click.option(
        "--env-file",
        type=click.Path(exists=True, dir_okay=False),
        is_eager=True,
        expose_value=False,
        callback=read,
        help="File with a line SCRAPER_<NAME>=VALUE for each setting. Variables of the"
        " environment win.",
    )(command)


def read_env_file(path: Path) -> None:
    """Add the variables of a file to the environment, whose own variables stay.

    Warns of settings without their prefix. Raises :exc:`click.UsageError` with the number
    of a line that sets no variable.
    """
    from dotenv.parser import parse_stream

    try:
        with path.open(encoding="utf-8-sig") as file:
            bindings = list(parse_stream(file))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path}: {error}") from error
    for binding in bindings:
        if binding.error or (binding.key is not None and binding.value is None):
            # The parser counts blank lines to the next one that has text.
            text = binding.original.string
            blank = text[: len(text) - len(text.lstrip())].count("\n")
            raise click.UsageError(
                f"{path}, line {binding.original.line + blank}: must be NAME=VALUE"
            )
        if binding.key is not None and binding.value is not None:
            os.environ.setdefault(binding.key, binding.value)
    # This module reads the environment, which is complete only now.
    from scraper_service.settings import is_setting

    for name in filter(is_setting, (binding.key for binding in bindings)):
        text = f"warning: {path}: {name} is not read; the setting is SCRAPER_{name}"
        click.echo(text, err=True)


def fetch_settings(overrides: Iterable[str], **options: Any) -> Settings:
    """Return the checked settings of a command that fetches and converts pages.

    The conversion is imported meanwhile, in a process of its own.
    """
    from scraper_service.crawling.converter_pool.converter import ForkServer

    ForkServer.start_ahead()
    settings = load_settings(overrides, **options)
    check_egress(settings)
    return settings


def check_egress(settings: Settings) -> None:
    """Check the settings of egress and proxies; raise :exc:`click.UsageError`.

    Without this check, Scrapy would only log that a download handler failed.
    """
    from scraper_service.crawling.egress import EgressPolicy
    from scraper_service.crawling.proxies import Proxies

    try:
        EgressPolicy(settings.getlist("EGRESS_ALLOW"))
        Proxies.shared(settings)
    except ValueError as error:
        raise click.UsageError(f"setting {error}") from error


def load_settings(overrides: Iterable[str], **options: Any) -> Settings:
    """Return the project's settings with ``NAME=VALUE`` overrides and ``options``.

    An option that is None changes nothing. Raises :exc:`click.UsageError` for an unknown
    setting or an invalid value.
    """
    os.environ.setdefault("SCRAPY_SETTINGS_MODULE", "scraper_service.settings")
    from scrapy.utils.project import get_project_settings

    from scraper_service.errors import variable
    from scraper_service.options.parsing import guesses
    from scraper_service.settings import check_settings, removed

    settings = get_project_settings()
    for override in overrides:
        name, separator, value = override.partition("=")
        if not separator:
            raise click.UsageError(f"-s {override}: must be NAME=VALUE")
        if name not in settings:
            hint = guesses([name], list(settings), {variable(x): x for x in settings})
            raise click.UsageError(
                f"-s {override}: no setting has the name {name};"
                f" {removed[name] + '; ' if name in removed else hint}"
                "see docs/reference/configuration.md"
            )
        settings.set(name, value, priority="cmdline")
    for name, value in options.items():
        if value is not None:
            settings.set(name, value, priority="cmdline")
    try:
        check_settings(settings)
    except ValueError as error:
        raise click.UsageError(f"setting {error}") from error
    return settings


def open_database(
    overrides: Iterable[str], data_dir: str | None, *, creates: bool = False
) -> tuple[Database, Settings]:
    """Return the job database and the settings; raise :exc:`click.ClickException`.

    Without ``creates`` the database must exist, so that a wrong folder is noticed. With it,
    standard error names the folder of a new database.
    """
    from scraper_service.errors import DatabaseUnusable
    from scraper_service.storage.database import Database

    settings = load_settings(overrides, DATA_DIR=data_dir)
    folder = Path(settings["DATA_DIR"])
    is_here = settings["DATABASE_URL"] or (folder / "jobs.sqlite").exists()
    if not (creates or is_here):
        raise click.ClickException(
            f"there is no job database in {folder}; name the folder of the service with"
            " --data-dir, or its database with SCRAPER_DATABASE_URL"
        )
    try:
        database = Database(
            folder,
            settings["DATABASE_URL"],
            settings["KEY_SECRET"],
        )
    except DatabaseUnusable as error:
        raise click.ClickException(str(error)) from error
    if not is_here:
        text = (
            f"a new job database was made in {folder}: only its service knows the key"
        )
        click.echo(text, err=True)
    return database, settings


def operator(settings: Settings) -> Actor | None:
    """Return who acts in the audit log, None if the log is off."""
    from scraper_service.storage.accounts.audit import COMMAND_LINE, Actor

    return Actor(COMMAND_LINE) if settings.getint("AUDIT_DAYS") else None


@contextmanager
def transaction(database: Database) -> Iterator[Connection]:
    """Yield a connection in a write transaction, then close the database.

    Writes work while a service uses the database.
    """
    with closing(database):
        # Lock at the start: SQLite refuses a transaction that reads first, if another
        # process has written before its first write.
        engine = database.engine.execution_options(immediate=True)
        with engine.begin() as connection:
            yield connection
