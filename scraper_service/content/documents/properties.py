"""What OOXML files say of themselves: title, author, dates (ECMA-376, part 2, 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.content.documents.archive import local
from scraper_service.content.documents.markup import facts

if TYPE_CHECKING:
    from scraper_service.content.documents.archive import Archive

CORE = "docProps/core.xml"


def properties(archive: Archive) -> tuple[dict[str, str], dict[str, str]]:
    """Return the facts with names of their own, and the others."""
    if CORE not in archive:
        return {}, {}
    said = {local(part): part.text for part in archive.xml(CORE)}
    known = {
        "title": said.get("title"),
        "description": said.get("description"),
        "keywords": said.get("keywords"),
        "language": said.get("language"),
        "published_time": said.get("created"),
        "modified_time": said.get("modified"),
    }
    other = {
        "author": said.get("creator"),
        "subject": said.get("subject"),
        "category": said.get("category"),
        "lastModifiedBy": said.get("lastModifiedBy"),
    }
    return facts(known), facts(other)
