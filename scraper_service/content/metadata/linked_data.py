"""JSON-LD: what a page tells search engines about its subject."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SCRIPTS = 20
MAX_SCRIPT = 500_000  # characters
MAX_NODES = 500

NodeT = dict[str, Any]

# What a page is about, best first; a type counts by its ending.
_SUBJECTS = (
    "Article",
    "Posting",
    "Report",
    "Question",
    "Recipe",
    "Review",
    "HowTo",
    "VideoObject",
    "PodcastEpisode",
    "Course",
    "Book",
    "Event",
    "CreativeWork",
    "WebPage",
    "FAQPage",
    "QAPage",
    "CollectionPage",
)
_NESTED = ("@graph", "mainEntity", "mainEntityOfPage", "hasPart", "itemReviewed")
_WORDS = re.compile(r"[^\W_]+")
_WRAPPING = re.compile(
    r"^\s*(?:<!--|<!\[CDATA\[|//<!\[CDATA\[)|(?:-->|//\]\]>|\]\]>)\s*$"
)


@frozen
class LinkedData:
    """The nodes of a page's JSON-LD: subjects best first, and all by their ``@id``."""

    subjects: tuple[NodeT, ...] = ()
    by_id: dict[str, NodeT] = field(factory=dict)
    types: frozenset[str] = frozenset()

    def first(self, *names: str) -> Any:
        """Return the first value of the first property that a subject has."""
        for name in names:
            for node in self.subjects:
                if value := node.get(name):
                    return value
        return None

    def first_said(self, name: str) -> Any:
        """Return the first value of a property, be it ``False``; None if none has it."""
        return next((node[name] for node in self.subjects if name in node), None)

    def resolved(self, node: Any) -> Any:
        """Return the node that a reference names, or ``node`` itself."""
        if isinstance(node, dict) and "name" not in node:
            return self.by_id.get(str(node.get("@id")), node)
        return node


def linked_data(scripts: list[Any]) -> LinkedData:
    """Read the JSON-LD among a page's scripts; what is not JSON is left out."""
    nodes: list[NodeT] = []
    for text in script_texts(scripts, MAX_SCRIPTS, MAX_SCRIPT):
        nodes += _nodes(_parsed(text))
    ranked = [(_rank(node), number, node) for number, node in enumerate(nodes)]
    subjects = [
        entry[2]
        for entry in sorted(ranked, key=lambda e: e[:2])
        if entry[0] < len(_SUBJECTS)
    ]
    return LinkedData(
        tuple(subjects),
        {str(node["@id"]): node for node in nodes if "name" in node and "@id" in node},
        frozenset(name for node in nodes for name in _types(node)),
    )


def script_texts(scripts: list[Any], most: int, longest: int) -> Iterator[str]:
    """Yield the texts of the first ``most`` scripts that are said to be JSON-LD.

    Those of more than ``longest`` characters are left out.
    """
    fitting = [x for x in scripts if "ld+json" in x.get("type", "").lower()]
    for script in fitting[:most]:
        text = script.text
        if text and len(text) <= longest:
            yield text


def unwrapped(text: str) -> str:
    """Return a script without the comment around it and the semicolon behind it."""
    return _WRAPPING.sub("", text).rstrip(" \n;")


def text_of(value: Any) -> str:
    """Return the text of a value: itself, its ``name`` or ``@value``, or of its first."""
    if isinstance(value, list):
        value = value[0] if value else ""
    if isinstance(value, dict):
        value = value.get("name") or value.get("@value") or ""
        return text_of(value) if isinstance(value, list) else text_of(str(value))
    return " ".join(str(value).split()) if isinstance(value, (str, int)) else ""


def folded(name: str) -> str:
    """Return a name as it is compared: without case, punctuation and spaces."""
    return "".join(_WORDS.findall(name.lower()))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(unwrapped(text), strict=False)
    except (ValueError, RecursionError):
        return None


def _nodes(data: Any) -> Iterator[NodeT]:
    waiting, count = [data], 0
    while waiting and count < MAX_NODES:
        item = waiting.pop(0)
        if isinstance(item, list):
            waiting = item[:MAX_NODES] + waiting
        elif isinstance(item, dict):
            count += 1
            yield item
            waiting += [item[name] for name in _NESTED if name in item]


def _types(node: NodeT) -> list[str]:
    kinds = node.get("@type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return [kind for kind in kinds if isinstance(kind, str)]


def _rank(node: NodeT) -> int:
    """Return how likely the page is about this node; the less, the more."""
    kinds = _types(node)
    return next(
        (
            rank
            for rank, ending in enumerate(_SUBJECTS)
            if any(kind.endswith(ending) for kind in kinds)
        ),
        len(_SUBJECTS),
    )
