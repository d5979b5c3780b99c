"""The group of all commands, with `serve` and `doctor`.

Heavy imports are inside the commands. The modules of the other commands are imported when
a command line names them, or for the help text.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import click

from scraper_service.cli.settings import (
    data_dir_option,
    env_file_option,
    fetch_settings,
    load_settings,
)
from scraper_service.cli.terminal import INTERRUPTED, leave_pipe

if TYPE_CHECKING:
    from scrapy.settings import Settings

# Keys that earlier versions of deploy/README.md had as examples.
SAMPLE_KEYS = {"fc-change-me", "change-me"}
EXAMPLE_URL = "https://example.org"
# The module of each command in this package, in the order of the help text.
MODULES = {
    "audit": "operator.maintenance:audit_command",
    "backup": "operator.maintenance:backup_command",
    "batch": "jobs:batch_command",
    "crawl": "jobs:crawl_command",
    "doctor": "main:doctor_command",
    "explain": "pages:explain_command",
    "gc": "operator.maintenance:gc_command",
    "jobs": "jobs:jobs_group",
    "keys": "operator.accounts:keys_group",
    "map": "pages:map_command",
    "mcp": "mcp:mcp_command",
    "parse": "pages:parse_command",
    "restore": "operator.maintenance:restore_command",
    "scrape": "pages:scrape_command",
    "search": "pages:search_command",
    "serve": "main:serve_command",
    "teams": "operator.accounts:teams_group",
    "worker": "main:worker_command",
    "workers": "operator.maintenance:workers_command",
}


class Commands(click.Group):
    """A group whose commands end cleanly on Ctrl-C and when a pipe is closed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        where = MODULES.get(cmd_name)
        return resolve_name(f"{__package__}.{where}") if where else None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            leave_pipe()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-s",
    "--set",
    "overrides",
    metavar="NAME=VALUE",
    multiple=True,
    help="Change a setting; may be repeated. -s PORT=80 is the same as SCRAPER_PORT=80"
    " in the environment. See scraper_service/settings.py.",
)
@env_file_option
@click.version_option(package_name="scraper-service")
@click.pass_context
def main(context: click.Context, overrides: tuple[str, ...]) -> None:
    """Scrape any web page as Markdown, HTML, links, images and metadata.

    `serve` runs the HTTP API, `worker` its jobs on further cores and machines;
    `scrape` fetches one page and prints it, `parse` converts
    a file, `map` lists the URLs of a site, `search` searches the web, `crawl` and
    `batch` fetch many pages, `jobs` manages crawls and batches.
    """
    context.obj = overrides


@click.command("serve")
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port, 0 for a free one.  [default: 3002]")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    help="Directory of the job database and the key secret.  [default: data]",
)
@env_file_option
@click.pass_obj
def serve_command(
    overrides: tuple[str, ...], host: str | None, port: int | None, data_dir: str | None
) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C.

    The first start creates an API key and prints it once.
    """
    settings = fetch_settings(overrides, HOST=host, PORT=port, DATA_DIR=data_dir)
    warn_of_exposure(settings)
    from scraper_service.errors import DatabaseUnusable
    from scraper_service.server.service import serve

    try:
        sys.exit(serve(settings, partial(announce, more_keys=_more_keys(data_dir))))
    except (DatabaseUnusable, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


@click.command("worker")
@click.option("--host", help="Address of --port.  [default: 127.0.0.1]")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Port for /health and /metrics, 0 for a free one.  [default: none]",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    help="Directory of the key secret, and of a job database in SQLite.  [default: data]",
)
@env_file_option
@click.pass_obj
def worker_command(
    overrides: tuple[str, ...], host: str | None, port: int | None, data_dir: str | None
) -> None:
    """Run the jobs of services without an API, until SIGTERM or Ctrl-C.

    Takes part in all jobs, checks of monitors and webhooks of the database in
    SCRAPER_DATABASE_URL. Start as many as there are processor cores, on any machines.
    """
    settings = fetch_settings(overrides, HOST=host, DATA_DIR=data_dir)
    from scraper_service.errors import DatabaseUnusable
    from scraper_service.server.worker import work

    if port is None:
        port = settings.getint("WORKER_PORT") or None
    try:
        sys.exit(work(settings, port, announce_worker))
    except (DatabaseUnusable, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


def announce_worker(worker_id: str, address: str | None) -> None:
    """Print the id of the worker in `workers`, and the URL of its probes."""
    where = f", listening on {address}" if address else ""
    print(f"working as {worker_id}{where}", flush=True)


def warn_of_exposure(settings: Settings) -> None:
    """Print a warning if clients can use the service without a secret key.

    Raises :exc:`click.UsageError` if the service accepts the key of the documentation and
    listens for other machines.
    """
    host = str(settings["HOST"])
    is_open = not settings.getbool("AUTH_ENABLED")
    has_sample = not is_open and SAMPLE_KEYS & set(settings.getlist("API_KEYS"))
    if not (is_open or has_sample):
        return
    if has_sample and not _is_loopback(host):
        raise click.UsageError(
            f"setting SCRAPER_API_KEYS has the key of the documentation,"
            f" {min(has_sample)}, which everybody knows, and {host} can be reached"
            " from other machines. Choose a secret one, such as fc-$(openssl rand"
            " -hex 20)"
        )
    text = (
        f"the key {min(has_sample)} is that of the documentation" if has_sample else ""
    )
    if is_open:
        text = "everybody who can reach this service may use it (SCRAPER_AUTH_ENABLED"
        text += " is false)"
    if not _is_loopback(host):
        text += f", and {host} can be reached from other machines"
    click.secho(f"WARNING: {text}.", err=True, fg="red", bold=True)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _more_keys(data_dir: str | None) -> str:
    """Return the command that makes a key, as the shell of this program takes it.

    The program may be outside of the PATH, as after `make serve`.
    """
    program = Path(sys.argv[0])
    found = shutil.which(program.name)
    words = [str(program)]
    if program.name == "__main__.py":
        words = [sys.executable, "-m", "scraper_service"]
    elif found and Path(found).resolve() == program.resolve():
        words = [program.name]
    words += ["keys", "create"]
    return shlex.join([*words, "--data-dir", data_dir] if data_dir else words)


def announce(
    address: str, first_key: str | None, sign_in: str | None, *, more_keys: str
) -> None:
    """Print the URL of the service, and the API key of the first start.

    ``more_keys`` is the command that makes another key.
    """
    print(f"listening on {address}", flush=True)
    if first_key is None:
        return
    body = json.dumps({"url": EXAMPLE_URL})
    print(
        f"\nA first API key was made. It is shown only now: {first_key}\n\nTry it:\n\n"
        f"  curl -s {address}/v2/scrape -H 'Authorization: Bearer {first_key}'"
        f" -H 'Content-Type: application/json' -d '{body}'\n\n"
        f"Or open the web page, signed in (works once): {sign_in}\n\n"
        f"More keys: {more_keys}",
        flush=True,
    )


@click.command("doctor")
@click.option("--port", type=int, help="Port to check.  [default: 3002]")
@data_dir_option
@click.pass_obj
def doctor_command(
    overrides: tuple[str, ...], port: int | None, data_dir: str | None
) -> None:
    """Check the installation, and print a remedy for each failure."""
    from scraper_service.cli.operator.doctor import checks

    settings = load_settings(overrides, PORT=port, DATA_DIR=data_dir)
    failed = False
    for check in checks(settings):
        failed = failed or check.state == "fails"
        click.echo(f"{check.state:8} {check.name}: {check.text}")
    sys.exit(1 if failed else 0)
