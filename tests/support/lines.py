"""The line protocol between a server in a subprocess and its parent process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


async def answer_lines(said: str, on_line: Callable[[str], object]) -> None:
    """Print ``said``, then call ``on_line`` for each line of standard input.

    Returns at the end of input or on SIGTERM.
    """
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    # Before the first line, since a reader may stop the server at once.
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    print(said, flush=True)

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed meanwhile
            for line in sys.stdin:
                loop.call_soon_threadsafe(on_line, line)
            loop.call_soon_threadsafe(stopped.set)

    threading.Thread(target=read, daemon=True).start()
    await stopped.wait()
