"""The walk that writes the text of an element as Markdown."""

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
    add_texts,
    attribute,
    document_of,
    element_of,
    first_child,
    is_plain,
    next_sibling,
    node_of,
    tail_of,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

# The lines from here on are compiled.

MAX_ROLE_NAMES = 300  # characters of a class that may have a role


def write_content(spans: Any, element: Element, max_depth: Whole) -> None:
    """Write the content of an element; see ``markdown/spans.py``."""
    writers: Mapping = spans.writers
    _write_children(
        spans,
        spans.run,
        writers,
        writers["div"],
        spans.tags,
        document_of(element),
        node_of(element),
        spans.depth,
        max_depth,
    )


@cfunc
def _write_children(
    spans: Any,
    run: list,
    writers: Mapping,
    block: Any,
    tags: TagNames,
    document: Document,
    node: Node,
    depth: Whole,
    max_depth: Whole,
) -> None:
    _write_text(spans, run, text_of(node))
    child: Node = first_child(node)
    if depth >= max_depth:
        parts: list = []
        while child is not NULL:
            add_texts(child, parts)
            child = next_sibling(child)
        if parts:
            spans.text(" ".join(parts))
        return
    while child is not NULL:
        write = writers.get(tags.of(child))
        is_block: bool = write is block and _has_no_role(spans, child)
        if write is None or is_block:
            if is_block and run:
                spans.flush()
            _write_children(
                spans, run, writers, block, tags, document, child, depth + 1, max_depth
            )
            if is_block and run:
                spans.flush()
        else:
            spans.depth = depth + 1
            write(spans, element_of(document, child))
            spans.depth = depth
        _write_text(spans, run, tail_of(child))
        child = next_sibling(child)


@cfunc
def _has_no_role(spans: Any, node: Node) -> bool:
    """Return True if the class of a block has no role; see ``html/elements.py``."""
    names = attribute(node, "class")
    if names is None or spans.flat is not None:
        return True
    return spans.role_of(names[:MAX_ROLE_NAMES]) is None


@cfunc
def _write_text(spans: Any, run: list, text: str | None) -> None:
    if text is BLANK:
        if run:
            run.append(BLANK)
    elif text is not None:
        if is_plain(text):
            run.append(text)
        else:
            spans.text(text)
