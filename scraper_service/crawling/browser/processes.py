"""The processes of browsers: found by the directory that a browser was started for.

Linux only, as ``/proc`` is.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HOME_PREFIX = "scraper-browser-"
KILL_S = 5.0  # until killed processes are gone
_PAUSE_S = 0.02


def make_home() -> str:
    """Create and return a directory for the files of one browser of this process.

    What is left of it when the process exits is removed then.
    """
    _at_exit()
    return tempfile.mkdtemp(prefix=f"{HOME_PREFIX}{os.getpid()}-")


@functools.cache
def _at_exit() -> None:
    atexit.register(_remove_own)


def _remove_own() -> None:
    for home in _homes(os.getpid()):
        remove(str(home))


def _homes(pid: int | None = None) -> Iterator[Path]:
    """Yield the directories for browsers of the process ``pid``, or of all processes."""
    owner = "*" if pid is None else pid
    return Path(tempfile.gettempdir()).glob(f"{HOME_PREFIX}{owner}-*")


def processes_of(home: str) -> list[int]:
    """Return the driver and the Chromium processes that were started for ``home``."""
    environment = f"TMPDIR={home}".encode()
    profile = f" --user-data-dir={home}/".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        # Zombies have neither. A process without these rights is not ours.
        with contextlib.suppress(OSError):
            # Chromium joins the words of some of its processes with spaces.
            command = Path(entry.path, "cmdline").read_bytes().replace(b"\0", b" ")
            if profile in command:
                found.append(int(entry.name))
                continue
            if environment in Path(entry.path, "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def remove(home: str) -> None:
    """Kill the processes of ``home`` and delete it. Stopped processes end too."""
    end = time.monotonic() + KILL_S
    while pids := processes_of(home):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() >= end:
            break
        time.sleep(_PAUSE_S)
    shutil.rmtree(home, ignore_errors=True)


def remove_orphans() -> None:
    """Remove what killed processes of the service left of their browsers."""
    for home in _homes():
        pid = home.name.removeprefix(HOME_PREFIX).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            remove(str(home))
