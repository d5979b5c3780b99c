"""The formats ``product``, ``menu`` and ``branding``, of one reading of the page."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from attrs import define, field

from scraper_service.content.branding import branding
from scraper_service.content.metadata import Evidence
from scraper_service.content.shop import menu, product
from scraper_service.content.structured_data.sources.nodes import Graph

NO_PRODUCT = "No product was found on the page."


@define(slots=False)
class Declared:
    """Makes what a page declares, before it is cleaned.

    ``looks`` is CSS that a browser computed, empty without one.
    """

    evidence: Evidence
    url: str
    looks: str = ""
    warnings: list[str] = field(factory=list)

    @cached_property
    def graph(self) -> Graph:
        return Graph(self.evidence)

    def make(self, name: str) -> dict[str, Any] | None:
        """Return one of the formats; None where the page has nothing of it."""
        if name == "product":
            found = product(self.graph, self.evidence, self.url)
            if found is None:
                self.warnings.append(NO_PRODUCT)
            return found
        if name == "menu":
            return menu(self.graph, self.evidence, self.url)
        brand, unseen = branding(self.graph, self.evidence, self.url, self.looks)
        if unseen:
            self.warnings.append(unseen)
        return brand
