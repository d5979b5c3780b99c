"""The code of the processes of the converter pool: the fork server, and what it forks.

The fork server imports the conversion once. A request to it is the memory limit of a
converter process, with the descriptor of its connection. Its replies are records: a kind, a
process id and a code.

A converter process calls functions until its parent ends. Both directions carry frames: the
number of parts, their lengths, the parts. The first part is a pickle. The others are its
large byte strings, sent without a copy.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import select
import signal
import socket
import struct
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scraper_service.content.stored_pages import Unfinished

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import BufferedReader, BufferedWriter

MAX_FILE_BYTES = 64 * 2**20
MAX_OPEN_FILES = 64
# Processes that convert or show pages give way to the service, which answers all callers, and
# not to each other. Exports wait for both.
NICE = 7
OBJECTS_A_COLLECTION = 20_000  # new objects between two garbage collections
COUNT = struct.Struct("<I")  # parts of a frame
# Kinds of replies. A ``RESULT`` follows an ``EARLY_RESULT``, whose caller need not wait for it.
READY, PONG, RESULT, ERROR, LAST_ERROR, OUTDATED, EARLY_RESULT = range(7)
REQUEST = struct.Struct("<Q")
RECORD = struct.Struct("<iii")
FORKED, FAILED, STOPPED, CONTINUED, ENDED, ORPHANED = range(6)  # kinds of records


def serve(connection_fd: int, memory_bytes: int) -> None:
    """Call the functions that arrive on a connection, and send their results or errors.

    Sends ``READY`` first. Sends ``LAST_ERROR`` before it ends after an error, or ``OUTDATED`` if
    a module cannot be imported, as while the package is reinstalled. Returns when the parent
    closes the connection. Replies to an empty frame with ``PONG``.
    """
    try:
        _serve(connection_fd, memory_bytes)
    except ConnectionError:
        os._exit(1)  # the parent has ended: no process reads the error


def _serve(connection_fd: int, memory_bytes: int) -> None:
    received = open(connection_fd, "rb", closefd=False)  # noqa: SIM115
    sent = open(connection_fd, "wb", closefd=False)  # noqa: SIM115
    try:
        _limit_process(connection_fd, memory_bytes)
    except Exception as error:
        _reply(sent, LAST_ERROR, error)
        raise
    _reply(sent, READY, None)
    while True:
        try:
            parts = _read_frame(received)
        except MemoryError as error:
            # The rest of the frame is still in the connection, which is unusable now.
            _reply(sent, LAST_ERROR, error)
            return
        if parts is None:
            return
        if parts:
            kind, value = _outcome(parts)
            if isinstance(value, Unfinished):
                _reply(sent, EARLY_RESULT, value.result)
                kind, value = _result_of(value.finish)
            _reply(sent, kind, value)
            if kind == OUTDATED:
                return
            del parts, value
            # Frees the memory before the next call: a large page may be part of a
            # cycle, and few new objects would follow it. What remains are caches, which
            # grow to many thousand objects: the next collection need not visit them.
            # The oldest generation is empty after a freeze, until a call makes so many
            # objects that some grow old. Only then is it collected: that also empties the
            # interpreter's lists of free objects, which the next page needs.
            gc.collect(2 if gc.get_objects(generation=2) else 1)
            gc.freeze()
        else:
            _reply(sent, PONG, None)


def _outcome(parts: list[bytes]) -> tuple[int, Any]:
    try:
        function, args = pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301
        parts.clear()
    except Exception as error:
        return _failure(error)
    return _result_of(function, *args)


def _result_of(function: Callable[..., Any], *args: Any) -> tuple[int, Any]:
    try:
        return RESULT, function(*args)
    except Exception as error:
        return _failure(error)


def _failure(error: Exception) -> tuple[int, Any]:
    """Return the reply for an error that is being handled."""
    if isinstance(error, ImportError):
        return OUTDATED, f"{error}; was the service reinstalled? Restart it"
    if not isinstance(error, MemoryError):  # no memory is left for its text
        error.add_note(f"In a converter process:\n{traceback.format_exc()}")
    return ERROR, error


def _reply(stream: BufferedWriter, kind: int, value: Any) -> None:
    try:
        data = pickle.dumps((kind, value), protocol=5)
    except MemoryError:
        data = pickle.dumps((ERROR, MemoryError()))
    except Exception as error:
        text = f"what a converter process returned cannot be sent: {error!r}"
        data = pickle.dumps((ERROR, RuntimeError(text)))
    stream.write(frame_header([len(data)]) + data)
    stream.flush()


def frame_header(lengths: list[int]) -> bytes:
    """Return the header of a frame with these part lengths."""
    return struct.pack(f"<I{len(lengths)}Q", len(lengths), *lengths)


def _read_frame(stream: BufferedReader) -> list[bytes] | None:
    """Return the parts of the next frame, None at the end of the connection."""
    head = stream.read(COUNT.size)
    if len(head) < COUNT.size:
        return None
    (count,) = COUNT.unpack(head)
    lengths = struct.unpack(f"<{count}Q", stream.read(8 * count))
    parts = [stream.read(length) for length in lengths]
    return parts if list(map(len, parts)) == list(lengths) else None


def _limit_process(connection_fd: int, memory_bytes: int) -> None:
    """Set the limits of this process, and end it together with its parent."""
    with suppress(OSError):  # where the system does not allow it, the priority stays
        os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_OPEN_FILES, MAX_OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    parent = threading.Thread(target=_end_with_parent, args=(connection_fd,))
    parent.daemon = True
    parent.start()
    prepare()
    # Imported here, as the conversion is in prepare().
    from scraper_service.content.passes import keep_trees_together  # noqa: PLC0415

    keep_trees_together()
    # A page has thousands of objects without cycles that live as long as the page. Frequent
    # collections over all loaded objects would find nothing.
    gc.freeze()
    gc.set_threshold(OBJECTS_A_COLLECTION)


def prepare() -> None:
    """Import the conversion, and load its models."""
    # Imported here, since the service imports this module, and converts nothing.
    from scraper_service.content.convert import prepare as load  # noqa: PLC0415

    load()


def _end_with_parent(connection_fd: int) -> None:
    """End this process when the service has closed the connection, as at its death."""
    poll = select.poll()
    poll.register(connection_fd, 0)  # reports the end of the connection alone
    poll.poll()
    os._exit(1)


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
