"""Memory for the nodes of trees, without the compiled module."""

from __future__ import annotations


def keep_trees_together() -> bool:
    """Return False: libxml2 takes its memory as before."""
    return False
