"""Reads the memory and CPU time of a process and its descendants from /proc (Linux only)."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from attrs import frozen

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@frozen
class Memory:
    """The memory of one process."""

    #: ``main``, ``converter`` or the name of the program.
    role: str
    pid: int
    #: The proportional set size: shared memory is divided among its users.
    pss_mb: float
    #: The resident set size.
    rss_mb: float
    #: The maximum of the resident set size.
    peak_mb: float


@frozen
class Cpu:
    """The CPU time of a process and of its descendants, in seconds."""

    main_s: float
    others_s: float

    def __sub__(self, earlier: Cpu) -> Cpu:
        return Cpu(self.main_s - earlier.main_s, self.others_s - earlier.others_s)


def cpu_of(pid: int) -> Cpu:
    """Return the CPU time so far, without that of descendants that have ended."""
    return Cpu(_cpu_s(pid), sum(map(_cpu_s, _descendants(pid))))


def _cpu_s(pid: int) -> float:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # has just ended
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / TICKS_PER_S  # in user and system mode
    return 0.0


def memory_of(pid: int) -> list[Memory]:
    """Return the process itself as ``main``, then its descendants by generation."""
    found = [_memory("main", pid)]
    found += [_memory(_role(child), child) for child in _descendants(pid)]
    return found


def all_pss_mb(pid: int) -> float:
    """Return the memory of a process and all its descendants; ended ones have none."""
    total = 0.0
    for each in (pid, *_descendants(pid)):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, LookupError):
            total += _field(PROC / str(each) / "smaps_rollup", "Pss:") / 1024
    return total


def _descendants(pid: int) -> list[int]:
    """Return the descendants of a process by generation."""
    parents = [pid]
    for parent in parents:
        parents.extend(_children(parent))
    return parents[1:]


def _children(pid: int) -> list[int]:
    return sorted(
        int(path.parent.name)
        for path in PROC.glob("[0-9]*/stat")
        if _parent(path) == pid
    )


def _parent(path: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # has just ended
        # The name in brackets may contain spaces; state and parent follow the name.
        return int(path.read_text().rpartition(")")[2].split()[1])
    return None


def _role(pid: int) -> str:
    name = (PROC / str(pid) / "comm").read_text().strip()
    if name in {"converter", "fork-server"}:
        return name
    command = (PROC / str(pid) / "cmdline").read_text()
    return Path(command.split("\0", 1)[0]).name


def _memory(role: str, pid: int) -> Memory:
    pss_kb = _field(PROC / str(pid) / "smaps_rollup", "Pss:")
    rss_kb = _field(PROC / str(pid) / "status", "VmRSS:")
    peak_kb = _field(PROC / str(pid) / "status", "VmHWM:")
    return Memory(role, pid, pss_kb / 1024, rss_kb / 1024, peak_kb / 1024)


def _field(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise LookupError(f"{path} has no {name}")
