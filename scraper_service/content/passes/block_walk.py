"""The walks over the blocks of a page: the first collects them as columns of numbers, the
second finds what the page has in addition to the blocks to keep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.content.passes.python_forms import (
    BLANK,
    NULL,
    Document,
    Element,
    NameParts,
    NameScores,
    Node,
    PartScores,
    Real,
    TagNames,
    Whole,
    Wholes,
    WordTable,
    attribute,
    cclass,
    cfunc,
    document_of,
    element_of,
    first_child,
    has_attributes,
    naming_attributes,
    next_sibling,
    node_of,
    start_scores,
    tail_of,
    text_of,
    wholes,
    words_in,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

# The lines from here on are compiled.


@cclass
class BlockWalk:
    """The walk that collects the columns of nodes and blocks."""

    entered: dict
    name_scores: PartScores
    words_at_start: WordTable
    known_phrases: WordTable
    declared: Any
    declared_ids: NameParts
    no_names: NameScores
    wide: Any
    wide_characters: Whole
    link: Whole
    left_out: Whole
    around_main: Whole
    max_shape: Whole
    max_words: Whole
    max_phrase: Whole
    tag_names: TagNames
    #: For each path, the paths inside it by shape.
    known_paths: list
    #: The scores of each class attribute, and the shape of each tag with it.
    known_names: dict
    # One entry for each node.
    tags: list
    parents: list
    starts: list
    ends: list
    behind: list
    depths: list
    all_places: list
    shapes: list
    paths: list
    scores: list
    ids: list
    # One entry for each block.
    of_node: list
    words: list
    linked: list
    links: list
    texts: list
    places: list
    firsts: list
    phrases: list
    lows: list
    # The current block.
    run: list
    run_words: Whole
    run_linked: Whole
    run_links: Whole
    run_places: Whole
    run_low: Real

    def __init__(
        self,
        entered: dict,
        name_scores: PartScores,
        words_at_start: WordTable,
        known_phrases: WordTable,
        declared: Any,
        declared_ids: Any,
        wide: Any,
        wide_characters: Whole,
        link: Whole,
        left_out: Whole,
        around_main: Whole,
        max_shape: Whole,
        max_words: Whole,
        max_phrase: Whole,
    ) -> None:
        self.entered = entered
        self.name_scores = name_scores
        self.words_at_start = words_at_start
        self.known_phrases = known_phrases
        self.declared = declared
        self.declared_ids = NameParts(*declared_ids)
        self.no_names = name_scores.none
        self.wide = wide
        self.wide_characters = wide_characters
        self.link = link
        self.left_out = left_out
        self.around_main = around_main
        self.max_shape = max_shape
        self.max_words = max_words
        self.max_phrase = max_phrase
        self.tag_names = TagNames()
        self.known_paths = [{}]
        self.known_names = {}
        self.tags = []
        self.parents = []
        self.starts = []
        self.ends = []
        self.behind = []
        self.depths = []
        self.all_places = []
        self.shapes = []
        self.paths = []
        self.scores = []
        self.ids = []
        self.of_node = []
        self.words = []
        self.linked = []
        self.links = []
        self.texts = []
        self.places = []
        self.firsts = []
        self.phrases = []
        self.lows = []
        self.run = []
        self.run_words = self.run_linked = self.run_links = self.run_places = 0
        self.run_low = 0.0

    @cfunc
    def begin(self, node: Node, number: Whole, places: Whole) -> None:
        """Walk the element of the node that was added last."""
        text = text_of(node)
        if text is not None and text is not BLANK:
            self._text(text, places)
        self._children(node, number, places)
        if self.run:
            self._flush(number)
        else:
            self.run_links = 0
            self.run_low = 0.0
        self.ends[number] = len(self.texts)
        self.behind[number] = len(self.tags)

    @cfunc
    def _children(self, node: Node, number: Whole, places: Whole) -> None:
        child: Node = first_child(node)
        while child is not NULL:
            tag = self.tag_names.of(child)
            known = self.entered.get(tag)
            if known is None:
                self._inline(child, tag, number, places)
            else:
                place: Whole = known
                if place != self.left_out:
                    if self.run:
                        self._flush(number)
                    self.run_links = 0
                    self.run_low = 0.0
                    self._node(child, tag, number, places | place)
            self._spaced(tail_of(child), places)
            child = next_sibling(child)

    @cfunc
    def _node(self, node: Node, tag: str, parent: Whole, places: Whole) -> None:
        own = role = None
        shape = tag
        scores: NameScores = self.no_names
        if has_attributes(node):
            names, own, marked, said, role = naming_attributes(node)
            if names:
                known = self._named(names)
                scores = known[0]
                shapes: dict = known[1]
                with_names = shapes.get(tag)
                if with_names is None:
                    with_names = shapes[tag] = f"{tag}.{names[: self.max_shape]}"
                shape = with_names  # equal shapes are one object, for quick lookups
            if own:
                scores = self._combined(scores, own)
            if marked:
                scores = self._combined(scores, marked)
            if said:
                scores = self._combined(scores, said)
            if role or (own and self.declared_ids.are_in(node, "id")):
                places |= self.declared(own, role)
        if tag == "main" or role == "main":  # may stand in an unclosed menu
            places &= ~self.around_main
        inside: dict = self.known_paths[self.paths[parent]]
        path = inside.get(shape)
        if path is None:
            path = inside[shape] = len(self.known_paths)
            self.known_paths.append({})
        depth: Whole = self.depths[parent]
        number = self.add(tag, parent, depth + 1, places, shape, path, scores, own)
        self.begin(node, number, places)

    @cfunc
    def _named(self, names: str) -> tuple:
        """Return the scores of a class attribute, and its shapes by tag."""
        known = self.known_names.get(names)
        if known is None:
            known = self.known_names[names] = (self.name_scores.of(names), {})
        return known

    @cfunc
    def _combined(self, scores: NameScores, names: str) -> NameScores:
        """Return ``scores`` combined with those of further names."""
        found: NameScores = self.name_scores.of(names)
        if found is self.no_names:
            return scores
        if scores is self.no_names:
            return found
        return scores.joined(found)

    @cfunc
    def add(
        self,
        tag: str,
        parent: Whole,
        depth: Whole,
        places: Whole,
        shape: str,
        path: Any,
        scores: Any,
        own: Any,
    ) -> Whole:
        """Add a node, and return its number."""
        self.tags.append(tag)
        self.parents.append(parent)
        self.starts.append(len(self.texts))
        self.ends.append(0)
        self.behind.append(0)
        self.depths.append(depth)
        self.all_places.append(places)
        self.shapes.append(shape)
        self.paths.append(path)
        self.scores.append(scores)
        self.ids.append(own)
        return len(self.tags) - 1

    @cfunc
    def _inline(self, node: Node, tag: str, number: Whole, places: Whole) -> None:
        if tag == "a":
            places |= self.link
            self.run_links += 1
        elif tag == "br" and self.run:
            self.run.append("\n")
        if has_attributes(node):
            names = attribute(node, "class")
            if names:
                scores: NameScores = self._named(names)[0]
                self.run_low = min(self.run_low, scores.low)
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
        self.run_words += count
        self.run_places = places
        if places & self.link:
            self.run_linked += count

    @cfunc
    def _flush(self, number: Whole) -> None:
        run: list = self.run
        text: str = run[0] if len(run) == 1 else "".join(run)
        first, phrase = start_scores(
            text,
            self.words_at_start,
            self.known_phrases,
            self.max_words,
            self.max_phrase,
        )
        links: Whole = self.run_links
        if not links and self.run_linked:
            links = 1
        places: Whole = self.all_places[number]
        if self.run_linked == self.run_words:
            places |= self.run_places & self.link
        self.of_node.append(number)
        self.words.append(self.run_words)
        self.linked.append(self.run_linked)
        self.links.append(links)
        self.texts.append(text)
        self.places.append(places)
        self.firsts.append(first)
        self.phrases.append(phrase)
        self.lows.append(self.run_low)
        self.run = []
        self.run_words = self.run_linked = self.run_links = 0
        self.run_low = 0.0


def text_blocks(
    body: Element, body_places: Whole, **rules: Any
) -> tuple[list[list[Any]], list[list[Any]]]:
    """Walk over a body; see ``main_content/blocks.py``.

    Return the columns of its nodes and the columns of its blocks.
    """
    walk: BlockWalk = BlockWalk(**rules)
    tag = body.tag
    walk.add(tag, -1, 0, body_places, tag, 0, walk.no_names, body.get("id"))
    walk.begin(node_of(body), 0, body_places)
    nodes = [walk.tags, walk.parents, walk.starts, walk.ends, walk.behind, walk.depths]
    nodes += [walk.all_places, walk.shapes, walk.paths, walk.scores, walk.ids]
    blocks = [walk.of_node, walk.words, walk.linked, walk.links, walk.texts]
    blocks += [walk.places, walk.firsts, walk.phrases, walk.lows]
    return nodes, blocks


def block_elements(body: Element, entered: dict, left_out: int) -> list[Any]:
    """Return the elements of the nodes of :func:`text_blocks`, in the same order."""
    found: list = [body]
    _add_elements(
        node_of(body), found, document_of(body), TagNames(), entered, left_out
    )
    return found


@cfunc
def _add_elements(
    node: Node,
    found: list,
    document: Document,
    tags: TagNames,
    entered: dict,
    left_out: Whole,
) -> None:
    child: Node = first_child(node)
    while child is not NULL:
        place = entered.get(tags.of(child))
        if place is None or place != left_out:
            if place is not None:
                found.append(element_of(document, child))
            _add_elements(child, found, document, tags, entered, left_out)
        child = next_sibling(child)


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
    """Return the elements and the texts that contain only blocks to drop.

    ``keep`` has a value for each block, the lists of numbers one for each node; see
    ``main_content/blocks.py``. A text is a pair: an element, and "text" or "tail". An
    element without text, such as an image, stays if the block before or after it stays.
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
