"""Checks of the bytes of a page before its parsing.

``page_bytes.pyx`` has the same names, compiled.
"""

from __future__ import annotations


def is_utf8(data: bytes) -> bool:
    """Return True if ``data`` is valid UTF-8."""
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False


def may_be_forbidden(_data: bytes) -> bool:
    """Return True if UTF-8 bytes may hold or reference characters that lxml refuses.

    Only the compiled form looks for them.
    """
    return True
