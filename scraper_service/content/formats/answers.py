"""Answers questions to a page by rules: extracted data and a summary.

The rules run in the same pass as the other formats. The text for a language model is
kept as well, because a model may replace the results of the rules later.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from scraper_service.content.html.document import Document, parse
from scraper_service.content.html.hidden_text import instruction_in
from scraper_service.content.structured_data.merging import join_names
from scraper_service.options.formats import ChangeTracking, Format, Json, Summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.content.metadata.evidence import Evidence
    from scraper_service.content.structured_data.page import ExtractionPage
    from scraper_service.items import PageSource
    from scraper_service.options.scrape import ScrapeOptions


def result_name(item: Format) -> str:
    """Return the name of the value that a format makes."""
    return item.key if isinstance(item, Json) else item.type


class Answers:
    """Makes the answers to the questions about one page.

    ``add`` adds each answer to the page's values; further results go into ``facts``.
    Web pages need all methods but the last, in their order. For other documents,
    ``read_plain`` does all steps.
    """

    def __init__(
        self,
        source: PageSource,
        options: ScrapeOptions,
        add: Callable[[str, Callable[[], Any]], None],
        facts: dict[str, Any],
    ):
        self._source = source
        self._options = options
        self._add = add
        self._facts = facts
        self._json_formats = [f for f in options.formats if isinstance(f, Json)]
        #: Data that change tracking compares in its mode ``json``.
        self.change_data: Any = None
        self.warnings: list[str] = []
        self._has_summary = options.format(Summary) is not None
        self._page: ExtractionPage | None = None
        #: The data of a JSON document, None for other documents.
        self.document_data: Any = None

    @property
    def needs_tree(self) -> bool:
        """Whether any answer needs the tree."""
        options = self._options
        return options.extracts or options.selects or self._reads_text

    @property
    def _reads_text(self) -> bool:
        return self._has_summary or self._source.find_text > 0

    def find_injection(self, document: Document) -> None:
        """Search the whole page, hidden text included, for prompt injection."""
        if self._options.checks_injection:
            texts = document.root.xpath(
                "//text()[not(parent::script or parent::style)] | //@alt | //@title"
            )
            self._facts["injection"] = instruction_in(" ".join(texts))

    def read_raw_tree(
        self, document: Document, evidence: Evidence | None = None
    ) -> None:
        """Read the parts of the tree that cleaning removes, and what selectors name."""
        if self._options.selects:
            self._select(document)
        if self._options.extracts:
            from scraper_service.content.structured_data.page import (  # noqa: PLC0415  # rare, big
                ExtractionPage,
            )

            known = self._facts.get("known", {})
            self._page = ExtractionPage(document, evidence, known)

    def extract(self) -> None:
        """Extract data from the cleaned tree, before its reduction to main content."""
        if self._page is None:
            return
        self._facts["answered_by"] = "rules"
        for item in self._json_formats:
            if item.selectors is None:
                self._add(item.key, partial(self._data, self._page, item))
        changes = self._options.format(ChangeTracking)
        if changes and "json" in changes.modes and changes.selectors is None:
            self.change_data = self._data(self._page, changes)

    def _select(self, document: Document) -> None:
        """Add the data that selectors name, from the whole page."""
        self._facts["answered_by"] = "selectors"
        for item in self._json_formats:
            if item.selectors is not None:
                self._add(item.key, partial(self._select_data, document, item))
        changes = self._options.format(ChangeTracking)
        if changes and changes.selectors is not None:
            self.change_data = self._select_data(document, changes)

    def _select_data(self, document: Document, item: Json | ChangeTracking) -> Any:
        from scraper_service.content.structured_data.selectors import (  # noqa: PLC0415  # rare
            read_selectors,
        )

        assert item.selectors is not None
        data, warnings = read_selectors(document, item.selectors, item.schema)
        self.warnings += warnings
        return data

    def _data(self, page: ExtractionPage, item: Json | ChangeTracking) -> Any:
        from scraper_service.content.structured_data.extract import extract  # noqa: PLC0415  # as above

        found = None
        if self.document_data is not None:
            from scraper_service.content.documents.json_data import extract_json  # noqa: PLC0415  # rare

            found = extract_json(
                self.document_data, page.base_url, item.schema, item.prompt
            )
        found = found or extract(page, item.schema, item.prompt)
        warnings = list(found.warnings)
        if found.missing:
            warnings.append(not_found(found.missing))
        if found.unfound:
            warnings.append(f"Not found: {join_names(found.unfound)}.")
        self._facts.setdefault("rule_warnings", {})[result_name(item)] = tuple(warnings)
        return found.data

    def read_markdown(self, value: bytes | None, make: Callable[[], str]) -> None:
        """Add the summary and the text for a model.

        ``value`` is the JSON text of the Markdown; ``make`` makes the Markdown if
        ``value`` is None.
        """
        if self._reads_text:
            self._add_text_answers(json.loads(value) if value is not None else make())

    def read_plain(self, markdown: str, make_html: Callable[[], str]) -> None:
        """Make all answers for a document that is not a web page."""
        if self._options.extracts or self._options.selects:
            self.read_raw_tree(parse(make_html(), self._source.url))
            self.extract()
        if self._options.checks_injection:
            self._facts["injection"] = instruction_in(markdown)
        if self._reads_text:
            self._add_text_answers(markdown)

    def _add_text_answers(self, markdown: str) -> None:
        self._facts["text"] = markdown[: self._source.find_text]
        if self._has_summary:
            self._add("summary", partial(self._summary, markdown))
            self._facts["answered_by"] = "rules"

    def _summary(self, markdown: str) -> str:
        from scraper_service.content.formats.summary import summary  # noqa: PLC0415  # loads numpy

        known = self._facts.get("known", {})
        title, description = (str(known.get(k, "")) for k in ("title", "description"))
        return summary(markdown, title, description)


def not_found(pointers: tuple[str, ...]) -> str:
    """Return a warning about required fields without a value."""
    # The pointer of the whole value is empty.
    names = tuple(each or "the whole value" for each in pointers)
    return f"Required by the schema and not found: {join_names(names)}."
