"""How many pages may be open at a time: by processors and memory of this process.

Both are what the machine has, or less where control groups (version 1 or 2 of Linux) of
containers and services say so.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE_MB = 300  # what a page of a large site takes
PAGES_PER_CORE = 2  # a page waits for its site half of the time

MEMBERSHIP = Path("/proc/self/cgroup")
MOUNT = Path("/sys/fs/cgroup")


def pages_at_once(membership: Path = MEMBERSHIP, mount: Path = MOUNT) -> int:
    """Return how many pages the processors and half of the memory bear, at least one."""
    groups = list(_groups(membership, mount))
    memory_mb = min(_memory_bytes(groups)) // 2**20
    cores = min(_cores(groups))
    return max(1, min(math.ceil(PAGES_PER_CORE * cores), memory_mb // 2 // PAGE_MB))


def _groups(membership: Path, mount: Path) -> Iterator[Path]:
    """Yield the folders of the control groups that we are in, and those around them."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, names, path = line.split(":", 2)
        if names and not {"cpu", "memory"} & set(names.split(",")):
            continue
        top = mount / names
        inner = Path(path.lstrip("/"))
        for group in (inner, *inner.parents):
            yield top / group


def _memory_bytes(groups: list[Path]) -> Iterator[int]:
    yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for group in groups:
        for name in ("memory.max", "memory.limit_in_bytes"):
            yield from _numbers(group / name)


def _cores(groups: list[Path]) -> Iterator[float]:
    yield len(os.sched_getaffinity(0))
    for group in groups:
        for numbers in (
            list(_numbers(group / "cpu.max")),
            [
                *_numbers(group / "cpu.cfs_quota_us"),
                *_numbers(group / "cpu.cfs_period_us"),
            ],
        ):
            if len(numbers) == 2 and numbers[1]:
                yield numbers[0] / numbers[1]


def _numbers(path: Path) -> Iterator[int]:
    """Yield the numbers in a file; none where it says ``max`` or -1, or is not there."""
    try:
        words = path.read_text().split()
    except OSError:
        return
    yield from (int(word) for word in words if word.isdigit())
