"""The pipeline that lets a language model answer, where the operator has one.

What rules have answered in the converter pool stays where it cannot.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, Self

from attrs import define, evolve, field
from scrapy.utils.misc import load_object

from scraper_service.content.markdown.cleanup import numbered, without
from scraper_service.crawling.questions import (
    blocks_to_drop,
    orders_in,
    questions,
    remarks,
)
from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.crawling.signals import page_abandoned
from scraper_service.errors import ServiceUnavailable
from scraper_service.items import PageContent, PageError
from scraper_service.llm.model import ModelAnswer, ModelError, language_model
from scraper_service.options.model import BY_MODEL, asks_model
from scraper_service.storage.accounts import model_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.crawler import Crawler

    from scraper_service.crawling.questions import Asker, Question
    from scraper_service.items import Fetch

RESERVE_S = 1.0  # left of a page's time, for the page to come out at all
RESERVE_SHARE = 0.1  # the same for callers in a hurry
LONGEST_S = 120.0  # for one page, where its caller would wait longer
POOL_S = 20.0  # for what is done to a page in the pool

NO_MODEL = "the operator has not set one up (SCRAPER_LLM_BASE_URL)"
NO_TEXT = "the page has no text"
BY_RULES = "{} answered by rules, not by a language model: {}."
LEFT_OUT = "{} left out, for it takes a language model: {}."
CLEAN_UP = "the clean-up"
INJECTION = "SCRAPE_PROMPT_INJECTION_DETECTED"
FAILED = "SCRAPE_ALL_ENGINES_FAILED"


class ModelPipeline:
    """Put the model's answers in the place of the rules'; check and clean pages by it.

    A model that fails costs a page nothing but a warning, unless the caller wants the
    page checked or nothing else. Stats: ``model/answers``, ``model/failures``,
    ``model/tokens``.
    """

    def __init__(self, crawler: Crawler):
        settings = crawler.settings
        self._crawler = crawler
        self._model = language_model(settings)
        self._pool: Any = load_object(settings["CONVERTER"]).shared(settings)
        self._job_id: str | None = settings.get("JOB_ID")
        self._account: str | None = None  # of the job
        self._asking: dict[str, asyncio.Task[PageContent]] = {}
        crawler.signals.connect(self._abandoned, page_abandoned)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, PageContent) or item.error is not None:
            return item
        fetch = item.fetch
        if fetch is None or fetch.cause is not None or not asks_model(fetch.options):
            return item
        task = asyncio.ensure_future(self._answered(item, fetch))
        self._asking[fetch.scrape_id] = task
        try:
            return await task
        except asyncio.CancelledError:
            if not task.cancelled():
                task.cancel()
                raise
            return item  # nobody waits for it
        finally:
            self._asking.pop(fetch.scrape_id, None)

    def _abandoned(self, scrape_id: str) -> None:
        if task := self._asking.get(scrape_id):
            task.cancel()

    async def _answered(self, content: PageContent, fetch: Fetch) -> PageContent:
        """Return a page with what the model made of it."""
        tokens: list[int] = []
        ask = self._asker(fetch, tokens)
        if fetch.options.checks_injection:
            try:
                orders = await orders_in(content, ask)
            except ModelError as error:
                text = f"The check for prompt injection failed: {error.reason}."
                return _failed(content, FAILED, text)
            if orders is not None:
                text = f'The page gives orders to language models: "{orders}"'
                return _failed(content, INJECTION, text)
        page = _Answers(content)
        asked = questions(content, fetch.options)
        await asyncio.gather(
            *(self._answer(question, page, ask) for question in asked),
            self._clean(page, ask),
        )
        return evolve(page.content(asked), tokens_used=sum(tokens) or None)

    def _asker(self, fetch: Fetch, tokens: list[int]) -> Asker:
        """Return who asks the model for a page, and adds to ``tokens`` what it used."""
        now = time.monotonic()
        left = LONGEST_S if fetch.deadline is None else fetch.deadline - now
        left -= min(RESERVE_S, RESERVE_SHARE * left)
        deadline = now + min(left, LONGEST_S)

        async def ask(
            task: str, data: str, schema: Mapping[str, Any] | None
        ) -> ModelAnswer:
            if self._model is None:
                raise ModelError(NO_MODEL)
            if not data.strip():
                raise ModelError(NO_TEXT)
            try:
                answer = await self._model.ask(
                    task=task,
                    data=data,
                    schema=schema,
                    deadline_s=deadline - time.monotonic(),
                    account=await self._account_of(fetch),
                    job_id=self._job_id,
                )
            except ModelError as error:
                self._count("failures", 1)
                cause = error.__cause__
                if self._job_id and isinstance(cause, ServiceUnavailable):
                    raise cause from None  # the page comes again
                raise
            self._count("answers", 1)
            self._count("tokens", answer.tokens)
            tokens.append(answer.tokens)
            return answer

        return ask

    def _count(self, name: str, number: int) -> None:
        assert self._crawler.stats is not None
        self._crawler.stats.inc_value(f"model/{name}", number)

    async def _account_of(self, fetch: Fetch) -> str:
        """Return whose tokens a page takes."""
        if self._job_id is None:
            return fetch.account
        if self._account is None:
            self._account = await LeasedScheduler.of(self._crawler).read(
                model_tokens.account_of, self._job_id
            )
        return self._account

    async def _answer(self, question: Question, page: _Answers, ask: Asker) -> None:
        try:
            if not page.original.text.strip():
                raise ModelError(NO_MODEL if self._model is None else NO_TEXT)
            answer = await ask(question.task, question.data, question.schema)
            value = question.finish(answer)
        except ModelError as error:
            page.fail(question, error.reason)
        else:
            page.take(question, value, remarks(answer))

    async def _clean(self, page: _Answers, ask: Asker) -> None:
        """Leave out what the model finds to be no content; the rest stays as it is."""
        fetch, markdown = page.original.fetch, page.original.values.get("markdown")
        if fetch is None or not fetch.options.only_clean_content or markdown is None:
            return
        try:
            data = (
                ""
                if self._model is None
                else await self._run(fetch, numbered, markdown)
            )
            dropped = await blocks_to_drop(data, ask)
            page.values["markdown"] = await self._run(fetch, without, markdown, dropped)
        except ModelError as error:
            page.left_out.setdefault(error.reason, []).append(CLEAN_UP)

    async def _run(self, fetch: Fetch, function: Any, *args: Any) -> Any:
        try:
            return await self._pool.run(
                function, *args, timeout_s=POOL_S, team_id=fetch.team_id
            )
        except Exception as error:
            raise ModelError(f"it failed ({type(error).__name__})") from error


@define
class _Answers:
    """The answers to one page as they come in; why others did not, by reason."""

    original: PageContent
    values: dict[str, bytes] = field(init=False)
    warnings: list[str] = field(factory=list)
    by_model: set[str] = field(factory=set)
    by_rules: dict[str, list[str]] = field(factory=dict)
    left_out: dict[str, list[str]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.values = dict(self.original.values)

    def take(self, question: Question, value: Any, texts: list[str]) -> None:
        """Put an answer of the model in its place."""
        self.values[question.result] = json.dumps(value, ensure_ascii=False).encode()
        self.by_model.add(question.name)
        self.warnings += texts

    def fail(self, question: Question, reason: str) -> None:
        """Leave the answer of the rules, if there is one."""
        has_answer = question.result in self.original.values
        reasons = self.by_rules if has_answer else self.left_out
        reasons.setdefault(reason, []).append(question.name)
        self.warnings += self.original.remarks.get(question.result, ())

    def content(self, asked: list[Question]) -> PageContent:
        """Return the page with its answers."""
        content = self.original
        for text, reasons in ((BY_RULES, self.by_rules), (LEFT_OUT, self.left_out)):
            for reason, names in reasons.items():
                self.warnings.append(text.format(_listed(names), reason))
        assert content.fetch is not None
        formats = content.fetch.options.formats
        is_all = asked and all(isinstance(item, BY_MODEL) for item in formats)
        if is_all and not self.by_model:
            return _failed(content, FAILED, " ".join(self.warnings))
        return evolve(
            content,
            values=self.values,
            warnings=(*content.warnings, *dict.fromkeys(self.warnings)),
            answered_by=_who(bool(self.by_model), bool(self.by_rules)),
        )


def _who(by_model: bool, by_rules: bool) -> str | None:
    if by_model and by_rules:
        return "both"
    if by_model:
        return "model"
    return "rules" if by_rules else None


def _listed(names: list[str]) -> str:
    """Return names as the start of a sentence."""
    verb = "was" if len(names) == 1 else "were"
    text = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return (
        f"{text[0].upper()}{text[1:]} {verb}" if text == CLEAN_UP else f"{text} {verb}"
    )


def _failed(content: PageContent, code: str, message: str) -> PageContent:
    return evolve(content, values={}, error=PageError(code, message))
