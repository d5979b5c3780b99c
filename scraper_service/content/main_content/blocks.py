"""The text blocks of a page, collected in one walk over the cleaned tree.

A block is a run of text between the boundaries of block-level elements. The walk fills
columns: lists with one entry per block. Elements that may contain blocks ("nodes") are
numbered in document order and have columns too. The blocks inside a node are a range.

The learned scores of names, words and pairs of tags are looked up through a cache: pages
repeat the same class attributes hundreds of times, and so do the pages of a site.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, field

from scraper_service.content.html.document import BLOCKS, SKIPPED
from scraper_service.content.passes import (
    PartScores,
    WordTable,
    block_elements,
    dropped_blocks,
    text_blocks,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_NAMES = 200  # characters examined of a class or id
MAX_FIRST_WORDS = 10  # words of a block whose scores are averaged
MAX_PHRASE_WORDS = 5
Slot = tuple[Any, str]  # an element, and "text" or "tail"
MAX_SHAPE = 60  # characters of a class that are part of an element's shape
WIDE_CHARACTERS = 2  # characters that count as a word in scripts without spaces
# The kinds of elements around a block, as bits.
AROUND = (
    "main article section nav aside header footer form table li figure button blockquote "
    "dialog details dl a p heading pre consent"
).split()
_PLACE_OF = {
    **{name: 1 << n for n, name in enumerate(AROUND)},
    **dict.fromkeys(("ul", "ol", "menu"), 0),
    "td": 1 << AROUND.index("table"),
    "th": 1 << AROUND.index("table"),
    "dd": 1 << AROUND.index("dl"),
    "dt": 1 << AROUND.index("dl"),
    "select": 1 << AROUND.index("button"),
    "option": 1 << AROUND.index("button"),
    "textarea": 1 << AROUND.index("form"),
    "input": 1 << AROUND.index("form"),
    "fieldset": 1 << AROUND.index("form"),
    "figcaption": 1 << AROUND.index("figure"),
    "summary": 1 << AROUND.index("details"),
    **dict.fromkeys((f"h{n}" for n in range(1, 7)), 1 << AROUND.index("heading")),
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
# The text of a consent dialog can be longer than the page.
_CONSENT = re.compile(
    "onetrust|cybotcookiebot|didomi|usercentrics|cookie-?consent|cookie-?banner",
    re.IGNORECASE,
)
_CONSENT_PARTS = ("onetrust", "cybotcookiebot", "didomi", "usercentrics", "cookie")
IN_CONSENT = 1 << AROUND.index("consent")
# Elements that start a block.
_NODES = BLOCKS | {"button", "option", "video", "audio"}
# The bits of each tag in ``_NODES``; skipped tags have ``_LEFT_OUT``. Other tags are
# inline.
_LEFT_OUT = -1
_ENTERED = {tag: _PLACE_OF.get(tag, 0) for tag in _NODES} | dict.fromkeys(
    SKIPPED, _LEFT_OUT
)
_LINK = _PLACE_OF["a"]
_AROUND_MAIN = sum(_PLACE_OF[tag] for tag in ("nav", "header", "footer", "aside"))
_WIDE = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")


@define
class Tables:
    """The learned scores; a score above 0 favours content."""

    #: Scores of parts of class names, ids, itemprops and labels.
    names: dict[str, float]
    #: The same with a score for each of ``GROUPS`` of ``model.py``.
    kind_names: dict[str, list[float]]
    #: Scores of whole short texts.
    phrases: dict[str, float]
    #: Scores of the first words of a text.
    words: dict[str, float]
    #: Scores of an element's tag in its parent's tag.
    tags: dict[str, float]
    #: ``tags`` by the parent's tag, then by the element's.
    tags_inside: dict[str, dict[str, float]] = field(init=False, eq=False)
    #: ``kind_names`` as an array with a row for each name.
    kind_rows: Any = field(init=False, eq=False)
    #: ``names`` and ``kind_names`` for quick lookups of class attributes and ids.
    name_scores: PartScores = field(init=False, eq=False)
    #: ``words`` for quick lookups.
    words_at_start: WordTable = field(init=False, eq=False)
    #: ``phrases`` for quick lookups.
    known_phrases: WordTable = field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        rows = {part: row for row, part in enumerate(self.kind_names)}
        parts = list(dict.fromkeys((*self.names, *self.kind_names)))
        # A number for each part of a name; per number its score, and its row or -1.
        self.name_scores = PartScores(
            {part: number for number, part in enumerate(parts)},
            [self.names.get(part, 0.0) for part in parts],
            [rows.get(part, -1) for part in parts],
        )
        self.words_at_start = WordTable(self.words)
        self.known_phrases = WordTable(self.phrases)
        self.tags_inside = {}
        for pair, score in self.tags.items():
            parent, _, tag = pair.partition(" ")
            self.tags_inside.setdefault(parent, {})[tag] = score
        scores = list(self.kind_names.values())
        self.kind_rows = np.array(scores, dtype=np.float64).reshape(len(scores), -1)


@define
class Nodes:
    """The elements that may contain blocks, as columns; the first node is the body."""

    #: The tag name.
    tag: list[str]
    #: The number of the parent node; -1 for the body.
    parent: list[int]
    #: The number of the first block inside the node.
    start: list[int]
    #: The number after the last block inside the node.
    end: list[int]
    #: The number after the last node inside the node.
    next_node: list[int]
    #: The depth below the body; 0 for the body.
    depth: list[int]
    #: The bits of :data:`AROUND` of the node and its ancestors.
    places: list[int]
    #: The tag with the class, shortened to :data:`MAX_SHAPE`.
    shape: list[str]
    #: A number shared by all nodes of the same shape below the same path.
    path: list[int]
    #: The learned scores of class, id, itemprop and label.
    scores: list[Any]  # NameScores of passes/arrays.pyx
    #: The id attribute.
    own: list[str | None]

    def __len__(self) -> int:
        return len(self.tag)


@define
class Blocks:
    """The text blocks of a page, as columns."""

    #: The number of the innermost node around the block.
    node: list[int]
    #: The number of words.
    words: list[int]
    #: The number of words in links.
    linked: list[int]
    #: The number of links.
    links: list[int]
    #: The text, with its white space.
    text: list[str]
    #: The bits of :data:`AROUND` of the elements around the block.
    places: list[int]
    #: The learned score of the first words.
    first: list[float]
    #: The learned score of a short text as a whole.
    phrase: list[float]
    #: The lowest learned name score of the inline elements in the block.
    inline_low: list[float]

    def __len__(self) -> int:
        return len(self.node)


class Walk:
    """The walk over a body; the constructor fills ``nodes`` and ``blocks``."""

    def __init__(self, body: Any, tables: Tables) -> None:
        self.tables = tables
        self.body = body
        nodes, blocks = text_blocks(
            body,
            _places_of(body),
            entered=_ENTERED,
            name_scores=tables.name_scores,
            words_at_start=tables.words_at_start,
            known_phrases=tables.known_phrases,
            declared=_declared_places,
            declared_ids=_CONSENT_PARTS,
            wide=_WIDE.findall,
            wide_characters=WIDE_CHARACTERS,
            link=_LINK,
            left_out=_LEFT_OUT,
            around_main=_AROUND_MAIN,
            max_shape=MAX_SHAPE,
            max_words=MAX_FIRST_WORDS,
            max_phrase=MAX_PHRASE_WORDS,
        )
        self.nodes = Nodes(*nodes)
        self.blocks = Blocks(*blocks)

    @cached_property
    def shapes(self) -> dict[str, int]:
        """The distinct shapes of the nodes, with their numbers of nodes."""
        return dict(Counter(self.nodes.shape))

    @cached_property
    def titles(self) -> list[int]:
        """The numbers of the nodes that are ``h1``."""
        tags, found, number = self.nodes.tag, [], -1
        for _ in range(tags.count("h1")):
            number = tags.index("h1", number + 1)
            found.append(number)
        return found

    @cached_property
    def lower_names(self) -> str:
        """The distinct shapes and the ids of the nodes in lower case."""
        return "\n".join([*self.shapes, *filter(None, self.nodes.own)]).lower()

    @cached_property
    def elements(self) -> list[Any]:
        """The element of each node. The first use comes before any change of the tree."""
        return block_elements(self.body, _ENTERED, _LEFT_OUT)

    def find_dropped(
        self, keep: Sequence[bool], picture: str = "", lead: int = 0
    ) -> tuple[list[Any], list[Slot]]:
        """Return the elements and the texts that contain only blocks to drop.

        A picture before block ``lead`` stays if its URL contains ``picture``.
        """
        nodes = self.nodes
        return dropped_blocks(
            self.body,
            keep,
            nodes.start,
            nodes.end,
            nodes.next_node,
            _ENTERED,
            _LEFT_OUT,
            picture,
            lead,
        )


def _places_of(body: Any) -> int:
    return _PLACE_OF.get(body.tag, 0) | _declared_places(
        body.get("id"), body.get("role")
    )


def _declared_places(own: str | None, role: str | None) -> int:
    """Return the bits that an element's id and role declare."""
    bits = _PLACE_OF_ROLE.get(role, 0) if role else 0
    return bits | IN_CONSENT if own and _CONSENT.search(own) else bits
