"""The event loop of every process that crawls: uvloop's, with two of its traits changed.

Without uvloop it is asyncio's own, which takes more time for each connection.
"""

from __future__ import annotations

import select
import socket
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from uvloop import Loop
else:
    try:
        from uvloop import Loop
    except ImportError:  # it has no wheels for Windows
        from asyncio import SelectorEventLoop as Loop


class EventLoop(Loop):
    """The event loop; named by the setting ``ASYNCIO_EVENT_LOOP``.

    Host names are resolved in threads. Connections of Twisted are noticed to be reset.
    """

    def __init__(self) -> None:
        super().__init__()
        self._readers: dict[Any, Callable[[], Any]] = {}

    async def getaddrinfo(self, *args: Any, **kwargs: Any) -> Any:
        """Resolve a host name in the default executor, as asyncio's own loops do.

        libuv resolves two names at a time, so that two that do not resolve would hold up
        all others for seconds.
        """

        def resolve() -> Any:
            return socket.getaddrinfo(*args, **kwargs)

        return await self.run_in_executor(None, resolve)

    def add_reader(  # type: ignore[override]  # the base is generic
        self, fd: Any, callback: Callable[..., Any], *args: Any
    ) -> None:
        """Call ``callback`` when ``fd`` can be read."""
        read = self._readers[fd] = partial(callback, *args)
        self._watch(super().add_reader, fd, self._read, (fd, read))

    def remove_reader(self, fd: Any) -> None:  # type: ignore[override]
        """Stop calling the callback when ``fd`` can be read."""
        self._readers.pop(fd, None)
        super().remove_reader(fd)

    def _read(self, fd: Any, read: Callable[[], Any]) -> None:
        """Read once, and again if the connection was reset: uvloop has given it up.

        The first read gets data that arrived together with the reset, and the last the reset.
        """
        if self._readers.get(fd) is not read:
            return  # removed since, or another connection with this number
        read()
        if self._readers.get(fd) is read and _is_reset(fd):
            self.call_soon(self._read, fd, read)

    def add_writer(  # type: ignore[override]  # the base is generic
        self, fd: Any, callback: Callable[..., Any], *args: Any
    ) -> None:
        """Call ``callback`` when ``fd`` can be written."""
        self._watch(super().add_writer, fd, callback, args)

    def _watch(
        self, add: Callable[..., None], fd: Any, callback: Any, args: tuple[Any, ...]
    ) -> None:
        """Watch ``fd``, also if uvloop has given it up.

        It watches no more after a reset, and refuses to watch the file again.
        """
        try:
            add(fd, callback, *args)
        except RuntimeError:
            super().remove_reader(fd)
            self.remove_writer(fd)
            add(fd, callback, *args)


def _is_reset(fd: Any) -> bool:
    """Return True for a socket with an unread error."""
    files = select.poll()
    files.register(fd, 0)  # errors are always reported
    return any(event & select.POLLERR for _, event in files.poll(0))
