"""Removes the dropped blocks from the tree, with the emptied elements around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.content.html.document import drop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.content.main_content.blocks import Walk


def reduce(walk: Walk, keep: Sequence[bool], picture: str = "", lead: int = 0) -> None:
    """Remove every block whose ``keep`` is False from the tree.

    A picture before block ``lead`` stays if its URL contains ``picture``.
    """
    if all(keep):
        return
    elements, texts = walk.dropped(keep, picture, lead)
    for element, which in texts:
        setattr(element, which, None)
    for element in elements:
        drop(element)
