"""Matches footnote references with the list items that hold the footnotes."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

LEAST_WORDS = 3  # parsers may take shorter footnotes for link definitions
_SIGNS = re.compile(r"[\w*†‡§¶]{1,20}")
_NO_LABEL = re.compile(r"[^\w-]+")


class Footnotes:
    """The footnotes of a page. References give them labels, in document order."""

    def __init__(self, body: Any) -> None:
        self._body = body
        self._targets: dict[str, Any] | None = None
        #: The labels by the ids of their items.
        self.labels: dict[str, str] = {}
        self._taken: set[str] = set()

    def label(self, link: Any) -> str | None:
        """Return the label of the footnote behind ``link``, None for an ordinary link."""
        if not _is_reference(link):
            return None
        name = unquote(link.get("href").strip()[1:])
        if name in self.labels:
            return self.labels[name]
        if self._targets is None:
            items = self._body.iter("li")
            self._targets = {key: item for item in items if (key := item.get("id"))}
        target = self._targets.get(name)
        # Wikipedia's notes are a bibliography: cited repeatedly, with marks of their own.
        if target is None or name.startswith("cite_note"):
            return None
        if len(" ".join(target.itertext()).split()) < LEAST_WORDS:
            return None
        text = "".join(link.itertext()).strip(" []()\n")
        if not _SIGNS.fullmatch(text) or text in self._taken:
            text = _NO_LABEL.sub("-", name)[:50].strip("-") or str(len(self.labels) + 1)
        self.labels[name] = text
        self._taken.add(text)
        return text

    def label_of(self, item: Any) -> str | None:
        """Return the label of a list item that an earlier reference names, or None."""
        return self.labels.get(item.get("id")) if self.labels else None


def _is_reference(link: Any) -> bool:
    parent = link.getparent()
    return (
        (parent is not None and parent.tag == "sup")
        or link.get("role") == "doc-noteref"
        or link.find("sup") is not None
    )
