"""What a page says of itself: in its head, as structured data, and in plain sight."""

from scraper_service.formats.metadata.evidence import Evidence
from scraper_service.formats.metadata.facts import canonical, metadata
from scraper_service.formats.metadata.reading import reading
from scraper_service.formats.metadata.refresh import parse_refresh, refresh

__all__ = [
    "Evidence",
    "canonical",
    "metadata",
    "parse_refresh",
    "reading",
    "refresh",
]
