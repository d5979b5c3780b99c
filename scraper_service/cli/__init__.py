"""The ``scraper-service`` command."""

from scraper_service.cli.root import main

__all__ = ["main"]
