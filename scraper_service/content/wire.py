"""Parts of :class:`PageContent` for transport between processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import fields, frozen

from scraper_service.items import PageContent

if TYPE_CHECKING:
    from collections.abc import Mapping

_BESIDE = {"values", "links", "text"}
_OF_SPIDER = {"embedded_url", "fetch", "follow", "base"}  # set after the transport
_EMPTY = PageContent()
_SENT = {
    each.name: getattr(_EMPTY, each.name)
    for each in fields(PageContent)
    if each.name not in _BESIDE | _OF_SPIDER
}


@frozen
class Unfinished:
    """What a function in another process returns to send its result before it has finished.

    ``finish`` returns what is sent afterwards, for a caller that does not wait for it.
    """

    result: Any
    finish: Callable[[], Any]


def wire_from_content(
    content: PageContent,
) -> tuple[dict[str, Any], dict[str, bytes], tuple[bytes, ...]]:
    """Return the facts of a content that are not those of an empty one, its values and links.

    The values are JSON texts.
    """
    facts = {
        name: found
        for name, usual in _SENT.items()
        if (found := getattr(content, name)) != usual
    }
    if content.text:  # may have lone surrogates
        facts["text"] = content.text.encode(errors="replace").decode()
    return facts, dict(content.values), content.links


def content_from_wire(
    facts: Mapping[str, Any],
    values: Mapping[str, bytes],
    links: tuple[bytes, ...] = (),
) -> PageContent:
    """Return the content that :func:`wire_from_content` took apart."""
    return PageContent(values=values, links=links, **facts)
