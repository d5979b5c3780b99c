"""The ``scraper-service`` command."""
