"""The event loop of every process that crawls: uvloop's, with host names resolved in threads."""

from __future__ import annotations

import socket
from typing import Any

import uvloop


class EventLoop(uvloop.Loop):
    """An event loop on libuv; named by the setting ``ASYNCIO_EVENT_LOOP``."""

    async def getaddrinfo(self, *args: Any, **kwargs: Any) -> Any:
        """Resolve a host name in the default executor, as asyncio's own loops do.

        libuv resolves two names at a time, so that two that do not resolve would hold up
        all others for seconds.
        """

        def resolve() -> Any:
            return socket.getaddrinfo(*args, **kwargs)

        return await self.run_in_executor(None, resolve)
