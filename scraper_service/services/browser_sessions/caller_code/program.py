"""A program in the sandbox: starts it, keeps what it writes, and ends all of it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import signal
import subprocess
from io import FileIO
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from scraper_service.services.browser_sessions.caller_code import limits
from scraper_service.services.browser_sessions.caller_code.sandbox import command
from scraper_service.services.browser_sessions.caller_code.system_calls import (
    filter_program,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

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
                room = MOST_OUTPUT - len(self.data)
                self.data += chunk[:room]
                if len(chunk) > room:
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
                    limits.limit(pid, seconds)
                    pipes.begin.write(b"1")
                    await self._watch(bubblewrap, pid)
                else:
                    await _wait_for_end(bubblewrap, END_S)
            finally:
                if first >= 0:
                    limits.release(pid)
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
            self.excess = self.excess or limits.excess(pid)

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
    told: FileIO
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
            *("--info-fd", str(self.told.fileno())),
            *("--block-fd", str(self.begins.fileno())),
            *("--seccomp", str(self.rules.fileno())),
        )

    def start(self, arguments: list[str], given: bytes) -> subprocess.Popen[bytes]:
        """Start bubblewrap with an input, and close the ends that only it needs.

        It inherits nothing else: the event loop's own way to start a process would leave it
        further descriptors of this one.
        """
        passed = (self.told, self.begins, self.reply, self.rules)
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
