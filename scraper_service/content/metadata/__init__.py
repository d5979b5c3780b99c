"""Metadata of a page, from its head, its structured data and its visible text."""

from scraper_service.content.metadata.evidence import Evidence, parse_refresh, refresh
from scraper_service.content.metadata.facts import canonical, metadata
from scraper_service.content.metadata.language import reading

__all__ = [
    "Evidence",
    "canonical",
    "metadata",
    "parse_refresh",
    "reading",
    "refresh",
]
