"""The walk that writes elements as Markdown.

It writes texts, blocks, lists, links and emphasis. Writers in Python write all other
elements; see ``markdown/spans.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.content.passes.python_forms import (
    BLANK,
    BLOCK,
    IMAGE,
    LINE_BREAK,
    LINK,
    LISTING,
    NULL,
    SPAN,
    STRONG_TEXT,
    STRUCK_TEXT,
    Document,
    Element,
    NameParts,
    Node,
    Spans,
    TagNames,
    Whole,
    add_texts,
    attribute,
    ccall,
    cclass,
    cfunc,
    document_of,
    element_of,
    first_child,
    is_finished,
    is_safe_url,
    next_element,
    next_sibling,
    node_of,
    simple_text,
    tail_of,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection

# The lines from here on are compiled.

MAX_ROLE_NAMES = 300  # characters of a class that may have a role
LEAST_COPIED_SPACES = 2  # in the text of an image that is not repeated
LONE_SIGNS = 3  # characters of a paragraph that may be a lone separator
# The marks of ``markdown/inline.py``.
_BREAK_MARK, _APART_MARK = "\ue066", "\ue068"
_BLANKS_AROUND = f" {_BREAK_MARK}{_APART_MARK}"
_MARK_PAIRS = (("\ue060", "\ue061"), ("\ue062", "\ue063"), ("\ue064", "\ue065"))
_EMPHASIS_MARKS = frozenset("\ue060\ue061\ue062\ue063\ue064\ue065")
_LIST_TAGS = frozenset({"ul", "ol", "menu", "dir"})
_LIST_WRAPPERS = frozenset({"li", "div", "span", "nav", "section"})
_OBJECT_TAGS = frozenset({"img", "input", "math", "video", "audio", "hr"})
_TITLE_TAGS = frozenset({"h1"})
_IMAGE_TAGS = frozenset({"img"})
_ITEM_TAGS = frozenset({"li"})
# Class attributes with a role have one of these parts; see ``html/document.py``.
_ROLE_PARTS = NameParts(
    *("katex", "mathjax", "admonition", "markdown-alert", "callout", "notecard")
)
# The same for images of emoji; see ``markdown/spans.py``.
_SIGN_PARTS = NameParts("emoji", "smil")


@cclass
class _Writing:
    """What the functions of the walk need."""

    spans: Spans
    run: list
    writers: dict
    skipped: frozenset
    tags: TagNames
    document: Document
    role_parts: NameParts
    sign_parts: NameParts
    max_depth: Whole
    is_main: bool

    def __init__(self, spans: Spans, element: Element) -> None:
        self.spans = spans
        self.run = spans.run
        self.writers = spans.writers
        self.skipped = spans.skipped
        self.tags = spans.tags
        self.document = document_of(element)
        self.role_parts = _ROLE_PARTS
        self.sign_parts = _SIGN_PARTS
        self.max_depth = spans.max_depth
        self.is_main = spans.is_main


def write_content(spans: Spans, element: Element) -> None:
    """Write the content of an element."""
    depth = spans.depth
    _write_children(_Writing(spans, element), node_of(element), depth)
    spans.depth = depth


def write_element(spans: Spans, element: Element) -> None:
    """Write an element."""
    depth = spans.depth
    _write_element(_Writing(spans, element), node_of(element), depth)
    spans.depth = depth


def write_strong(spans: Spans, element: Element) -> None:
    """Write the content of an element in bold type."""
    depth = spans.depth
    _write_emphasis(_Writing(spans, element), node_of(element), STRONG_TEXT, depth)
    spans.depth = depth


def write_item(spans: Spans, element: Element, own: Any) -> None:
    """Write a ``li`` as an item of the list ``own``."""
    depth = spans.depth
    _write_list_item(_Writing(spans, element), node_of(element), own, depth)
    spans.depth = depth


@cfunc
def _write_children(writing: _Writing, node: Node, depth: Whole) -> None:
    _write_text(writing, text_of(node))
    child: Node = first_child(node)
    if depth >= writing.max_depth:
        parts: list = []
        while child is not NULL:
            add_texts(child, parts)
            child = next_sibling(child)
        if parts:
            writing.spans.text(" ".join(parts))
        return
    while child is not NULL:
        _write_element(writing, child, depth)
        _write_text(writing, tail_of(child))
        child = next_sibling(child)


@cfunc
def _write_element(writing: _Writing, node: Node, depth: Whole) -> None:
    """Write an element inside an element at ``depth``."""
    write = writing.writers.get(writing.tags.of(node))
    if write is None:
        _write_children(writing, node, depth + 1)
    elif not isinstance(write, int):
        writing.spans.depth = depth + 1
        write(writing.spans, element_of(writing.document, node))
    else:
        _write_kind(writing, node, write, depth + 1)


@cfunc
def _write_kind(writing: _Writing, node: Node, kind: Whole, depth: Whole) -> None:
    """Write an element of a kind that has no writer in Python."""
    if kind == BLOCK:
        _write_block(writing, node, depth)
    elif kind == SPAN:
        _write_span(writing, node, depth)
    elif kind == LINK:
        _write_link(writing, node, depth)
    elif kind == LISTING:
        _write_list(writing, node, depth)
    elif kind == IMAGE:
        _write_image(writing, node, depth)
    elif kind == LINE_BREAK:
        _break_line(writing)
    else:
        _write_emphasis(writing, node, kind, depth)


@cfunc
def _write_text(writing: _Writing, text: str | None) -> None:
    if text is BLANK:
        if writing.run:
            writing.run.append(BLANK)
    elif text is not None:
        made = simple_text(text, writing.spans.in_link)
        if made is None or made[0] in "([:":
            writing.spans.text(text)
        else:
            writing.run.append(made)


@cfunc
def _write_block(writing: _Writing, node: Node, depth: Whole) -> None:
    """Write an element that begins and ends a paragraph."""
    spans: Spans = writing.spans
    if spans.flat is None and _role(writing, node) is not None:
        spans.depth = depth
        spans.block(element_of(writing.document, node))
        return
    if writing.run:
        end_paragraph(spans)
    _write_children(writing, node, depth)
    if writing.run:
        end_paragraph(spans)


@cfunc
def _write_span(writing: _Writing, node: Node, depth: Whole) -> None:
    """Write a ``span``, which may be a rendered formula."""
    if _role(writing, node) in writing.spans.maths_roles:
        writing.spans.depth = depth
        writing.spans.formula(element_of(writing.document, node))
    else:
        _write_children(writing, node, depth)


@cfunc
def _write_image(writing: _Writing, node: Node, depth: Whole) -> None:
    """Write an image; an image that is unusual in any way is written in Python."""
    spans: Spans = writing.spans
    image = _plain_image(writing, node)
    if image is None:
        spans.depth = depth
        spans.image(element_of(writing.document, node))
        return
    run: list = writing.run
    last: Whole = len(run) - 1
    if (
        spans.is_main
        and last > 0
        and run[last - 1] == image
        and run[last] == _APART_MARK
        and image.partition("](")[0].count(" ") >= LEAST_COPIED_SPACES
    ):
        return  # a copy for another screen size; rating stars have shorter texts
    if not spans.in_link:
        run.append(_APART_MARK)
    run.append(image)
    run.append(_APART_MARK)


@cfunc
def _plain_image(writing: _Writing, node: Node) -> Any:
    """Return an image as Markdown; None if its URL or its text may need a change."""
    source = attribute(node, "src")
    if source is None or writing.sign_parts.are_in(node, "class"):
        return None
    source = source.strip()
    if not source or not is_safe_url(source) or source[:5].lower() == "data:":
        return None
    alt = simple_text(attribute(node, "alt") or "", True)
    if alt is None or attribute(node, "width") == "1":
        return None
    alt = alt.strip()
    if not alt and writing.is_main:
        return None  # a placeholder perhaps
    return f"![{alt}]({source})"


@cfunc
def _role(writing: _Writing, node: Node) -> object:
    """Return the role that the class of an element gives to it, or None."""
    if not writing.role_parts.are_in(node, "class"):
        return None
    names = attribute(node, "class")
    return None if names is None else writing.spans.role_of(names[:MAX_ROLE_NAMES])


@cfunc
def _break_line(writing: _Writing) -> None:
    """Write a line break; a second line break ends the paragraph."""
    run: list = writing.run
    spans: Spans = writing.spans
    if not run:
        return
    last: Whole = len(run) - 1
    again = run[last] == _BREAK_MARK or (
        last > 0 and run[last] == " " and run[last - 1] == _BREAK_MARK
    )
    if again and not spans.in_link and spans.flat is None and not spans.open_marks:
        end_paragraph(spans)
    else:
        run.append(_BREAK_MARK)


@cfunc
def _write_emphasis(writing: _Writing, node: Node, kind: Whole, depth: Whole) -> None:
    """Mark the content as emphasised, unless it contains blocks.

    Nested emphasis of the same kind gets no second marks if the tags differ. Nor
    does nested strike-through, or nested bold type in main content.
    """
    spans: Spans = writing.spans
    tag = writing.tags.of(node)
    start, end = _MARK_PAIRS[kind - STRONG_TEXT]
    mark: Whole = len(writing.run)
    taken = spans.taken
    lines = len(spans.layout.lines)
    outer = spans.open_marks.get(start)
    if outer is not None and (
        outer != tag or kind == STRUCK_TEXT or (writing.is_main and kind == STRONG_TEXT)
    ):
        _write_children(writing, node, depth)
        return
    spans.open_marks[start] = tag
    _write_children(writing, node, depth)
    if outer is None:
        del spans.open_marks[start]
    if spans.taken != taken:
        mark = 0
        if len(spans.layout.lines) != lines:
            return
    wrap_run(writing.run, mark, start, end)


@cfunc
def _write_link(writing: _Writing, node: Node, depth: Whole) -> None:
    """Write a link; of blocks, only the first one and the first heading are links."""
    spans: Spans = writing.spans
    href = attribute(node, "href")
    if href is not None:
        href = href.strip()
    if spans.in_link or not href or href == "#":
        _write_children(writing, node, depth)
        return
    if href[0] == "#" or (writing.is_main and (spans.flat == " " or "#" in href)):
        spans.depth = depth
        spans.anchor(element_of(writing.document, node))
        return
    spans.in_link = True
    spans.link = spans.card = href
    spans.link_from = len(writing.run)
    _write_children(writing, node, depth)
    if spans.link is not None:
        end_link(spans)
    spans.in_link = False
    spans.link = None


@ccall
def end_link(spans: Spans) -> None:
    """Make a link of the run since the link began, unless that is empty."""
    run: list = spans.run
    start: Whole = spans.link_from
    url: str = spans.link
    if not is_safe_url(url):
        url = spans.destination(url)
    if not wrap_run(run, start, "[", f"]({url})"):
        return
    if _BREAK_MARK in run[start + 1]:
        run[start + 1] = run[start + 1].replace(_BREAK_MARK, " ")
    touches = run[start] == "["
    while start and run[start - 1] in _EMPHASIS_MARKS:
        start -= 1
    if touches and start and run[start - 1].endswith("!"):
        run[start - 1] = f"{run[start - 1].removesuffix('!')}\\!"
    spans.link = None


@ccall
def wrap_run(run: list[str], mark: Whole, start: str, end: str) -> bool:
    """Put marks around the run since ``mark``, but inside its outer white space."""
    text: str = run[mark] if len(run) == mark + 1 else "".join(run[mark:])
    core: str = text.strip(_BLANKS_AROUND)
    if not core:
        return False
    if len(core) != len(text):
        before, _, after = text.partition(core)
        start, end = before + start, end + after
    run[mark:] = [start, core, end]
    return True


@ccall
def take_run(spans: Spans, line_break: str) -> str:
    """Return the collected Markdown, and start a new run."""
    run: list = spans.run
    if spans.link is not None:
        end_link(spans)
        spans.link_from = 0
    spans.taken += 1
    text: str = run[0] if len(run) == 1 else "".join(run)
    text = text.strip(_BLANKS_AROUND)
    run.clear()
    return text if is_finished(text) else str(spans.finish(text, line_break))


@ccall
def end_paragraph(spans: Spans) -> None:
    """End a paragraph if text was collected."""
    run: list = spans.run
    if not run:
        return
    flat = spans.flat
    if flat is not None:
        run.append(flat)
        return
    text = take_run(spans, "  \n")
    if not text:
        return
    layout: Any = spans.layout
    if spans.is_main and (len(text) <= LONE_SIGNS or text[:2] == "!["):
        spans.short_paragraph(text)
    elif layout.levels:
        layout.paragraph(text)
    else:
        lines: list = layout.lines
        if lines and not layout.joins:
            lines.append("")
        layout.joins = False
        lines.append(text)


@cfunc
def _write_list(writing: _Writing, node: Node, depth: Whole) -> None:
    """Write a list; text between its items stays between them.

    A list that contains the page's title is layout.
    """
    spans: Spans = writing.spans
    is_main = writing.is_main
    tags: TagNames = writing.tags
    if spans.flat is not None or (is_main and _holds_tag(node, _TITLE_TAGS, tags)):
        _write_block(writing, node, depth)
        return
    end_paragraph(spans)
    if is_main and _is_gallery(node, tags):
        spans.depth = depth
        spans.gallery(element_of(writing.document, node))
        return
    _write_text(writing, text_of(node))
    is_numbered = tags.of(node) == "ol" or _is_drawn_with_numbers(node)
    own: Any = spans.layout.begin_list(
        tight=not _has_paragraphs(node, tags),
        number=spans.number(attribute(node, "start"), 1) if is_numbered else None,
    )
    child: Node = first_child(node)
    while child is not NULL:
        is_item: bool = tags.of(child) == "li"
        inner: Node = _only_list(child, writing) if is_main and is_item else child
        if tags.of(inner) in _LIST_TAGS:
            _write_list_in_list(writing, inner, own, depth)
        elif is_item and not (
            spans.notes.awaited
            or (own.number is not None and attribute(child, "value"))
        ):
            _write_list_item(writing, child, own, depth)
        elif is_item or not _holds_tag(child, _ITEM_TAGS, tags):
            spans.depth = depth
            spans.item_of(element_of(writing.document, child), own)
        else:
            _write_block(writing, child, depth)
        tail = tail_of(child)
        if tail is not None and tail is not BLANK:
            _write_text(writing, tail)
            own.count = 0
        child = next_sibling(child)
    end_paragraph(spans)
    spans.layout.end_list(own)


@cfunc
def _is_drawn_with_numbers(node: Node) -> bool:
    """Return True if the style of a list gives decimal numbers to its items."""
    style = attribute(node, "style")
    return style is not None and "list-style" in style and "decimal" in style


@cfunc
def _write_list_in_list(writing: _Writing, node: Node, own: Any, depth: Whole) -> None:
    """Write a list directly inside a list, as part of the previous item."""
    if not own.count:
        _write_list(writing, node, depth)
        return
    spans: Spans = writing.spans
    end_paragraph(spans)
    spans.layout.push(spans.list_level(own))
    _write_list(writing, node, depth)
    spans.layout.levels.pop()


@cfunc
def _write_list_item(writing: _Writing, node: Node, own: Any, depth: Whole) -> None:
    spans: Spans = writing.spans
    count = own.count
    end_paragraph(spans)
    spans.layout.push(spans.item_level(own))
    _write_children(writing, node, depth)
    end_paragraph(spans)
    spans.layout.levels.pop()
    if own.number is not None and own.count > count:
        own.number += 1


@cfunc
def _only_list(item: Node, writing: _Writing) -> Node:
    """Return the list that is an item's whole content, as for indents; else the item."""
    inner: Node = item
    tags: TagNames = writing.tags
    while tags.of(inner) not in _LIST_TAGS:
        if tags.of(inner) not in _LIST_WRAPPERS or _is_telling_text(text_of(inner)):
            return item
        full: Node = NULL
        child: Node = first_child(inner)
        while child is not NULL:
            if _has_list_content(child, writing):
                if full is not NULL:
                    return item
                full = child
            child = next_sibling(child)
        if full is NULL or _is_telling_text(tail_of(full)):
            return item
        inner = full
    return inner


@cfunc
def _is_telling_text(text: str | None) -> bool:
    return text is not None and text is not BLANK


@cfunc
def _has_list_content(node: Node, writing: _Writing) -> bool:
    """Return True if an element has content, or text follows it."""
    if _is_telling_text(tail_of(node)):
        return True
    if writing.tags.of(node) in writing.skipped:
        return False
    inner: Node = node
    while inner is not NULL:
        if (
            _is_telling_text(text_of(inner))
            or (inner is not node and _is_telling_text(tail_of(inner)))
            or writing.tags.of(inner)
            in (_IMAGE_TAGS if inner is node else _OBJECT_TAGS)
        ):
            return True
        inner = next_element(inner, node)
    return False


@cfunc
def _is_gallery(node: Node, tags: TagNames) -> bool:
    """Return True if an element contains pictures, but no text."""
    found: bool = False
    inner: Node = node
    while inner is not NULL:
        if _is_telling_text(text_of(inner)):
            return False
        if inner is not node:
            if _is_telling_text(tail_of(inner)):
                return False
            if tags.of(inner) in _IMAGE_TAGS:
                found = True
        inner = next_element(inner, node)
    return found


@cfunc
def _has_paragraphs(node: Node, tags: TagNames) -> bool:
    """Return True if a child of a list contains a paragraph itself."""
    child: Node = first_child(node)
    while child is not NULL:
        inner: Node = first_child(child)
        while inner is not NULL:
            if tags.of(inner) == "p":
                return True
            inner = next_sibling(inner)
        child = next_sibling(child)
    return False


@cfunc
def _holds_tag(node: Node, wanted: Collection[str], tags: TagNames) -> bool:
    """Return True if an element has a descendant with one of the tags."""
    inner: Node = next_element(node, node)
    while inner is not NULL:
        if tags.of(inner) in wanted:
            return True
        inner = next_element(inner, node)
    return False
