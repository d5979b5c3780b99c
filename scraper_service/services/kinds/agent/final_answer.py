"""The answer of an agent from the pages that it has read, and what it has before."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scraper_service.content.structured_data.merging import PageData
from scraper_service.llm.model import ModelError
from scraper_service.llm.replies import field_sources, merge_pages
from scraper_service.services.kinds.agent.bounds import RunStopped
from scraper_service.services.kinds.agent.run_state import source_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scraper_service.content.formats.agent_pages import AgentPage
    from scraper_service.llm.replies import PageAnswer
    from scraper_service.options.extraction import AgentOptions
    from scraper_service.services.kinds.agent.agent_writer import AgentWriter
    from scraper_service.services.kinds.agent.run_state import AgentState
    from scraper_service.services.kinds.operations import Operation

PARTIAL_PAGES, PARTIAL_TEXT = 10, 300  # pages and characters of a partial text
_CITED = re.compile(r"\[(\d{1,3}(?:, ?\d{1,3})*)\]")


class FinalAnswer:
    """Makes the members ``data`` and ``sources`` of the status of one run."""

    def __init__(self, operation: Operation, writer: AgentWriter):
        self._operation = operation
        self._writer = writer
        self._options: AgentOptions = operation.options

    async def members(
        self, pages: Sequence[AgentPage], state: AgentState, until: float
    ) -> dict[str, Any]:
        """Return the answer that the language model writes.

        Without the model, the data of the pages are merged. Raises :exc:`RunStopped` if
        there is no answer.
        """
        value: Any = None
        missing: Sequence[str] = ()
        schema = self._options.schema
        try:
            answer = await self._writer.answer(self._operation, pages, until)
        except ModelError as error:
            text = f"The language model wrote no answer ({error.reason})."
            if schema is None:
                raise RunStopped("error", text) from error
            merged = await self._merge(pages, schema)
            if merged.value is None or not (merged.is_valid or merged.missing):
                raise RunStopped("error", text) from error
            state.warn(f"{text} The data of the pages were merged by rules.")
            value, missing = merged.value, merged.missing
        else:
            state.tokens += answer.tokens
            for text in answer.warnings:
                state.warn(text)
            if schema is None:
                return _text_members(answer.text.strip(), pages)
            value, missing = answer.value, answer.missing
        if missing:
            names = ", ".join(each.lstrip("/").replace("/", ".") for each in missing)
            state.warn(f"No page has {names}, which the schema requires.")
        fields: dict[str, list[str]] = await self._operation.in_pool(
            field_sources, value, data_of(pages)
        )
        sources = [_source_of_fields(page, fields) for page in pages]
        return {"data": value, "sources": sources}

    async def partial(self, pages: Sequence[AgentPage]) -> dict[str, Any]:
        """Return what a run that fails now has found, as members of its status."""
        if not pages:
            return {}
        if self._options.schema is not None:
            merged = await self._merge(pages, self._options.schema)
            if merged.value is None:
                return {}
            return {"partial": merged.value, "partialSchemaValid": merged.is_valid}
        texts = [f"{p.title}: {p.text[:PARTIAL_TEXT]}" for p in pages[:PARTIAL_PAGES]]
        return {
            "partial": {"answer": "\n\n".join(texts), "sources": _list_pages(pages)}
        }

    async def _merge(
        self, pages: Sequence[AgentPage], schema: Mapping[str, Any]
    ) -> PageAnswer:
        found: PageAnswer = await self._operation.in_pool(
            merge_pages, data_of(pages), schema
        )
        return found


def _text_members(text: str, pages: Sequence[AgentPage]) -> dict[str, Any]:
    """Return a text with the pages that it cites; with all if it cites none."""
    cited = {int(n) for found in _CITED.findall(text) for n in found.split(",")}
    listed = [page for number, page in enumerate(pages, 1) if number in cited]
    return {"data": {"answer": text, "sources": _list_pages(listed or pages)}}


def _list_pages(pages: Sequence[AgentPage]) -> list[dict[str, str]]:
    return [{"url": page.url, "title": page.title} for page in pages]


def _source_of_fields(
    page: AgentPage, fields: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    names = [name for name, urls in fields.items() if page.url in urls]
    return source_of(page) | ({"fields": names} if names else {})


def data_of(pages: Sequence[AgentPage]) -> list[PageData]:
    return [PageData(page.url, page.data) for page in pages]
