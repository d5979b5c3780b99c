"""The event loop of every process that crawls: uvloop's, with two of its traits changed."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import uvloop

if TYPE_CHECKING:
    from collections.abc import Callable


class EventLoop(uvloop.Loop):
    """An event loop on libuv; named by the setting ``ASYNCIO_EVENT_LOOP``.

    Host names are resolved in threads. Connections of Twisted that were reset are watched again.
    """

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
        self._watch(super().add_reader, fd, callback, args)

    def add_writer(  # type: ignore[override]  # the base is generic
        self, fd: Any, callback: Callable[..., Any], *args: Any
    ) -> None:
        """Call ``callback`` when ``fd`` can be written."""
        self._watch(super().add_writer, fd, callback, args)

    def _watch(
        self, add: Callable[..., None], fd: Any, callback: Any, args: tuple[Any, ...]
    ) -> None:
        """Watch ``fd``, also if uvloop has given it up.

        If data and the reset of a connection arrive together, uvloop calls the reader once,
        which gets the data, and watches no more. It refuses to watch the file again, so that
        the connection would stay open for ever. Watched again, it is found to be reset.
        """
        try:
            add(fd, callback, *args)
        except RuntimeError:
            self.remove_reader(fd)
            self.remove_writer(fd)
            add(fd, callback, *args)
