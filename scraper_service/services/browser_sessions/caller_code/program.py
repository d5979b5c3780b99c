"""A program in the sandbox: starts it, keeps what it writes, and ends all of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import select
import signal
import tempfile
import time
from io import FileIO
from typing import IO, TYPE_CHECKING, Any, Final

from attrs import define, field

from scraper_service.services.browser_sessions.caller_code import limits
from scraper_service.services.browser_sessions.caller_code.sandbox import command
from scraper_service.services.browser_sessions.caller_code.system_calls import (
    filter_program,
)

if TYPE_CHECKING:
    from pathlib import Path

MOST_OUTPUT: Final = 2**20  # bytes of each of stdout and stderr
MOST_REPLY: Final = 8 * 2**20  # bytes of the result as JSON
CHUNK: Final = 64 * 2**10
DISCARD_PAUSE_S: Final = 0.002  # after a chunk that nobody gets
WATCH_S: Final = 0.1
END_S: Final = 5.0  # for the end of killed processes
POLL_S: Final = 0.01

logger = logging.getLogger(__name__)


@define(eq=False)
class KeptOutput:
    """The first :data:`MOST_OUTPUT` bytes of a stream."""

    data: bytearray = field(factory=bytearray)
    is_cut: bool = False

    async def keep(self, stream: asyncio.StreamReader) -> None:
        """Read a stream to its end. A program that writes for ever is slowed down."""
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
    #: What it sent as its reply, unchecked.
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
            pipes = _Pipes.opened(stack)
            given = {**request, "reply": pipes.reply.fileno()}
            arguments = command(language, data_dir, socket, *pipes.options)
            process = await pipes.start(arguments)
            assert process.stdout is not None
            assert process.stderr is not None
            tasks = [
                asyncio.ensure_future(self.stdout.keep(process.stdout)),
                asyncio.ensure_future(self.stderr.keep(process.stderr)),
                asyncio.ensure_future(self._keep_reply(pipes.replies)),
            ]
            first = -1
            try:
                facts = json.loads(await _read(pipes.info, CHUNK) or b"{}")
                if pid := facts.get("child-pid"):  # else bubblewrap has failed
                    first = os.pidfd_open(pid)
                    limits.limit(pid, seconds)
                    pipes.begin.write(b"1")
                    tasks.append(asyncio.ensure_future(_feed(process, given)))
                    await self._watch(process, pid)
                self.exit_code = await process.wait()
            finally:
                await _end(process, first)
                # All who could write have ended, so these come to an end, too.
                await asyncio.wait(tasks, timeout=END_S)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, process: asyncio.subprocess.Process, pid: int) -> None:
        """Wait for the end of a program. Kill it when it exceeds a limit."""
        ended = asyncio.ensure_future(process.wait())
        try:
            while not ended.done():
                await asyncio.wait((ended,), timeout=WATCH_S)
                self.excess = self.excess or limits.excess(pid)
                if self.excess is not None:
                    return _kill(process)
        finally:
            ended.cancel()

    async def _keep_reply(self, file: FileIO) -> None:
        self.reply = await _read(file, MOST_REPLY + 1)
        if len(self.reply) > MOST_REPLY:
            self.reply = b""
            self.excess = f"The result has more than {MOST_REPLY // 2**20} MiB."


@define(eq=False)
class _Pipes:
    """What bubblewrap and the program get beside their standard streams."""

    #: From bubblewrap, about the process that it has made.
    info: FileIO
    told: FileIO
    #: The program waits for its first byte.
    begins: FileIO
    begin: FileIO
    #: The reply of the program.
    replies: FileIO
    reply: FileIO
    #: The filter of system calls.
    rules: IO[bytes]

    @classmethod
    def opened(cls, stack: contextlib.ExitStack) -> _Pipes:
        """Open them. The end of ``stack`` closes them at the latest."""
        rules = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        rules.write(filter_program())
        rules.seek(0)
        return cls(*_pipe(stack), *_pipe(stack), *_pipe(stack), rules)

    @property
    def options(self) -> tuple[str, ...]:
        """The options of bubblewrap that name them."""
        return (
            *("--info-fd", str(self.told.fileno())),
            *("--block-fd", str(self.begins.fileno())),
            *("--seccomp", str(self.rules.fileno())),
        )

    async def start(self, arguments: list[str]) -> asyncio.subprocess.Process:
        """Start bubblewrap, and close the ends that only it needs."""
        theirs = (self.told, self.begins, self.reply, self.rules)
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=[each.fileno() for each in theirs],
            env={},
            cwd="/",
        )
        for each in theirs:
            each.close()
        return process


def _pipe(stack: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    reading, writing = os.pipe()
    return (
        stack.enter_context(FileIO(reading, "r")),
        stack.enter_context(FileIO(writing, "w")),
    )


async def _read(file: FileIO, most: int) -> bytes:
    """Return what comes by a pipe until its end, or its first ``most`` bytes."""
    stream = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), file
    )
    found = bytearray()
    try:
        while len(found) < most and (chunk := await stream.read(most - len(found))):
            found += chunk
    finally:
        transport.close()
    return bytes(found)


async def _feed(process: asyncio.subprocess.Process, request: dict[str, Any]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError):  # it has ended without reading it
        process.stdin.write(json.dumps(request).encode())
        await process.stdin.drain()
    process.stdin.close()


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


async def _end(process: asyncio.subprocess.Process, first: int) -> None:
    """End a program, and the first process of its namespace, which ends all others.

    ``first`` is a descriptor of that process, and -1 without one. It is closed.
    """
    _kill(process)
    await process.wait()
    if first < 0:
        return
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(first, signal.SIGKILL)
    deadline = time.monotonic() + END_S
    try:
        while not select.select((first,), (), (), 0)[0]:
            if time.monotonic() > deadline:
                logger.warning("processes of a program of a caller do not end")
                break
            await asyncio.sleep(POLL_S)
    finally:
        os.close(first)
