"""The front matter of Markdown files: YAML that says where a page comes from."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from scraper_service.content.characters import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

# Characters that YAML restricts or forbids (YAML 1.2.2, 5.1).
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
# Keys that name the page, in their order, and further ones for files of one's own.
NAMING = ("url", "title", "scrapeId", "statusCode")
FURTHER = {
    "sourceURL": "sourceURL",
    "language": "language",
    "author": "author",
    "date": "publishedTime",
    "modified": "modifiedTime",
    "description": "description",
}


def front_matter(
    page: Mapping[str, Any], files: Mapping[str, str] | None = None
) -> bytes:
    """Return the front matter of a Markdown file: YAML between two lines ``---``.

    Texts are quoted as JSON strings, which are valid YAML. ``files`` are the names of the
    page's other files, by format. Without ``files`` there are the keys :data:`NAMING`
    alone.
    """
    facts = page.get("metadata", {})
    keys = {key: key for key in NAMING} | (FURTHER if files is not None else {})
    shown = {name: facts.get(key) for name, key in keys.items()} | dict(files or {})
    if files is not None:
        shown["warning"] = page.get("warning")
    lines = [
        f"{name}: {_scalar(value)}"
        for name, value in shown.items()
        if isinstance(value, int | str) and value != ""
    ]
    return "\n".join(["---", *lines, "---", "", ""]).encode("utf-8", "replace")


def _scalar(value: int | str) -> str:
    if isinstance(value, int):
        return str(value)
    quoted = json.dumps(printable(value), ensure_ascii=False)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
