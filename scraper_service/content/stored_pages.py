"""What operations read of the pages of their steps; runs in the converter pool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST_ERROR = 400  # status of a site's answer that is no page


@frozen(kw_only=True)
class StoredPage:
    """A delivered page; what it does not have is None.

    ``url`` is the address that was asked for, ``data`` any JSON value. ``error`` says
    why there is nothing to be had of it; ``answered_by`` who made the data, ``rules``
    or ``model``, whose ``tokens`` were so many.
    """

    url: str
    title: str | None = None
    description: str | None = None
    icon: str | None = None
    language: str | None = None
    markdown: str | None = None
    data: Any = None
    warning: str | None = None
    error: str | None = None
    answered_by: str | None = None
    tokens: int | None = None


def read_pages(bodies: Sequence[bytes]) -> list[StoredPage]:
    """Return the pages whose JSON objects these are."""
    return [_page(json.loads(body)) for body in bodies]


def _page(body: dict[str, Any]) -> StoredPage:
    facts = body["metadata"]
    status, error = facts.get("statusCode"), None
    if isinstance(status, int) and status >= FIRST_ERROR:
        error = f"the site answered {status}"
    return StoredPage(
        url=facts["sourceURL"],
        title=_text(facts.get("title")),
        description=_text(facts.get("description")),
        icon=_text(facts.get("favicon")),
        language=_text(facts.get("language")),
        markdown=body.get("markdown"),
        data=body.get("json"),
        warning=body.get("warning"),
        error=error,
        answered_by=facts.get("answeredBy"),
        tokens=facts.get("tokensUsed"),
    )


def _text(value: Any) -> str | None:
    """Return a text of a page's metadata, where several may have one name."""
    if isinstance(value, list):
        value = next(iter(value), None)
    return " ".join(value.split()) or None if isinstance(value, str) else None
