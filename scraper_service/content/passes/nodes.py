"""The elements of a page as elements of lxml.

``nodes.pyx`` has the same names for the nodes of libxml2. A page has no comments and no
processing instructions, so that every child is an element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

Node = Any
Element = Any
Document = Any
Spans = Any  # the writer of Markdown, an InlineRun
NULL = None  # follows the last node
#: What :func:`text_of` and :func:`tail_of` return for white space.
BLANK = " "
# What ``markdown_walk.py`` writes for a tag in place of a writer in Python.
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
    """Return the element behind ``node`` in document order; NULL at the end of ``root``."""
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
    """Return the text behind the element; BLANK for white space, else None."""
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
