"""Limits of a program with code of a caller: of each of its processes, and of all together.

The kernel limits each process. The memory of all processes, their number and that of their
files is measured while they run, because only control groups, which a service without root
has none of, would limit it.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scraper_service.services.browser_sessions.caller_code.sandbox import (
    FILES,
    MOST_FILE_BYTES,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_MEMORY: Final = 768 * 2**20  # bytes of all processes; Playwright takes 150 MiB
MOST_PROCESSES: Final = 16
MOST_FILES: Final = 10_000
MOST_THREADS: Final = 128  # of all processes; Playwright has 15
NICE: Final = 10
_THREADS = re.compile(rb"^Threads:\s+(\d+)$", re.MULTILINE)
_NAMESPACED_SINCE = (5, 14)  # Linux; before, threads of the whole user count
_MEMORY = re.compile(rb"^(?:RssAnon|RssShmem|VmSwap|VmPTE):\s+(\d+) kB$", re.MULTILINE)


def limit(pid: int, seconds: int) -> None:
    """Limit a process that has not begun, and all that it starts.

    It has one processor, at low priority, for ``seconds``. Raises :exc:`OSError`.
    """
    limits = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_AS: 4 * 2**30,  # V8 reserves much more than it uses
        resource.RLIMIT_DATA: 2**30,
        resource.RLIMIT_FSIZE: MOST_FILE_BYTES,
        resource.RLIMIT_NOFILE: 128,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 2**16,
        resource.RLIMIT_SIGPENDING: 256,
    }
    release = re.findall(r"\d+", os.uname().release)[:2]
    if tuple(map(int, release)) >= _NAMESPACED_SINCE:
        limits[resource.RLIMIT_NPROC] = MOST_THREADS
    for name, value in limits.items():
        _, hard = resource.prlimit(pid, name)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)  # noqa: PLW2901
        resource.prlimit(pid, name, (value, value))
    os.setpriority(os.PRIO_PROCESS, pid, NICE)
    cpus = [*os.sched_getaffinity(0)]
    os.sched_setaffinity(pid, {random.choice(cpus)})  # noqa: S311  # no secret
    with contextlib.suppress(OSError):  # then the kernel chooses itself whom it ends
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")


def release(pid: int) -> None:
    """Let the first process of a program run on any processor, so that it ends at once.

    It ends all others, which may be many and keep their own processor busy.
    """
    with contextlib.suppress(OSError):  # it has ended
        os.sched_setaffinity(pid, os.sched_getaffinity(0))


def excess(pid: int) -> str | None:
    """Return which limit the processes below ``pid`` exceed, as a sentence; else None."""
    memory = threads = count = 0
    waiting = [pid]
    while waiting:
        each = waiting.pop()
        count += 1
        if count > MOST_PROCESSES:
            return f"The code had more than {MOST_PROCESSES} processes."
        try:
            status = Path(f"/proc/{each}/status").read_bytes()
        except OSError:  # it has just ended
            continue
        memory += 1024 * sum(map(int, _MEMORY.findall(status)))
        threads += sum(map(int, _THREADS.findall(status)))
        if threads > MOST_THREADS:  # before the children of each are read
            return f"The code had more than {MOST_THREADS} threads."
        waiting += _children(each)
    if memory > MOST_MEMORY:
        return f"The code used more than {MOST_MEMORY // 2**20} MiB of memory."
    with contextlib.suppress(OSError):
        root = Path(f"/proc/{pid}/root")
        if root.samefile("/"):  # bubblewrap has not made its own yet
            return None
        found = os.statvfs(f"{root}{FILES}")
        if found.f_files - found.f_ffree > MOST_FILES:
            return f"The code made more than {MOST_FILES} files."
    return None


def _children(pid: int) -> Iterator[int]:
    """Yield the children of all threads of a process."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            yield from map(int, path.read_text().split())
