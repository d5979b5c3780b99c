"""What a page says of itself: in its head, as structured data, and in plain sight."""

from scraper_service.content.metadata.evidence import Evidence
from scraper_service.content.metadata.facts import canonical, metadata
from scraper_service.content.metadata.reading import reading
from scraper_service.content.metadata.refresh import parse_refresh, refresh

__all__ = [
    "Evidence",
    "canonical",
    "metadata",
    "parse_refresh",
    "reading",
    "refresh",
]
