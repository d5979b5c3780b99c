"""The walk that finds what a page has beside the blocks to keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.content.passes.arrays import Whole, Wholes, cclass, cfunc, wholes
from scraper_service.content.passes.nodes import (
    BLANK,
    NULL,
    Document,
    Element,
    Node,
    TagNames,
    attribute,
    document_of,
    element_of,
    first_child,
    next_sibling,
    node_of,
    tail_of,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

# The lines from here on are compiled.


@cclass
class BlockReduction:
    """The walk over the elements that are partly kept; it changes nothing."""

    entered: dict
    left_out: Whole
    tag_names: TagNames
    document: Document
    #: Per block, 1 if it is kept; then the number of kept blocks before each block.
    keep: Wholes
    kept: Wholes
    # Per node.
    start: Wholes
    end: Wholes
    behind: Wholes
    #: The part of the URL of a picture that stays if it stands before block ``lead``.
    picture: str
    lead: Whole
    #: The number of the next node.
    number: Whole
    #: The bounds of the current node.
    first: Whole
    last: Whole
    # The current run of text.
    run_texts: list
    run_elements: list
    has_text: bool
    has_picture: bool
    # The results.
    elements: list
    texts: list

    def __init__(
        self,
        keep: list,
        start: list,
        end: list,
        behind: list,
        entered: dict,
        left_out: Whole,
        picture: str,
        lead: Whole,
    ) -> None:
        self.picture = picture
        self.lead = lead if picture else -1
        self.entered = entered
        self.left_out = left_out
        self.tag_names = TagNames()
        self.keep = wholes([*keep, 0])
        self.kept = wholes([0, *keep])
        n: Whole
        for n in range(1, len(keep) + 1):
            self.kept[n] += self.kept[n - 1]
        self.start = wholes(start)
        self.end = wholes(end)
        self.behind = wholes(behind)
        self.run_texts = []
        self.run_elements = []
        self.has_text = False
        self.has_picture = False
        self.elements = []
        self.texts = []

    @cfunc
    def reduce(self, node: Node, number: Whole) -> None:
        """Reduce an element that is partly kept."""
        first: Whole = self.first
        last: Whole = self.last
        self.first = self.start[number]
        self.last = self.end[number]
        self.number = number + 1
        self._text(node, text_of(node), "text")
        self._flush(self._children(node, self.first))
        self.first = first
        self.last = last

    @cfunc
    def _children(self, node: Node, at: Whole) -> Whole:
        """Reduce the children of an element; return the number of the next block."""
        before: Whole
        number: Whole
        child: Node = first_child(node)
        while child is not NULL:
            place = self.entered.get(self.tag_names.of(child))
            if place is not None and place != self.left_out:
                at = self._flush(at)
                number = self.number
                self._settle(child, number)
                self.number = self.behind[number]
                at = self.end[number]
            elif place is not None or not self._holds_nodes(child):
                self.run_elements.append(element_of(self.document, child))
                if place is None and not self.has_text:
                    self.has_text = self._has_text(child)
                if at <= self.lead and not self.has_picture:
                    self.has_picture = self._has_picture(child)
            else:
                before = at
                self._text(child, text_of(child), "text")
                at = self._children(child, at)
                if self.kept[at] == self.kept[before] and at > before:
                    # An emptied wrapper.
                    self.run_elements.append(element_of(self.document, child))
            self._text(child, tail_of(child), "tail")
            child = next_sibling(child)
        return at

    @cfunc
    def _holds_nodes(self, node: Node) -> bool:
        child: Node = first_child(node)
        while child is not NULL:
            place = self.entered.get(self.tag_names.of(child))
            if place is None:
                if self._holds_nodes(child):
                    return True
            elif place != self.left_out:
                return True
            child = next_sibling(child)
        return False

    @cfunc
    def _has_text(self, node: Node) -> bool:
        text = text_of(node)
        if text is not None and text is not BLANK:
            return True
        child: Node = first_child(node)
        while child is not NULL:
            place = self.entered.get(self.tag_names.of(child))
            is_seen = place is None or place != self.left_out
            if is_seen and self._has_text(child):
                return True
            text = tail_of(child)
            if text is not None and text is not BLANK:
                return True
            child = next_sibling(child)
        return False

    @cfunc
    def _settle(self, node: Node, number: Whole) -> None:
        start: Whole = self.start[number]
        end: Whole = self.end[number]
        kept: Whole = self.kept[end] - self.kept[start]
        if end == start and self._is_beside(start):
            return
        if not kept:
            if end > self.lead or not self._has_picture(node):
                self.elements.append(element_of(self.document, node))
            elif end > start:
                self.reduce(node, number)
        elif kept < end - start:
            self.reduce(node, number)

    @cfunc
    def _has_picture(self, node: Node) -> bool:
        """Return True if an element is or contains the picture that stays."""
        if self.tag_names.of(node) == "img":
            source = attribute(node, "src")
            return source is not None and self.picture in source
        child: Node = first_child(node)
        while child is not NULL:
            if self._has_picture(child):
                return True
            child = next_sibling(child)
        return False

    @cfunc
    def _is_beside(self, at: Whole) -> bool:
        """Return True if block ``at`` or the block before is kept."""
        if at > self.first and self.keep[at - 1]:
            return True
        return at < self.last and self.keep[at] != 0

    @cfunc
    def _text(self, node: Node, text: str | None, which: str) -> None:
        if text is not None:
            self.run_texts.append((element_of(self.document, node), which))
            if text is not BLANK:
                self.has_text = True

    @cfunc
    def _flush(self, at: Whole) -> Whole:
        """End a run of text, which is block ``at`` unless the run is blank."""
        has_text = self.has_text
        if has_text:
            is_wanted = self.keep[at] != 0
        else:
            is_wanted = self.has_picture or self._is_beside(at)
        if not is_wanted:
            self.texts += self.run_texts
            self.elements += self.run_elements
        self.run_texts = []
        self.run_elements = []
        self.has_text = False
        self.has_picture = False
        return at + 1 if has_text else at


def dropped_blocks(
    body: Element,
    keep: Sequence[bool],
    start: list,
    end: list,
    behind: list,
    entered: dict,
    left_out: int,
    picture: str,
    lead: int,
) -> tuple[list[Any], list[Any]]:
    """Return the elements and the texts that hold only blocks to drop.

    ``keep`` has a value for each block, the lists of numbers one for each node; see
    ``main_content/blocks.py``. A text is a pair: an element, and "text" or "tail". An
    element without text, such as an image, stays if the block before or behind it stays.
    So does an image before block ``lead`` whose URL contains ``picture``, unless that is
    empty.
    """
    walk: BlockReduction = BlockReduction(
        list(map(int, keep)), start, end, behind, entered, left_out, picture, lead
    )
    walk.document = document_of(body)
    walk.first = walk.last = 0
    walk.reduce(node_of(body), 0)
    return walk.elements, walk.texts
