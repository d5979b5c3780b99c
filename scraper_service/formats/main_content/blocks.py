"""The text blocks of a page: one walk over the cleaned tree.

A block is a run of text between the beginnings and ends of block-level elements. What the
model needs of it is noted on the way, in columns, which are lists of one entry a block;
elements that may hold blocks are numbered in document order and have columns too, so that
all below one is a range of blocks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from attrs import define, field

from scraper_service.formats.main_content.tables import (
    MAX_START,
    NO_NAMES,
    together,
)
from scraper_service.formats.tags import BLOCKS, SKIPPED

if TYPE_CHECKING:
    from scraper_service.formats.main_content.tables import Tables

MAX_SHAPE = 60  # of a class, that elements are compared by
WIDE_CHARACTERS = 2  # a word of scripts that put no spaces between words

# The places a block can be in, as bits.
PLACES = (
    "main article section nav aside header footer form table li figure button blockquote "
    "dialog details dl a p heading pre consent"
).split()
_PLACE_OF = {
    **{name: 1 << n for n, name in enumerate(PLACES)},
    **dict.fromkeys(("ul", "ol", "menu"), 0),
    "td": 1 << PLACES.index("table"),
    "th": 1 << PLACES.index("table"),
    "dd": 1 << PLACES.index("dl"),
    "dt": 1 << PLACES.index("dl"),
    "select": 1 << PLACES.index("button"),
    "option": 1 << PLACES.index("button"),
    "textarea": 1 << PLACES.index("form"),
    "input": 1 << PLACES.index("form"),
    "fieldset": 1 << PLACES.index("form"),
    "figcaption": 1 << PLACES.index("figure"),
    "summary": 1 << PLACES.index("details"),
    **dict.fromkeys((f"h{n}" for n in range(1, 7)), 1 << PLACES.index("heading")),
}
_PLACE_OF_ROLE = {
    "main": _PLACE_OF["main"],
    "article": _PLACE_OF["article"],
    "navigation": _PLACE_OF["nav"],
    "banner": _PLACE_OF["header"],
    "contentinfo": _PLACE_OF["footer"],
    "complementary": _PLACE_OF["aside"],
    "search": _PLACE_OF["form"],
    "button": _PLACE_OF["button"],
    "heading": _PLACE_OF["heading"],
    "dialog": _PLACE_OF["dialog"],
    "alertdialog": _PLACE_OF["dialog"],
}
# Consent texts can be longer than the page itself.
_CONSENT = re.compile(
    "onetrust|cybotcookiebot|didomi|usercentrics|cookie-?consent|cookie-?banner",
    re.IGNORECASE,
)
IN_CONSENT = 1 << PLACES.index("consent")
# Each a block, besides the elements which are drawn as one.
_NODES = BLOCKS | {"button", "option", "video", "audio"}
_LINK = _PLACE_OF["a"]
_WIDE = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")


@define
class Nodes:
    """The elements that may hold blocks, by columns; the first is the body.

    Of each: ``parent``, -1 for the body; ``start`` and ``end``, exclusive, of its blocks;
    ``path``, one number for all of the same shape below the same path; ``shape``, the tag
    with the class; and the scores of its names, as in ``NameScores``.
    """

    element: list[Any] = field(factory=list)
    tag: list[str] = field(factory=list)
    parent: list[int] = field(factory=list)
    start: list[int] = field(factory=list)
    end: list[int] = field(factory=list)
    depth: list[int] = field(factory=list)
    places: list[int] = field(factory=list)
    shape: list[str] = field(factory=list)
    path: list[int] = field(factory=list)
    low: list[float] = field(factory=list)
    high: list[float] = field(factory=list)
    kind_rows: list[tuple[int, ...]] = field(factory=list)

    def __len__(self) -> int:
        return len(self.element)


@define
class Blocks:
    """The runs of text, by columns. ``node`` is the element a run stands directly in.

    ``first`` is the score of its first words, ``inline_low`` the lowest of the names of
    inline elements in it; ``linked`` counts its words in links.
    """

    node: list[int] = field(factory=list)
    words: list[int] = field(factory=list)
    linked: list[int] = field(factory=list)
    links: list[int] = field(factory=list)
    text: list[str] = field(factory=list)
    places: list[int] = field(factory=list)
    first: list[float] = field(factory=list)
    phrase: list[float] = field(factory=list)
    inline_low: list[float] = field(factory=list)

    def __len__(self) -> int:
        return len(self.node)


class Walk:
    """The walk; afterwards ``nodes`` and ``blocks`` are filled."""

    def __init__(self, body: Any, tables: Tables) -> None:
        self.tables = tables
        self.nodes = Nodes()
        self.blocks = Blocks()
        self._paths: dict[tuple[int, str], int] = {}
        self._run: list[str] = []
        self._words = self._linked = self._links = 0
        self._low = 0.0
        self._places = 0
        self._enter(body, body.tag, -1, 0)

    def _enter(self, element: Any, tag: str, parent: int, places: int) -> None:
        nodes = self.nodes
        number = len(nodes.element)
        shape, scores = tag, NO_NAMES
        places |= _PLACE_OF.get(tag, 0)
        if attributes := element.items():
            get = dict(attributes).get
            names, own, role = get("class"), get("id"), get("role")
            if own and _CONSENT.search(own):
                places |= IN_CONSENT
            if role:
                places |= _PLACE_OF_ROLE.get(role, 0)
            if parent >= 0:
                of_names = self.tables.of_names
                if names:
                    shape = f"{tag}.{names[:MAX_SHAPE]}"
                    scores = of_names(names)
                marked = get("itemprop")
                if own or marked:
                    scores = together(map(of_names, filter(None, (names, own, marked))))
        above = nodes.path[parent] if parent >= 0 else -1
        paths = self._paths
        nodes.element.append(element)
        nodes.tag.append(tag)
        nodes.parent.append(parent)
        nodes.start.append(len(self.blocks.node))
        nodes.end.append(0)
        nodes.depth.append(nodes.depth[parent] + 1 if parent >= 0 else 0)
        nodes.places.append(places)
        nodes.shape.append(shape)
        nodes.path.append(paths.setdefault((above, shape), len(paths)))
        nodes.low.append(scores[0])
        nodes.high.append(scores[1])
        nodes.kind_rows.append(scores[2])
        text = element.text
        if text and not text.isspace():
            self._text(text, places)
        self._children(element, number, places)
        if self._run:
            self._flush(number)
        else:
            self._links, self._low = 0, 0.0
        nodes.end[number] = len(self.blocks.node)

    def _children(self, element: Any, number: int, places: int) -> None:
        for child in element:
            tag = child.tag
            if tag in SKIPPED:
                pass
            elif tag in _NODES:
                if self._run:
                    self._flush(number)
                self._links, self._low = 0, 0.0
                self._enter(child, tag, number, places)
            else:
                self._inline(child, tag, number, places)
            tail = child.tail
            if tail and not tail.isspace():
                self._text(tail, places)

    def _inline(self, element: Any, tag: str, number: int, places: int) -> None:
        if tag == "a":
            places |= _LINK
            self._links += 1
        names = element.get("class")
        if names:
            self._low = min(self._low, self.tables.of_names(names)[0])
        text = element.text
        if text and not text.isspace():
            self._text(text, places)
        if len(element):
            self._children(element, number, places)

    def _text(self, text: str, places: int) -> None:
        count = len(text.split())
        if len(text) > 12 * count:
            count = max(count, len(_WIDE.findall(text)) // WIDE_CHARACTERS)
        self._run.append(text)
        self._words += count
        self._places = places
        if places & _LINK:
            self._linked += count

    def _flush(self, number: int) -> None:
        text = "".join(self._run)
        first, phrase = self.tables.of_start(text[:MAX_START])
        whole = self._linked == self._words
        blocks = self.blocks
        blocks.node.append(number)
        blocks.words.append(self._words)
        blocks.linked.append(self._linked)
        blocks.links.append(self._links or int(self._linked > 0))
        blocks.text.append(text)
        blocks.places.append(
            self.nodes.places[number] | (self._places & _LINK if whole else 0)
        )
        blocks.first.append(first)
        blocks.phrase.append(phrase)
        blocks.inline_low.append(self._low)
        self._run = []
        self._words = self._linked = self._links = 0
        self._low = 0.0
