"""Further access to the elements of a page, by lxml.

``page_nodes.pyx`` has the same names for the nodes of libxml2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scraper_service.content.passes.nodes import tail_of, text_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from scraper_service.content.passes.nodes import Node

OTHER_URL, COMPLETE_URL, ROOTED_URL = 0, 1, 2

_COMPLETE = re.compile(r"https?://[!-\[\]-~]*\Z")  # without backslashes
# The pattern begins with the colon, as a search for one character is far faster than one
# for many names.
_HIDING_SIGNS = re.compile(
    r":(?:(?<=[y\s]:)\s*(?:none|hidden|0\s*[;}!])|(?<=[e\s]:)\s*0|(?<=[t\s]:)\s*0\s*[;}!]"
    r"|(?<=[hp\s]:)\s*(?:rect|inset|circle)|\s*-\d{3})"
)
# URLs that begin at the root, without parts to resolve or to tidy.
_ROOTED = re.compile(
    r"/(?:[\w-](?:(?![?#;\\])[!-~])*(?:\?(?:(?![?#])[!-~])+)?)?\Z", re.ASCII
)

# URLs whose path needs no change, not even for comparisons.
_PLAIN = re.compile(r"https?://[a-z0-9.:_-]+(/[\w.~!$&*+,=:@/-]*)\Z", re.ASCII)


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
    """Finds short texts that hold a year, or begin with one of some pairs of letters.

    The pairs are in ASCII.
    """

    def __init__(self, longest: int, starts: Collection[str]) -> None:
        self._longest = longest
        self._starts = starts

    def of(self, node: Node) -> str | None:
        """Return the text before the first child if it has a sign, else None."""
        return self._checked(text_of(node))

    def behind(self, node: Node) -> str | None:
        """Return the text behind the element if it has a sign, else None."""
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


def plain_path(url: str) -> int:
    """Return where the path of a plain http(s) URL starts; 0 for others.

    Such a URL has only letters, digits and a few other characters in ASCII. The scheme and
    the host are in lower case. The path has no dot behind a slash; nothing follows it.
    """
    found = _PLAIN.match(url)
    return 0 if found is None or "/." in found[1] else found.start(1)


def hiding_signs(css: str) -> list[int]:
    """Return the places of colons in CSS behind which a value may hide an element."""
    return [sign.start() for sign in _HIDING_SIGNS.finditer(css)]
