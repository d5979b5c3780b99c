"""Removes the dropped blocks from the tree, with the emptied elements around them."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from scraper_service.content.html.document import drop
from scraper_service.content.html.elements import SKIPPED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.content.main_content.blocks import Walk

Slot = tuple[Any, str]  # an element, and "text" or "tail"


def reduce(walk: Walk, keep: Sequence[bool]) -> None:
    """Remove every block whose ``keep`` is False from the tree.

    An element without text, such as an image, stays if the block before or behind it stays.
    """
    _Reduction(walk, keep).run()


class _Reduction:
    def __init__(self, walk: Walk, keep: Sequence[bool]) -> None:
        self.nodes = walk.nodes
        self.keep = keep
        self.kept = [0, *accumulate(map(int, keep))]
        self.numbers = {element: n for n, element in enumerate(walk.nodes.element)}
        self.doomed: list[Any] = []
        self.slots: list[Slot] = []  # the texts of the current run
        self.inline: list[Any] = []
        self.has_text = False

    def run(self) -> None:
        if not all(self.keep):
            self._node(0)
            for element in self.doomed:
                drop(element)

    def _node(self, number: int) -> None:
        """Reduce an element that is partly kept."""
        element, bounds = self.nodes.element[number], self._bounds(number)
        self._text(element, "text")
        at = self._children(element, bounds[0], bounds)
        self._flush(at, bounds)

    def _children(self, element: Any, at: int, bounds: tuple[int, int]) -> int:
        """Reduce the children of ``element``; return the number of the next block."""
        for child in element:
            number = self.numbers.get(child)
            if number is not None:
                at = self._flush(at, bounds)
                self._settle(child, number, bounds)
                at = self.nodes.end[number]
            elif child.tag in SKIPPED or not self._holds_nodes(child):
                self.inline.append(child)
                self.has_text = self.has_text or _has_text(child)
            else:
                before = at
                self._text(child, "text")
                at = self._children(child, at, bounds)
                if self.kept[at] == self.kept[before] and at > before:
                    self.inline.append(child)  # an emptied wrapper
            self._text(child, "tail")
        return at

    def _holds_nodes(self, element: Any) -> bool:
        return len(element) > 0 and any(e in self.numbers for e in element.iter())

    def _settle(self, element: Any, number: int, bounds: tuple[int, int]) -> None:
        start, end = self._bounds(number)
        count, kept = end - start, self.kept[end] - self.kept[start]
        if not count:
            if not self._beside(start, bounds):
                self.doomed.append(element)
        elif not kept:
            self.doomed.append(element)
        elif kept < count:
            self._node(number)

    def _bounds(self, number: int) -> tuple[int, int]:
        return self.nodes.start[number], self.nodes.end[number]

    def _beside(self, at: int, bounds: tuple[int, int]) -> bool:
        """Return True if block ``at`` or the block before is kept."""
        return (at > bounds[0] and self.keep[at - 1]) or (
            at < bounds[1] and self.keep[at]
        )

    def _text(self, element: Any, which: str) -> None:
        text = element.text if which == "text" else element.tail
        if text:
            self.slots.append((element, which))
            self.has_text = self.has_text or not text.isspace()

    def _flush(self, at: int, bounds: tuple[int, int]) -> int:
        """End a run of text, which is block ``at`` unless the run is blank."""
        wanted = self.keep[at] if self.has_text else self._beside(at, bounds)
        if not wanted:
            for element, which in self.slots:
                setattr(element, which, None)
            self.doomed += self.inline
        following = at + self.has_text
        self.slots, self.inline, self.has_text = [], [], False
        return following


def _has_text(element: Any) -> bool:
    if element.tag in SKIPPED:
        return False
    if element.text and not element.text.isspace():
        return True
    return any(
        _has_text(child) or (child.tail and not child.tail.isspace())
        for child in element
    )
