"""An export process, as the service controls it: rows in, the bytes of a file out."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

from attrs import asdict

from scraper_service.exports.export_process import LENGTH
from scraper_service.storage.files.artefacts import BASE
from scraper_service.storage.secrets import public_environment

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable

    from scraper_service.exports.formats import FileSpec

READ_BYTES = 64 * 2**10
PIECE_BYTES = 128 * 2**10  # that are written at once
END_S = 10.0  # for the end of a process that has sent everything
SILENT_S = 300.0  # without a byte, while its reader waits
# The path first: it may differ from that of a new interpreter, as in an egg.
CODE = """\
import sys
sys.path[:] = {path!r}
from scraper_service.exports.export_process import main
main({fd})
"""


class ExportFailed(RuntimeError):
    """Raised when an export process ends without the end of its file."""


class ExportProcess:
    """Writes a file in a process of its own, a context manager.

    ``base`` is the URL of the service in the URLs of files. The process takes no more rows
    while nobody reads the file, so both sides keep a few hundred kilobytes at a time. Its end
    is the end of the context: then it is killed, whatever it does.
    """

    def __init__(self, spec: FileSpec, base: str):
        self._spec = spec
        self._base = base
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        ours, theirs = socket.socketpair()
        try:
            # In a thread: the start of a process takes some milliseconds. A caller that is
            # cancelled meanwhile closes its side, which ends the process.
            self._process = await asyncio.to_thread(_start, theirs)
        except BaseException:
            ours.close()
            raise
        self._received, self._sent = await asyncio.open_connection(sock=ours)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._process is not None
        self._sent.transport.abort()
        if self._process.poll() is None:
            self._process.kill()
            loop = asyncio.get_running_loop()
            loop.run_in_executor(None, self._process.wait)  # leaves no zombie

    async def write(
        self, slices: AsyncIterable[list[bytes]]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the file with the rows of ``slices``, compressed JSON.

        Raises :exc:`ExportFailed` if the process fails, and the errors of ``slices``. Until
        then a part of the file may have been returned.
        """
        feeding = asyncio.ensure_future(self._feed(slices))
        feeding.add_done_callback(_retrieve)
        try:
            while True:
                async with asyncio.timeout(SILENT_S):
                    data = await self._received.read(READ_BYTES)
                if not data:
                    break
                yield data
            await feeding
        except (ConnectionError, TimeoutError) as error:
            if feeding.done() and not feeding.cancelled():
                feeding.result()  # its own error tells more
            raise ExportFailed(f"an export process failed: {error!r}") from error
        finally:
            feeding.cancel()
        await self._check_end()

    async def _feed(self, slices: AsyncIterable[list[bytes]]) -> None:
        first: dict[str, Any] = {
            "spec": asdict(self._spec),
            "base": self._base,
            "placeholder": BASE,
        }
        await self._send(json.dumps(first).encode())
        try:
            async for rows in slices:
                for row in rows:
                    await self._send(row)
        except BaseException:
            self._sent.transport.abort()  # its reader wakes
            raise
        await self._send(b"")
        await self._sent.drain()

    async def _send(self, row: bytes) -> None:
        """Send a frame, in pieces: a copy of a large row would take milliseconds."""
        self._sent.write(LENGTH.pack(len(row)))
        view = memoryview(row)
        for start in range(0, len(row), PIECE_BYTES):
            self._sent.write(view[start : start + PIECE_BYTES])
            await self._sent.drain()

    async def _check_end(self) -> None:
        assert self._process is not None
        code = await asyncio.to_thread(_wait, self._process)
        if code:
            raise ExportFailed(f"an export process ended with exit code {code}")


def _retrieve(done: asyncio.Task[None]) -> None:
    """Mark an error as retrieved, also if the file has ended for another reason."""
    if not done.cancelled():
        done.exception()


def _start(connection: socket.socket) -> subprocess.Popen[bytes]:
    """Start a process with its side of a connection, which is closed here."""
    with connection:
        fd = connection.fileno()
        return subprocess.Popen(  # noqa: S603  # our own code
            (sys.executable, "-c", CODE.format(path=sys.path, fd=fd)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(fd,),
            env=public_environment(),
            start_new_session=True,  # Ctrl-C is for the service, which ends it
        )


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(END_S)
    except subprocess.TimeoutExpired:
        return -1
