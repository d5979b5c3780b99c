"""Inserts the declarative shadow roots of a page where a browser draws them.

A ``template`` with ``shadowrootmode`` is what its parent, the host, shows. Each ``slot`` in
the template shows the children of the host that name it (HTML, 4.12.3 and 4.12.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lxml import etree

from scraper_service.content.passes import elements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.losses import Losses

MAX_ROOTS = 2_000  # of a page
MIN_TEXT = 12  # characters of a text that counts as content
TOO_MANY = f"Only the first {MAX_ROOTS} shadow roots of a page are read."
NO_SLOT = "Its shadow root has no slot for it, so that no browser shows it."
_MODES = frozenset({"open", "closed"})
# The elements other than custom ones that may have a shadow root (DOM, attachShadow).
_HOSTS = frozenset(
    "article aside blockquote body div footer h1 h2 h3 h4 h5 h6 header main nav p section "
    "span".split()
)
_NOT_DRAWN = ("style", "script", "template")


def open_shadow_roots(root: Any, losses: Losses) -> None:
    """Replace the content of each host by its shadow root, with the slots filled.

    Style sheets of a shadow root apply to it alone, and are dropped.
    """
    count = 0
    for template in list(elements(root, "template")):
        attributes = template.attrib
        mode = attributes.get("shadowrootmode") or attributes.get("shadowroot") or ""
        host = template.getparent()
        if mode.lower() not in _MODES or host is None or not _may_host(host.tag):
            continue
        count += 1
        if count <= MAX_ROOTS:
            _open_shadow_root(host, template, losses)
        else:
            text = " ".join("".join(template.itertext()).split())
            losses.add("shadowRoot", TOO_MANY, text=text)
    if count:
        etree.strip_tags(root, "slot")


def _may_host(tag: Any) -> bool:
    return isinstance(tag, str) and (tag in _HOSTS or "-" in tag)


def _open_shadow_root(host: Any, template: Any, losses: Losses) -> None:
    given: dict[str, list[Any]] = {}
    for node in _nodes(host):
        if node is not template:
            name = "" if isinstance(node, str) else node.attrib.pop("slot", "")
            given.setdefault(name, []).append(node)
    slots = []
    for element in _own_elements(template):
        if element.tag == "slot":
            slots.append(element)
        elif element.tag == "style":
            element.text = None
    _set_nodes(host, _nodes(template))
    for slot in slots:
        nodes = given.get(slot.attrib.pop("name", ""), [])
        if any(not isinstance(node, str) or node.strip() for node in nodes):
            slot.text = None
            del slot[:]
            _set_nodes(slot, nodes)
            nodes.clear()
    left = [node for nodes in given.values() for node in nodes]
    text = " ".join(" ".join(map(_text_of, left)).split())
    if len(text) >= MIN_TEXT:
        losses.add("hiddenPart", NO_SLOT, text=text, near=host)


def _nodes(parent: Any) -> list[Any]:
    """Take the texts and elements out of ``parent``, in their order."""
    nodes: list[Any] = [parent.text] if parent.text else []
    parent.text = None
    for child in list(parent):
        tail, child.tail = child.tail, None
        nodes.append(child)
        if tail:
            nodes.append(tail)
    del parent[:]
    return nodes


def _set_nodes(parent: Any, nodes: list[Any]) -> None:
    """Put nodes into an element without content."""
    last = None
    for node in nodes:
        if not isinstance(node, str):
            parent.append(node)
            last = node
        elif last is None:
            parent.text = (parent.text or "") + node
        else:
            last.tail = (last.tail or "") + node


def _own_elements(template: Any) -> Iterator[Any]:
    """Yield the elements of a shadow root, without those of templates inside."""
    waiting = list(reversed(template))
    while waiting:
        element = waiting.pop()
        yield element
        if element.tag != "template":
            waiting += reversed(element)


def _text_of(node: Any) -> str:
    if isinstance(node, str):
        return node
    if not isinstance(node.tag, str) or node.tag in _NOT_DRAWN:
        return ""
    return "".join(node.itertext())
