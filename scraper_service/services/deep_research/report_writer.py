"""The part of a research that a language model has, where there is one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from scraper_service.content.text import digest
from scraper_service.llm.model import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scraper_service.content.text.digest import Note
    from scraper_service.crawling.converter_pool.pool import ConverterPool
    from scraper_service.llm.model import LanguageModel, ModelAnswer
    from scraper_service.options.operations import ResearchOptions
    from scraper_service.services.operations import Operation

QUERIES = 3  # of one round
MAX_QUERY = 300  # characters
EXCERPTS = 60_000  # characters that the model reads
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
NO_EFFECT = "analysisPrompt and systemPrompt have no effect without a language model."


@frozen
class Said:
    """What a model said; nothing where there is none, or it gave no answer.

    ``queries`` is None and ``text`` empty then. ``warning`` is for the caller.
    """

    queries: list[str] | None = None
    text: str = ""
    tokens: int = field(default=0)
    warning: str | None = None


class ResearchWriter:
    """Asks the language model what to search for, and for the text of the answer."""

    def __init__(self, model: LanguageModel | None, pool: ConverterPool):
        self._model = model
        self._pool = pool

    async def searches(
        self, operation: Operation, pages: Sequence[Note], until: float
    ) -> Said:
        """Return what to search for, given the pages that were read."""
        if self._model is None:
            return Said()
        task = PLAN.format(
            query=operation.options.query, most=QUERIES, known=KNOWN if pages else ""
        )
        try:
            answer = await self._ask(operation, task, pages, until, PLAN_SCHEMA)
        except ModelError as error:
            return Said(warning=_no_answer(error))
        queries = answer.value["queries"] or []
        texts = [text.strip()[:MAX_QUERY] for text in queries if text and text.strip()]
        return Said(list(dict.fromkeys(texts))[:QUERIES], tokens=answer.tokens)

    async def analysis(
        self, operation: Operation, pages: Sequence[Note], until: float
    ) -> Said:
        """Return the text of the answer from the pages that were read."""
        options: ResearchOptions = operation.options
        further = [options.system_prompt, options.analysis_prompt]
        if self._model is None:
            return Said(warning=NO_EFFECT if any(further) else None)
        task = WRITE.format(
            query=options.query, further=" ".join(filter(None, further))
        )
        try:
            answer = await self._ask(operation, task, pages, until, None)
        except ModelError as error:
            return Said(warning=_no_answer(error))
        return Said(text=answer.text, tokens=answer.tokens)

    async def _ask(
        self,
        operation: Operation,
        task: str,
        pages: Sequence[Note],
        until: float,
        schema: Mapping[str, Any] | None,
    ) -> ModelAnswer:
        assert self._model is not None
        data = None
        if pages:
            data = await self._pool.run(
                digest.excerpts,
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


def _no_answer(error: ModelError) -> str:
    return f"The language model gave no answer ({error.reason}); rules did its part."
