"""The walk that collects the text blocks of a page."""

from __future__ import annotations

from typing import Any

from scraper_service.content.passes.nodes import (
    BLANK,
    NULL,
    Document,
    Element,
    Node,
    Real,
    TagNames,
    Whole,
    attribute,
    cclass,
    cfunc,
    document_of,
    element_of,
    first_child,
    has_attributes,
    next_sibling,
    node_of,
    tail_of,
    text_of,
    words_in,
)

# The lines from here on are compiled.


@cclass
class BlockWalk:
    """The walk that collects the rows of nodes and blocks."""

    entered: dict
    of_names: Any
    of_start: Any
    declared: Any
    combine: Any
    no_names: Any
    wide: Any
    wide_characters: Whole
    link: Whole
    left_out: Whole
    around_main: Whole
    max_shape: Whole
    max_start: Whole
    document: Document
    tags: TagNames
    paths: dict
    nodes: list
    ends: list
    blocks: list
    run: list
    words: Whole
    linked: Whole
    links: Whole
    places: Whole
    low: Real

    def __init__(
        self,
        body: Element,
        entered: dict,
        of_names: Any,
        of_start: Any,
        declared: Any,
        combine: Any,
        no_names: Any,
        wide: Any,
        wide_characters: Whole,
        link: Whole,
        left_out: Whole,
        around_main: Whole,
        max_shape: Whole,
        max_start: Whole,
        body_places: Whole,
    ) -> None:
        self.entered = entered
        self.of_names = of_names
        self.of_start = of_start
        self.declared = declared
        self.combine = combine
        self.no_names = no_names
        self.wide = wide
        self.wide_characters = wide_characters
        self.link = link
        self.left_out = left_out
        self.around_main = around_main
        self.max_shape = max_shape
        self.max_start = max_start
        self.document = document_of(body)
        self.tags = TagNames()
        self.paths = {}
        self.nodes = []
        self.ends = []
        self.blocks = []
        self.run = []
        self.words = self.linked = self.links = self.places = 0
        self.low = 0.0
        tag = body.tag
        own = body.get("id")
        row = (body, tag, -1, 0, 0, body_places, tag, 0, no_names, own)
        self._begin(node_of(body), row, body_places)

    @cfunc
    def _begin(self, node: Node, row: tuple, places: Whole) -> None:
        """Add a node with the columns in ``row``, and walk its element."""
        number: Whole = len(self.ends)
        self.nodes.append(row)
        self.ends.append(0)
        text = text_of(node)
        if text is not None and text is not BLANK:
            self._text(text, places)
        self._children(node, number, places)
        if self.run:
            self._flush(number)
        else:
            self.links = 0
            self.low = 0.0
        self.ends[number] = len(self.blocks)

    @cfunc
    def _children(self, node: Node, number: Whole, places: Whole) -> None:
        child: Node = first_child(node)
        while child is not NULL:
            tag = self.tags.of(child)
            known = self.entered.get(tag)
            if known is None:
                self._inline(child, tag, number, places)
            else:
                place: Whole = known
                if place != self.left_out:
                    if self.run:
                        self._flush(number)
                    self.links = 0
                    self.low = 0.0
                    self._node(child, tag, number, places | place)
            self._spaced(tail_of(child), places)
            child = next_sibling(child)

    @cfunc
    def _node(self, node: Node, tag: str, parent: Whole, places: Whole) -> None:
        own = role = None
        shape = tag
        scores = self.no_names
        if has_attributes(node):
            names = attribute(node, "class")
            if names:
                shape = f"{tag}.{names[: self.max_shape]}"
                scores = self.of_names(names)
            own = attribute(node, "id")
            marked = attribute(node, "itemprop")
            said = attribute(node, "data-testid") or attribute(node, "aria-label")
            if own or marked or said:
                given = [self.of_names(name) for name in (own, marked, said) if name]
                scores = self.combine([scores, *given])
            role = attribute(node, "role")
            if own or role:
                places |= self.declared(own, role)
        if tag == "main" or role == "main":  # may stand in an unclosed menu
            places &= ~self.around_main
        above: tuple = self.nodes[parent]
        path = self.paths.setdefault((above[7], shape), len(self.paths) + 1)
        element = element_of(self.document, node)
        start = len(self.blocks)
        depth = above[4] + 1
        row = (element, tag, parent, start, depth, places, shape, path, scores, own)
        self._begin(node, row, places)

    @cfunc
    def _inline(self, node: Node, tag: str, number: Whole, places: Whole) -> None:
        if tag == "a":
            places |= self.link
            self.links += 1
        elif tag == "br" and self.run:
            self.run.append("\n")
        names = attribute(node, "class")
        if names:
            self.low = min(self.low, self.of_names(names)[0])
        self._spaced(text_of(node), places)
        self._children(node, number, places)

    @cfunc
    def _spaced(self, text: str | None, places: Whole) -> None:
        """Take a text; a blank text adds a space to a run."""
        if text is not None:
            if text is not BLANK:
                self._text(text, places)
            elif self.run:
                self.run.append(BLANK)

    @cfunc
    def _text(self, text: str, places: Whole) -> None:
        count: Whole = words_in(text)
        if len(text) > 12 * count and not text.isascii():
            count = max(count, len(self.wide(text)) // self.wide_characters)
        self.run.append(text)
        self.words += count
        self.places = places
        if places & self.link:
            self.linked += count

    @cfunc
    def _flush(self, number: Whole) -> None:
        run: list = self.run
        text = run[0] if len(run) == 1 else "".join(run)
        first, phrase = self.of_start(text[: self.max_start])
        links: Whole = self.links
        if not links and self.linked:
            links = 1
        places: Whole = self.nodes[number][5]
        if self.linked == self.words:
            places |= self.places & self.link
        row = (number, self.words, self.linked, links, text, places, first, phrase)
        self.blocks.append((*row, self.low))
        self.run = []
        self.words = self.linked = self.links = 0
        self.low = 0.0


def text_blocks(body: Element, **rules: Any) -> tuple[list, list, list]:
    """Walk over a body; see ``main_content/blocks.py``.

    Return the rows of its nodes, the number behind the last block of each node, and the
    rows of its blocks.
    """
    walk: BlockWalk = BlockWalk(body, **rules)
    return walk.nodes, walk.ends, walk.blocks


def number_scores(scores: list[Any]) -> tuple[list, list]:
    """Return a number for each of the scores, equal for the same object; and each once."""
    places: dict = {}
    known: list = []
    numbers: list = []
    for own in scores:
        place = places.get(id(own))
        if place is None:
            place = places[id(own)] = len(known)
            known.append(own)
        numbers.append(place)
    return numbers, known


def inherited(parents: list[int], low: list[float], high: list[float]) -> Any:
    """Return per node the lowest, highest and sum of the scores from the body to it.

    The parent of a node comes before it; the body has the number 0.
    """
    lowest: list = low[:]
    highest: list = high[:]
    sums: list = [low[0] + high[0]]
    for number in range(1, len(parents)):
        above: Whole = parents[number]
        own_low: Real = low[number]
        own_high: Real = high[number]
        lowest[number] = min(own_low, lowest[above])
        highest[number] = max(own_high, highest[above])
        sums.append(sums[above] + own_low + own_high)
    return lowest, highest, sums
