"""Serialises :class:`PageContent` for transport between processes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from attrs import asdict, fields

from scraper_service.items import MetaRefresh, PageContent, PageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_BESIDE = {
    "values",
    "links",
    "search",
    "packed",
    "text",
    "fetch",
    "follow",
    "base",
}  # sent as values, or set by the spider
_SENT = tuple(f.name for f in fields(PageContent) if f.name not in _BESIDE)
# Extra values in transport; no format has these names.
_SEARCH, _TEXT, _PACKED = "search entry", "text for a model", "compressed body"


def wire_from_content(
    content: PageContent,
) -> tuple[bytes, dict[str, bytes], tuple[bytes, ...]]:
    """Return the content as a JSON header, its values and its links.

    The values are JSON texts.
    """
    header = {name: getattr(content, name) for name in _SENT}
    values = dict(content.values)
    if content.search:
        values[_SEARCH] = content.search
    if content.packed:
        values[_PACKED] = content.packed
    if content.text:
        values[_TEXT] = content.text.encode(errors="replace")
    return json.dumps(header, default=asdict).encode(), values, content.links


def content_from_wire(
    header: bytes, values: Mapping[str, bytes], links: tuple[bytes, ...] = ()
) -> PageContent:
    """Return the content that :func:`wire_from_content` serialised."""
    facts = json.loads(header)
    if facts["refresh"]:
        facts["refresh"] = MetaRefresh(**facts["refresh"])
    if facts["error"]:
        facts["error"] = PageError(**facts["error"])
    facts["found"] = tuple(facts["found"])
    facts["blocks"] = tuple(map(tuple, facts["blocks"]))
    facts["warnings"] = tuple(facts["warnings"])
    facts["rule_warnings"] = {
        k: tuple(texts) for k, texts in facts["rule_warnings"].items()
    }
    values = dict(values)
    search = values.pop(_SEARCH, b"")
    text = values.pop(_TEXT, b"").decode()
    return PageContent(
        values=values,
        links=links,
        search=search,
        packed=values.pop(_PACKED, b""),
        text=text,
        **facts,
    )
