"""A page as the extraction sees it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scraper_service.content.metadata.evidence import Evidence
from scraper_service.content.metadata.facts import metadata
from scraper_service.content.structured_data.sources.nodes import Graph, plain
from scraper_service.content.structured_data.sources.reading import Reading
from scraper_service.content.structured_data.sources.scope import Scope
from scraper_service.content.structured_data.typed import Typing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from scraper_service.content.html.document import Document


class ExtractionPage:
    """What a page declares, and its tree.

    Made by :meth:`of` *before* the page is cleaned, for what cleaning takes away; given
    to ``extract`` *after* that, with the caller's tags left out, and before the tree is
    reduced to its main content. ``known`` are the metadata facts of the page, by their
    names inside the service.
    """

    def __init__(
        self, document: Document, evidence: Evidence, known: Mapping[str, Any]
    ):
        self.document = document
        self.evidence = evidence
        self.known = known
        self.graph = Graph(evidence)

    @classmethod
    def of(
        cls,
        document: Document,
        evidence: Evidence | None = None,
        known: Mapping[str, Any] | None = None,
    ) -> Self:
        """Read what cleaning would take away.

        ``evidence`` and ``known`` are made from the document where they are not given.
        """
        evidence = evidence or Evidence(document)
        return cls(document, evidence, known or metadata(evidence)[0])

    @property
    def address(self) -> str:
        """What the addresses of the page are relative to."""
        return self.document.base

    @property
    def host(self) -> str:
        try:
            return urlsplit(self.address).hostname or ""
        except ValueError:
            return ""

    @cached_property
    def is_of_a_product(self) -> bool:
        """Whether the page says that it is about a product."""
        told = self.evidence.first("og:type").startswith("product")
        told = told or bool(self.evidence.first("product:price:amount"))
        return told or any(node.rank == 0 for node in self.graph.nodes[:1])

    @cached_property
    def scope(self) -> Scope:
        """The whole page, as it is when this is asked first."""
        body = self.document.body
        told = [self.evidence.first("og:title"), self.evidence.title]
        told += [
            plain(n.data.get("headline") or n.data.get("name"))
            for n in self.graph.nodes[:3]
        ]
        titles = tuple(title for title in told if title)
        return Scope(Reading(body), (body,), "page", is_page=True, titles=titles)

    @cached_property
    def typing(self) -> Typing:
        language = self.known.get("language")
        return Typing(self.address, self.host, str(language or ""))
