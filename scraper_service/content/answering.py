"""What options ask of a page beyond its text: data, a summary, text for a model.

By rules, in the same pass as the other formats; a language model may answer in their
place afterwards, with what is kept here for it.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from scraper_service.content.html.document import Document, parse
from scraper_service.content.html.hidden import instruction_in
from scraper_service.content.unfound import listed
from scraper_service.options.formats import ChangeTracking, Format, Json, Summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.content.metadata import Evidence
    from scraper_service.content.structured_data import ExtractionPage
    from scraper_service.items import PageSource
    from scraper_service.options.scrape import ScrapeOptions


def result_name(item: Format) -> str:
    """Return the name of the value that a format makes."""
    return item.key if isinstance(item, Json) else item.type


class Answering:
    """The answers to one page, added to its values by ``add``, and to its ``facts``.

    ``change_data`` is what change tracking compares in its mode ``json``.
    The order of the calls is that of the methods; the last two exclude each other.
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
        self._asked = [f for f in options.formats if isinstance(f, Json)]
        self.change_data: Any = None
        self._has_summary = options.format(Summary) is not None
        self._page: ExtractionPage | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether anything is asked for that takes the tree."""
        return self._options.extracts or self._reads_text

    @property
    def _reads_text(self) -> bool:
        return self._has_summary or self._source.find_text > 0

    def suspect(self, document: Document) -> None:
        """Look for orders to language models in all of a page, hidden text included."""
        if self._options.checks_injection:
            texts = document.root.xpath(
                "//text()[not(parent::script or parent::style)] | //@alt | //@title"
            )
            self._facts["injection"] = instruction_in(" ".join(texts))

    def look(self, document: Document, evidence: Evidence | None = None) -> None:
        """Take from a tree what is lost when it is cleaned."""
        if self._options.extracts:
            from scraper_service.content.structured_data import ExtractionPage  # noqa: PLC0415  # rare, big

            known = self._facts.get("known", {})
            self._page = ExtractionPage.of(document, evidence, known)

    def extract(self) -> None:
        """Make the data of the cleaned tree, before it is reduced to its main content."""
        if self._page is None:
            return
        self._facts["answered_by"] = "rules"
        for item in self._asked:
            self._add(item.key, partial(self._data, self._page, item))
        changes = self._options.format(ChangeTracking)
        if changes and "json" in changes.modes:
            self.change_data = self._data(self._page, changes)

    def _data(self, page: ExtractionPage, item: Json | ChangeTracking) -> Any:
        from scraper_service.content.structured_data import extract  # noqa: PLC0415  # as above

        found = extract(page, item.schema, item.prompt)
        remarks = list(found.warnings)
        if found.missing:
            remarks.append(not_found(found.missing))
        if found.unfound:
            remarks.append(f"Not found: {listed(found.unfound)}.")
        self._facts.setdefault("remarks", {})[result_name(item)] = tuple(remarks)
        return found.data

    def read(self, value: bytes | None, make: Callable[[], str]) -> None:
        """Make what is made of the Markdown: of its JSON text, or made anew."""
        if self._reads_text:
            self._of_text(json.loads(value) if value is not None else make())

    def read_plain(self, markdown: str, make_html: Callable[[], str]) -> None:
        """Do all of the above for what is no web page."""
        if self._options.extracts:
            self.look(parse(make_html(), self._source.url))
            self.extract()
        if self._options.checks_injection:
            self._facts["injection"] = instruction_in(markdown)
        if self._reads_text:
            self._of_text(markdown)

    def _of_text(self, markdown: str) -> None:
        self._facts["text"] = markdown[: self._source.find_text]
        if self._has_summary:
            self._add("summary", partial(self._summary, markdown))
            self._facts["answered_by"] = "rules"

    def _summary(self, markdown: str) -> str:
        from scraper_service.content.text.summary import summary  # noqa: PLC0415  # loads numpy

        known = self._facts.get("known", {})
        title, description = (str(known.get(k, "")) for k in ("title", "description"))
        return summary(markdown, title, description)


def not_found(pointers: tuple[str, ...]) -> str:
    """Return a sentence about required values that are null."""
    return f"Required by the schema and not found: {listed(pointers)}."
