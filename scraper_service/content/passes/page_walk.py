"""Walks over a page that find its parts, elements and texts, and their surroundings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.content.passes.python_forms import (
    BLANK,
    NULL,
    OTHER_URL,
    ROOTED_URL,
    AttributeNames,
    Document,
    Element,
    HidingSigns,
    NameParts,
    Node,
    TagNames,
    Tags,
    TextSigns,
    Whole,
    attribute,
    attributes_of,
    cclass,
    cfunc,
    document_of,
    element_of,
    first_child,
    has_attributes,
    key_of,
    may_begin_word,
    next_element,
    next_sibling,
    node_of,
    parent_of,
    set_value,
    tail_of,
    text_of,
    url_kind,
    words_inside,
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


def classed(
    root: Element,
    is_wanted: Callable[[str], bool],
    parts: Collection[str],
    *tags: str,
    by: str = "class",
) -> list[Any]:
    """Return the elements with some tags for whose class ``is_wanted`` returns True.

    Each such class has one of ``parts``, which are in lower case. ``by`` is another
    attribute to use instead of the class.
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
    """Return the element after ``node`` and all inside it; NULL at the end of ``top``."""
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

    At most ``left`` elements are examined, and ``after_heading`` after the first ``h1``.
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
