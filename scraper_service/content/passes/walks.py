"""The walks over a page that cost most.

``setup.py`` compiles them if it can; without a C compiler they run as they stand here. The
functions that read nodes have two forms: ``nodes.py`` and ``nodes.pyx``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.content.passes.nodes import (
    BLANK,
    NULL,
    Document,
    Element,
    Finder,
    Node,
    Real,
    TagNames,
    Whole,
    add_texts,
    attribute,
    cclass,
    cfunc,
    document_of,
    element_of,
    elements,
    first_child,
    has_attributes,
    is_plain,
    next_element,
    next_sibling,
    node_of,
    tail_of,
    text_of,
    texts_in,
    words_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

__all__ = ["Finder", "TagNames", "elements", "texts_in"]

# The lines from here on are compiled, behind those of nodes.pyx.

MAX_ROLE_NAMES = 300  # characters of a class that may have a role


def classed(root: Element, is_wanted: Callable[[str], bool], *tags: str) -> list[Any]:
    """Return the elements with some tags for whose class ``is_wanted`` returns True."""
    others: set = set()
    found: list = []
    for element in elements(root, *tags):
        names = element.get("class")
        if names is not None and names not in others:
            if is_wanted(names):
                found.append(element)
            else:
                others.add(names)
    return found


def suspects(
    body: Element, is_watched: Callable[[Any], bool], ids: Collection[str]
) -> list[Any]:
    """Return the elements that may be hidden; see ``html/hidden_text.py``.

    Each is a tuple: the element, its class, whether ``is_watched`` returns True for its
    class, its id if among ``ids``, its style, and its attribute ``hidden``.
    """
    root: Node = node_of(body)
    node: Node = root
    document: Document = document_of(body)
    harmless: set = {None}
    found: list = []
    while node is not NULL:
        if has_attributes(node):
            names = attribute(node, "class")
            watched = False
            if names not in harmless:
                watched = is_watched(names)
                if not watched:
                    harmless.add(names)
            style = attribute(node, "style")
            hidden = attribute(node, "hidden")
            own = attribute(node, "id") if ids else None
            if own not in ids:
                own = None
            if watched or style or hidden is not None or own is not None:
                element = element_of(document, node)
                found.append((element, names, watched, own, style, hidden))
        node = next_element(node, root)
    return found


def main_texts(root: Element, left: Whole, shared: Collection[str]) -> list[str]:
    """Return the texts outside elements whose tags are ``shared``.

    Texts are added until ``left`` characters are exceeded.
    """
    parts: list = []
    _add_main_texts(node_of(root), parts, left, shared, TagNames())
    return parts


@cfunc
def _add_main_texts(
    node: Node, parts: list, left: Whole, shared: Collection[str], tags: TagNames
) -> Whole:
    text = text_of(node)
    if text is not None:
        parts.append(text)
        left -= len(text)
    child: Node = first_child(node)
    while child is not NULL and left >= 0:
        if tags.of(child) not in shared:
            left = _add_main_texts(child, parts, left, shared, tags)
        text = tail_of(child)
        if text is not None and left >= 0:
            parts.append(text)
            left -= len(text)
        child = next_sibling(child)
    return left


def signs(  # noqa: PLR0912  # a call for each element costs too much
    body: Element,
    *,
    kind_of: Callable[[Any], Any],
    kind_of_attributes: Callable[[Any, Any], Any],
    neither: Any,
    dated: Collection[str],
    plain: Collection[str],
    naming: frozenset[str],
    starts: Collection[str],
    left: Whole,
    after_heading: Whole,
    longest: Whole,
) -> list[Any]:
    """Return the elements that may name an author or a date; see ``metadata/marks.py``.

    At most ``left`` elements are examined, and ``after_heading`` behind the first ``h1``.
    """
    root: Node = node_of(body)
    node: Node = root
    document: Document = document_of(body)
    tags: TagNames = TagNames()
    kinds: dict = {None: neither, "": neither}
    found: list = []
    is_early = True
    while node is not NULL:
        left -= 1
        if not left:
            break
        text = text_of(node)
        if text is not None and not _is_telling(text, longest, starts):
            text = None
        tail = tail_of(node)
        if tail is not None and not _is_telling(tail, longest, starts):
            tail = None
        names = attribute(node, "class")
        kind = kinds.get(names)
        if kind is None:
            kind = kinds[names] = kind_of(names)
        tag = tags.of(node)
        if tag == "h1":
            if is_early:
                is_early = False
                left = min(left, after_heading)
        elif tag in dated:
            kind = False, True
        elif tag == "a":
            if "/author" in (attribute(node, "href") or ""):
                kind = True, kind[1]
        elif tag not in plain and has_attributes(node):
            element = element_of(document, node)
            if not naming.isdisjoint(element.keys()):
                kind = kind_of_attributes(element, kind)
        if text is not None or tail is not None or tag == "h1" or kind is not neither:
            found.append((element_of(document, node), text, tail, kind))
        node = next_element(node, root)
    return found


@cfunc
def _is_telling(text: str, longest: Whole, starts: Collection[str]) -> bool:
    """Return True if a text may be a byline or hold a year."""
    if not 4 < len(text) <= longest:
        return False
    return "20" in text or "19" in text or text.lstrip()[:2] in starts


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


def write_content(spans: Any, element: Element, max_depth: Whole) -> None:
    """Write the content of an element; see ``markdown/spans.py``."""
    writers: Mapping = spans.writers
    _write_children(
        spans,
        spans.run,
        writers,
        writers["div"],
        spans.tags,
        document_of(element),
        node_of(element),
        spans.depth,
        max_depth,
    )


@cfunc
def _write_children(
    spans: Any,
    run: list,
    writers: Mapping,
    block: Any,
    tags: TagNames,
    document: Document,
    node: Node,
    depth: Whole,
    max_depth: Whole,
) -> None:
    _write_text(spans, run, text_of(node))
    child: Node = first_child(node)
    if depth >= max_depth:
        parts: list = []
        while child is not NULL:
            add_texts(child, parts)
            child = next_sibling(child)
        if parts:
            spans.text(" ".join(parts))
        return
    while child is not NULL:
        write = writers.get(tags.of(child))
        is_block: bool = write is block and _has_no_role(spans, child)
        if write is None or is_block:
            if is_block and run:
                spans.flush()
            _write_children(
                spans, run, writers, block, tags, document, child, depth + 1, max_depth
            )
            if is_block and run:
                spans.flush()
        else:
            spans.depth = depth + 1
            write(spans, element_of(document, child))
            spans.depth = depth
        _write_text(spans, run, tail_of(child))
        child = next_sibling(child)


@cfunc
def _has_no_role(spans: Any, node: Node) -> bool:
    """Return True if the class of a block has no role; see ``html/elements.py``."""
    names = attribute(node, "class")
    if names is None or spans.flat is not None:
        return True
    return spans.role_of(names[:MAX_ROLE_NAMES]) is None


@cfunc
def _write_text(spans: Any, run: list, text: str | None) -> None:
    if text is BLANK:
        if run:
            run.append(BLANK)
    elif text is not None:
        if is_plain(text):
            run.append(text)
        else:
            spans.text(text)
