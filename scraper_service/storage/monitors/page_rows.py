"""The stored form of a page of a check: facts, diff and data, each in a line of JSON.

Diffs are long. They are only passed on between the converter pool, the database and
responses, and never parsed by the event loop.
"""

from __future__ import annotations

import json
from typing import Any, Self

from attrs import frozen


@frozen
class PageRow:
    """A page of a check, as it is stored."""

    #: Facts as JSON values: ``status``, ``url``, and others that callers read.
    facts: dict[str, Any]
    #: JSON in one line; None without a diff, and without data.
    diff: bytes | None = None
    data: bytes | None = None

    def encoded(self, **facts: Any) -> bytes:
        """Return the row with further facts, for :meth:`read`."""
        head = json.dumps({**facts, **self.facts}).encode()
        return b"\n".join((head, self.diff or b"", self.data or b""))

    @classmethod
    def read(cls, text: bytes) -> Self:
        """Return the row from the result of :meth:`encoded`."""
        head, diff, data = text.split(b"\n")
        return cls(json.loads(head), diff or None, data or None)
