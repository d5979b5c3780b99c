"""Options of several commands, above all the output of pages."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from scraper_service.cli.outputs.output import FORMATS, destination

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.cli.outputs.output import Destination


@frozen
class Wanted:
    """The requested output of the pages of a job."""

    path: str | None
    format: str | None
    overwrite: bool
    quiet: bool

    def destination(self, *, archives: bool = False) -> Destination:
        """Return the destination; raise :exc:`click.UsageError`.

        ``archives`` is True for a command that can write archives.
        """
        return destination(
            self.path, self.format, overwrite=self.overwrite, archives=archives
        )

    def destination_if_named(self) -> Destination | None:
        """Return the destination, None if the command line names none."""
        is_named = self.path is not None or self.format is not None
        return self.destination() if is_named else None


_OUTPUT = (
    click.option(
        "-o",
        "--output",
        "path",
        metavar="PATH",
        help="Write to a file: .jsonl, .csv, .zip, .sqlite, .parquet, .warc.gz, .wacz; or to a folder: FOLDER/.",
    ),
    click.option(
        "--output-format",
        "format_",
        type=click.Choice(FORMATS),
        help="The format of the output, whatever the name of PATH.",
    ),
    click.option(
        "--overwrite", is_flag=True, help="Write into a folder that has files already."
    ),
    click.option(
        "-q", "--quiet", is_flag=True, help="Show neither progress nor summary."
    ),
)


def examples(*commands: str) -> str:
    """Return the end of a command's help: examples."""
    # Without this mark click joins the lines.
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])


def takes_output(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the output; the command receives them as ``wanted``."""

    @functools.wraps(command)
    def with_wanted(
        path: str | None,
        format_: str | None,
        overwrite: bool,
        quiet: bool,
        **values: Any,
    ) -> Any:
        wanted = Wanted(path, format_, overwrite, quiet)
        return command(wanted=wanted, **values)

    return with_options(_OUTPUT, with_wanted)


def with_options(
    options: tuple[Any, ...], command: Callable[..., Any]
) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command
