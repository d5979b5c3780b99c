"""Lines that fit a terminal, and exits on Ctrl-C and closed pipes."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from scraper_service.content.characters import printable

INTERRUPTED = 130  # exit code of shells for SIGINT: 128 + 2
READER_GONE = 141  # exit code of shells for SIGPIPE: 128 + 13


def end_at_once(code: int) -> NoReturn:
    """End the process at once, without waiting for running work."""
    if util := sys.modules.get("multiprocessing.util"):
        # Otherwise a helper process prints a warning about leaked semaphores.
        util._run_finalizers(0)
    os._exit(code)


def end_when_interrupted() -> None:
    """Make Ctrl-C end the process, until another handler for the signal is set.

    Otherwise Python would raise :exc:`KeyboardInterrupt` during the imports of a run, and
    Scrapy would log a failure.
    """

    def end(*_: object) -> None:
        os.write(2, b"interrupted\n")
        end_at_once(INTERRUPTED)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)


def leave_pipe() -> NoReturn:
    """End the process silently, after the reader has closed standard output."""
    # Otherwise the interpreter would flush the rest and print an error.
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    sys.exit(READER_GONE)


def fitted(text: str, columns: int) -> str:
    """Return :func:`printable` text of at most ``columns`` columns of a terminal.

    Wide East Asian characters take two columns. A text that is cut ends in three dots.
    """
    from rich.cells import cell_len, set_cell_size

    clean = printable(text)
    if cell_len(clean) <= columns:
        return clean
    return set_cell_size(clean, max(columns - 3, 0)).rstrip() + "..."[:columns]
