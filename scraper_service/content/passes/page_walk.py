"""The walk over a page as it was parsed, and the surroundings of its elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.content.passes.arrays import Whole, cclass, cfunc
from scraper_service.content.passes.nodes import (
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
    may_begin_word,
    next_element,
    next_sibling,
    node_of,
    tail_of,
    words_inside,
)
from scraper_service.content.passes.page_nodes import (
    OTHER_URL,
    ROOTED_URL,
    AttributeNames,
    NameParts,
    Tags,
    attributes_of,
    key_of,
    parent_of,
    set_value,
    url_kind,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

# The lines from here on are compiled.


def page_parts(  # noqa: PLR0912, PLR0915  # a call for each element costs too much
    root: Element, most_types: Whole
) -> tuple[Any, ...]:
    """Return the parts of a page; see ``html/document.py``.

    They are the number of its levels, the values of ``base``, the attributes of ``meta``
    and ``link``, the first ``most_types`` values of ``itemtype``, the elements ``script``,
    ``h1`` and ``title``, the titles with those of ``meta``, the elements that embed
    documents, the templates of shadow roots, the elements with ``aria-rowcount``, and the
    URLs to follow.
    """
    wanted: Tags = Tags(
        "a area base embed frame h1 iframe link meta object script template title".split()
    )
    document: Document = document_of(root)
    top: Node = node_of(root)
    node: Node = top
    child: Node = NULL
    names: TagNames = TagNames()
    noted: AttributeNames = AttributeNames(("itemtype", "aria-rowcount"))
    shadow: AttributeNames = AttributeNames(("shadowrootmode", "shadowroot"))
    depth: Whole = 1
    deepest: Whole = 1
    bases: list = []
    metas: list = []
    links: list = []
    types: list = []
    scripts: list = []
    headings: list = []
    titles: list = []
    declared: list = []
    embeds: list = []
    shadows: list = []
    counted: list = []
    followed: dict = {}
    while node is not NULL:
        if has_attributes(node) and noted.on(node):
            value = attribute(node, "itemtype")
            if value is not None and len(types) < most_types:
                types.append(value)
            if attribute(node, "aria-rowcount") is not None:
                counted.append(element_of(document, node))
        if wanted.have(node):
            tag = names.of(node)
            value = None
            if tag in {"a", "area"}:
                value = attribute(node, "href")
            elif tag in {"embed", "frame", "iframe"}:
                value = attribute(node, "src")
                embeds.append(element_of(document, node))
            elif tag == "object":
                value = attribute(node, "data")
                embeds.append(element_of(document, node))
            elif tag == "base":
                bases.append(attribute(node, "href"))
            elif tag == "meta":
                found = attributes_of(node)
                metas.append(found)
                if found.get("property") == "og:title":
                    declared.append(found)
            elif tag == "link":
                found = attributes_of(node)
                links.append(found)
                if found.get("rel") in {"next", "prev"}:
                    value = found.get("href")
            elif tag == "script":
                scripts.append(element_of(document, node))
            elif tag == "template":
                if shadow.on(node):
                    shadows.append(element_of(document, node))
            elif tag == "h1":
                headings.append(element_of(document, node))
            else:
                titles.append(element_of(document, node))
                declared.append(titles[len(titles) - 1])
            if value is not None:
                followed[value] = None
        child = first_child(node)
        if child is not NULL:
            node = child
            depth += 1
            deepest = max(deepest, depth)
            continue
        while node is not NULL:
            if node is top:
                node = NULL
                break
            child = next_sibling(node)
            if child is not NULL:
                node = child
                break
            node = parent_of(node)
            depth -= 1
    found_elements = scripts, headings, titles, declared, embeds, shadows, counted
    return deepest, bases, metas, links, types, *found_elements, list(followed)


def unseparated(root: Element, *tags: str) -> list[tuple[Any, Any]]:
    """Return pairs of elements with some tags that follow each other without a text.

    The text of the second one begins with a letter, a digit or a currency.
    """
    wanted: Tags = Tags(tags)
    document: Document = document_of(root)
    top: Node = node_of(root)
    node: Node = top
    behind: Node = NULL
    found: list = []
    while node is not NULL:
        if wanted.have(node) and tail_of(node) is None:
            behind = next_sibling(node)
            if behind is not NULL and wanted.have(behind) and may_begin_word(behind):
                pair = element_of(document, node), element_of(document, behind)
                found.append(pair)
        node = next_element(node, top)
    return found


def complete_plain_urls(
    root: Element, attributes: dict, origin: str, changed: dict
) -> list[Any]:
    """Make the plain URLs in a tree absolute, and return the elements with others.

    ``attributes`` has the attribute with a URL for each tag. ``changed`` has the parts of
    URLs that do not stay as written, though they are plain. Images without a URL are
    returned too.
    """
    wanted: Tags = Tags(attributes)
    document: Document = document_of(root)
    top: Node = node_of(root)
    node: Node = top
    names: TagNames = TagNames()
    none: NameParts = NameParts()
    parts: NameParts = none
    parts_by_tag: dict = {tag: NameParts(*changed[tag]) for tag in changed}
    found: list = []
    while node is not NULL:
        if wanted.have(node):
            tag = names.of(node)
            name: str = attributes[tag]
            value = attribute(node, name)
            kind = OTHER_URL if value is None else url_kind(value)
            parts = parts_by_tag.get(tag, none)
            if tag == "video" or (kind == OTHER_URL and _is_odd(tag, value)):
                found.append(element_of(document, node))
            elif kind != OTHER_URL:
                if parts.are_in(node, name):
                    found.append(element_of(document, node))
                elif kind == ROOTED_URL:
                    set_value(document, node, name, origin + (value or ""))
        node = next_element(node, top)
    return found


@cfunc
def _is_odd(tag: str, value: str | None) -> object:
    """Return False for elements that have no URL to complete."""
    if value is None:
        return tag == "img"
    # A fragment with a slash, or that starts with "!", may be a route of a script.
    return tag != "a" or not value.startswith("#") or "/" in value or "#!" in value


def outermost(elements: Collection[Any]) -> list[Any]:
    """Return the elements that are not inside others of them, in the same order."""
    keys: set = {key_of(node_of(element)) for element in elements}
    found: list = []
    for element in elements:
        node: Node = parent_of(node_of(element))
        while node is not NULL and key_of(node) not in keys:
            node = parent_of(node)
        if node is NULL:
            found.append(element)
    return found


def word_total(element: Element) -> int:
    """Return the number of words in an element, each text split by itself."""
    return int(words_inside(node_of(element)))


def first_of_body(head: Element, kept: Collection[str]) -> int:
    """Return the number of the first child whose tag is not ``kept``; -1 without any."""
    names: TagNames = TagNames()
    child: Node = first_child(node_of(head))
    number: Whole = 0
    while child is not NULL:
        if names.of(child) not in kept:
            return number
        number += 1
        child = next_sibling(child)
    return -1


@cclass
class Surroundings:
    """Finds out whether elements are in a part of the page with a foreign subject.

    Such parts have a tag among ``outside``, or a class or id for which ``is_named``
    returns True. Parts with a heading (``has_heading``) are not foreign, nor is the footer
    of an article.
    """

    outside: Any
    is_named: Any
    has_heading: Any
    tags: TagNames
    known: dict

    def __init__(
        self,
        outside: Collection[str],
        is_named: Callable[[str], bool],
        has_heading: Callable[[Any], bool],
    ) -> None:
        self.outside = outside
        self.is_named = is_named
        self.has_heading = has_heading
        self.tags = TagNames()
        self.known = {}

    def are_foreign(self, element: Element) -> bool:
        """Return True for an element of a foreign part."""
        return bool(self._of(document_of(element), node_of(element)))

    @cfunc
    def _of(self, document: Document, node: Node) -> object:
        key = key_of(node)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._made(document, node)
        return found

    @cfunc
    def _made(self, document: Document, node: Node) -> object:
        tag = self.tags.of(node)
        if tag in self.outside and (tag != "footer" or not self._is_of_article(node)):
            return True
        if tag in {"body", "html"}:
            return False
        if has_attributes(node):
            names: str = attribute(node, "class") or ""
            own: str = attribute(node, "id") or ""
            if (names or own) and self.is_named(names + " " + own):
                element = element_of(document, node)
                return tag != "h1" and not self.has_heading(element)
        above: Node = parent_of(node)
        return False if above is NULL else self._of(document, above)

    @cfunc
    def _is_of_article(self, node: Node) -> object:
        above: Node = parent_of(node)
        while above is not NULL and self.tags.of(above) != "article":
            above = parent_of(above)
        return above is not NULL
