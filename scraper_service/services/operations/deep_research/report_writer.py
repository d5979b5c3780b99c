"""The part of deep research that a language model does: choose searches, write."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scraper_service.content.text import page_notes
from scraper_service.llm.model import ModelError, member_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scraper_service.content.text.page_notes import Note
    from scraper_service.crawling.converter_pool.pool import ConverterPool
    from scraper_service.llm.model import LanguageModel, ModelAnswer
    from scraper_service.options.extraction import ResearchOptions
    from scraper_service.services.operations.operations import Operation

QUERIES = 3  # of one round
MAX_QUERY = 300  # characters
EXCERPTS = 60_000  # characters of the pages in a prompt
ANSWER_S = 60.0

PLAN = """Somebody wants to know: {query}
List up to {most} short web searches that would find out about it, the most important
first. {known}Answer with JSON: {{"queries": ["..."]}}; with an empty list if nothing is
missing."""
KNOWN = "The text has what was found so far: search only for what it leaves open. "
PLAN_SCHEMA = {
    "type": "object",
    "properties": {"queries": {"type": "array", "items": {"type": "string"}}},
    "required": ["queries"],
}
WRITE = """Somebody wants to know: {query}
Write the answer in Markdown, from the numbered sources of the text alone. Put the number
of the source behind each statement, as [1]. Say what the sources leave open. {further}"""


class ResearchWriter:
    """Lets a language model choose searches and write the report.

    Each method raises :exc:`ModelError`; ``model`` is
    None if the operator has removed it since the job was started.
    """

    def __init__(self, model: LanguageModel | None, pool: ConverterPool):
        self._model = model
        self._pool = pool

    async def searches(
        self, operation: Operation, pages: Sequence[Note], until: float
    ) -> tuple[list[str], int]:
        """Return the next searches, by the pages that were read, and the tokens."""
        task = PLAN.format(
            query=operation.options.query, most=QUERIES, known=KNOWN if pages else ""
        )
        answer = await self._ask(operation, task, pages, until, PLAN_SCHEMA)
        queries = member_of(answer, "queries")
        texts = [text.strip()[:MAX_QUERY] for text in queries if text and text.strip()]
        return list(dict.fromkeys(texts))[:QUERIES], answer.tokens

    async def report(
        self, operation: Operation, pages: Sequence[Note], until: float
    ) -> tuple[str, int]:
        """Return the report on the pages that were read, and the tokens."""
        options: ResearchOptions = operation.options
        further = [options.system_prompt, options.analysis_prompt]
        task = WRITE.format(
            query=options.query, further=" ".join(filter(None, further))
        )
        answer = await self._ask(operation, task, pages, until, None)
        if not (text := answer.text.strip()):
            raise ModelError("it wrote nothing")
        return text, answer.tokens

    async def _ask(
        self,
        operation: Operation,
        task: str,
        pages: Sequence[Note],
        until: float,
        schema: Mapping[str, object] | None,
    ) -> ModelAnswer:
        if self._model is None:
            raise ModelError("the operator has not set one up (SCRAPER_LLM_BASE_URL)")
        data = None
        if pages:
            data = await self._pool.run(
                page_notes.excerpts,
                pages,
                EXCERPTS,
                team_id=operation.team_id,
                job_id=operation.id,
            )
        return await self._model.ask(
            task=task,
            data=data,
            schema=schema,
            deadline_s=max(1.0, min(ANSWER_S, until - time.monotonic())),
            account=operation.team_id,
            job_id=operation.id,
        )
