"""The memory of a process and its descendants, as gauges."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from scraper_service.services.metrics.exposition import family

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

# Words in the name or command of a process, and its kind. Descendants without one have the kind
# of their parent; the child of a fork server is a converter.
_KINDS = (
    (b"fork-server", "fork_server"),
    (b"fork_server", "fork_server"),
    (b"chrom", "browser"),
    (b"playwright", "browser"),
    (b"scrapyd", "crawl"),
)


@frozen
class ProcessMemory:
    """The processes of one kind: their number, and bytes of memory."""

    count: int
    #: Memory that processes share counts in parts.
    total: int
    largest: int


def memory_gauges(root: str) -> Iterator[Metric]:
    """Yield memory and number of this process, ``root``, and of its descendants."""
    found = process_memory(root)
    total, largest, count = (
        {kind: getattr(each, name) for kind, each in found.items()}
        for name in ("total", "largest", "count")
    )
    label = "process"
    text = "Memory of all processes of a kind; shared memory counts in parts."
    yield family("scraper_memory_bytes", text, label, total)
    text = "Memory of the largest process of a kind."
    yield family("scraper_memory_largest_bytes", text, label, largest)
    yield family("scraper_processes", "Processes of a kind.", label, count)


def process_memory(root: str) -> dict[str, ProcessMemory]:
    """Return the memory of this process and its descendants, by kind.

    Empty on systems without ``/proc``.
    """
    children: defaultdict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").glob("[0-9]*"):
        if (parent := _parent(folder)) is not None:
            children[parent].append(int(folder.name))
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    waiting = [(os.getpid(), root, 0)]
    while waiting:
        pid, kind, depth = waiting.pop()
        if (size := _memory_bytes(pid)) is not None:
            sizes[kind].append(size)
        waiting += ((c, _kind(c, kind), depth + 1) for c in children[pid])
    return {
        kind: ProcessMemory(len(each), sum(each), max(each))
        for kind, each in sorted(sizes.items())
    }


def _parent(folder: Path) -> int | None:
    try:
        # The name of the program may contain spaces and parentheses.
        fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[1])
    except (OSError, IndexError, ValueError):
        return None  # it has ended


def _kind(pid: int, of_parent: str) -> str:
    if of_parent in {"fork_server", "converter"}:
        return "converter"
    process = Path(f"/proc/{pid}")
    try:
        names = (process / "comm").read_bytes() + (process / "cmdline").read_bytes()
    except OSError:
        return of_parent
    return next((kind for word, kind in _KINDS if word in names), "other")


def _memory_bytes(pid: int) -> int | None:
    """Return the proportional set size of a process, else its resident set size."""
    for name, word in (("smaps_rollup", b"Pss:"), ("status", b"VmRSS:")):
        try:
            lines = Path(f"/proc/{pid}/{name}").read_bytes().splitlines()
        except OSError:
            continue
        for line in lines:
            if line.startswith(word):
                return int(line.split()[1]) * 1024
    return None  # it has ended
