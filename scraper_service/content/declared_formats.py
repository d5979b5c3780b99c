"""Makes the formats ``product``, ``menu`` and ``branding`` from shared evidence."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from attrs import define, field

from scraper_service.content.branding import branding
from scraper_service.content.metadata import Evidence
from scraper_service.content.structured_data.menus import menu
from scraper_service.content.structured_data.nodes import Graph
from scraper_service.content.structured_data.products import product

NO_PRODUCT = "No product was found on the page."


@define(slots=False)
class Declared:
    """Makes formats from a page's structured data and styles, before its cleaning."""

    evidence: Evidence
    #: URL of the page as the caller sees it.
    url: str
    #: CSS that a browser computed; empty without a browser.
    looks: str = ""
    warnings: list[str] = field(factory=list)

    @cached_property
    def graph(self) -> Graph:
        return Graph(self.evidence)

    def make(self, name: str) -> dict[str, Any] | None:
        """Return the format ``name``; None if the page has no data for it."""
        if name == "product":
            found = product(self.graph, self.evidence, self.url)
            if found is None:
                self.warnings.append(NO_PRODUCT)
            return found
        if name == "menu":
            return menu(self.graph, self.evidence, self.url)
        brand, warning = branding(self.graph, self.evidence, self.url, self.looks)
        if warning:
            self.warnings.append(warning)
        return brand
