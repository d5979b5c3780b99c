"""Steps by code of callers in Python and Node, where the operator lists the language.

A program runs in the sandbox: it is started, what it writes is kept, and all of it is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import re
import signal
import subprocess
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from scraper_service.crawling.converter_pool.page_conversion import ConverterPool
from scraper_service.errors import variable
from scraper_service.options.limits import parse_languages
from scraper_service.services.browser_sessions.cdp import browser_socket
from scraper_service.services.browser_sessions.sandbox import (
    ENDPOINT,
    FilterUnavailable,
    command,
    excess,
    filter_program,
    limit_process,
    release_process,
    why_no_program,
)
from scraper_service.services.browser_sessions.session_requests import DONE, FAILED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.settings import BaseSettings

    from scraper_service.services.browser_sessions.running_session import (
        RunningSession,
        StepResult,
    )
    from scraper_service.services.browser_sessions.session_requests import Step


MOST_OUTPUT: Final = 2**20  # bytes of each of stdout and stderr
MOST_REPLY: Final = 8 * 2**20  # bytes of the result
CHUNK: Final = 64 * 2**10
DISCARD_PAUSE_S: Final = 0.002  # after a chunk that nobody gets
WATCH_S: Final = 0.1
END_S: Final = 5.0  # for the end of killed processes

logger = logging.getLogger(__name__)


@define(eq=False)
class KeptOutput:
    """The first :data:`MOST_OUTPUT` bytes of a stream."""

    data: bytearray = field(factory=bytearray)
    is_cut: bool = False

    async def keep(self, file: FileIO) -> None:
        """Read a pipe to its end. A program that writes for ever is slowed down."""
        async with _stream(file) as stream:
            while chunk := await stream.read(CHUNK):
                free = MOST_OUTPUT - len(self.data)
                self.data += chunk[:free]
                if len(chunk) > free:
                    self.is_cut = True
                    await asyncio.sleep(DISCARD_PAUSE_S)

    @property
    def text(self) -> str:
        """The text; bytes that are no UTF-8 are replaced."""
        return self.data.decode("utf-8", "replace")


@define(eq=False)
class Program:
    """A program with code of a caller. :meth:`run` is called once.

    The rest is filled while it runs, and kept if :meth:`run` is cancelled.
    """

    stdout: KeptOutput = field(factory=KeptOutput)
    stderr: KeptOutput = field(factory=KeptOutput)
    #: What it sent as its reply, unchecked: ``=`` and a result, or ``!`` and an error.
    reply: bytes = b""
    #: None while it runs, negative after a signal to bubblewrap.
    exit_code: int | None = None
    #: The sentence about a limit that it exceeded, else None.
    excess: str | None = None

    async def run(
        self,
        language: str,
        data_dir: Path,
        socket: Path | None,
        request: dict[str, Any],
        seconds: int,
    ) -> None:
        """Run code of ``request``, and end every process of it, also when cancelled.

        Raises :exc:`OSError`, and :exc:`FilterUnavailable`.
        """
        with contextlib.ExitStack() as stack:
            pipes = _Pipes.open_all(stack)
            given = {**request, "reply": pipes.reply.fileno()}
            arguments = command(language, data_dir, socket, *pipes.options)
            process = pipes.start(arguments, json.dumps(given).encode())
            bubblewrap = os.pidfd_open(process.pid)
            stack.callback(os.close, bubblewrap)
            tasks = [
                asyncio.ensure_future(self.stdout.keep(pipes.outputs)),
                asyncio.ensure_future(self.stderr.keep(pipes.errors)),
                asyncio.ensure_future(self._keep_reply(pipes.replies)),
            ]
            first = -1
            try:
                facts = json.loads(await _read(pipes.info, CHUNK) or b"{}")
                if pid := facts.get("child-pid"):  # else bubblewrap has failed
                    first = os.pidfd_open(pid)
                    stack.callback(os.close, first)
                    limit_process(pid, seconds)
                    pipes.begin.write(b"1")
                    await self._watch(bubblewrap, pid)
                else:
                    await _wait_for_end(bubblewrap, END_S)
            finally:
                if first >= 0:
                    release_process(pid)
                await _end(bubblewrap, first)
                code = process.poll()  # None for a process that does not end
                self.exit_code = -signal.SIGKILL if code is None else code
                # All who could write have ended, so these come to an end, too.
                await asyncio.wait(tasks, timeout=END_S)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, bubblewrap: int, pid: int) -> None:
        """Wait for the end of a program, or until it exceeds a limit."""
        while self.excess is None and not await _wait_for_end(bubblewrap, WATCH_S):
            self.excess = self.excess or excess(pid)

    async def _keep_reply(self, file: FileIO) -> None:
        self.reply = await _read(file, MOST_REPLY + 1)
        if len(self.reply) > MOST_REPLY:
            self.reply = b""
            self.excess = f"The result has more than {MOST_REPLY // 2**20} MiB."


@define(eq=False)
class _Pipes:
    """What bubblewrap and the program get, and where they write."""

    #: From bubblewrap, about the process that it has made.
    info: FileIO
    info_end: FileIO
    #: The program waits for its first byte.
    begins: FileIO
    begin: FileIO
    #: The reply of the program.
    replies: FileIO
    reply: FileIO
    #: Its standard streams.
    outputs: FileIO
    output: FileIO
    errors: FileIO
    error: FileIO
    #: The filter of system calls.
    rules: FileIO

    @classmethod
    def open_all(cls, stack: contextlib.ExitStack) -> _Pipes:
        """Open them. The end of ``stack`` closes them at the latest."""
        return cls(
            *_pipe(stack),
            *_pipe(stack),
            *_pipe(stack),
            *_pipe(stack),
            *_pipe(stack),
            stack.enter_context(_seal_file(filter_program())),
        )

    @property
    def options(self) -> tuple[str, ...]:
        """The options of bubblewrap that name them."""
        return (
            *("--info-fd", str(self.info_end.fileno())),
            *("--block-fd", str(self.begins.fileno())),
            *("--seccomp", str(self.rules.fileno())),
        )

    def start(self, arguments: list[str], given: bytes) -> subprocess.Popen[bytes]:
        """Start bubblewrap with an input, and close the ends that only it needs.

        It inherits nothing else: the event loop's own way to start a process would leave it
        further descriptors of this one.
        """
        passed = (self.info_end, self.begins, self.reply, self.rules)
        with _seal_file(given) as file:
            process = subprocess.Popen(  # noqa: S603  # bubblewrap, and our own runner
                arguments,
                stdin=file,
                stdout=self.output,
                stderr=self.error,
                pass_fds=[each.fileno() for each in passed],
                env={},
                cwd="/",
            )
        for each in (*passed, self.output, self.error):
            each.close()
        return process


def _seal_file(data: bytes) -> FileIO:
    """Return a file in memory that nobody can change any more."""
    file = FileIO(
        os.memfd_create("sealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "r+"
    )
    file.write(data)
    file.seek(0)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK
    fcntl.fcntl(file.fileno(), fcntl.F_ADD_SEALS, seals)
    return file


def _pipe(stack: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    reading, writing = os.pipe()
    return (
        stack.enter_context(FileIO(reading, "r")),
        stack.enter_context(FileIO(writing, "w")),
    )


@contextlib.asynccontextmanager
async def _stream(file: FileIO) -> AsyncIterator[asyncio.StreamReader]:
    stream = asyncio.StreamReader(limit=CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), file
    )
    try:
        yield stream
    finally:
        transport.close()


async def _read(file: FileIO, most: int) -> bytes:
    """Return what comes by a pipe until its end, or its first ``most`` bytes."""
    found = bytearray()
    async with _stream(file) as stream:
        while len(found) < most and (chunk := await stream.read(most - len(found))):
            found += chunk
    return bytes(found)


async def _wait_for_end(process: int, seconds: float) -> bool:
    """Wait for the end of a process, by its descriptor. Return False after ``seconds``."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(process, ended.set)
    try:
        async with asyncio.timeout(seconds):
            await ended.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(process)
    return True


async def _end(bubblewrap: int, first: int) -> None:
    """End bubblewrap, and the first process of its namespace, which ends all others.

    Both are descriptors of processes; ``first`` is -1 where there is none.
    """
    for process in (bubblewrap, first):
        if process < 0:
            continue
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        if not await _wait_for_end(process, END_S):
            logger.warning("processes of a program of a caller do not end")


# -- steps -----------------------------------------------------------------------------

RESULT, ERROR = b"=", b"!"  # the first byte of the reply of a program
TRY_S: Final = 30
MOST_ERROR: Final = 2000  # characters of the reason of a failed step
MOST_ACTION_MS: Final = 30_000  # for an action of Playwright; less in a shorter step
_ERROR = re.compile(r"^(FATAL ERROR|\S*Error\b|\S+: error)")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class CallerCode:
    """Runs code of callers in the languages of the operator, isolated from this machine."""

    def __init__(self, settings: BaseSettings):
        self._settings = settings
        self._data_dir = Path(settings["DATA_DIR"]).absolute()
        #: Those that the operator lists.
        self.languages = parse_languages(settings.getlist("INTERACT_CODE"))
        self._working: set[str] = set()
        self._trials: dict[str, asyncio.Task[str | None]] = {}

    async def why_off(self, language: str) -> str | None:
        """Return why no code in a language runs, as a part of a sentence; None if it does.

        The first call for a language tries whether this machine can isolate it, for all that
        come meanwhile. After a failure the next one tries again, so that a repair needs no
        restart.
        """
        if language not in self.languages:
            has = (
                f"has only {', '.join(self.languages)}"
                if self.languages
                else "has none"
            )
            listed = variable("INTERACT_CODE")
            return f"the operator lists the languages in {listed}, which {has}"
        if language in self._working:
            return None
        if (trial := self._trials.get(language)) is None:
            trial = asyncio.ensure_future(self._why_not_isolated(language))
            self._trials[language] = trial
            trial.add_done_callback(lambda _: self._trials.pop(language))
        why = await asyncio.shield(trial)
        if why is None:
            self._working.add(language)
            return None
        listed = variable("INTERACT_CODE")
        return f"{listed} lists it, but it cannot be isolated here: {why}"

    async def _why_not_isolated(self, language: str) -> str | None:
        if (why := why_no_program()) is not None:
            return why
        program = Program()
        try:
            async with asyncio.timeout(TRY_S):
                await program.run(language, self._data_dir, None, {}, TRY_S)
        except TimeoutError:
            return f"its trial took longer than {TRY_S} s"
        except (FilterUnavailable, OSError) as error:
            return str(error)
        if program.exit_code == DONE and program.excess is None:
            return None
        text = program.excess or program.stderr.text.strip()
        return f"{text.splitlines()[-1] if text else 'its trial failed'} (see docs/how-to/browser.md)"

    async def run(
        self, session: RunningSession, step: Step, outcome: StepResult
    ) -> None:
        """Do a step by code in the page of a session.

        What it prints is kept after a failure, and after a cancel.
        """
        request = {
            "code": step.code,
            "endpoint": ENDPOINT,
            "target": session.target_id,
            # An action fails, and says why, before the whole step is killed.
            "timeout_ms": min(MOST_ACTION_MS, step.timeout_s * 500),
        }
        program = Program()
        pool = ConverterPool.shared(self._settings)
        home = session.page.running.home
        try:
            async with browser_socket(session, pool, home) as path:
                await program.run(
                    step.language, self._data_dir, path, request, step.timeout_s
                )
            outcome.result, outcome.error = _result_of(program)
        except (FilterUnavailable, OSError) as error:
            logger.error("a program of a caller could not be run: %s", error)
            outcome.error = "The program could not be run on this machine."
        finally:
            outcome.stdout, outcome.stderr = program.stdout.text, program.stderr.text
            outcome.is_cut = program.stdout.is_cut or program.stderr.is_cut
        outcome.exit_code = DONE if outcome.error is None else FAILED


def _result_of(program: Program) -> tuple[str | None, str | None]:
    """Return the result and the error of a program that has ended."""
    if program.excess is not None:
        return None, program.excess
    kind, text = program.reply[:1], program.reply[1:].decode("utf-8", "replace")
    if kind == RESULT:
        return text, None
    if kind == ERROR:
        return None, _reason(text)
    if program.exit_code == DONE:  # it has ended itself
        return None, None
    lines = [line for line in program.stderr.text.splitlines() if _ERROR.search(line)]
    last = lines[-1] if lines else ""
    reason = f"The program ended with the exit code {program.exit_code}. {last}"
    return None, _reason(reason.strip())


def _reason(text: str) -> str:
    text = _COLOURS.sub("", text)
    return text if len(text) <= MOST_ERROR else f"{text[:MOST_ERROR]}…"
