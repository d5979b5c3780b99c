"""The fork server, as the service controls it."""

from __future__ import annotations

import asyncio
import atexit
import signal
import socket
import subprocess
import sys
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, ClassVar

from scraper_service.crawling.converter_pool.fork_server_process import (
    ENDED,
    FAILED,
    FORKED,
    ORPHANED,
    RECORD,
    REQUEST,
)
from scraper_service.storage.secrets import public_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    ChangedT = Callable[[int, int, int | None], None]

END_S = 5.0  # for the end of a process
REAP_S = 0.005  # between two checks for the end of a process
READ_BYTES = 4096
# For trees and long texts: large pages of memory, and freed memory joined at once, or else the
# next tree would lie scattered. A page takes .95 of the time by the first and .97 by the second.
# Without effect where the C library is another.
MEMORY = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.tcache_count=1"}
# The path first: it may differ from that of a new interpreter, as in an egg.
CODE = """\
import sys
sys.path[:] = {path!r}
from scraper_service.crawling.converter_pool.fork_server_process import main
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
        """Start the process, which serves the connection ``fd``."""
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
        asked, self._asked = self._asked, deque()
        for pid, changed in children.items():
            changed(ORPHANED, pid, code)
        for changed in asked:
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
