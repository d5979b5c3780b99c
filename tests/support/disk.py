"""A small disk that tests can fill."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int = 16) -> Iterator[Path]:
    """Mount a file system of so many MiB at a new folder; skip the test if not allowed."""
    folder.mkdir()
    size = f"size={megabytes}m"
    mount = ("mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder))
    if (
        os.geteuid()
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("a file system can be mounted by root only")
    yield folder
    subprocess.run(("umount", "-l", str(folder)), check=True)


def fill(path: Path) -> None:
    """Write to a file until its disk is full."""
    with path.open("ab", buffering=0) as file:
        for size in (2**20, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass
