"""Reads the pages that deep research, extract and llms.txt jobs have scraped.

Runs in the converter pool.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST_ERROR = 400  # lowest HTTP status of an error page


@frozen(kw_only=True)
class StoredPage:
    """A delivered page; unknown fields are None."""

    #: Requested URL.
    url: str
    title: str | None = None
    description: str | None = None
    icon: str | None = None
    language: str | None = None
    markdown: str | None = None
    #: Extracted data, any JSON value.
    data: Any = None
    warning: str | None = None
    #: Why the page has no usable content.
    error: str | None = None
    #: Whether ``rules``, a ``model`` or ``both`` made the data.
    answered_by: str | None = None
    #: Tokens that the model used.
    tokens: int | None = None


def read_pages(bodies: Sequence[bytes]) -> list[StoredPage]:
    """Return the pages of these JSON objects."""
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
    """Return the first text of a metadata value, None if blank."""
    if isinstance(value, list):
        value = next(iter(value), None)
    return " ".join(value.split()) or None if isinstance(value, str) else None
