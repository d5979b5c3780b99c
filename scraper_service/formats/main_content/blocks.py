"""The text blocks of a page: one walk over the cleaned tree.

A block is a run of text between the beginnings and ends of block-level elements. What the
model needs of it is noted on the way, in lists of one entry a block; elements that may
hold blocks are numbered in document order, so that all below one is a range of blocks.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from attrs import define, field

from scraper_service.formats.tags import BLOCKS, SKIPPED

MAX_NAMES = 200  # characters of class and id that are looked at
MAX_FIRST_WORDS = 10  # of a block, whose scores are added
MAX_PHRASE_WORDS = 5
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
NO_NAMES: frozenset[str] = frozenset()
IN_CONSENT = 1 << PLACES.index("consent")
# Each a block, besides the elements which are drawn as one.
_NODES = BLOCKS | {"button", "option", "video", "audio"}
_LINK = _PLACE_OF["a"]
_NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_WORD = re.compile(r"[^\W\d_]+")
_WIDE = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")


@lru_cache(maxsize=10_000)
def name_parts(names: str) -> frozenset[str]:
    """Return the words that class names and ids are made of, in lower case."""
    parts = _NAME_PART.findall(names[:MAX_NAMES])
    return frozenset(part.lower() for part in parts if len(part) > 1)


def phrase_of(words: list[str]) -> str:
    """Return the letters of a short text, in lower case and without digits."""
    return " ".join(_WORD.findall(" ".join(words).lower()))


@define
class Tables:
    """What was learned of words: scores above 0 speak for content.

    ``names`` are parts of class names, ``kind_names`` the same with a score for each of
    ``names.GROUPS``, ``phrases`` whole short texts, ``words`` words of short texts,
    ``tags`` paths of two tags.
    """

    names: dict[str, float]
    kind_names: dict[str, list[float]]
    phrases: dict[str, float]
    words: dict[str, float]
    tags: dict[str, float]

    def __attrs_post_init__(self) -> None:
        self.of_names = lru_cache(maxsize=20_000)(self._of_names)

    of_names: Any = field(init=False, eq=False)

    def _of_names(self, *names: str | None) -> tuple[float, float, frozenset[str]]:
        """Return the lowest and the highest score of the parts of names, and these."""
        parts = frozenset[str]().union(*(name_parts(name) for name in names if name))
        known = [score for part in parts if (score := self.names.get(part)) is not None]
        return min(0.0, *known, 0.0), max(0.0, *known, 0.0), parts


@define
class Node:
    """An element that holds blocks ``start`` to ``end``, exclusive."""

    element: Any
    parent: int
    start: int
    depth: int
    places: int
    low: float  # score of its names
    high: float
    low_above: float  # lowest of its own and of those above
    high_above: float
    sum_above: float
    shape: str
    parts: frozenset[str]  # of its names
    end: int = 0


@define
class Block:
    """A run of text directly in ``node``."""

    node: int
    words: int
    linked: int
    links: int
    text: str
    places: int
    first: float  # score of its first words
    phrase: float
    inline_low: float


class Walk:
    """The walk; afterwards ``nodes`` and ``blocks`` are filled."""

    def __init__(self, body: Any, tables: Tables) -> None:
        self.tables = tables
        self.nodes: list[Node] = []
        self.blocks: list[Block] = []
        self._run: list[str] = []
        self._words = self._linked = self._links = 0
        self._low = 0.0
        self._places = 0
        self._enter(body, -1, 0)

    def _enter(self, element: Any, parent: int, places: int) -> None:
        tag = element.tag
        number = len(self.nodes)
        get = element.get
        names, own, marked, role = get("class"), get("id"), get("itemprop"), get("role")
        places |= _PLACE_OF.get(tag, 0)
        if own and _CONSENT.search(own):
            places |= IN_CONSENT
        if role:
            places |= _PLACE_OF_ROLE.get(role, 0)
        if parent < 0:
            zero = (0.0,) * 5
            node = Node(element, -1, 0, 0, places, *zero, tag, NO_NAMES)
        else:
            low, high, parts = 0.0, 0.0, NO_NAMES
            if names or own or marked:
                low, high, parts = self.tables.of_names(names, own, marked)
            above = self.nodes[parent]
            node = Node(
                element,
                parent,
                len(self.blocks),
                above.depth + 1,
                places,
                low,
                high,
                min(low, above.low_above),
                max(high, above.high_above),
                above.sum_above + low + high,
                f"{tag}.{names[:60]}" if names else tag,
                parts,
            )
        self.nodes.append(node)
        text = element.text
        if text and not text.isspace():
            self._text(text, places)
        if len(element):
            self._children(element, number, places)
        if self._run:
            self._flush(number)
        else:
            self._links, self._low = 0, 0.0
        node.end = len(self.blocks)

    def _children(self, element: Any, number: int, places: int) -> None:
        for child in element:
            tag = child.tag
            if tag in SKIPPED:
                pass
            elif tag in _NODES:
                if self._run:
                    self._flush(number)
                self._links, self._low = 0, 0.0
                self._enter(child, number, places)
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
            self._low = min(self._low, self.tables.of_names(names, None, None)[0])
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
        words = text[:200].split(None, MAX_FIRST_WORDS)[:MAX_FIRST_WORDS]
        table = self.tables.words
        first = 0.0
        for word in words:
            first += table.get(word.lower(), 0.0)
        phrase = 0.0
        if len(words) <= MAX_PHRASE_WORDS:
            phrase = self.tables.phrases.get(phrase_of(words), 0.0)
        node = self.nodes[number]
        whole = self._linked == self._words
        self.blocks.append(
            Block(
                number,
                self._words,
                self._linked,
                self._links or bool(self._linked),
                text,
                node.places | (self._places & _LINK if whole else 0),
                first / (len(words) or 1),
                phrase,
                self._low,
            )
        )
        self._run = []
        self._words = self._linked = self._links = 0
        self._low = 0.0
