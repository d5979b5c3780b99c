"""Walks over a page that find elements and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.content.passes.arrays import Whole, cfunc
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
    has_attributes,
    next_element,
    next_sibling,
    node_of,
    tail_of,
    text_of,
)
from scraper_service.content.passes.page_nodes import (
    AttributeNames,
    HidingSigns,
    NameParts,
    Tags,
    TextSigns,
    parent_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

# The lines from here on are compiled.


def classed(
    root: Element,
    is_wanted: Callable[[str], bool],
    parts: Collection[str],
    *tags: str,
    by: str = "class",
) -> list[Any]:
    """Return the elements with some tags for whose class ``is_wanted`` returns True.

    Each such class has one of ``parts``, which are in lower case. ``by`` is another
    attribute to use in place of the class.
    """
    top: Node = node_of(root)
    node: Node = top
    document: Document = document_of(root)
    wanted: Tags = Tags(tags)
    class_parts: NameParts = NameParts(*parts)
    found: list = []
    while node is not NULL:
        if wanted.have(node) and class_parts.are_in(node, by):
            names = attribute(node, by)
            if names is not None and is_wanted(names):
                found.append(element_of(document, node))
        node = next_element(node, top)
    return found


def marked(
    root: Element,
    tags: Collection[str],
    attributes: Collection[str],
    *,
    class_parts: Collection[str] = (),
    image_parts: Collection[str] = (),
    role_parts: Collection[str] = (),
    itemprop_parts: Collection[str] = (),
    closed: Collection[str] = (),
) -> list[Any]:
    """Return the elements with some tags or attributes, or parts of an attribute's value.

    ``image_parts`` are parts of the class of an ``img``. Other elements may be among the
    result, too. Elements inside of those with a tag in ``closed`` are not.
    """
    top: Node = node_of(root)
    node: Node = top
    document: Document = document_of(root)
    wanted: Tags = Tags(tags)
    images: Tags = Tags(("img",))
    ends: Tags = Tags(closed)
    names: AttributeNames = AttributeNames(
        attributes,
        {"class": class_parts, "role": role_parts, "itemprop": itemprop_parts},
    )
    image_classes: NameParts = NameParts(*image_parts)
    found: list = []
    while node is not NULL:
        if wanted.have(node) or (
            has_attributes(node)
            and (
                names.on(node)
                or (images.have(node) and image_classes.are_in(node, "class"))
            )
        ):
            found.append(element_of(document, node))
        node = element_behind(node, top) if ends.have(node) else next_element(node, top)
    return found


@cfunc
def element_behind(node: Node, top: Node) -> Node:
    """Return the element behind ``node`` and all inside it; NULL at the end of ``top``."""
    sibling: Node = NULL
    while node is not top:
        sibling = next_sibling(node)
        if sibling is not NULL:
            return sibling
        node = parent_of(node)
    return NULL


def values_in(root: Element, tag: str, name: str) -> list[str]:
    """Return the distinct values of an attribute of elements with a tag, in order."""
    top: Node = node_of(root)
    node: Node = top
    tags: TagNames = TagNames()
    found: dict = {}
    while node is not NULL:
        if tags.of(node) == tag:
            value = attribute(node, name)
            if value is not None:
                found[value] = None
        node = next_element(node, top)
    return list(found)


def suspects(
    body: Element,
    is_watched: Callable[[Any], bool],
    ids: Collection[str],
    watched_names: Collection[str],
    styles: Collection[str],
) -> list[Any]:
    """Return the elements that may be hidden; see ``html/hidden_text.py``.

    Each is a tuple: the element, its class, whether ``is_watched`` returns True for its
    class, its id if among ``ids``, its style, and its attribute ``hidden``. Elements may be
    left out whose class has none of ``watched_names`` and whose style has none of the parts
    ``styles``.
    """
    signs: HidingSigns = HidingSigns(watched_names, NameParts(*styles), bool(ids))
    root: Node = node_of(body)
    node: Node = root
    document: Document = document_of(body)
    harmless: set = {None}
    found: list = []
    while node is not NULL:
        if signs.on(node):
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


def visible_text(root: Element, invisible: Collection[str], most: Whole) -> str:
    """Return the text outside elements whose tags are ``invisible``, with single spaces.

    It ends with the text that exceeds ``most`` characters.
    """
    parts: list = []
    tags: TagNames = TagNames()
    if tags.of(node_of(root)) not in invisible:
        _add_visible(node_of(root), parts, most, invisible, tags)
    return " ".join(parts)


@cfunc
def _add_visible(
    node: Node, parts: list, left: Whole, invisible: Collection[str], tags: TagNames
) -> Whole:
    left = _add_spaced(text_of(node), parts, left)
    child: Node = first_child(node)
    while child is not NULL and left >= 0:
        if tags.of(child) not in invisible:
            left = _add_visible(child, parts, left, invisible, tags)
        if left >= 0:
            left = _add_spaced(tail_of(child), parts, left)
        child = next_sibling(child)
    return left


@cfunc
def _add_spaced(text: str | None, parts: list, left: Whole) -> Whole:
    if text is not None and text is not BLANK:
        words: str = " ".join(text.split())
        if words:
            parts.append(words)
            left -= len(words) + 1
    return left


def signs(
    body: Element,
    *,
    kind_of: Callable[[Any], Any],
    kind_of_attributes: Callable[[Any, Any], Any],
    neither: Any,
    parts: Collection[str],
    author_path: str,
    dated: Collection[str],
    plain: Collection[str],
    naming: Collection[str],
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
    names: AttributeNames = AttributeNames(naming)
    class_parts: NameParts = NameParts(*parts)
    url_parts: NameParts = NameParts(author_path)
    texts: TextSigns = TextSigns(longest, starts)
    found: list = []
    is_early = True
    # Of each tag, what may mark its elements besides the class: 0 for attributes.
    marks: dict = {
        **dict.fromkeys(plain, 1),
        **dict.fromkeys(dated, 2),
        "a": 3,
        "h1": 4,
    }
    mark: Whole
    while node is not NULL:
        left -= 1
        if not left:
            break
        text = texts.of(node)
        tail = texts.behind(node)
        kind = neither
        if class_parts.are_in(node, "class"):
            kind = kind_of(attribute(node, "class"))
        mark = marks.get(tags.of(node), 0)
        if mark == 4:
            if is_early:
                is_early = False
                left = min(left, after_heading)
        elif mark == 2:
            kind = False, True
        elif mark == 3:
            if url_parts.are_in(node, "href"):
                path = attribute(node, "href") or ""
                if author_path in path:  # not in other capitals, as in "/AuthorGuide"
                    kind = True, kind[1]
            if class_parts.are_in(node, "rel") or class_parts.are_in(node, "itemprop"):
                kind = kind_of_attributes(element_of(document, node), kind)
        elif mark == 0 and names.on(node):
            kind = kind_of_attributes(element_of(document, node), kind)
        if text is not None or tail is not None or mark == 4 or kind is not neither:
            found.append((element_of(document, node), text, tail, kind))
        node = next_element(node, root)
    return found
