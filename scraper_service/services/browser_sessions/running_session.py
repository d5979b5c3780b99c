"""A session of the browser while it runs: its steps, one after the other."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from attrs import define, field
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
)

from scraper_service.crawling.browser.command_lines import (
    CommandInvalid,
    LineRefused,
    parse_lines,
)
from scraper_service.crawling.browser.devtools import DevTools, error_reply
from scraper_service.crawling.page_errors import (
    ActionFailed,
    BrowserGone,
    SessionOver,
    page_error,
)
from scraper_service.errors import QueueFull, ServiceUnavailable
from scraper_service.items import Page, TakenPage
from scraper_service.llm.model import LanguageModel, ModelError
from scraper_service.options.scrape import ScrapeOptions
from scraper_service.options.urls import host_of
from scraper_service.services.accounts import Charge, Team
from scraper_service.services.browser_sessions.session_requests import (
    FAILED,
    LATE,
    NO_PROGRAM,
    InputInvalid,
    parse_input,
    send_input,
)
from scraper_service.storage.accounts.sessions import SessionRecord

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from scraper_service.crawling.browser.command_lines import PageCommand
    from scraper_service.services.browser_sessions.session_requests import Step

    CodeRunnerT = Callable[
        ["RunningSession", Step, "StepResult"], Coroutine[Any, Any, None]
    ]


#: The failures of steps that callers get to know.
FAILURES = (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ModelError,
    OSError,
    ServiceUnavailable,
)


def reason_of(error: BaseException) -> str:
    """Return the sentence for a caller about a failed step."""
    from scraper_service.crawling.browser.held_page import NoPage  # noqa: PLC0415

    if isinstance(error, NoPage):
        return f"{str(error)[:1].upper()}{str(error)[1:]}."
    if isinstance(error, ModelError):
        return f"The language model gave no usable answer: {error.reason}."
    if isinstance(error, ServiceUnavailable):
        return str(error)
    return page_error(error).message


# -- steps by a prompt -----------------------------------------------------------------
# A language model reads the page and chooses commands, until it is done. A page may hold
# text that speaks to the model. So its commands are only those of a visitor: it runs no
# scripts, and opens URLs of the page's own host or of the prompt alone. The rules for
# networks hold as for every step.

MOST_ROUNDS = 15  # answers of the model to one prompt
MOST_COMMANDS = 10  # of one answer
MAX_TREE = (
    9000  # bytes of a snapshot; a text in several pieces would get several answers
)
MAX_NOTES = 2000  # characters of what the commands so far have done
ANSWER_S = 120.0
ALLOWED = (
    *("open", "click", "fill", "type", "press", "scroll", "find", "wait", "get"),
    "back",
)
TASK = """You operate a web page for somebody, step by step. What they want: {prompt}

The document is the page as it is now: its URL, then its accessibility tree, in which @e1 and
the like are ids of elements. Answer with JSON: "commands" is a list of the next commands, at
most {most}, or empty if nothing more is to be done; "done" is true if what they want is done
or cannot be done; "answer" is then the answer for them, in their language, else empty.
Commands: open URL | click ID | fill ID "TEXT" | type ID "TEXT" | press KEY | scroll down |
scroll up | find text "TEXT" click | wait MILLISECONDS | get text ID | back
After the commands you see the page again. Done so far:
{notes}"""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "commands": {"type": "array", "items": {"type": "string"}},
        "done": {"type": "boolean"},
        "answer": {"type": "string"},
    },
    "required": ["commands", "done"],
}
UNFINISHED = (
    f"The language model was not done after {MOST_ROUNDS} rounds of commands; a further"
    " prompt goes on from there."
)


_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HOST_NAME = re.compile(r"[\w.-]+")  # what may be a host


@define
class PromptRun:
    """The rounds of one prompt in a page."""

    model: LanguageModel
    #: A :class:`~scraper_service.crawling.browser.held_page.HeldPage`, whose import is slow.
    page: Any
    prompt: str
    #: The key or team whose tokens are counted.
    account: str
    job_id: str
    #: When the step ends (:func:`time.monotonic`).
    deadline: float
    #: The commands and what they printed.
    notes: list[str] = field(factory=list)
    #: The last snapshot that the model has read.
    tree: str = ""

    async def run(self) -> str:
        """Return the answer of the model.

        Raises :exc:`~scraper_service.llm.model.ModelError`, and :exc:`ActionFailed` if it
        was not done.
        """
        for _ in range(MOST_ROUNDS):
            value = await self._ask()
            commands = [str(each) for each in value.get("commands") or []]
            await self._do(commands[:MOST_COMMANDS])
            answer = str(value.get("answer") or "")
            if value.get("done") or (answer and not commands):
                return answer
            if not commands:
                raise ModelError("it named no command and gave no answer")
        raise ActionFailed(UNFINISHED)

    async def _ask(self) -> dict[str, Any]:
        from scraper_service.crawling.browser.command_lines import snapshot  # noqa: PLC0415

        opened = self.page.opened
        tree = await snapshot(
            opened.page, only_interactive=False, timeout_ms=opened.patience_ms
        )
        whole = f"{self.page.url or 'no page is open'}\n{tree}".encode()
        self.tree = whole[:MAX_TREE].decode(errors="ignore")
        notes = "\n".join(self.notes)[-MAX_NOTES:] or "nothing"
        answer = await self.model.ask(
            task=TASK.format(prompt=self.prompt, most=MOST_COMMANDS, notes=notes),
            data=self.tree,
            schema=SCHEMA,
            deadline_s=max(1.0, min(ANSWER_S, self.deadline - time.monotonic())),
            account=self.account,
            job_id=self.job_id,
        )
        return answer.value if isinstance(answer.value, dict) else {}

    async def _do(self, lines: list[str]) -> None:
        """Run commands of the model. It gets to know which one failed, and why."""
        from scraper_service.crawling.browser.held_page import CommandRun  # noqa: PLC0415

        for given in lines:
            line = given.encode(errors="replace").decode()  # of half a character
            run = CommandRun(self.page)
            try:
                [command] = parse_lines(line)
                self._check(command)
                await run.run([command])
            except (BrowserGone, ServiceUnavailable):
                raise
            except (CommandInvalid, LineRefused, ValueError) as error:
                self.notes.append(f"{line[:200]}: failed: {error}"[:500])
                return
            except FAILURES as error:
                self.notes.append(f"{line[:200]}: failed: {reason_of(error)}"[:500])
                return
            self.notes.append(f"{line[:200]}: {''.join(run.printed)[:300] or 'done'}")

    def _check(self, command: PageCommand) -> None:
        """Raise :exc:`CommandInvalid` for what a visitor would not do."""
        if command.name not in ALLOWED:
            raise CommandInvalid(f"{command.name} is not possible here")
        if command.name == "open":
            url = command.words[0]
            host = host_of(url if _SCHEME.match(url) else f"http://{url}")
            known = host_of(self.page.url) if self.page.url else ""
            named = {
                each.strip(".-") for each in _HOST_NAME.findall(self.prompt.lower())
            }
            if not host or (host != known and host not in named):
                raise CommandInvalid(
                    f"open takes URLs of {known or 'the prompt'} and of the prompt"
                )


# -- the session -----------------------------------------------------------------------

PICTURE_S = 5.0
INPUT_S = 5.0
MOST_SOCKETS = 5  # connections of callers to one browser
MOST_PAGES = 10  # of a session whose caller can open some
CLOSING_TRIES, CLOSING_PAUSE_S = 5, 0.1
MOST_WAITING = 10  # steps of one session
GONE = "The browser of the session ended: {}. The session is over."
OVER = "The session ended while the step ran."


@define(eq=False)
class StepResult:
    """The result of a step. It is a success unless there is an ``error``."""

    session_id: str = ""
    #: The URL of the page after the step; empty while none is open.
    url: str = ""

    error: str | None = None
    exit_code: int = 0
    #: True if the step was ended after its time.
    is_killed: bool = False
    is_gone: bool = False
    #: True if the step ends the session.
    closes: bool = False
    stdout: str = ""
    stderr: str = ""
    #: True if one of both was cut already.
    is_cut: bool = False
    #: The value of the last expression, None without one.
    result: str | None = None
    #: The answer to a prompt.
    output: str | None = None
    #: The :class:`~scraper_service.crawling.browser.actions.Results`; None without actions.
    results: Any = None
    #: The page after the step as the browser gave it, before it is converted.
    taken: TakenPage | None = None
    #: None unless the step takes the page.
    page: Page | None = None

    @property
    def actions(self) -> bytes | None:
        """The four lists of results of actions as JSON text; None without actions."""
        return None if self.results is None else self.results.as_json()

    def end_early(self, error: str, **facts: Any) -> StepResult:
        """Return the result of a step that was ended early: what it printed, and why."""
        return StepResult(
            stdout=self.stdout,
            stderr=self.stderr,
            is_cut=self.is_cut,
            **{"error": error, "exit_code": FAILED, **facts},
        )


@define(eq=False)
class RunningSession:
    """A session whose browser this process has."""

    record: SessionRecord
    team: Team
    #: A :class:`~scraper_service.crawling.browser.held_page.HeldPage`, whose import is slow.
    page: Any
    #: The options of its page.
    options: ScrapeOptions
    #: Seconds without a call until it ends.
    idle_s: float
    charge: Charge
    #: What the page began with, for the changes that a profile gets.
    state: dict[str, object]
    #: The deadline of its time to live (:func:`time.monotonic`).
    ends_at: float
    began_at: float = field(factory=time.monotonic)
    last_at: float = field(factory=time.monotonic)
    #: Takes steps by prompts; None without a model.
    model: LanguageModel | None = None
    #: The secret of its ``cdpUrl``; empty where it is not offered.
    cdp_token: str = ""
    #: The secret of its ``liveViewUrl``; empty where it is not offered.
    view_token: str = ""
    #: The secret of its ``interactiveLiveViewUrl``; empty where it is not offered.
    input_token: str = ""
    #: Its context and its page in the DevTools protocol; empty where callers cannot connect.
    context_id: str = ""
    target_id: str = ""
    #: Does a step by code in a language of the operator.
    run_code: CodeRunnerT | None = None
    #: Connections of callers to its browser.
    sockets: int = 0
    has_prompts: bool = False
    #: True if its first page could not be loaded: then it is free and forgotten.
    has_failed: bool = False
    #: Set when it shall end.
    ending: asyncio.Event = field(factory=asyncio.Event)
    #: Done with its stored end.
    ended: asyncio.Future[SessionRecord] = field(factory=asyncio.Future)
    #: Held while a caller opens a page.
    opening: asyncio.Lock = field(factory=asyncio.Lock)
    _lock: asyncio.Lock = field(factory=asyncio.Lock)
    _waiting: int = 0

    @property
    def next_end(self) -> float:
        """When it ends without a further call (:func:`time.monotonic`)."""
        if self._waiting:
            return self.ends_at
        return min(self.ends_at, self.last_at + self.idle_s)

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """Count work that is no step, such as the load of the first page, as a call."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            self.last_at = time.monotonic()

    # -- connections of callers ----------------------------------------------------------

    @asynccontextmanager
    async def devtools(self) -> AsyncIterator[DevTools]:
        """Yield a connection to the browser. It counts as a call while it is used.

        Raises :exc:`QueueFull` above :data:`MOST_SOCKETS`.
        """
        if self.sockets >= MOST_SOCKETS:
            raise QueueFull(f"{MOST_SOCKETS} connections to this session are open.")
        self.sockets += 1
        try:
            async with DevTools.connect(self.page.running.devtools_url()) as found:
                yield found
        finally:
            self.sockets -= 1
            self.last_at = time.monotonic()

    def note_message(self) -> None:
        """Note a message of a caller to its browser; it counts as a call."""
        self.last_at = time.monotonic()
        self.page.opened.moves.go_on()

    async def full_reply(self, message_id: int) -> str | None:
        """Return the reply to a message that opens a page too many, else None."""
        for _ in range(CLOSING_TRIES):  # a page that was closed is there for a moment
            if await self.page.count_pages(self.context_id) < MOST_PAGES:
                return None
            await asyncio.sleep(CLOSING_PAUSE_S)
        why = f"a session has at most {MOST_PAGES} pages; close one"
        return error_reply({"id": message_id}, why)

    async def picture(self) -> bytes:
        """Return a picture of the page as a JPEG; empty if it gives none in time.

        It does not count as a call.
        """
        found: bytes = await self.page.picture(PICTURE_S)
        return found

    async def give_input(self, message: str) -> str | None:
        """Give an input of a person to the page. Return why that was not possible, else None.

        It counts as a call.
        """
        from playwright.async_api import Error as PlaywrightError  # noqa: PLC0415  # slow

        try:
            given = parse_input(message)
        except InputInvalid as error:
            return str(error)
        self.note_message()
        try:
            async with asyncio.timeout(INPUT_S):
                await send_input(self.page.opened.page, given)
        except TimeoutError:
            return f"The page did not take it within {INPUT_S:g} s."
        except PlaywrightError:
            return "The page did not take it: it has just closed or moved. Try again."
        return None

    # -- steps ---------------------------------------------------------------------------

    async def step(self, step: Step) -> StepResult:
        """Run a step after those before it. Returns also failures of the step.

        Raises :exc:`QueueFull` if :data:`MOST_WAITING` steps wait.
        """
        if self._waiting >= MOST_WAITING:
            raise QueueFull(f"{MOST_WAITING} steps of this session wait already.")
        deadline = time.monotonic() + step.timeout_s
        self._waiting += 1
        try:
            try:
                async with asyncio.timeout_at(_loop_time(deadline)):
                    await self._lock.acquire()
            except TimeoutError:
                return _late(
                    step,
                    "The steps before this one took all of its time",
                    StepResult(),
                )
            try:
                return await self._step(step, deadline)
            finally:
                self._lock.release()
        finally:
            self._waiting -= 1
            self.last_at = time.monotonic()

    async def _step(self, step: Step, deadline: float) -> StepResult:
        outcome = StepResult()
        try:
            left_s = max(0.0, deadline - time.monotonic())
            work = self._perform(step, outcome)
            await self.page.run(
                work, left_s, ending=self.ending, sees_refusals=step.is_program
            )
            # A program only sees that it has lost its browser.
            failed = step.is_program and outcome.error is not None
            if failed and not await self.page.running.answers():
                raise BrowserGone("it gives no answer")
        except TimeoutError:
            return _late(step, "The step was not done", outcome)
        except SessionOver:
            return outcome.end_early(OVER, is_gone=True)
        except BrowserGone as error:
            self.ending.set()
            return outcome.end_early(GONE.format(error), is_gone=True)
        except LineRefused as error:
            outcome.error, outcome.exit_code = f"{error}.", NO_PROGRAM
        except CommandInvalid as error:
            outcome.error, outcome.exit_code = f"{error}.", FAILED
        except FAILURES as error:
            outcome.error, outcome.exit_code = reason_of(error), FAILED
        if step.code is not None and outcome.error is not None and not outcome.stderr:
            outcome.stderr = f"{outcome.error}\n"
        if outcome.closes:
            self.ending.set()
        return outcome

    async def _perform(self, step: Step, outcome: StepResult) -> None:
        """Do the work of a step, then take the page, also after a failed action."""
        failure: ActionFailed | None = None
        try:
            if step.actions is not None:
                outcome.results = await self.page.act(step.actions)
            elif step.is_program:
                assert self.run_code is not None
                await self.run_code(self, step, outcome)
            elif step.code is not None:
                await self._command(step.code, outcome)
            elif step.prompt is not None:
                await self._run_prompt(step.prompt, outcome)
        except ActionFailed as error:
            failure = error
        if step.take is not None:
            outcome.taken = await self.page.take(step.take, outcome.results)
        if failure is not None:
            raise failure

    async def _command(self, code: str, outcome: StepResult) -> None:
        """Run lines of ``agent-browser``. What they print is kept after a failure, too."""
        from scraper_service.crawling.browser.held_page import CommandRun  # noqa: PLC0415

        run = CommandRun(self.page)
        try:
            # In a thread: long lines would keep the event loop from others.
            await run.run(await asyncio.to_thread(parse_lines, code))
            outcome.result = run.printed[-1]
        finally:
            outcome.stdout = "".join(f"{text}\n" for text in run.printed if text)
            outcome.closes = run.closes

    async def _run_prompt(self, prompt: str, outcome: StepResult) -> None:
        """Let the language model act. What it has done is kept after a failure, too."""
        assert self.model is not None
        self.has_prompts = True
        run = PromptRun(
            model=self.model,
            page=self.page,
            prompt=prompt,
            account=self.team.key_id or self.team.id,
            job_id=self.record.id,
            deadline=self.page.opened.order.ends_at,
        )
        try:
            outcome.output = await run.run()
        finally:
            outcome.stdout = "".join(f"{note}\n" for note in run.notes)
            outcome.result = run.tree


def _late(step: Step, what: str, outcome: StepResult) -> StepResult:
    text = f"{what} within {step.timeout_s} s. A longer timeout may help."
    return outcome.end_early(text, exit_code=LATE, is_killed=True)


def _loop_time(deadline: float) -> float:
    """Return a time of :func:`time.monotonic` as one of the event loop."""
    return asyncio.get_running_loop().time() + deadline - time.monotonic()
