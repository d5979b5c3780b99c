"""Steps of a client's program: each a line of JSON, ``client``, ``method``, ``result``."""

from __future__ import annotations

import inspect
import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

WORKS = "works"
REFUSED = "refused: "
NOT_OFFERED = " (not offered)"
FAILS_IN_CLIENT = " (fails in the client)"


class Steps:
    """Calls the methods of one client, and prints what became of each.

    A result is :data:`WORKS`, or :data:`REFUSED` and what the client raised, or
    ``wrong: `` and what came in place of what was expected.
    """

    def __init__(self, client: str):
        self.client = client

    async def call(
        self,
        method: str,
        action: Callable[[], Any],
        is_right: Callable[[Any], Any] = bool,
    ) -> Any:
        """Return what ``action``, which may be async, returned; None if it raised."""
        value = None
        try:
            value = action()
            if inspect.isawaitable(value):
                value = await value
            result = WORKS if is_right(value) else f"wrong: {value!r:.300}"
        except Exception as error:
            result = f"{REFUSED}{type(error).__name__}: {error!s:.300}"
        line = {"client": self.client, "method": method, "result": result}
        print(json.dumps(line), flush=True)
        return value


def arguments() -> list[str]:
    """Return the address of the service, a key, and the address of the site."""
    return sys.argv[1:4]
