"""A file in memory that libraries write to, and that is emptied meanwhile."""

from __future__ import annotations


class OutputBuffer:
    """A file that cannot seek; :meth:`take` returns what was written since."""

    closed = False

    def __init__(self) -> None:
        self._data = bytearray()
        self._position = 0

    def write(self, data: bytes) -> int:
        self._data += data
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Do nothing: the file is in memory."""

    def close(self) -> None:
        """Do nothing: what was written can still be taken."""

    def take(self) -> bytes:
        taken = bytes(self._data)
        self._data.clear()
        return taken
