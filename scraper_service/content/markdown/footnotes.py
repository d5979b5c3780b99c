"""Matches footnote references with the list items that hold the footnotes."""

from __future__ import annotations

import re
from itertools import chain, dropwhile, islice
from typing import Any
from urllib.parse import unquote

LEAST_WORDS = 3  # parsers may take shorter footnotes for link definitions
_SIGNS = re.compile(r"[\w*†‡§¶]{1,20}")
_NO_LABEL = re.compile(r"[^\w-]+")


class Footnotes:
    """The footnotes of a page. References give them labels, in document order."""

    def __init__(self, body: Any) -> None:
        self._body = body
        self._is_searched = False
        #: From the first reference on: the list items that are still to be written, by id.
        self.awaited: dict[str, Any] = {}
        self._labels: dict[str, str] = {}  # by the ids of their items
        self._taken: set[str] = set()

    def label(self, link: Any) -> str | None:
        """Return the label of the footnote behind ``link``, None for an ordinary link."""
        if not _is_reference(link):
            return None
        name = unquote(link.get("href").strip()[1:])
        if name in self._labels:
            return self._labels[name]
        # Wikipedia's notes are a bibliography: cited repeatedly, with marks of their own.
        if name.startswith("cite_note"):
            return None
        if not self._is_searched:
            self._is_searched = True
            behind = dropwhile(lambda e: e is not link, self._body.iter("a", "li"))
            items = (e for e in behind if e.tag == "li")
            self.awaited = {key: item for item in items if (key := item.get("id"))}
        target = self.awaited.get(name)
        if target is None:
            return None
        if not _has_words(target):
            del self.awaited[name]  # further references need not read it
            return None
        text = "".join(link.itertext()).strip(" []()\n")
        if not _SIGNS.fullmatch(text) or text in self._taken:
            text = _NO_LABEL.sub("-", name)[:50].strip("-")
            text = text or str(len(self._labels) + 1)
        self._labels[name] = text
        self._taken.add(text)
        return text

    def label_of(self, item: Any) -> str | None:
        """Return the label of a list item that an earlier reference names, or None.

        The item is written next, so that no later reference makes a footnote of it.
        """
        name = item.get("id")
        if self.awaited.pop(name, None) is None:
            return None
        return self._labels.get(name)


def _has_words(item: Any) -> bool:
    """Return True if an element has :data:`LEAST_WORDS` words; read no more of it."""
    texts = (text.split(None, LEAST_WORDS) for text in item.itertext())
    words = islice(chain.from_iterable(texts), LEAST_WORDS)
    return sum(1 for _ in words) == LEAST_WORDS


def _is_reference(link: Any) -> bool:
    parent = link.getparent()
    return (
        (parent is not None and parent.tag == "sup")
        or link.get("role") == "doc-noteref"
        or link.find("sup") is not None
    )
