"""Reads the memory of a process and its descendants from /proc (Linux only)."""

from __future__ import annotations

import contextlib
from pathlib import Path

from attrs import frozen

PROC = Path("/proc")


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


def memory_of(pid: int) -> list[Memory]:
    """Return the process itself as ``main``, then its descendants by generation."""
    found = [_memory("main", pid)]
    parents = [pid]
    for parent in parents:
        children = _children(parent)
        parents.extend(children)
        found.extend(_memory(_role(child), child) for child in children)
    return found


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
    command = (PROC / str(pid) / "cmdline").read_text()
    if "spawn_main" in command:
        return "converter"
    if "resource_tracker" in command:
        return "resource tracker"
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
