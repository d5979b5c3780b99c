"""The text blocks of a page, collected in one walk over the cleaned tree.

A block is a run of text between the boundaries of block-level elements. The walk fills
columns: lists with one entry per block. Elements that may contain blocks ("nodes") are
numbered in document order and have columns too. The blocks inside a node are a range.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from attrs import define

from scraper_service.content.html.elements import BLOCKS, SKIPPED
from scraper_service.content.main_content.learned_scores import (
    MAX_START,
    NO_NAMES,
    NameScores,
    combine_scores,
)
from scraper_service.content.passes import compiled

if TYPE_CHECKING:
    from scraper_service.content.main_content.learned_scores import Tables

MAX_SHAPE = 60  # characters of a class that are part of an element's shape
WIDE_CHARACTERS = 2  # characters that count as a word in scripts without spaces

# The kinds of elements around a block, as bits.
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
# The text of a consent dialog can be longer than the page.
_CONSENT = re.compile(
    "onetrust|cybotcookiebot|didomi|usercentrics|cookie-?consent|cookie-?banner",
    re.IGNORECASE,
)
IN_CONSENT = 1 << PLACES.index("consent")
# Elements that start a block.
_NODES = BLOCKS | {"button", "option", "video", "audio"}
# The place bits of each tag in ``_NODES``; skipped tags have ``_LEFT_OUT``. Other tags are
# inline.
_LEFT_OUT = -1
_ENTERED = {tag: _PLACE_OF.get(tag, 0) for tag in _NODES} | dict.fromkeys(
    SKIPPED, _LEFT_OUT
)
_LINK = _PLACE_OF["a"]
_AROUND_MAIN = sum(_PLACE_OF[tag] for tag in ("nav", "header", "footer", "aside"))
_WIDE = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")


@define
class Nodes:
    """The elements that may contain blocks, as columns; the first node is the body."""

    #: The lxml element.
    element: list[Any]
    #: The tag name.
    tag: list[str]
    #: The number of the parent node; -1 for the body.
    parent: list[int]
    #: The number of the first block inside the node.
    start: list[int]
    #: The depth below the body; 0 for the body.
    depth: list[int]
    #: The bits of :data:`PLACES` of the node and its ancestors.
    places: list[int]
    #: The tag with the class, shortened to :data:`MAX_SHAPE`.
    shape: list[str]
    #: A number shared by all nodes of the same shape below the same path.
    path: list[int]
    #: The learned scores of class, id, itemprop and label.
    scores: list[NameScores]
    #: The id attribute.
    own: list[str | None]
    #: The number behind the last block inside the node.
    end: list[int]

    def __len__(self) -> int:
        return len(self.element)


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
    #: The bits of :data:`PLACES` of the elements around the block.
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
        if compiled is not None:
            self.nodes, self.blocks = _compiled(body, tables)
            return
        self._of_names, self._of_start = tables.of_names, tables.of_start
        self._paths: dict[tuple[int, str], int] = {}
        self._node_rows: list[tuple[Any, ...]] = []
        self._ends: list[int] = []
        self._block_rows: list[tuple[Any, ...]] = []
        self._run: list[str] = []
        self._words = self._linked = self._links = 0
        self._low = 0.0
        self._places = 0
        places = _places_of(body)
        self._begin(
            (body, body.tag, -1, 0, 0, places, body.tag, 0, NO_NAMES, body.get("id"))
        )
        self.nodes = Nodes(*[*_columns(self._node_rows, 10), self._ends])
        self.blocks = Blocks(*_columns(self._block_rows, 9))

    def _begin(self, row: tuple[Any, ...]) -> None:
        """Add a node with the columns in ``row``, and walk its element."""
        number = len(self._ends)
        self._node_rows.append(row)
        self._ends.append(0)
        element, places = row[0], row[5]
        text = element.text
        if text and not text.isspace():
            self._text(text, places)
        self._children(element, number, places)
        if self._run:
            self._flush(number)
        else:
            self._links, self._low = 0, 0.0
        self._ends[number] = len(self._block_rows)

    def _children(self, element: Any, number: int, places: int) -> None:
        entered = _ENTERED
        for child in element:
            tag = child.tag
            place = entered.get(tag)
            if place is None:
                self._inline(child, tag, number, places)
            elif place != _LEFT_OUT:
                if self._run:
                    self._flush(number)
                self._links, self._low = 0, 0.0
                self._node(child, tag, number, places | place)
            tail = child.tail
            if tail:
                if not tail.isspace():
                    self._text(tail, places)
                elif self._run:
                    self._run.append(" ")

    def _node(self, element: Any, tag: str, parent: int, places: int) -> None:
        get = element.get
        names, own, role, marked = get("class"), get("id"), get("role"), get("itemprop")
        said = get("data-testid") or get("aria-label")
        shape, scores = tag, NO_NAMES
        if names:
            shape = f"{tag}.{names[:MAX_SHAPE]}"
            scores = self._of_names(names)
        if own or marked or said:
            given = [name for name in (own, marked, said) if name]
            scores = combine_scores([scores, *map(self._of_names, given)])
        if own or role:
            places |= _declared_places(own, role)
        if tag == "main" or role == "main":  # may stand in an unclosed menu
            places &= ~_AROUND_MAIN
        above = self._node_rows[parent]
        paths = self._paths
        path = paths.setdefault((above[7], shape), len(paths) + 1)
        start, depth = len(self._block_rows), above[4] + 1
        self._begin(
            (element, tag, parent, start, depth, places, shape, path, scores, own)
        )

    def _inline(self, element: Any, tag: str, number: int, places: int) -> None:
        if tag == "a":
            places |= _LINK
            self._links += 1
        elif tag == "br" and self._run:
            self._run.append("\n")
        names = element.get("class")
        if names:
            self._low = min(self._low, self._of_names(names)[0])
        text = element.text
        if text:
            if not text.isspace():
                self._text(text, places)
            elif self._run:
                self._run.append(" ")
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
        run, words, linked = self._run, self._words, self._linked
        text = run[0] if len(run) == 1 else "".join(run)
        first, phrase = self._of_start(text[:MAX_START])
        links = self._links or int(linked > 0)
        places = self._node_rows[number][5]
        if linked == words:
            places |= self._places & _LINK
        self._block_rows.append(
            (number, words, linked, links, text, places, first, phrase, self._low)
        )
        self._run = []
        self._words = self._linked = self._links = 0
        self._low = 0.0


def _compiled(body: Any, tables: Tables) -> tuple[Nodes, Blocks]:
    """Return the columns, collected by the compiled walk."""
    walk = compiled.Walk(
        body,
        entered=_ENTERED,
        of_names=tables.of_names,
        of_start=tables.of_start,
        said=_declared_places,
        together=combine_scores,
        no_names=NO_NAMES,
        wide=_WIDE.findall,
        link=_LINK,
        left_out=_LEFT_OUT,
        max_shape=MAX_SHAPE,
        max_start=MAX_START,
        wide_characters=WIDE_CHARACTERS,
        body_places=_places_of(body),
        around_main=_AROUND_MAIN,
    )
    return Nodes(*walk.nodes), Blocks(*walk.blocks)


def _places_of(body: Any) -> int:
    return _PLACE_OF.get(body.tag, 0) | _declared_places(
        body.get("id"), body.get("role")
    )


def _columns(rows: list[tuple[Any, ...]], count: int) -> list[list[Any]]:
    """Return the columns of ``rows``; this is faster than appending to each column."""
    return [[row[number] for row in rows] for number in range(count)]


def _declared_places(own: str | None, role: str | None) -> int:
    """Return the place bits that an element's id and role declare."""
    places = _PLACE_OF_ROLE.get(role, 0) if role else 0
    return places | IN_CONSENT if own and _CONSENT.search(own) else places
