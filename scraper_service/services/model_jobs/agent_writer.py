"""Writes the texts of an agent: prompts, rounds so far, and the final answer."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.content.formats.llms_txt_and_agents import cut, pages_text
from scraper_service.content.structured_data.merging import PageData
from scraper_service.llm.model import ModelError
from scraper_service.llm.replies import field_sources, merge_pages
from scraper_service.services.model_jobs.agent_state import (
    CHOICE_SCHEMA,
    RunStopped,
    source_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.settings import BaseSettings

    from scraper_service.content.formats.llms_txt_and_agents import AgentPage
    from scraper_service.llm.model import LanguageModel, ModelAnswer
    from scraper_service.llm.replies import PageAnswer
    from scraper_service.options.jobs import AgentOptions, RunOptionsT
    from scraper_service.services.model_jobs.agent_state import AgentState
    from scraper_service.services.model_jobs.running_job import RunningJob

PARTIAL_PAGES, PARTIAL_TEXT = 10, 300  # pages and characters of a partial text
_CITED = re.compile(r"\[(\d{1,3}(?:, ?\d{1,3})*)\]")
ANSWER_S = 60.0
ANSWERED_FROM = 60_000  # bytes of pages in the prompt of the answer
CHOSEN_FROM = 24_000  # bytes of the document in the prompt of a choice
STEPS_SHARE = 3  # of these bytes, the part for the steps
MIN_STEP = 300  # bytes of an early step
MAX_SCHEMA = 4000  # characters
MAX_STARTS = 6000  # characters of the URLs of the request
BYTES_PER_TOKEN = 3  # as the model's client counts
CHOOSE = """Somebody asks: {prompt}
{further}You find this out in rounds. In each round you choose one action:
- search: search the web for "query".
- map: list pages of the site of "url".
- scrape: read the pages "urls", at most {most} of them, the best first.
- extract: write the answer from the pages read so far. Choose it as soon as they suffice.
The document has the steps so far and the pages read. Use only URLs that stand in this
request or in the document, letter by letter; others are refused.
Left: {rounds} rounds, {pages} pages, {credits} credits.
Choose the action of this round."""
ANSWER = """Somebody asks: {prompt}
Write the answer from the numbered pages of the document alone. Put the number of the page
behind each statement, as [1]. Say what the pages leave open."""
PLAN = """Somebody wants to know: {prompt}
List up to {most} short web searches that would find out about it, the most important
first. The document has the steps so far and the pages read: search only for what they
leave open. Answer with JSON: {{"queries": ["..."]}}; with an empty list if nothing is
missing."""
PLAN_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"queries": {"type": "array", "items": {"type": "string"}}},
    "required": ["queries"],
}
REPORT = """Somebody wants to know: {prompt}
Write the answer in Markdown, from the numbered pages of the document alone. Put the number
of the page behind each statement, as [1]. Say what the pages leave open. {further}"""
FILL = """Somebody asks: {prompt}
Give the data from the numbered pages of the document alone. Use null for what no page
says."""


class FinalAnswer:
    """Makes the members ``data`` and ``sources`` of the status of one run."""

    def __init__(self, job: RunningJob, writer: AgentWriter):
        self._job = job
        self._writer = writer
        self._options: AgentOptions = job.options

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
            answer = await self._writer.answer(self._job, pages, until)
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
        fields: dict[str, list[str]] = await self._job.in_pool(
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
        found: PageAnswer = await self._job.in_pool(merge_pages, data_of(pages), schema)
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


@frozen
class Prompts:
    """The instructions to the language model in one kind of run."""

    choose: str
    #: The schema of what it chooses.
    choice: Mapping[str, Any]
    answer: str


PROMPTS: Mapping[str, Prompts] = {
    "agent": Prompts(CHOOSE, CHOICE_SCHEMA, ANSWER),
    "deep_research": Prompts(PLAN, PLAN_SCHEMA, REPORT),
}


class AgentWriter:
    """Lets a language model choose actions and write the answer.

    Each method raises :exc:`ModelError`; ``model`` is None if the operator has removed it
    since the run was started.
    """

    def __init__(self, model: LanguageModel | None, settings: BaseSettings):
        self._model = model
        # A longer document would be read in parts, each with a choice of its own.
        piece = BYTES_PER_TOKEN * settings.getint("LLM_PIECE_TOKENS") - 2
        self._chosen_from = min(CHOSEN_FROM, piece)

    async def choose(
        self,
        job: RunningJob,
        state: AgentState,
        pages: Sequence[AgentPage],
        left: Mapping[str, int],
        until: float,
    ) -> ModelAnswer:
        """Return the next action, a value by the schema of the prompts.

        ``left`` are the numbers in the prompt: what remains of the bounds.
        """
        options: RunOptionsT = job.options
        prompts = PROMPTS[options.kind]
        task = prompts.choose.format(
            prompt=options.prompt, further=_further(options), **left
        )
        steps = _steps_text(state, self._chosen_from // STEPS_SHARE)
        budget = self._chosen_from - len(steps.encode(errors="replace")) - 100
        data = f"Steps so far:\n{steps}\n\nPages read:\n{pages_text(pages, budget)}"
        data = cut(data, self._chosen_from)
        return await self._ask(job, task, data, prompts.choice, until)

    async def answer(
        self, job: RunningJob, pages: Sequence[AgentPage], until: float
    ) -> ModelAnswer:
        """Return the answer: a value by the schema of the request, else a text."""
        options: RunOptionsT = job.options
        prompt = PROMPTS[options.kind].answer if options.schema is None else FILL
        task = prompt.format(prompt=options.prompt, further=options.instructions)
        data = pages_text(pages, ANSWERED_FROM)
        found = await self._ask(job, task, data, options.schema, until)
        if options.schema is None and not found.text.strip():
            raise ModelError("it wrote nothing")
        if options.schema is not None and found.value is None:
            raise ModelError("it found no value")
        return found

    async def _ask(
        self,
        job: RunningJob,
        task: str,
        data: str,
        schema: Mapping[str, Any] | None,
        until: float,
    ) -> ModelAnswer:
        if self._model is None:
            raise ModelError("the operator has not set one up (SCRAPER_LLM_BASE_URL)")
        return await self._model.ask(
            task=task,
            data=data,
            schema=schema,
            deadline_s=max(1.0, min(ANSWER_S, until - time.monotonic())),
            account=job.team_id,
            job_id=job.id,
        )


def _further(options: RunOptionsT) -> str:
    """Return what the request says beside its prompt, as lines of a task."""
    lines = []
    if options.urls:
        lines.append(f"Start from: {_whole(options.urls)}")
    if options.schema is not None:
        schema = json.dumps(options.schema, ensure_ascii=False)[:MAX_SCHEMA]
        lines.append(f"The answer has to fit this JSON Schema: {schema}")
    return "".join(f"{line}\n" for line in lines)


def _whole(urls: Sequence[str]) -> str:
    """Return as many whole URLs as fit into :data:`MAX_STARTS`, none of them in part."""
    text = " ".join(urls)
    return text if len(text) <= MAX_STARTS else text[:MAX_STARTS].rpartition(" ")[0]


def _steps_text(state: AgentState, limit: int) -> str:
    """Return the rounds so far within ``limit`` bytes, the last ones in full."""
    if not state.rounds:
        return "none"
    parts: list[str] = []
    for number, each in reversed(list(enumerate(state.rounds, 1))):
        budget = max(MIN_STEP, limit - sum(map(len, parts)))
        given = json.dumps(each["input"], ensure_ascii=False)[:MIN_STEP]
        parts.append(cut(f"{number}. {each['action']} {given}\n{each['said']}", budget))
    return cut("\n".join(reversed(parts)), limit + MIN_STEP * len(parts))
