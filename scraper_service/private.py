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
    """Make a file, if there is none, and let nobody else read or change it.

    Raises :exc:`OSError` where it cannot be made.
    """
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, FILE))
    close_to_others(path)


def private_folder(path: Path) -> None:
    """Make a folder, if there is none, and let nobody else look into it.

    Raises :exc:`OSError` where it cannot be made.
    """
    path.mkdir(mode=FOLDER, parents=True, exist_ok=True)
    close_to_others(path)


def close_to_others(path: Path) -> None:
    """Take the rights of group and others from what is ours; leave the rest."""
    try:
        found = path.stat()
        if found.st_uid == os.geteuid() and found.st_mode & _OTHERS:
            path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)
    except OSError:
        return  # it is gone, or lies where there are no such rights


def has_only(path: Path, names: Collection[str]) -> bool:
    """Return True if nothing is in a folder but ``names``, and what begins with them."""
    prefixes = tuple(names)
    return all(entry.name.startswith(prefixes) for entry in path.iterdir())
