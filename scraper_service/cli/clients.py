"""The client that a command calls, and the options that choose it.

:class:`~scraper_service.cli.remote.RemoteClient` lets a running service do the work,
:class:`~scraper_service.cli.local.LocalClient` does it in this process. They have the same
methods, so that no command exists twice. Bodies are those of /v2, and pages are its
objects. Methods raise :exc:`click.ClickException`, and :exc:`click.UsageError` for a refused
body.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from attrs import frozen

from scraper_service.cli.options import with_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.cli.local import LocalClient
    from scraper_service.cli.remote import RemoteClient

    Client: TypeAlias = LocalClient | RemoteClient


@frozen
class Where:
    """The service to use, if any."""

    #: The URL of the service; None runs without a service.
    server: str | None
    key: str
    #: The data folder of a run without a service.
    data_dir: str | None
    #: ``NAME=VALUE`` of settings.
    overrides: tuple[str, ...]

    def client(self) -> Client:
        """Return what does the work of the command. It is imported for this call only."""
        if self.server:
            from scraper_service.cli.remote import RemoteClient

            return RemoteClient(self.server, self.key)
        from scraper_service.cli.local import LocalClient

        return LocalClient(self.overrides, self.data_dir)


_SERVICE = (
    click.option(
        "--server",
        envvar="SCRAPER_SERVER",
        metavar="URL",
        help="Use a running service.  [env: SCRAPER_SERVER]",
    ),
    click.option(
        "--key",
        envvar="SCRAPER_KEY",
        default="",
        metavar="KEY",
        help="The key of that service.  [env: SCRAPER_KEY]",
    ),
    click.option(
        "--data-dir",
        type=click.Path(file_okay=False),
        help="The folder of jobs without a service.  [default: data]",
    ),
)


def takes_service(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the service; the command receives them as ``where``."""

    @functools.wraps(command)
    @click.pass_obj
    def with_where(
        overrides: tuple[str, ...],
        /,
        server: str | None,
        key: str,
        data_dir: str | None,
        **values: Any,
    ) -> Any:
        if server and data_dir:
            raise click.UsageError("--data-dir: a service has a data folder of its own")
        where = Where(server or None, key, data_dir, overrides)
        return command(where=where, **values)

    return with_options(_SERVICE, with_where)
