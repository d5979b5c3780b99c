"""Reads JSON-LD, the structured data of a page about its subject."""

from __future__ import annotations

import html
import json
import re
from collections import deque
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SCRIPTS = 20
MAX_SCRIPT = 500_000  # characters
MAX_NODES = 500

NodeT = dict[str, Any]

# Types of subjects, best first; a type matches by its ending.
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
    """The nodes of a page's JSON-LD."""

    #: Nodes that the page may be about, best first.
    subjects: tuple[NodeT, ...] = ()
    #: Nodes with a name, by ``@id``.
    by_id: dict[str, NodeT] = field(factory=dict)
    #: Types of all nodes.
    types: frozenset[str] = frozenset()

    def first(self, *names: str) -> Any:
        """Return the first non-empty value of the first of ``names`` with a value."""
        for name in names:
            for node in self.subjects:
                if value := node.get(name):
                    return value
        return None

    def first_present(self, name: str) -> Any:
        """Return the first value of a property, even ``False``; None if it is absent."""
        return next((node[name] for node in self.subjects if name in node), None)

    def resolve(self, node: Any) -> Any:
        """Return the node that a reference points to, or ``node`` itself."""
        if isinstance(node, dict) and "name" not in node:
            return self.by_id.get(str(node.get("@id")), node)
        return node


def linked_data(scripts: list[Any]) -> LinkedData:
    """Parse the JSON-LD among a page's scripts; invalid JSON is left out."""
    nodes: list[NodeT] = []
    for text in script_texts(scripts, MAX_SCRIPTS, MAX_SCRIPT):
        nodes += _nodes(parse_json(text))
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
    """Yield the texts of the first ``most`` scripts of type JSON-LD.

    Scripts of more than ``longest`` characters are left out.
    """
    fitting = [x for x in scripts if "ld+json" in x.get("type", "").lower()]
    for script in fitting[:most]:
        text = script.text
        if text and len(text) <= longest:
            yield text


def parse_json(text: str) -> Any:
    """Parse a script as JSON; None if it is invalid.

    Surrounding comment marks, a trailing semicolon and character references are
    repaired.
    """
    unwrapped = _WRAPPING.sub("", text).rstrip(" \n;")
    for tried in (text, unwrapped, html.unescape(unwrapped)):
        try:
            return json.loads(tried, strict=False)
        except (ValueError, RecursionError):
            continue
    return None


def text_of(value: Any) -> str:
    """Return a value as text: a node's ``name`` or ``@value``, a list's first item."""
    if isinstance(value, list):
        value = value[0] if value else ""
    if isinstance(value, dict):
        value = value.get("name") or value.get("@value") or ""
        return text_of(value) if isinstance(value, list) else text_of(str(value))
    return " ".join(str(value).split()) if isinstance(value, (str, int)) else ""


def folded(name: str) -> str:
    """Return a name for comparison: without case, punctuation and spaces."""
    return "".join(_WORDS.findall(name.lower()))


def _nodes(data: Any) -> Iterator[NodeT]:
    waiting, count = deque([data]), 0
    while waiting and count < MAX_NODES:
        item = waiting.popleft()
        if isinstance(item, list):
            waiting.extendleft(reversed(item[:MAX_NODES]))
        elif isinstance(item, dict):
            count += 1
            yield item
            waiting += [item[name] for name in _NESTED if name in item]


def _types(node: NodeT) -> list[str]:
    kinds = node.get("@type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return [kind for kind in kinds if isinstance(kind, str)]


def _rank(node: NodeT) -> int:
    """Return the rank of a node as the page's subject; 0 is best."""
    kinds = _types(node)
    return next(
        (
            rank
            for rank, ending in enumerate(_SUBJECTS)
            if any(kind.endswith(ending) for kind in kinds)
        ),
        len(_SUBJECTS),
    )
