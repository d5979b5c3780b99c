"""Settings of a command: the project's, with what the command line changes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.settings import Settings


def check_egress(settings: Settings) -> None:
    """Say what is wrong here: Scrapy only logs a download handler that fails."""
    from scraper_service.crawling.download.egress import EgressPolicy
    from scraper_service.crawling.download.proxies import Proxies

    try:
        EgressPolicy(settings.getlist("EGRESS_ALLOW"))
        Proxies(settings.getlist("PROXIES"))
    except ValueError as error:
        raise click.UsageError(f"setting {error}") from error


def load_settings(overrides: Iterable[str], **options: Any) -> Settings:
    """Return the settings, with ``NAME=VALUE`` overrides and options that are given.

    Raises :exc:`click.UsageError` for a name that no setting has.
    """
    os.environ.setdefault("SCRAPY_SETTINGS_MODULE", "scraper_service.settings")
    from scrapy.utils.project import get_project_settings

    from scraper_service.settings import check_settings

    settings = get_project_settings()
    for override in overrides:
        name, separator, value = override.partition("=")
        if not separator or name not in settings:
            raise click.UsageError(
                f"-s {override}: must be NAME=VALUE with the name of a setting"
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
