"""What changed between two texts, line by line, as a patch and as its parts.

The patch is exact: applied to the old text it gives the new one. It is the shortest
where texts differ little; the time is bounded where they differ much.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define, field, frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CONTEXT = 3  # equal lines around a change, as in patches of git
MAX_EDITS = 1000  # of one part that is compared exactly
MAX_STEPS = 2_000_000  # of a whole comparison, some two seconds
FILE = "page.md"  # the name in a patch
NO_END = "\\ No newline at end of file"

SpanT: TypeAlias = tuple[int, int, int, int]  # lines [a, b) became lines [c, d)


@frozen
class Change:
    """A line of a hunk: ``sign`` is ``+``, ``-`` or a space; numbers count from 1.

    ``text`` has its line break, unless it is the last line and has none.
    """

    sign: str
    text: str
    old: int
    new: int


@frozen
class Hunk:
    """Changes that stand together, with their context; the starts count from 1.

    Of a side without lines, the start is the number of the line before.
    """

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    changes: tuple[Change, ...]

    @property
    def header(self) -> str:
        old = f"-{self.old_start},{self.old_lines}"
        return f"@@ {old} +{self.new_start},{self.new_lines} @@"


def hunks(old: str, new: str) -> list[Hunk]:
    """Return what turns ``old`` into ``new``, in their order; none for equal texts."""
    before, after = _lines(old), _lines(new)
    return [_hunk(group, before, after) for group in _groups(_spans(before, after))]


def as_patch(found: Iterable[Hunk]) -> str:
    """Return hunks as a patch that ``git apply`` takes, of a file :data:`FILE`."""
    parts = [f"--- a/{FILE}\n+++ b/{FILE}\n"]
    for hunk in found:
        parts.append(f"{hunk.header}\n")
        for change in hunk.changes:
            end = "" if change.text.endswith("\n") else f"\n{NO_END}\n"
            parts.append(f"{change.sign}{change.text}{end}")
    return "".join(parts)


def as_json(found: Iterable[Hunk]) -> dict[str, Any]:
    """Return hunks as the JSON of a patch (interface document, 9)."""
    chunks = [
        {
            "content": hunk.header,
            "oldStart": hunk.old_start,
            "oldLines": hunk.old_lines,
            "newStart": hunk.new_start,
            "newLines": hunk.new_lines,
            "changes": [_json_change(change) for change in hunk.changes],
        }
        for hunk in found
    ]
    return {"files": [{"from": FILE, "to": FILE, "chunks": chunks}]}


def _json_change(change: Change) -> dict[str, Any]:
    content = change.sign + change.text.removesuffix("\n")
    if change.sign == " ":
        numbers = {"ln1": change.old, "ln2": change.new}
        return {"type": "normal", "normal": True, **numbers, "content": content}
    if change.sign == "-":
        return {"type": "del", "ln": change.old, "content": content}
    return {"type": "add", "ln": change.new, "content": content}


def _lines(text: str) -> list[str]:
    """Return the lines with their breaks; only a line feed ends one, as in git."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines


def _groups(spans: Iterable[SpanT]) -> Iterator[list[SpanT]]:
    """Yield spans that are in one hunk, as their context would meet."""
    group: list[SpanT] = []
    for span in spans:
        if group and span[0] - group[-1][1] > 2 * CONTEXT:
            yield group
            group = []
        group.append(span)
    if group:
        yield group


def _hunk(group: list[SpanT], before: list[str], after: list[str]) -> Hunk:
    lead = min(CONTEXT, group[0][0])
    old, new = first_old, first_new = group[0][0] - lead, group[0][2] - lead
    changes: list[Change] = []
    stop = min(len(before), group[-1][1] + CONTEXT)
    for start, end, new_start, new_end in [*group, (stop, stop, 0, 0)]:
        while old < start:
            changes.append(Change(" ", before[old], old + 1, new + 1))
            old, new = old + 1, new + 1
        changes += [Change("-", before[i], i + 1, 0) for i in range(start, end)]
        changes += [Change("+", after[i], 0, i + 1) for i in range(new_start, new_end)]
        old, new = end, max(new, new_end)
    old_lines, new_lines = old - first_old, new - first_new
    return Hunk(
        first_old + bool(old_lines),
        old_lines,
        first_new + bool(new_lines),
        new_lines,
        tuple(changes),
    )


def _spans(before: list[str], after: list[str]) -> list[SpanT]:
    """Return the parts that differ, in order."""
    numbers: dict[str, int] = {}
    old = [numbers.setdefault(line, len(numbers)) for line in before]
    new = [numbers.setdefault(line, len(numbers)) for line in after]
    search = _Search(old, new)
    search.run()
    return _joined(sorted(search.spans))


def _joined(spans: Iterable[SpanT]) -> list[SpanT]:
    joined: list[SpanT] = []
    for span in spans:
        if joined and joined[-1][1] == span[0] and joined[-1][3] == span[2]:
            joined[-1] = (joined[-1][0], span[1], joined[-1][2], span[3])
        else:
            joined.append(span)
    return joined


@define
class _Search:
    """Finds the parts of two sequences that differ.

    Myers's algorithm (An O(ND) difference algorithm, 1986) for what differs little;
    what differs more is split where a line is in both exactly once; what cannot be
    split is replaced as a whole.
    """

    old: Sequence[int]
    new: Sequence[int]
    spans: list[SpanT] = field(factory=list)
    steps: int = MAX_STEPS

    def run(self) -> None:
        parts = [(0, len(self.old), 0, len(self.new))]
        while parts:
            start, end, new_start, new_end = span = self._trimmed(*parts.pop())
            if start == end or new_start == new_end:
                if start != end or new_start != new_end:
                    self.spans.append(span)
            elif (edits := self._shortest(*span)) is not None:
                self.spans += edits
            elif anchors := self._anchors(*span):
                parts += _between(anchors, span)
            else:
                self.spans.append(span)

    def _trimmed(self, start: int, end: int, new_start: int, new_end: int) -> SpanT:
        old, new = self.old, self.new
        while start < end and new_start < new_end and old[start] == new[new_start]:
            start, new_start = start + 1, new_start + 1
        while start < end and new_start < new_end and old[end - 1] == new[new_end - 1]:
            end, new_end = end - 1, new_end - 1
        return start, end, new_start, new_end

    def _shortest(
        self, start: int, end: int, new_start: int, new_end: int
    ) -> list[SpanT] | None:
        """Return the fewest changes of a part; None if they are too many."""
        old, new = self.old[start:end], self.new[new_start:new_end]
        height, width = len(old), len(new)
        most = min(MAX_EDITS, height + width)
        middle = most + 1
        reached = array("q", bytes(8 * (2 * most + 3)))  # by diagonal, from the middle
        trail: list[array[int]] = []
        for edits in range(most + 1):
            self.steps -= edits + 1
            if self.steps < 0:
                return None
            trail.append(reached[middle - edits - 1 : middle + edits + 2])
            for k in range(-edits, edits + 1, 2):
                at = middle + k
                if k == -edits or (k != edits and reached[at - 1] < reached[at + 1]):
                    x = reached[at + 1]
                else:
                    x = reached[at - 1] + 1
                first, y = x, x - k
                while x < height and y < width and old[x] == new[y]:
                    x, y = x + 1, y + 1
                self.steps -= x - first
                reached[at] = x
                if x >= height and y >= width:
                    return [
                        (start + a, start + b, new_start + c, new_start + d)
                        for a, b, c, d in _way(trail, height, width)
                    ]
        return None

    def _anchors(
        self, start: int, end: int, new_start: int, new_end: int
    ) -> list[tuple[int, int]]:
        """Return pairs of lines that are once on both sides, in the same order."""
        self.steps -= end - start + new_end - new_start
        if self.steps < -MAX_STEPS:
            return []
        old, new = self.old, self.new
        counts = Counter(old[start:end])
        others = Counter(new[new_start:new_end])
        places = {new[j]: j for j in range(new_start, new_end)}
        pairs = [
            (i, places[old[i]])
            for i in range(start, end)
            if counts[old[i]] == 1 and others[old[i]] == 1
        ]
        return _rising(pairs)


def _between(anchors: list[tuple[int, int]], span: SpanT) -> list[SpanT]:
    start, end, new_start, new_end = span
    parts = []
    for i, j in [*anchors, (end, new_end)]:
        parts.append((start, i, new_start, j))
        start, new_start = i + 1, j + 1
    return parts


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest part of ``pairs`` whose second numbers rise."""
    tails: list[int] = []
    heads: list[int] = []  # the pair at the end of each length
    previous: list[int] = []
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(tails, j)
        previous.append(heads[length - 1] if length else -1)
        tails[length : length + 1] = [j]
        heads[length : length + 1] = [number]
    found: list[tuple[int, int]] = []
    number = heads[-1] if heads else -1
    while number >= 0:
        found.append(pairs[number])
        number = previous[number]
    return found[::-1]


def _way(trail: list[array[int]], height: int, width: int) -> list[SpanT]:
    """Return the single steps of the way that ``trail`` remembers.

    It has, for each number of edits, what was reached with one less.
    """
    x, y = height, width
    steps: list[SpanT] = []
    for edits in range(len(trail) - 1, 0, -1):
        reached, k = trail[edits], x - y
        at = edits + 1 + k
        if k == -edits or (k != edits and reached[at - 1] < reached[at + 1]):
            x = reached[at + 1]
            y = x - k - 1
            steps.append((x, x, y, y + 1))
        else:
            x = reached[at - 1]
            y = x - k + 1
            steps.append((x, x + 1, y, y))
    return steps[::-1]
