"""A serializer of pages that fails, as a bug would, with secrets in its text."""

from __future__ import annotations

from typing import Any

TEXT = "the bug of the test"
SECRETS = ("hidden-query", "hidden-password", "hidden-key")


def fail(*_: Any, **__: Any) -> str:
    raise RuntimeError(
        f"{TEXT} at http://user:hidden-password@a.example/x?token=hidden-query"
        " with Bearer fc-hidden-key"
    )
