"""How processes share a limit: of a team's pages, or of requests at a host.

Each process takes as much as it needs, and those who want more get equal parts if there is
too little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Claimed(NamedTuple):
    """What a process has and wants of a limit."""

    #: What the others leave to it, at least what it has in flight.
    granted: int
    wanted: int
    #: Since when it waits for its first, by the clock of the database; None if it does not.
    since: float | None


def target(
    limit: int, others: Sequence[Claimed], wanted: int, in_use: int, since: float
) -> int:
    """Return how much a process may have of a limit, before it starts further work.

    It has ``in_use`` in flight, and could have up to ``wanted``. If others got less than they
    wanted, those who want more get equal parts. If the limit is below the number of
    processes, a process gives its part to the one that has waited longest: ``since``.
    """
    free = limit - sum(each.granted for each in others)
    found = min(wanted, max(0, free))
    short = [each for each in others if each.wanted > each.granted]
    if not short:
        return found
    fair, rest = equal_parts(limit, [wanted, *(each.wanted for each in others)])
    if fair:
        # What does not divide goes to those who ask first.
        above = sum(each.granted > fair for each in others)
        return min(found, fair + int(above < rest))
    waits_longest = all(since <= (each.since or since) for each in short)
    return found if waits_longest and not in_use else 0


def claimed(goal: int, wanted: int, in_use: int, since: float, now: float) -> Claimed:
    """Return what is stored of a process with the :func:`target` ``goal``."""
    granted = max(goal, in_use)
    waits = wanted > granted
    return Claimed(granted, wanted, (now if granted else since) if waits else None)


def equal_parts(limit: int, wanted: Sequence[int]) -> tuple[int, int]:
    """Return the equal part of those who want more than it, and what does not divide.

    ``wanted`` is what each of them wants of ``limit``.
    """
    count = len(wanted)
    for want in sorted(wanted):
        if want > limit // count:
            break
        limit -= want
        count -= 1
    return divmod(limit, count) if count else (max(wanted), 0)
