"""The Python forms of what the ``.pyx`` files define for compiled code.

Nodes are elements of lxml. A page has no comments and no processing instructions, so that
every child is an element. Arrays of numbers are lists, trees are operations of numpy, and
tables of words are dictionaries.
"""

from __future__ import annotations

import re
from itertools import count
from math import log1p
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

__all__ = ["log1p"]


# -- arrays of numbers -----------------------------------------------------------------

T = TypeVar("T")
COLUMNS_AT_ONCE = 2_048  # bounds the memory of a page with many blocks

Whole = int
Real = float
Wholes = Any
Reals = Any
Grid = Any


def cclass(made: T) -> T:
    """Mark a class that is compiled to a structure."""
    return made


def ccall(made: T) -> T:
    """Mark a function that is compiled to one of C, and that Python can call too."""
    return made


def cfunc(made: T) -> T:
    """Mark a function that is compiled to one of C; only compiled code can call it."""
    return made


def wholes(values: list[int]) -> Wholes:
    """Return an array of integers."""
    return values[:]


def whole_zeros(count: int) -> Wholes:
    return [0] * count


def reals(values: list[float]) -> Reals:
    """Return an array of real numbers."""
    return values[:]


def zeros(count: int) -> Reals:
    return [0.0] * count


def grid(rows: int, columns: int) -> Grid:
    """Return a table of zeros."""
    return [[0.0] * columns for _ in range(rows)]


def tree_sums(values: Any, rows: Any, borders: Any, leaves: Any, depth: int) -> Any:
    """Return for each column of ``values`` the sum of its leaves of all trees."""
    import numpy as np  # noqa: PLC0415  # only converter processes load it

    parts = [np.zeros(0)]
    offsets = np.arange(len(leaves))[:, None] * leaves.shape[1]
    for start in range(0, values.shape[1], COLUMNS_AT_ONCE):
        part = values[:, start : start + COLUMNS_AT_ONCE].astype(np.float32)
        met = (part.take(rows, axis=0) > borders[:, None]).view(np.uint8)
        leaf = np.zeros((len(leaves), part.shape[1]), dtype=np.intp)
        for level in range(depth):
            leaf |= met[level::depth].astype(np.intp) << level
        parts.append(leaves.take(leaf + offsets).sum(axis=0))
    return np.concatenate(parts)


def keep_trees_together() -> bool:
    """Return False: libxml2 takes its memory as before."""
    return False


# -- nodes -----------------------------------------------------------------------------

Node = Any
Element = Any
Document = Any
Spans = Any  # the writer of Markdown, an InlineRun
NULL = None  # follows the last node
#: What :func:`text_of` and :func:`tail_of` return for white space.
BLANK = " "
# What ``markdown_walk.py`` writes for a tag instead of a writer in Python.
BLOCK, SPAN, LINK, LISTING, LINE_BREAK, STRONG_TEXT, EM_TEXT, STRUCK_TEXT = range(8)
IMAGE = 8


class InlineRun:
    """The state of the writer of Markdown; see ``markdown/spans.py``."""

    run: list[str]
    flat: str | None
    link: str | None
    link_from: int
    card: str | None
    in_link: bool
    is_main: bool
    taken: int
    depth: int
    open_marks: dict[str, str]
    layout: Any


class TagNames:
    """The tag names of the nodes of one document."""

    def of(self, node: Node) -> str:
        """Return the tag name of a node."""
        return str(node.tag)


class Finder:
    """A predicate: True if an element has a descendant with one of the tags."""

    def __init__(self, *tags: str) -> None:
        self.tags = tags

    def __call__(self, element: Element) -> bool:
        return next(element.iterdescendants(*self.tags), None) is not None


def elements(root: Element, *tags: str) -> Iterable[Element]:
    """Return the elements with these tags in document order, including ``root``."""
    return root.iter(*tags)  # type: ignore[no-any-return]


def texts_in(element: Element) -> Iterable[str]:
    """Return all texts in ``element``, in document order."""
    return element.itertext()  # type: ignore[no-any-return]


def with_text(elements: list[Element], longest: int, *parts: str) -> list[Element]:
    """Return the elements whose text has one of ``parts``, without most longer texts."""
    return [
        element
        for element in elements
        if (text := element.text)
        and len(text) <= longest
        and any(part in text for part in parts)
    ]


def node_of(element: Element) -> Node:
    return element


def document_of(_element: Element) -> Document:
    return None


def element_of(_document: Document, node: Node) -> Element:
    return node


def next_element(node: Node, root: Node) -> Node:
    """Return the element after ``node`` in document order; NULL at the end of ``root``."""
    if len(node):
        return node[0]
    while node is not root:
        sibling = node.getnext()
        if sibling is not None:
            return sibling
        node = node.getparent()
    return NULL


def first_child(node: Node) -> Node:
    return node[0] if len(node) else NULL


def next_sibling(node: Node) -> Node:
    return node.getnext()


def attribute(node: Node, name: str) -> str | None:
    return node.get(name)  # type: ignore[no-any-return]


def naming_attributes(
    node: Node,
) -> tuple[str | None, str | None, str | None, str | None, str | None]:
    """Return the class, the id, the itemprop, a label, and the role."""
    get = node.get
    label = get("data-testid") or get("aria-label")
    return get("class"), get("id"), get("itemprop"), label, get("role")


def has_attributes(node: Node) -> bool:
    return bool(node.attrib)


def text_of(node: Node) -> str | None:
    """Return the text before the first child; BLANK for white space, else None."""
    return _text(node.text)


def tail_of(node: Node) -> str | None:
    """Return the text after the element; BLANK for white space, else None."""
    return _text(node.tail)


def _text(text: str | None) -> str | None:
    if not text:
        return None
    return BLANK if text.isspace() else text


def add_texts(node: Node, parts: list[str]) -> None:
    """Add all texts in the element to ``parts``."""
    parts += node.itertext()


def words_in(text: str) -> int:
    """Return the number of words, as ``split`` counts them."""
    return len(text.split())


def words_inside(node: Node) -> int:
    """Return the number of words in an element, each text split by itself."""
    return sum(len(text.split()) for text in texts_in(node))


def may_begin_word(node: Node) -> bool:
    """Return False if the text of an element is empty, or begins with a sign or a space."""
    first = next(filter(None, texts_in(node)), "")[:1]
    return first > "\x7f" or first.isalnum() or first in {"$", "_"}


# -- further access to nodes -----------------------------------------------------------

OTHER_URL, COMPLETE_URL, ROOTED_URL = 0, 1, 2

_COMPLETE = re.compile(r"https?://[!-\[\]-~]*\Z")  # without backslashes
# URLs that begin at the root, without parts to resolve or to tidy.
_ROOTED = re.compile(
    r"/(?:[\w-](?:(?![?#;\\])[!-~])*(?:\?(?:(?![?#])[!-~])+)?)?\Z", re.ASCII
)


def parent_of(node: Node) -> Node:
    return node.getparent()


def key_of(node: Node) -> Any:
    """Return a key for the node in dictionaries."""
    return node


def attributes_of(node: Node) -> dict[str, str]:
    """Return the attributes of a node by name."""
    return dict(node.attrib)


def set_value(_document: Any, node: Node, name: str, value: str) -> None:
    """Set an attribute of an element that has it already; no value has controls."""
    node.set(name, value)


class Tags:
    """A few tag names."""

    def __init__(self, tags: Collection[str]) -> None:
        self._tags = tags

    def have(self, node: Node) -> bool:
        """Return True for a node with one of the tags."""
        return node.tag in self._tags


class AttributeNames:
    """A few attributes by name, or by parts of the value, for the nodes of one document."""

    def __init__(
        self, names: Collection[str], parts: dict[str, Collection[str]] | None = None
    ) -> None:
        self._names = frozenset(names)
        self._parts = [(name, NameParts(*some)) for name, some in (parts or {}).items()]

    def on(self, node: Node) -> bool:
        """Return True if a node has one of the attributes."""
        return not self._names.isdisjoint(node.keys()) or any(
            parts.are_in(node, name) for name, parts in self._parts
        )


class NameParts:
    """A few parts of names, in lower case; each has two letters or more."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts

    def are_in(self, node: Node, name: str) -> bool:
        """Return True if an attribute has one of the parts, in any case."""
        value = node.get(name, "").lower()
        return any(part in value for part in self._parts)


class HidingSigns:
    """Finds the attributes of a node that may hide it."""

    def __init__(self, *_signs: Any) -> None:
        pass

    def on(self, node: Node) -> bool:
        """Return False if no attribute of a node hides it."""
        return bool(node.attrib)


class TextSigns:
    """Finds short texts that contain a year, or begin with one of some pairs of letters.

    The pairs are in ASCII.
    """

    def __init__(self, longest: int, starts: Collection[str]) -> None:
        self._longest = longest
        self._starts = starts

    def of(self, node: Node) -> str | None:
        """Return the text before the first child if it has a sign, else None."""
        return self._checked(text_of(node))

    def behind(self, node: Node) -> str | None:
        """Return the text after the element if it has a sign, else None."""
        return self._checked(tail_of(node))

    def _checked(self, text: str | None) -> str | None:
        if text is None or len(text) > self._longest:
            return None
        has_year = len(text) > 4 and ("20" in text or "19" in text)
        return text if has_year or text.lstrip()[:2] in self._starts else None


def url_kind(value: str) -> int:
    """Return COMPLETE_URL or ROOTED_URL for plain URLs of these kinds, else OTHER_URL."""
    if _COMPLETE.match(value):
        return COMPLETE_URL
    if _ROOTED.match(value) and "/." not in value:
        return ROOTED_URL
    return OTHER_URL


# -- bytes of a page -------------------------------------------------------------------


def may_be_forbidden(_data: bytes) -> bool:
    """Return True if UTF-8 bytes may contain or reference characters that lxml refuses.

    Only the compiled form looks for them.
    """
    return True


# -- texts -----------------------------------------------------------------------------

# Texts that Markdown needs no change of, at any position.
_PLAIN = re.compile(r"(?:[^\x00- \x7f-\U0010ffff\\`*_<&~\[\]!]| (?! ))*")
_FINISHED = re.compile(r"(?![#+*>=~|:0-9-])(?:[^\n \ue060-\ue068]| (?! ))*", re.DOTALL)
_SAFE = re.compile(r"[^\x00- \x7f-\U0010ffff<>\\`|\"()\[\]&]*")
# The numbers that page builders put into the class names of their elements.
_NUMBER = re.compile(r"[_-]\d[0-9a-f]*(?=\Z|[\s_-])")
_IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def simple_text(text: str, _in_label: bool) -> str | None:
    """Return the Markdown of a text without signs to escape; None if it may have any."""
    return text if _PLAIN.fullmatch(text) else None


def is_finished(text: str) -> bool:
    """Return True if a collected paragraph is its Markdown already."""
    return _FINISHED.fullmatch(text) is not None


def is_safe_url(url: str) -> bool:
    """Return True if a URL is certainly safe between the parentheses of a link."""
    return _SAFE.fullmatch(url) is not None


def without_numbers(names: str) -> str:
    """Return names without the numbers at the ends of their parts."""
    return _NUMBER.sub("", names)


def word_counts(text: str) -> tuple[int, int]:
    """Return the number of words with letters or digits, and of ideographs outside."""
    ideographs = 0
    if not text.isascii():
        text, ideographs = _IDEOGRAPH.subn(" ", text)
    words = sum(any(map(str.isalnum, word)) for word in text.split())
    return words, ideographs


# -- tables of words -------------------------------------------------------------------

MAX_LETTERS = 200  # characters examined of a text or of names
REMEMBERED = 4_000  # names of a process whose scores are kept
_NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_LOWER_PART = re.compile(r"[a-z]{2,}")
_WORD = re.compile(r"[^\W\d_]+")


class WordTable:
    """Numbers by word; the words are in lower case."""

    def __init__(self, numbers: Mapping[str, float]) -> None:
        self.numbers = dict(numbers)


class NameScores:
    """The learned scores of names.

    ``low`` is at most 0, ``high`` at least 0. ``rows`` are the rows of ``Tables.kind_rows``
    of their parts. ``kind_low`` and ``kind_high`` are the scores on pages of a kind.
    """

    def __init__(self, low: float, high: float, rows: tuple[int, ...]) -> None:
        self.low = low
        self.high = high
        self.rows = rows
        self.kind_low = self.kind_high = 0.0
        self._page = 0

    def joined(self, other: NameScores) -> NameScores:
        """Return the scores of the names of both."""
        low, high = min(self.low, other.low), max(self.high, other.high)
        return NameScores(low, high, self.rows + other.rows)

    def take_kind(self, table: Any, chances: Any, page: int) -> None:
        """Compute ``kind_low`` and ``kind_high`` once for each page.

        ``table`` has a row of scores for each part, ``chances`` are those of its columns.
        """
        if self._page == page:
            return
        self._page = page
        scores = [0.0]
        for row in self.rows:
            score = 0.0
            for group, chance in enumerate(chances):
                score += table[row, group] * chance
            scores.append(score)
        self.kind_low, self.kind_high = min(scores), max(scores)


_pages = count(1)


def next_page() -> int:
    """Return a number that no page before had."""
    return next(_pages)


class PartScores:
    """The learned scores of the parts of names; see ``main_content/blocks.py``.

    ``parts`` has a number for each part; ``scores`` and ``rows`` have the score and the
    row of each number, or -1 for no row. ``none`` are the scores of names without a known
    part.
    """

    def __init__(
        self, parts: dict[str, int], scores: list[float], rows: list[int]
    ) -> None:
        self.none = NameScores(0.0, 0.0, ())
        self._parts = WordTable(parts)
        self._scores = scores
        self._rows = rows
        self._known: dict[str, NameScores] = {}

    def of(self, names: str) -> NameScores:
        """Return the scores of names."""
        found = self._known.get(names)
        if found is None:
            found = self._made(names)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[names] = found
        return found

    def _made(self, names: str) -> NameScores:
        numbers = part_numbers(names, self._parts)
        scores = [0.0, *(self._scores[number] for number in numbers)]
        rows = {self._rows[number] for number in numbers}
        low, high, found = min(scores), max(scores), tuple(sorted(rows - {-1}))
        return NameScores(low, high, found) if low or high or found else self.none


def name_parts(names: str) -> list[str]:
    """Return the words in class names and ids, in lower case."""
    names = names[:MAX_LETTERS]
    if names.islower():  # most are
        return _LOWER_PART.findall(names)
    parts = _NAME_PART.findall(names)
    return [part.lower() for part in parts if len(part) > 1]


def part_numbers(names: str, table: WordTable) -> list[int]:
    """Return the numbers of the known parts of class names and ids."""
    numbers = table.numbers
    return [int(numbers[part]) for part in name_parts(names) if part in numbers]


def start_scores(
    text: str, words: WordTable, phrases: WordTable, max_words: int, max_phrase: int
) -> tuple[float, float]:
    """Return the mean score of the first words of a text, and its score as a phrase.

    A text of more than ``max_phrase`` words has no score as a phrase. Digits and
    punctuation are no part of a phrase.
    """
    found = text[:MAX_LETTERS].lower().split(None, max_words)[:max_words]
    scores = words.numbers
    first = 0.0
    for word in found:
        first += scores.get(word, 0.0)
    phrase = 0.0
    if len(found) <= max_phrase:
        phrase = phrases.numbers.get(" ".join(_WORD.findall(" ".join(found))), 0.0)
    return first / (len(found) or 1), phrase
