"""A converter process, as the service controls it."""

from __future__ import annotations

import os
import pickle
import signal
import struct
from collections import deque
from contextlib import contextmanager, suppress
from io import BytesIO
from multiprocessing import get_context, resource_tracker
from pickle import PickleBuffer
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.crawling.converter_pool.converter_process import (
    frame_header,
    serve,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

    from scraper_service.crawling.converter_pool.converter_queue import Task

CHUNK_BYTES = 128 * 2**10  # of one read
JOINED_BYTES = 256 * 2**10  # frames up to this size are sent in one piece
REAP_S = 0.005  # between two checks for the end of a process
END_S = 5.0  # for the end of a killed process
_HEAD = struct.Struct("<IQ")  # of a reply, which has one part


class Converter:
    """A process with at most one task, so the task of a dead process is known.

    All methods belong to the thread of the event loop. ``heard`` is called with this converter
    and each reply, ``ended`` once after the end of the process.

    :ivar is_ready: True once the process has started.
    :ivar began: start of its task, a time of the event loop.
    :ivar heard_at: time of its last data, at first of its start.
    :ivar pinged_at: time of a ping without a reply, or None.
    :ivar done: number of ended tasks.
    :ivar stops: number of checks in a row that found it stopped.
    :ivar reason: why the service ended it, empty if it did not.
    :ivar fault: error that the process reported, or None.
    :ivar how: how the process ended, after ``ended``.
    :ivar pid: id of the process, None before its start.
    :ivar is_retiring: True if it ends as soon as another process is ready.
    """

    def __init__(
        self,
        memory_bytes: int,
        loop: asyncio.AbstractEventLoop,
        heard: Callable[[Converter, bytes], None],
        ended: Callable[[Converter], None],
    ):
        self._loop = loop
        self._heard = heard
        self._ended = ended
        context = get_context("spawn")
        self._ours, self._theirs = context.Pipe()
        self._fd = self._ours.fileno()
        os.set_blocking(self._fd, False)
        self._process = context.Process(
            target=serve,
            args=(self._theirs, memory_bytes),
            name="converter",
            daemon=True,
        )
        self._in: list[bytes] = []
        self._in_bytes = 0
        self._out: deque[memoryview] = deque()
        self._is_writing = False
        self._is_lost = False
        self.task: Task | None = None
        self.is_ready = False
        self.is_retiring = False
        self.began = 0.0
        self.heard_at = loop.time()
        self.pinged_at: float | None = None
        self.done = 0
        self.stops = 0
        self.reason = ""
        self.fault = ""
        self.how = ""
        self.pid: int | None = None

    async def start(self, executor: Executor) -> None:
        """Start the process. Raise :exc:`OSError` if the system refuses."""
        try:
            await self._loop.run_in_executor(executor, self._spawn)
        finally:
            self._theirs.close()
        self.pid = self._process.pid
        if self._is_lost:  # killed meanwhile
            self._process.kill()
            return
        if self.reason:
            self._kill()
        self._loop.add_reader(self._fd, self._read)

    def _spawn(self) -> None:
        with _interrupts_held():
            self._process.start()

    @property
    def is_idle(self) -> bool:
        """True if it can run a task now."""
        return (
            self.is_ready
            and self.task is None
            and self.pinged_at is None
            and not self.reason
            and not self._is_lost
        )

    def send(self, parts: list[bytes | PickleBuffer]) -> None:
        """Send a frame. An empty frame is a ping."""
        views = [memoryview(part).cast("B") for part in parts]
        header = frame_header([view.nbytes for view in views])
        if sum(view.nbytes for view in views) <= JOINED_BYTES:
            self._out.append(memoryview(b"".join((header, *views))))
        else:
            self._out.extend((memoryview(header), *views))
        self._write()

    def _write(self) -> None:
        """Send as much as the connection accepts, and the rest later."""
        if self._is_lost or not self._out:
            return
        try:
            sent = os.writev(self._fd, self._out)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:  # the process died; the next read handles that
            self._out.clear()
            sent = 0
        while self._out and sent >= self._out[0].nbytes:
            sent -= self._out.popleft().nbytes
        if self._out:
            self._out[0] = self._out[0][sent:]
        if self._out and not self._is_writing:
            self._is_writing = True
            self._loop.add_writer(self._fd, self._write)
        elif self._is_writing and not self._out:
            self._is_writing = False
            self._loop.remove_writer(self._fd)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, CHUNK_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        self._in.append(data)
        self._in_bytes += len(data)
        if self._in_bytes < _HEAD.size:
            return
        if len(self._in[0]) < _HEAD.size:
            self._in = [b"".join(self._in)]
        _, length = _HEAD.unpack_from(self._in[0])
        if self._in_bytes < _HEAD.size + length:
            return
        frame = self._in[0] if len(self._in) == 1 else b"".join(self._in)
        self._in, self._in_bytes = [], 0
        self.heard_at = self._loop.time()
        self._heard(self, frame[_HEAD.size :])

    def retire(self) -> None:
        """Let the process end by itself. It must have no task."""
        self.reason = "retired"
        self._close()
        self._reap(self._loop.time() + END_S)

    def kill(self, reason: str) -> None:
        """Kill the process. ``ended`` is called soon."""
        self.reason = reason
        self._kill()
        self._loop.call_later(END_S, self._lose)  # even if the process does not end

    def _kill(self) -> None:
        if self.pid is not None and not self._is_lost:
            # A stopped process would not handle SIGTERM.
            self._process.kill()

    def _lose(self) -> None:
        if self._is_lost:
            return
        self._kill()
        self._close()
        self._reap(self._loop.time() + END_S)

    def _close(self) -> None:
        self._is_lost = True
        self._out.clear()
        if not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
        self._ours.close()

    def _reap(self, until: float) -> None:
        code = self._process.exitcode
        if code is None and self._loop.time() < until:
            self._loop.call_later(REAP_S, self._reap, until)
            return
        if code is None:
            self._process.kill()
        self.how = _how(code)
        if code is not None:
            self._process.close()
        self._ended(self)

    def end_now(self) -> None:
        """Kill the process and wait for its end. ``ended`` is not called."""
        if self._is_lost:
            return
        self.reason = "closed"
        self._kill()
        self._close()
        if self.pid is not None:
            self._process.join(END_S)

    def is_stopped(self) -> bool:
        """Return True if a signal such as SIGSTOP has stopped the process."""
        if self.pid is None or self._is_lost or not hasattr(os, "waitid"):
            return False
        flags = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, self.pid, flags) is not None
        return False


@frozen
class RemoteFunction:
    """A function that the converter processes import, and this process does not.

    ``name`` is its module and name as in ``package.module:function``.
    """

    name: str

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return resolve_name, (self.name,)

    def __call__(self, *args: Any) -> Any:
        """Raise :exc:`RuntimeError`: this process has not imported the function."""
        raise RuntimeError(f"{self.name} runs in converter processes only")


def uncopied(value: Any) -> Any:
    """Return a value; wrap a large byte string so that it is sent without a copy."""
    if isinstance(value, bytes) and len(value) > JOINED_BYTES:
        return pickle.PickleBuffer(value)
    return value


def packed(
    function: Callable[..., Any], args: tuple[object, ...]
) -> list[bytes | PickleBuffer]:
    """Return the parts of the frame that calls ``function``.

    Each :class:`pickle.PickleBuffer` in ``args`` is sent without a copy.
    """
    buffers: list[bytes | PickleBuffer] = []
    file = BytesIO()
    pickle.Pickler(file, 5, buffer_callback=buffers.append).dump((function, args))
    return [file.getvalue(), *buffers]


def _how(exit_code: int | None) -> str:
    if exit_code is None:
        return "it did not end"
    if exit_code >= 0:
        return f"exit code {exit_code}"
    return f"signal {-exit_code}"


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Start processes that ignore Ctrl-C of a terminal.

    Otherwise each would print a traceback during its start. They end with their parent.
    """
    resource_tracker.ensure_running()  # its own start would reset the signal mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
