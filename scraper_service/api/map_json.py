"""The answer to a map as JSON (interface document, 13.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.api.page_json import encode
from scraper_service.discovery.map_results import BETWEEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.services.mapping import Map


def answer(found: Map, warnings: Sequence[str] = ()) -> bytes:
    """Answer a map; what it says is joined, not read again."""
    warning = b',"warning":' + encode(" ".join(warnings)) if warnings else b""
    links = BETWEEN.join(found.slices)
    return b'{"success":true,"links":[%s]%s}' % (links, warning)
