"""A page as the extraction sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import define, field

from scraper_service.formats.document import Document
from scraper_service.formats.metadata.evidence import Evidence

if TYPE_CHECKING:
    from typing import Self


@define(eq=False)
class ExtractionPage:
    """What a page declares, and its tree.

    Made by :meth:`of` *before* the page is cleaned, for what cleaning takes away; given
    to ``extract`` *after* that, with the caller's tags left out, and before the tree is
    reduced to its main content. ``known`` are the metadata facts of the page, by their
    names inside the service.
    """

    document: Document
    evidence: Evidence
    known: Mapping[str, Any] = field(factory=dict)

    @classmethod
    def of(
        cls,
        document: Document,
        evidence: Evidence | None = None,
        known: Mapping[str, Any] | None = None,
    ) -> Self:
        """Read what cleaning would take away. A document of another kind (a PDF as HTML, a text) has no ``evidence``."""
        return cls(document, evidence or Evidence(document), known or {})

    @property
    def address(self) -> str:
        """What the addresses of the page are relative to."""
        return self.document.base
