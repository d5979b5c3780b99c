"""Answers by a schema that are made from the data of several pages.

Runs in the converter pool.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.content.structured_data.merging import PageData, is_empty, merge
from scraper_service.llm.replies import read_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ANSWER = ""  # stands for the URL of an answer among those of its pages


@frozen(kw_only=True)
class PageAnswer:
    """An answer by a schema."""

    #: None if no page has data, or if they cannot be made to fit.
    value: Any = None
    #: True if it is valid by the schema and has every required value.
    is_valid: bool = False
    #: JSON pointers of required values that are null.
    missing: tuple[str, ...] = ()


def merged_answer(pages: Sequence[PageData], schema: Mapping[str, Any]) -> PageAnswer:
    """Return the merged data of ``pages`` as an answer by a caller's schema."""
    data = merge(pages).data
    if is_empty(data):
        return PageAnswer()
    value, faults, missing = read_value(json.dumps(data), schema)
    return PageAnswer(
        value=data if value is None else value,
        is_valid=value is not None and not faults and not missing,
        missing=missing,
    )


def field_sources(value: Any, pages: Sequence[PageData]) -> dict[str, list[str]]:
    """Return for each field of ``value`` the URLs of the pages that have its value.

    The result is empty for values that are no objects.
    """
    if not isinstance(value, dict):
        return {}
    found = merge([PageData(_ANSWER, value), *pages]).sources
    kept = {
        name: [url for url in urls if url != _ANSWER]
        for name, urls in found.items()
        if name in value
    }
    return {name: urls for name, urls in kept.items() if urls}
