"""Requests to the language model of a chat server.

A long text is split into pieces, and the answers to its pieces are merged. Invalid
answers are sent back for correction. Tokens are limited per page, job and key.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

from attrs import define, field
from prometheus_client import Counter
from scrapy.utils.misc import load_object

from scraper_service.discovery.outgoing_requests import OutgoingProxy
from scraper_service.errors import ServiceUnavailable
from scraper_service.llm import model
from scraper_service.llm.model import (
    ChatServer,
    MessageT,
    ModelAnswer,
    ModelError,
    TimedOut,
)
from scraper_service.llm.replies import (
    Completion,
    is_closed,
    model_schema,
    read_completion,
)
from scraper_service.options.json_schema import field_of
from scraper_service.storage.accounts import usage
from scraper_service.storage.accounts.usage import Cap
from scraper_service.storage.database import Database

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


BYTES_PER_TOKEN = 3  # fewer than in usual texts, so that counts are not too low
# Where a text may be cut, the best first.
_BORDERS = ("\n\n", "\n", ". ", "。", " ")


def token_count(text: str) -> int:
    """Return an upper estimate of the tokens of a text."""
    return len(text.encode(errors="replace")) // BYTES_PER_TOKEN + 1


def pieces(text: str, most_tokens: int) -> Iterator[str]:
    """Yield ``text`` in pieces of at most ``most_tokens``, cut between paragraphs.

    A piece without a paragraph's end near its limit is cut at a line, a sentence or a word.
    """
    most_bytes = most_tokens * BYTES_PER_TOKEN - 1
    start = 0
    while start == 0 or start < len(text):
        end = start + _fitting(text[start : start + most_bytes], most_bytes)
        if end < len(text):
            end = _border(text, start, end)
        yield text[start:end].strip()
        start = max(end, 1)


def _fitting(text: str, most_bytes: int) -> int:
    """Return how many characters of a text fit into ``most_bytes``; at least 1."""
    encoded = text.encode(errors="replace")
    return max(1, len(encoded[:most_bytes].decode(errors="ignore")))


def _border(text: str, start: int, end: int) -> int:
    for border in _BORDERS:
        found = text.rfind(border, (start + end) // 2, end)
        if found > 0:
            return found + len(border)
    return end


def merge_answers(values: Iterable[Any]) -> Any:
    """Merge the answers to the pieces of one text.

    Objects are merged key by key. Lists are concatenated without duplicates. A truth
    value is true if any is. Of other values the first that is not empty stays.
    """
    result: Any = None
    for value in values:
        result = _join(result, value)
    return result


def _join(first: Any, second: Any) -> Any:
    if isinstance(first, dict) and isinstance(second, dict):
        return {
            key: _join(first.get(key), second.get(key)) for key in {**first, **second}
        }
    if isinstance(first, list) and isinstance(second, list):
        seen: dict[str, Any] = {}
        for item in (*first, *second):
            seen.setdefault(json.dumps(item, sort_keys=True), item)
        return list(seen.values())
    if isinstance(first, bool) and isinstance(second, bool):
        return first or second
    return second if first in (None, "", [], {}) and second is not None else first


T = TypeVar("T")

logger = logging.getLogger(__name__)

REQUESTS = Counter(
    "scraper_llm_requests_total",
    "Requests to the language model: answered, failed, timeout.",
    ["result"],
)
TOKENS = Counter(
    "scraper_llm_tokens_total",
    "Tokens that the model's server has counted: input, output.",
    ["direction"],
)

REPAIRS = 2  # requests for correction of one answer
READ_S = 10.0  # limit for parsing one answer in the pool
CHECK_S = 20.0
JOINING = (
    "These are answers to one task, each from a part of one document. Give one answer to "
    "the task from them. The task was:\n"
)


class Pool(Protocol):
    """The part of the converter pool that parses answers."""

    async def run(
        self, function: Callable[..., T], *args: object, timeout_s: float = ...
    ) -> T: ...


@define
class _Budget:
    """The token limits of one page, its job and its key."""

    #: Limit of the page; 0 for no limit.
    page_tokens: int
    #: Limits of the key and the job.
    caps: tuple[Cap, ...]
    #: None without caps.
    database: Database | None
    #: Tokens used so far.
    used: int = field(default=0, init=False)
    _taken: int = field(default=0, init=False)

    async def take(self, tokens: int) -> None:
        """Reserve ``tokens`` before a request.

        Raises :exc:`ModelError` if a limit has too few left.
        """
        if self.page_tokens and self._taken + tokens > self.page_tokens:
            raise ModelError(f"the page would take over {self.page_tokens} tokens")
        self._taken += tokens
        if not self.caps or self.database is None:
            return
        try:
            short = await self.database.write(usage.take, self.caps, tokens)
        except ServiceUnavailable as error:
            raise ModelError("its tokens cannot be counted now") from error
        if short is not None:
            self._taken -= tokens
            whose = "day of this key" if short.daily else "job"
            raise ModelError(f"the {short.most} tokens of the {whose} are used up")

    async def settle(self, taken: int, used: int) -> None:
        """Replace the reserved tokens of a request by the used tokens."""
        self._taken += used - taken
        self.used += used
        if self.caps and self.database is not None and used != taken:
            with suppress(ServiceUnavailable):  # the reserved tokens stay counted
                await self.database.write(usage.correct, self.caps, used - taken)


class ChatModel:
    """A language model with the operator's token limits.

    :meth:`from_settings` creates one instance per process. Long data is sent in pieces of
    at most ``LLM_PIECE_TOKENS`` tokens.
    """

    _made: ClassVar[dict[tuple[str, ...], ChatModel]] = {}

    def __init__(self, server: ChatServer, pool: Pool, settings: BaseSettings):
        self._server = server
        self._pool = pool
        self._settings = settings
        self._piece_tokens = settings.getint("LLM_PIECE_TOKENS")
        self._per_page = settings.getint("LLM_TOKENS_PER_PAGE")
        self._per_job = settings.getint("LLM_TOKENS_PER_JOB")
        self._per_key = settings.getint("LLM_TOKENS_PER_KEY")

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self | None:
        """Return the model of ``LLM_BASE_URL``; None if this setting is empty."""
        if not settings["LLM_BASE_URL"]:
            return None
        key = tuple(str(settings[f"LLM_{n}"]) for n in ("BASE_URL", "MODEL", "API_KEY"))
        if key not in cls._made:
            server = ChatServer(
                *key,
                answer_tokens=settings.getint("LLM_ANSWER_TOKENS"),
                concurrency=settings.getint("LLM_CONCURRENCY"),
                timeout_s=settings.getfloat("LLM_TIMEOUT_S"),
                way_out=OutgoingProxy.from_settings(settings),
            )
            pool = load_object(settings["CONVERTER"]).shared(settings)
            cls._made[key] = cls(server, pool, settings)
        found = cls._made[key]
        assert isinstance(found, cls)
        return found

    async def ask(
        self,
        *,
        task: str,
        data: str | None,
        schema: Mapping[str, Any] | None,
        deadline_s: float,
        account: str,
        job_id: str | None = None,
    ) -> ModelAnswer:
        """Return the answer of the model; see :class:`.LanguageModel`."""
        question = _Question(
            self._server,
            self._pool,
            task,
            schema,
            self._budget(account, job_id),
            time.monotonic() + deadline_s,
        )
        kept: list[str | None] = [data]
        warnings: list[str] = []
        if data:
            kept[:], warnings = self._affordable(data, question)
        found = await asyncio.gather(
            *(
                question.answer(part, (number, len(kept)))
                for number, part in enumerate(kept, 1)
            ),
            return_exceptions=True,
        )
        failures = [each for each in found if isinstance(each, BaseException)]
        for failure in failures:
            if not isinstance(failure, ModelError):
                raise failure
        answers = [each for each in found if isinstance(each, Completion)]
        if not answers:
            raise failures[0]
        if failures:
            warnings.append(
                f"The language model did not read {len(failures)} of {len(kept)} parts"
                f" of the page: {failures[0]}."
            )
        return await self._join_answers(question, answers, warnings)

    async def _join_answers(
        self, question: _Question, answers: list[Completion], warnings: list[str]
    ) -> ModelAnswer:
        """Merge the answers to all pieces."""
        if any(answer.is_cut for answer in answers):
            warnings.append("The answer of the language model was cut at its limit.")
        if question.schema is None:
            text = answers[0].text
            if len(answers) > 1:
                text = "\n\n".join(answer.text for answer in answers)
                text = (await question.again(JOINING, text)).text
            return ModelAnswer(
                text=text, tokens=question.budget.used, warnings=tuple(warnings)
            )
        value, missing = answers[0].value, answers[0].missing
        if len(answers) > 1:
            value = merge_answers(answer.value for answer in answers)
            missing = tuple(
                path
                for path in dict.fromkeys(p for a in answers for p in a.missing)
                if _at(value, path) is None
            )
        return ModelAnswer(
            value=value,
            text=answers[0].text,
            tokens=question.budget.used,
            missing=missing,
            warnings=tuple(warnings),
        )

    def _budget(self, account: str, job_id: str | None) -> _Budget:
        caps = []  # keys first: the database locks the rows in this order
        if account and self._per_key:
            caps.append(Cap(f"key:{account}", self._per_key, daily=True))
        if account and job_id and self._per_job:
            caps.append(Cap(f"job:{job_id}", self._per_job))
        database = Database.shared(self._settings) if caps else None
        return _Budget(self._per_page, tuple(caps), database)

    def _affordable(
        self, data: str, question: _Question
    ) -> tuple[list[str], list[str]]:
        """Return the pieces up to the token limit of the page, and a warning if any is left."""
        overhead = question.cost(question.messages("", (1, 2)))
        left, kept = self._per_page, []
        for part in pieces(data, self._piece_tokens):
            left -= overhead + token_count(part)
            if self._per_page and left < 0:
                break
            kept.append(part)
        else:
            return kept, []
        if not kept:
            raise ModelError(f"the page would take over {self._per_page} tokens")
        share = round(100 * sum(map(len, kept)) / len(data))
        text = (
            f"The language model read the first {share} % of the page: a page may take"
            f" {self._per_page} tokens."
        )
        return kept, [text]

    async def check(self) -> str:
        """Send a test request and return the model's name in a phrase.

        Raises :exc:`ModelError` if the model does not answer.
        """
        body = await self._server.complete(
            model.messages("Say yes.", None, None),
            None,
            "",
            strict=False,
            deadline=time.monotonic() + CHECK_S,
        )
        answer = await asyncio.to_thread(read_completion, body, None)
        if answer.error:
            raise ModelError(answer.error)
        return f"{self._server.model} answers"


@define
class _Question:
    """One task with one schema, used for all pieces of a text."""

    server: ChatServer
    pool: Pool
    task: str
    schema: Mapping[str, Any] | None
    budget: _Budget
    deadline: float
    _wanted: dict[str, Any] | None = field(init=False, default=None)
    _name: str = field(init=False, default="")
    _strict: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        if self.schema is None:
            return
        wanted = field_of(self.schema)
        self._strict = is_closed(wanted)
        is_any = wanted.kind == "object" and wanted.is_open
        self._wanted = {} if is_any else model_schema(wanted)
        spelled = json.dumps(self._wanted, sort_keys=True).encode()
        self._name = hashlib.blake2b(spelled, digest_size=8).hexdigest()

    def messages(self, data: str | None, part: tuple[int, int]) -> list[MessageT]:
        return model.messages(self.task, data, self._wanted, part)

    def cost(self, messages: list[MessageT]) -> int:
        """Return the most tokens that a request may use, with its answer."""
        prompt_tokens = sum(token_count(each["content"]) for each in messages)
        return prompt_tokens + self.server.answer_tokens

    async def answer(self, data: str | None, part: tuple[int, int]) -> Completion:
        """Return a valid answer to one piece.

        Invalid answers are sent back for correction, at most ``REPAIRS`` times.
        """
        messages = self.messages(data, part)
        for repairs in range(REPAIRS + 1):
            found = await self._ask(messages)
            if found.error is not None:
                raise ModelError(found.error)
            if not found.schema_errors:
                return found
            if repairs < REPAIRS:
                messages = model.repair(messages, found.text, found.schema_errors)
        raise ModelError("its answer does not fit the schema")

    async def again(self, how: str, data: str) -> Completion:
        """Return one answer made from ``data``, the answers to the pieces."""
        found = await self._ask(model.messages(how + self.task, data, None))
        if found.error is not None:
            raise ModelError(found.error)
        return found

    async def _ask(self, messages: list[MessageT]) -> Completion:
        taken = used = self.cost(messages)
        await self.budget.take(taken)
        result = "failed"
        try:
            body = await self.server.complete(
                messages,
                self._wanted or None,
                self._name,
                strict=self._strict,
                deadline=self.deadline,
            )
            found = await self._read(body)
            used = found.tokens or taken
            result = "failed" if found.error else "answered"
            _count_tokens(found)
        except TimedOut:
            result = "timeout"
            raise
        except ModelError:
            used = 0
            raise
        finally:
            REQUESTS.labels(result).inc()
            await asyncio.shield(self.budget.settle(taken, used))
        return found

    async def _read(self, body: bytes) -> Completion:
        is_prose = "json" not in self.task.lower()
        left_s = max(0.1, min(READ_S, self.deadline - time.monotonic()))
        try:
            return await self.pool.run(
                partial(read_completion, is_prose=is_prose),
                body,
                self.schema,
                timeout_s=left_s,
            )
        except Exception as error:
            logger.warning("an answer of the model cannot be read: %r", error)
            return Completion(error="its answer cannot be read")


def _count_tokens(found: Completion) -> None:
    answer = min(found.answer_tokens, found.tokens)
    TOKENS.labels("input").inc(found.tokens - answer)
    TOKENS.labels("output").inc(answer)


def _at(value: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value
