"""Arrays of numbers as lists, and trees as operations of numpy.

``arrays.pyx`` has the same names for arrays of C.
"""

from __future__ import annotations

from math import log1p
from typing import Any, TypeVar

__all__ = ["log1p"]

T = TypeVar("T")
COLUMNS_AT_ONCE = 2_048  # bounds the memory of a page with many blocks

Whole = int
Real = float
Wholes = Any
Reals = Any
Grid = Any


def cclass(made: T) -> T:
    """Mark a class that is compiled to a structure."""
    return made


def ccall(made: T) -> T:
    """Mark a function that is compiled to one of C, and that Python can call too."""
    return made


def cfunc(made: T) -> T:
    """Mark a function that is compiled to one of C; only compiled code can call it."""
    return made


def wholes(values: list[int]) -> Wholes:
    """Return an array of integers."""
    return values[:]


def whole_zeros(count: int) -> Wholes:
    return [0] * count


def reals(values: list[float]) -> Reals:
    """Return an array of real numbers."""
    return values[:]


def zeros(count: int) -> Reals:
    return [0.0] * count


def grid(rows: int, columns: int) -> Grid:
    """Return a table of zeros."""
    return [[0.0] * columns for _ in range(rows)]


def tree_sums(values: Any, rows: Any, borders: Any, leaves: Any, depth: int) -> Any:
    """Return for each column of ``values`` the sum of its leaves of all trees."""
    import numpy as np  # noqa: PLC0415  # only converter processes load it

    parts = [np.zeros(0)]
    offsets = np.arange(len(leaves))[:, None] * leaves.shape[1]
    for start in range(0, values.shape[1], COLUMNS_AT_ONCE):
        part = values[:, start : start + COLUMNS_AT_ONCE].astype(np.float32)
        met = (part.take(rows, axis=0) > borders[:, None]).view(np.uint8)
        leaf = np.zeros((len(leaves), part.shape[1]), dtype=np.intp)
        for level in range(depth):
            leaf |= met[level::depth].astype(np.intp) << level
        parts.append(leaves.take(leaf + offsets).sum(axis=0))
    return np.concatenate(parts)


def keep_trees_together() -> bool:
    """Return False: libxml2 takes its memory as before."""
    return False
