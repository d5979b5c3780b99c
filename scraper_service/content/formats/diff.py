"""The diff of two texts, line by line: the hunks between them, as a patch or as JSON.

The patch changes the old text exactly into the new text. The diff is the shortest for
texts that differ little; for other texts its time is bounded.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from attrs import define, field, frozen

CONTEXT = 3  # equal lines around a change, as in git
MAX_EDITS = 1000  # of one part; a part with more is split
MAX_STEPS = 2_000_000  # of a whole comparison, about two seconds
FILE = "page.md"  # file name in a patch
NO_END = "\\ No newline at end of file"

SpanT: TypeAlias = tuple[int, int, int, int]  # lines [a, b) became lines [c, d)


@frozen
class Change:
    """A line of a hunk."""

    #: ``+``, ``-`` or a space.
    sign: str
    #: The line with its break; only the last line of a text may lack a break.
    text: str
    #: Line number in the old text, from 1; 0 for an added line.
    old: int
    #: Line number in the new text, from 1; 0 for a removed line.
    new: int


@frozen
class Hunk:
    """Neighbouring changes with their context."""

    #: First line in the old text, from 1; without old lines, the line before.
    old_start: int
    old_lines: int
    #: First line in the new text, from 1; without new lines, the line before.
    new_start: int
    new_lines: int
    changes: tuple[Change, ...]

    @property
    def header(self) -> str:
        old = f"-{self.old_start},{self.old_lines}"
        return f"@@ {old} +{self.new_start},{self.new_lines} @@"


def hunks(old: str, new: str) -> list[Hunk]:
    """Return the hunks that change ``old`` into ``new``; empty for equal texts."""
    before, after = _lines(old), _lines(new)
    return [_hunk(group, before, after) for group in _groups(_spans(before, after))]


def as_patch(
    found: Iterable[Hunk], old: str = f"a/{FILE}", new: str = f"b/{FILE}"
) -> str:
    """Return hunks as a patch, by default of :data:`FILE` for ``git apply``.

    ``old`` and ``new`` are the names of both texts.
    """
    parts = [f"--- {old}\n+++ {new}\n"]
    for hunk in found:
        parts.append(f"{hunk.header}\n")
        for change in hunk.changes:
            end = "" if change.text.endswith("\n") else f"\n{NO_END}\n"
            parts.append(f"{change.sign}{change.text}{end}")
    return "".join(parts)


def as_json(found: Iterable[Hunk], old: str = FILE, new: str = FILE) -> dict[str, Any]:
    """Return hunks as the JSON form of a patch of ``old`` to ``new``."""
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
    return {"files": [{"from": old, "to": new, "chunks": chunks}]}


def _json_change(change: Change) -> dict[str, Any]:
    content = change.sign + change.text.removesuffix("\n")
    if change.sign == " ":
        numbers = {"ln1": change.old, "ln2": change.new}
        return {"type": "normal", "normal": True, **numbers, "content": content}
    if change.sign == "-":
        return {"type": "del", "ln": change.old, "content": content}
    return {"type": "add", "ln": change.new, "content": content}


def _lines(text: str) -> list[str]:
    """Return the lines with their breaks; only a line feed ends a line, as in git."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines


def _groups(spans: Iterable[SpanT]) -> Iterator[list[SpanT]]:
    """Yield the spans of each hunk; spans whose contexts meet share a hunk."""
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
    """Return the differing parts in order."""
    numbers: dict[str, int] = {}
    old = [numbers.setdefault(line, len(numbers)) for line in before]
    new = [numbers.setdefault(line, len(numbers)) for line in after]
    search = _Search(old, new)
    search.run()
    return _join_adjacent(sorted(search.spans))


def _join_adjacent(spans: Iterable[SpanT]) -> list[SpanT]:
    joined: list[SpanT] = []
    for span in spans:
        if joined and joined[-1][1] == span[0] and joined[-1][3] == span[2]:
            joined[-1] = (joined[-1][0], span[1], joined[-1][2], span[3])
        else:
            joined.append(span)
    return joined


@define
class _Search:
    """Finds the differing parts of two sequences.

    Parts that differ little go through Myers's algorithm (An O(ND) difference
    algorithm, 1986). Other parts are split at lines that occur exactly once in both
    sequences. Parts without such lines are replaced as a whole.
    """

    old: Sequence[int]
    new: Sequence[int]
    spans: list[SpanT] = field(factory=list)
    steps: int = MAX_STEPS

    def run(self) -> None:
        parts = [(0, len(self.old), 0, len(self.new))]
        while parts:
            start, end, new_start, new_end = span = self._trim(*parts.pop())
            if start == end or new_start == new_end:
                if start != end or new_start != new_end:
                    self.spans.append(span)
            elif (edits := self._shortest(*span)) is not None:
                self.spans += edits
            elif anchors := self._anchors(*span):
                parts += _between(anchors, span)
            else:
                self.spans.append(span)

    def _trim(self, start: int, end: int, new_start: int, new_end: int) -> SpanT:
        old, new = self.old, self.new
        while start < end and new_start < new_end and old[start] == new[new_start]:
            start, new_start = start + 1, new_start + 1
        while start < end and new_start < new_end and old[end - 1] == new[new_end - 1]:
            end, new_end = end - 1, new_end - 1
        return start, end, new_start, new_end

    def _shortest(
        self, start: int, end: int, new_start: int, new_end: int
    ) -> list[SpanT] | None:
        """Return the shortest edits of a part; None if a limit is exceeded."""
        old, new = self.old[start:end], self.new[new_start:new_end]
        height, width = len(old), len(new)
        most = min(MAX_EDITS, height + width)
        middle = most + 1
        # By diagonal; number 0 is in the middle.
        reached = array("q", bytes(8 * (2 * most + 3)))
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
                        for a, b, c, d in _path_edits(trail, height, width)
                    ]
        return None

    def _anchors(
        self, start: int, end: int, new_start: int, new_end: int
    ) -> list[tuple[int, int]]:
        """Return pairs of lines that occur once on both sides, in the same order."""
        self.steps -= end - start + new_end - new_start
        if self.steps < -MAX_STEPS:
            return []
        old, new = self.old, self.new
        counts = Counter(old[start:end])
        others = Counter(new[new_start:new_end])
        positions = {new[j]: j for j in range(new_start, new_end)}
        pairs = [
            (i, positions[old[i]])
            for i in range(start, end)
            if counts[old[i]] == 1 and others[old[i]] == 1
        ]
        return _longest_rising(pairs)


def _between(anchors: list[tuple[int, int]], span: SpanT) -> list[SpanT]:
    start, end, new_start, new_end = span
    parts = []
    for i, j in [*anchors, (end, new_end)]:
        parts.append((start, i, new_start, j))
        start, new_start = i + 1, j + 1
    return parts


def _longest_rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of ``pairs`` with rising second numbers."""
    tails: list[int] = []
    heads: list[int] = []  # last pair of a subsequence, by its length
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


def _path_edits(trail: list[array[int]], height: int, width: int) -> list[SpanT]:
    """Return the single edits of the path that ``trail`` records.

    For each number of edits, ``trail`` has the points reached with one edit less.
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
