"""The links of a map as JSON (interface document, 13.2).

:func:`strings` and :func:`objects` run in the converter pool: it imports this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.api.page_json import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.runtime.maps import Map


def strings(rows: list[list[Any]]) -> bytes:
    """Return the addresses alone, as v1 has them."""
    return encode([row[0] for row in rows])


def objects(rows: list[list[Any]]) -> bytes:
    """Return objects of what is known of each address, as v2 has them."""
    names = ("url", "title", "description")
    return encode(
        [
            {name: fact for name, fact in zip(names, row, strict=True) if fact}
            for row in rows
        ]
    )


def answer(found: Map, warnings: Sequence[str] = ()) -> bytes:
    """Answer a map; what it says is joined, not read again."""
    joined = b",".join(part[1:-1] for part in found.slices)
    warning = b',"warning":' + encode(" ".join(warnings)) if warnings else b""
    return b'{"success":true,"links":[%s]%s}' % (joined, warning)
