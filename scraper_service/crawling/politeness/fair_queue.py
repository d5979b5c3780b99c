"""The queue of those who wait for a permit, and the timers that wake them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ItemT = TypeVar("ItemT")


class FairQueue(Generic[ItemT]):
    """Waiting items by owner. Owners take turns: the first owner comes next."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[ItemT]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __iter__(self) -> Iterator[ItemT]:
        return iter([item for queue in self._queues.values() for item in queue])

    def count(self, owner: str) -> int:
        """Return the number of an owner's items."""
        return len(self._queues.get(owner, ()))

    def ahead_of(self, owner: str) -> int:
        """Return the number of items that come before a further item of ``owner``."""
        own = self.count(owner)
        others = (queue for name, queue in self._queues.items() if name != owner)
        return own + sum(min(len(queue), own + 1) for queue in others)

    def add(self, owner: str, item: ItemT) -> None:
        self._queues.setdefault(owner, deque()).append(item)

    def pop(self) -> ItemT:
        """Remove and return the next item. Its owner moves to the end."""
        owner, queue = next(iter(self._queues.items()))
        item = queue.popleft()
        del self._queues[owner]
        if queue:
            self._queues[owner] = queue
        return item

    def remove(self, owner: str, item: ItemT) -> None:
        """Remove an item, unless it is gone already."""
        queue = self._queues.get(owner)
        if queue is not None and item in queue:
            queue.remove(item)
            if not queue:
                del self._queues[owner]


class Timer(Protocol):
    """A timer, as returned by ``call_later`` of an event loop."""

    def cancel(self) -> None: ...


CallLaterT: TypeAlias = "Callable[[float, Callable[[], object]], Timer]"


def call_later(seconds: float, function: Callable[[], object]) -> Timer:
    """Call ``function`` in the running event loop."""
    return asyncio.get_running_loop().call_later(seconds, function)
