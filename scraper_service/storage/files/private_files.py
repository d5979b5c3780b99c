"""Files and folders that only the user of this process can read."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

FILE = 0o600
FOLDER = 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def private_file(path: Path) -> None:
    """Create a file if it is missing, and remove all rights of other users.

    Raises :exc:`OSError` if the file cannot be created.
    """
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, FILE))
    close_to_others(path)


def private_folder(path: Path) -> None:
    """Create a folder if it is missing, and remove all rights of other users.

    Raises :exc:`OSError` if the folder cannot be created.
    """
    path.mkdir(mode=FOLDER, parents=True, exist_ok=True)
    close_to_others(path)


def close_to_others(path: Path) -> None:
    """Remove the rights of group and others from a path that this user owns."""
    try:
        found = path.stat()
        if found.st_uid == os.geteuid() and found.st_mode & _OTHERS:
            path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)
    except OSError:
        return  # the path is gone, or its file system has no such rights


def has_only(path: Path, names: Collection[str]) -> bool:
    """Return True if all entries of a folder begin with one of ``names``."""
    prefixes = tuple(names)
    return all(entry.name.startswith(prefixes) for entry in path.iterdir())


def is_older(path: Path, before: float) -> bool:
    """Return True for a file of before a Unix time. False if it is gone meanwhile."""
    try:
        return path.stat().st_mtime < before
    except FileNotFoundError:
        return False
