"""The sessions of a team as JSON (interface document, 20.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.api.page_json import encode, iso
from scraper_service.errors import InvalidParameter
from scraper_service.options.scrape import profile_name

if TYPE_CHECKING:
    from scraper_service.storage.sessions import SessionRow


def name_of(text: str) -> str:
    """Return the name in a path; raise :exc:`InvalidParameter` if it can be none."""
    try:
        return profile_name(text)
    except ValueError as error:
        raise InvalidParameter(str(error)) from None


def listed(found: list[SessionRow]) -> bytes:
    """Answer the list; what is in a session is shown to nobody."""
    rows = [
        {
            "name": row.name,
            "cookies": row.cookies,
            "createdAt": iso(row.created_at),
            "updatedAt": iso(row.updated_at),
        }
        for row in found
    ]
    return encode({"success": True, "sessions": rows})


def deleted() -> bytes:
    return encode({"success": True})
