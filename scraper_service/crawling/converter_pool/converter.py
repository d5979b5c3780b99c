"""The processes of the converter pool, as the service controls them."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
from collections import deque
from contextlib import contextmanager, suppress
from io import BytesIO
from pickle import PickleBuffer
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import frozen

from scraper_service.crawling.converter_pool.converter_process import (
    CONTINUED,
    ENDED,
    ERROR,
    FAILED,
    FORKED,
    ORPHANED,
    RECORD,
    REQUEST,
    STOPPED,
    frame_header,
)
from scraper_service.crawling.converter_pool.converter_queue import LARGE_BYTES
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.secrets import public_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

    from scraper_service.crawling.converter_pool.converter_queue import Task

    ChangedT = Callable[[int, int, int | None], None]

logger = logging.getLogger(__name__)

END_S = 5.0  # for the end of a process
STOPS = 2  # checks in a row that find a process stopped, until it is killed
PING_S = 5.0  # of silence of an idle process, until it gets a ping
PONG_S = 10.0  # for the reply to a ping
START_S = 120.0  # for the start of a process
REAP_S = 0.005  # between two checks for the end of a process
READ_BYTES = 4096
# For trees and long texts: large pages of memory, and freed memory joined at once, or else the
# next tree would lie scattered. A page takes .95 of the time by the first and .97 by the second.
# Without effect where the C library is another.
MEMORY = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.tcache_count=1"}
CHUNK_BYTES = 128 * 2**10  # of one read
# The system takes a page as a whole, if it allows so much: in parts, each part waits for an
# iteration of the event loop.
SENT_AT_ONCE = 2**20
MOST_SIZED = 1000  # values of a list whose bytes are counted
COPIED_BYTES = 4 * 2**10  # byte strings up to this size are copied into the pickle
_HEAD = struct.Struct("<IQ")  # of a reply, which has one part
# The path first: it may differ from that of a new interpreter, as in an egg.
CODE = """\
import sys
sys.path[:] = {path!r}
from scraper_service.crawling.converter_pool.converter_process import main
main({fd})
"""


class ForkServer:
    """A process that has imported the conversion, and forks converter processes.

    Forks take milliseconds, where new interpreters would import for a third of a second each, and
    they share memory. The constructor starts the process, and raises :exc:`OSError` if the system
    refuses. All methods belong to the thread of the event loop.
    """

    _ahead: ClassVar[ForkServer | None] = None  # for the next pool

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        try:
            with theirs, _signals_held():
                self._process = self._start(theirs.fileno())
        except OSError:
            self._control.close()
            raise
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked: deque[ChangedT] = deque()  # for a process, the oldest first
        self._children: dict[int, ChangedT] = {}
        self._in = b""

    @staticmethod
    def _start(fd: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603  # our own code
            (sys.executable, "-c", CODE.format(path=sys.path, fd=fd)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # the output of a command
            pass_fds=(fd,),
            env={**MEMORY, **public_environment()},
        )

    @classmethod
    def start_ahead(cls) -> None:
        """Start the process for the next pool. It imports beside its caller."""
        if cls._ahead is None:
            cls._ahead = cls()
            atexit.register(cls._close_ahead)

    @classmethod
    def _close_ahead(cls) -> None:
        if cls._ahead is not None:
            cls._ahead.close()

    @classmethod
    def take(cls) -> ForkServer:
        """Return the process that was started ahead, else a new one."""
        taken, cls._ahead = cls._ahead, None
        return taken or cls()

    def fork(self, fd: int, memory_bytes: int, changed: ChangedT) -> None:
        """Fork a process that serves the connection ``fd``. Raise :exc:`OSError` if that fails.

        ``changed`` is called with a kind of change, the id of the process and a code: ``FAILED`` with
        the error of the system, or ``FORKED``, then ``STOPPED`` and ``CONTINUED`` as often as
        that happens, then ``ENDED`` with the exit code, or ``ORPHANED`` with that of the fork server.
        """
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._control, self._read)
        socket.send_fds(self._control, [REQUEST.pack(memory_bytes)], [fd])
        self._asked.append(changed)

    def _read(self) -> None:
        try:
            data = self._control.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            assert self._loop is not None
            self._close_control()
            self._reap(self._loop.time() + END_S)
            return
        self._in += data
        whole = len(self._in) // RECORD.size * RECORD.size
        records, self._in = self._in[:whole], self._in[whole:]
        for kind, pid, code in RECORD.iter_unpack(records):
            self._take(kind, pid, code)

    def _take(self, kind: int, pid: int, code: int) -> None:
        if kind in {FORKED, FAILED}:
            changed = self._asked.popleft()
            if kind == FORKED:
                self._children[pid] = changed
        elif kind == ENDED:
            changed = self._children.pop(pid)
        else:
            changed = self._children[pid]
        changed(kind, pid, code)

    def _close_control(self) -> None:
        is_open = self._control.fileno() >= 0
        if is_open and self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._control)
        self._control.close()

    def _reap(self, until: float) -> None:
        """Wait for the end of the process. Kill its children: no exit code would come."""
        assert self._loop is not None
        code = self._process.poll()
        if code is None and self._loop.time() < until:
            self._loop.call_later(REAP_S, self._reap, until)
            return
        if code is None:
            self._process.kill()
        children, self._children = self._children, {}
        ended, self._asked = self._asked, deque()
        for pid, changed in children.items():
            changed(ORPHANED, pid, code)
        for changed in ended:
            changed(ENDED, 0, code)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def retire(self) -> None:
        """Fork no more. The process ends after its last child."""
        with suppress(OSError):  # it has ended
            self._control.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End the process at once, after its children if they were killed before."""
        self._close_control()
        if not self._children:
            self._process.kill()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def _signals_held() -> Iterator[None]:
    """Start processes that the signals for their parent do not end. They end with it."""
    signals = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Converter:
    """A process with at most one task, so the task of a dead process is known.

    All methods belong to the thread of the event loop. ``heard`` is called with this converter
    and the kind and value of each reply, ``ended`` once after the end of the process. Threads of
    ``executor`` read large replies. The constructor raises :exc:`OSError` if the system refuses
    the process.

    :ivar is_ready: True once the process has started.
    :ivar began: start of its task, a time of the event loop.
    :ivar heard_at: time of its last data, at first of its start.
    :ivar pinged_at: time of a ping without a reply, or None.
    :ivar done: number of ended tasks.
    :ivar is_stopped: True if a signal such as SIGSTOP has stopped the process.
    :ivar stops: number of checks in a row that found it stopped.
    :ivar reason: why the service ended it, empty if it did not.
    :ivar failure: error that the process reported, or None.
    :ivar how: how the process ended, empty before its end.
    :ivar pid: id of the process, None before its start.
    :ivar is_retiring: True if it ends as soon as another process is ready.
    """

    def __init__(
        self,
        forks: ForkServer,
        memory_bytes: int,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        heard: Callable[[Converter, int, Any], None],
        ended: Callable[[Converter], None],
    ):
        self._loop = loop
        self._executor = executor
        self._heard = heard
        self._ended = ended
        self._in: list[bytes] = []
        self._in_bytes = 0
        # Replies from a large one on, in order.
        self._unread: deque[bytes] = deque()
        self._background = BackgroundTasks()
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
        self.is_stopped = False
        self.stops = 0
        self.reason = ""
        self.failure = ""
        self.how = ""
        self.pid: int | None = None
        self._ours, theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENT_AT_ONCE)
        self._fd = self._ours.fileno()
        try:
            with theirs:
                forks.fork(theirs.fileno(), memory_bytes, self._on_change)
        except OSError:
            self._ours.close()
            raise
        loop.add_reader(self._fd, self._read)

    def _on_change(self, kind: int, pid: int, code: int | None) -> None:
        if kind == FORKED:
            self.pid = pid
            if self.reason or self._is_lost:
                self._kill()
        elif kind in {STOPPED, CONTINUED}:
            self.is_stopped = kind == STOPPED
        else:
            if kind == ORPHANED:
                self.reason = "orphaned"
                self._kill()
            elif kind == FAILED:
                self.failure = os.strerror(code or 0)
            self.how = _how(code)
            if self._is_lost:
                self._ended(self)

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
        self.heard_at = self._loop.time()
        while (reply := self._next_reply()) is not None:
            self._hear(reply)

    def _hear(self, payload: bytes) -> None:
        if self._unread:
            self._unread.append(payload)
        elif len(payload) > LARGE_BYTES:
            self._unread.append(payload)
            self._background.spawn(self._hear_large())
        else:
            self._heard(self, *_reply(payload))

    async def _hear_large(self) -> None:
        """Read a large reply in a thread, and the replies that come meanwhile."""
        while unread := self._unread:
            reply = await self._loop.run_in_executor(self._executor, _reply, unread[0])
            unread.popleft()
            self._heard(self, *reply)

    def _next_reply(self) -> bytes | None:
        """Remove and return the next whole reply of the received data, or None."""
        if self._in_bytes < _HEAD.size:
            return None
        if len(self._in[0]) < _HEAD.size:
            self._in = [b"".join(self._in)]
        _, length = _HEAD.unpack_from(self._in[0])
        end = _HEAD.size + length
        if self._in_bytes < end:
            return None
        data = self._in[0] if len(self._in) == 1 else b"".join(self._in)
        self._in_bytes -= end
        self._in = [data[end:]] if self._in_bytes else []
        return data[_HEAD.size : end]

    def retire(self) -> None:
        """Let the process end by itself. It must have no task."""
        self.reason = "retired"
        self._close()

    def kill(self, reason: str) -> None:
        """Kill the process. ``ended`` is called soon."""
        self.reason = reason
        self._kill()
        self._loop.call_later(END_S, self._lose)  # even if the process does not end

    def check(self, now: float) -> None:
        """Ping the process if it is silent, and kill it if it is stopped or hangs."""
        self.stops = self.stops + 1 if self.is_stopped else 0
        silent_s = now - self.heard_at
        if self.stops >= STOPS:
            logger.warning("a converter process was stopped, and is replaced")
            self.kill("stopped")
        elif not self.is_ready:
            if silent_s > START_S:
                self.kill("start")
        elif self.pinged_at is not None:
            if now - self.pinged_at > PONG_S:
                logger.warning("a converter process hangs, and is replaced")
                self.kill("hung")
        elif self.task is None and silent_s > PING_S:
            self.pinged_at = now
            self.send([])

    def _kill(self) -> None:
        if self.pid is not None and not self.how:
            # A stopped process would not handle SIGTERM.
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _lose(self) -> None:
        if self._is_lost:
            return
        self._kill()
        self._close()
        if self.how:
            self._ended(self)

    def _close(self) -> None:
        """Close the connection, and wait for the end of the process."""
        self._is_lost = True
        self._out.clear()
        if not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
            self._loop.call_later(END_S, self._give_up)
        self._ours.close()

    def _give_up(self) -> None:
        """End without knowledge of the process."""
        if not self.how:
            self._kill()
            self._on_change(ENDED, self.pid or 0, None)

    def end_now(self) -> None:
        """Kill the process, without a call of ``ended``. Its fork server waits for its end."""
        if self._is_lost:
            return
        self.reason = "closed"
        self._kill()
        self._close()


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


def wrap_large(value: Any) -> Any:
    """Return a value; wrap a large byte string so that it is sent without a copy."""
    if isinstance(value, bytes) and len(value) > COPIED_BYTES:
        return pickle.PickleBuffer(value)
    return value


def pack_call(
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


def size_of(value: object) -> int:
    """Return the approximate bytes of a value; of a long list, of its first values."""
    if isinstance(value, (bytes, str)):
        return len(value)
    if isinstance(value, (list, tuple)):
        return sum(map(size_of, value[:MOST_SIZED]))
    return 0


def _reply(payload: bytes) -> tuple[int, Any]:
    try:
        kind, value = pickle.loads(payload)  # noqa: S301  # of our own process
    except Exception as error:
        text = f"what a converter process sent cannot be read: {error!r}"
        return ERROR, RuntimeError(text)
    return kind, value
