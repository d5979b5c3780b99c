"""What an extraction gives back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

MAX_SNIPPET = 200  # characters


def _cut(text: str) -> str:
    return text[:MAX_SNIPPET]


@frozen
class Place:
    """Where a value came from.

    ``source`` names the place, such as ``json-ld Product.offers.price``, ``meta
    og:title`` or ``table row 3``; ``snippet`` is the text there, cut.
    """

    source: str
    snippet: str = field(default="", converter=_cut)


@frozen
class Extraction:
    """The answer to a schema or a prompt.

    ``data`` is any JSON, of the shape that the schema has. ``places`` are by JSON
    pointer into it (a list of plain values has one for the whole), ``missing`` the
    pointers of required fields that were not found: null in ``data``; ``unfound`` are
    the names of the others. ``warnings`` are sentences for the caller on what was not
    searched or not understood.
    """

    data: Any
    places: Mapping[str, Place] = field(factory=dict)
    missing: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unfound: tuple[str, ...] = ()


@frozen
class Value:
    """A part of an answer on its way; ``places`` and ``missing`` are relative to it."""

    data: Any
    places: dict[str, Place] = field(factory=dict)
    missing: tuple[str, ...] = ()
