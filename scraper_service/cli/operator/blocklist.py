"""`blocklist`: the operator's own list of hosts that the option blockAds blocks."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scraper_service.cli.settings import load_settings
from scraper_service.crawling.browser.ads import FILE, read_hosts
from scraper_service.discovery.outgoing_requests import OutgoingProxy

if TYPE_CHECKING:
    from scrapy.settings import Settings

MAX_BYTES = 64 * 2**20
TIMEOUT_S = 60


def _opener(settings: Settings, url: str) -> urllib.request.OpenerDirector:
    """Return an opener that uses the outgoing proxy, and else those of the shell."""
    proxy = OutgoingProxy.from_settings(settings).to(url)
    proxies = {"http": proxy, "https": proxy} if proxy else None
    return urllib.request.build_opener(urllib.request.ProxyHandler(proxies))


@click.group("blocklist")
def blocklist_group() -> None:
    """Manage a list of hosts that blockAds blocks besides the built-in rules."""


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
    """Download the list at URL, or at SCRAPER_BLOCKLIST_URL.

    Each line of the list has a host name, as such, as in a hosts file or as ||host^.
    Browsers that start later use the list. Check the licence of the list: no list comes
    with this program.
    """
    settings = load_settings(overrides, DATA_DIR=data_dir)
    url = url or settings["BLOCKLIST_URL"]
    if not url:
        raise click.UsageError("give a URL, or set SCRAPER_BLOCKLIST_URL")
    if not url.startswith(("http://", "https://")):
        raise click.UsageError(f"{url}: must be an http or https URL")
    try:
        with _opener(settings, url).open(url, timeout=TIMEOUT_S) as answer:
            data = answer.read(MAX_BYTES + 1)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise click.ClickException(f"{url} could not be read: {error}") from error
    if len(data) > MAX_BYTES:
        raise click.ClickException(f"{url} has more than {MAX_BYTES} bytes")
    hosts = read_hosts(data.decode("utf-8", "replace").splitlines())
    if not hosts:
        raise click.ClickException(f"{url} has no host names")
    folder = Path(settings["DATA_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{FILE}.new"
    temporary.write_text("\n".join(sorted(hosts)) + "\n", encoding="utf-8")
    temporary.replace(folder / FILE)
    click.echo(f"{len(hosts)} hosts in {folder / FILE}")
