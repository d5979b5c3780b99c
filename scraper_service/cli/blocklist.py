"""`scraper-service blocklist`: the operator's own list of hosts that blockAds blocks."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from pathlib import Path

import click

from scraper_service.cli.settings import load_settings
from scraper_service.crawling.browser.ads import FILE, read_hosts

MAX_BYTES = 64 * 2**20
TIMEOUT_S = 60


@click.group("blocklist")
def blocklist_group() -> None:
    """Keep a list of hosts that blockAds blocks beside our own rules."""


@blocklist_group.command("update")
@click.argument("url", required=False)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    help="Data directory of the service.  [default: data]",
)
@click.pass_obj
def update_command(
    overrides: tuple[str, ...], url: str | None, data_dir: str | None
) -> None:
    """Download the list at URL, or at SCRAPER_BLOCKLIST_URL; a new browser uses it.

    It has a host name in each line, also as in a hosts file or as ||host^. Mind its
    licence: none comes with this program.
    """
    settings = load_settings(overrides, DATA_DIR=data_dir)
    url = url or settings["BLOCKLIST_URL"]
    if not url:
        raise click.UsageError("give an URL, or set SCRAPER_BLOCKLIST_URL")
    if not url.startswith(("http://", "https://")):
        raise click.UsageError(f"{url}: must be an address of http or https")
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310
            data = answer.read(MAX_BYTES + 1)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise click.ClickException(f"{url} could not be read: {error}") from error
    if len(data) > MAX_BYTES:
        raise click.ClickException(f"{url} has more than {MAX_BYTES} bytes")
    hosts = read_hosts(data.decode("utf-8", "replace").splitlines())
    if not hosts:
        raise click.ClickException(f"{url} has no host names in it")
    folder = Path(settings["DATA_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{FILE}.new"
    temporary.write_text("\n".join(sorted(hosts)) + "\n", encoding="utf-8")
    temporary.replace(folder / FILE)
    click.echo(f"{len(hosts)} hosts in {folder / FILE}")
