"""Reads JSON Feed, a news feed of JSON objects (jsonfeed.org, versions 1 and 1.1)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_VERSION = "jsonfeed.org"
_VERSIONS = ("https://jsonfeed.org/version/", "http://jsonfeed.org/version/")

ObjectT = dict[str, Any]


def may_be_json_feed(text: str) -> bool:
    """Return True if a JSON text names the format, the slashes escaped or not."""
    return _VERSION in text


def read_json_feed(text: str) -> ObjectT | None:
    """Return the object of a JSON Feed, None for other text."""
    if not may_be_json_feed(text):
        return None
    try:
        feed = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    version = feed.get("version") if isinstance(feed, dict) else None
    is_feed = isinstance(version, str) and version.strip().startswith(_VERSIONS)
    return feed if is_feed else None


def strings(holder: ObjectT, *names: str) -> Iterator[str]:
    """Yield the texts of an object under these names, without empty ones."""
    for name in names:
        value = holder.get(name)
        if isinstance(value, str) and value.strip():
            yield value.strip()


def objects(holder: ObjectT, name: str) -> list[ObjectT]:
    """Return the objects in a list of an object; a single object is a list of one."""
    value = holder.get(name)
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, dict)]


def authors_of(holder: ObjectT) -> str:
    """Return the names of the authors of a feed or an entry."""
    given = objects(holder, "authors") or objects(holder, "author")
    names = (name for each in given for name in strings(each, "name"))
    return ", ".join(dict.fromkeys(" ".join(name.split()) for name in names))
