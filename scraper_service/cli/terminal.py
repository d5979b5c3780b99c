"""The terminal: text of strangers without control characters, and a pipe's end."""

from __future__ import annotations

import os
import signal
import sys
import unicodedata
from typing import NoReturn

_HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}


INTERRUPTED = 130  # as shells say it of SIGINT: 128 + 2
READER_GONE = 141  # as shells say it of SIGPIPE: 128 + 13


def end_at_once(code: int) -> NoReturn:
    """End the process now, whatever is under way."""
    if util := sys.modules.get("multiprocessing.util"):
        # Else a helper process tells the user of semaphores that leak.
        util._run_finalizers(0)
    os._exit(code)


def end_when_interrupted() -> None:
    """Have Ctrl-C end the process, until something else takes the signal.

    Python would raise :exc:`KeyboardInterrupt` inside of the imports of a run, where
    its framework logs it as a failure.
    """

    def end(*_: object) -> None:
        os.write(2, b"interrupted\n")
        end_at_once(INTERRUPTED)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)


def leave_pipe() -> NoReturn:
    """End the process without a word: nobody reads standard output any more."""
    # Else the interpreter would try to write the rest, and complain.
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    sys.exit(READER_GONE)


def fitted(text: str, columns: int) -> str:
    """Return :func:`printable` text that takes at most ``columns`` of a terminal.

    Characters of East Asia take two each. A text that is cut ends in three dots.
    """
    from rich.cells import cell_len, set_cell_size

    clean = printable(text)
    if cell_len(clean) <= columns:
        return clean
    return set_cell_size(clean, max(columns - 3, 0)).rstrip() + "..."[:columns]


def printable(text: str, most: int | None = None) -> str:
    """Return ``text`` on one line, without what steers a terminal or turns writing.

    At most ``most`` characters, the last one a dot or three.
    """
    words = " ".join(text.split())
    clean = "".join(c for c in words if unicodedata.category(c) not in _HARMFUL)
    if most is not None and len(clean) > most:
        return clean[: max(most - 3, 0)] + "..."[:most]
    return clean
