"""The input and the result of an extraction."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from scraper_service.content.metadata.evidence import Evidence
from scraper_service.content.metadata.facts import metadata
from scraper_service.content.structured_data.nodes import Graph, plain
from scraper_service.content.structured_data.reading import VisibleText
from scraper_service.content.structured_data.scope import Scope
from scraper_service.content.structured_data.values import Typing
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from typing import Self

    from scraper_service.content.html.document import Document


class ExtractionPage:
    """A page for extraction: its declared data and its tree.

    Create it with :meth:`of` *before* the page is cleaned, because cleaning removes
    declared data. Pass it to ``extract`` *after* cleaning and after the caller's tags
    are left out, but before the tree is reduced to its main content. ``known`` holds
    the page's metadata by internal names.
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
        """Read the data that cleaning would remove.

        ``evidence`` and ``known`` are by default made from the document.
        """
        evidence = evidence or Evidence(document)
        return cls(document, evidence, known or metadata(evidence)[0])

    @property
    def base_url(self) -> str:
        """The base URL of the page's relative links."""
        return self.document.base

    @property
    def host(self) -> str:
        return url_parts(self.base_url).hostname or ""

    @cached_property
    def is_of_a_product(self) -> bool:
        """True if the page declares that it is about a product."""
        is_marked = self.evidence.first("og:type").startswith("product")
        is_marked = is_marked or bool(self.evidence.first("product:price:amount"))
        return is_marked or any(node.rank == 0 for node in self.graph.nodes[:1])

    @cached_property
    def scope(self) -> Scope:
        """The whole page, in its state at the first access."""
        body = self.document.body
        found = [self.evidence.first("og:title"), self.evidence.title]
        found += [
            plain(n.data.get("headline") or n.data.get("name"))
            for n in self.graph.nodes[:3]
        ]
        titles = tuple(title for title in found if title)
        return Scope(VisibleText(body), (body,), "page", is_page=True, titles=titles)

    @cached_property
    def typing(self) -> Typing:
        language = self.known.get("language")
        return Typing(self.base_url, self.host, str(language or ""))


MAX_SNIPPET = 200  # characters


def _cut(text: str) -> str:
    return text[:MAX_SNIPPET]


@frozen
class Origin:
    """The origin of a value."""

    #: Name of the origin, such as ``json-ld Product.offers.price``, ``meta og:title``
    #: or ``table row 3``.
    source: str
    #: The text of the origin, at most ``MAX_SNIPPET`` characters.
    snippet: str = field(default="", converter=_cut)


@frozen
class Extraction:
    """The result for a schema or a prompt."""

    #: JSON data in the shape of the schema.
    data: Any
    #: Origins by JSON pointer into ``data``; a list of plain values has a single
    #: origin.
    places: Mapping[str, Origin] = field(factory=dict)
    #: JSON pointers of required fields without a value; they are null in ``data``.
    missing: tuple[str, ...] = ()
    #: Sentences for the caller about parts that were not searched or not understood.
    warnings: tuple[str, ...] = ()
    #: Names of the other fields without a value.
    unfound: tuple[str, ...] = ()


@frozen
class Value:
    """A part of a result."""

    #: JSON data.
    data: Any
    #: Origins by JSON pointer into ``data``.
    places: dict[str, Origin] = field(factory=dict)
    #: JSON pointers into ``data`` of required fields without a value.
    missing: tuple[str, ...] = ()
