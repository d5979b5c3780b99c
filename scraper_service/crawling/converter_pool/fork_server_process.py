"""The main function of the fork server: it imports the conversion once, then forks.

A request is the memory limit of a converter process, with the descriptor of its connection. Replies
are records: a kind, a process id and a code.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import struct
import traceback
from contextlib import suppress
from pathlib import Path

from scraper_service.crawling.converter_pool.converter_process import prepare, serve

REQUEST = struct.Struct("<Q")
RECORD = struct.Struct("<iii")
FORKED, FAILED, STOPPED, CONTINUED, ENDED, ORPHANED = range(6)  # kinds of records


def main(control_fd: int) -> None:
    """Fork converter processes until the service closes the control connection.

    Ends after its last child. The children end with the service, as their connections do.
    """
    control = socket.socket(fileno=control_fd)
    _name_process("fork-server")
    with suppress(Exception):  # each child tries again, and reports its error
        prepare()
    # Children share the memory of these objects as long as no collection visits them.
    gc.collect()
    gc.freeze()
    woken_fd, wake_fd = os.pipe()
    os.set_blocking(woken_fd, False)
    os.set_blocking(wake_fd, False)
    signal.set_wakeup_fd(wake_fd, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    is_open, children = True, 0
    while is_open or children:
        watched = [control_fd, woken_fd] if is_open else [woken_fd]
        readable, _, _ = select.select(watched, (), ())
        if woken_fd in readable:
            os.read(woken_fd, 4096)
            children -= _report_changes(control)
        if control_fd in readable:
            try:
                data, descriptors, _, _ = socket.recv_fds(control, REQUEST.size, 1)
            except ConnectionError:  # records that the service did not read
                data = b""
            if data:
                (memory_bytes,) = REQUEST.unpack(data)
                children += _fork(control, descriptors[0], memory_bytes)
            else:
                is_open = False
    os._exit(0)  # the end of the interpreter would take a while


def _fork(control: socket.socket, connection_fd: int, memory_bytes: int) -> int:
    """Fork a converter process. Return the number of new children."""
    try:
        pid = os.fork()
    except OSError as error:
        os.close(connection_fd)
        _send(control, FAILED, 0, error.errno or 0)
        return 0
    if not pid:
        _run_converter(control, connection_fd, memory_bytes)
    os.close(connection_fd)
    _send(control, FORKED, pid, 0)
    return 1


def _run_converter(
    control: socket.socket, connection_fd: int, memory_bytes: int
) -> None:
    """Run a converter process, and end it."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        _name_process("converter")
        serve(connection_fd, memory_bytes)
        code = 0
    except BaseException:  # nothing may return to the loop of the parent
        traceback.print_exc()
    finally:
        os._exit(code)


def _report_changes(control: socket.socket) -> int:
    """Send a record for each change of a child. Return the number of ended children."""
    ended = 0
    with suppress(ChildProcessError):
        while True:
            flags = os.WNOHANG | os.WUNTRACED | os.WCONTINUED
            pid, status = os.waitpid(-1, flags)
            if not pid:
                break
            if os.WIFSTOPPED(status):
                _send(control, STOPPED, pid, 0)
            elif os.WIFCONTINUED(status):
                _send(control, CONTINUED, pid, 0)
            else:
                ended += 1
                _send(control, ENDED, pid, os.waitstatus_to_exitcode(status))
    return ended


def _send(control: socket.socket, *record: int) -> None:
    with suppress(OSError):  # the service has ended
        control.sendall(RECORD.pack(*record))


def _name_process(name: str) -> None:
    """Set the name that ``top`` and ``ps`` show, on Linux."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name)
