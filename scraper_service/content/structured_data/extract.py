"""Extraction by a schema, a prompt or the kind of the page, without a language model."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.content.structured_data.merging import (
    NOT_UNDERSTOOD,
    fields_without_value,
    is_empty,
)
from scraper_service.content.structured_data.prompts import fields_of, key_facts
from scraper_service.content.structured_data.records import find_records
from scraper_service.content.structured_data.run import ExtractionRun
from scraper_service.options.json_schema import Field, field_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.content.structured_data.page import Extraction, ExtractionPage

TIME_S = 3.0  # CPU seconds for a page; values not found by then are left out


def extract(
    page: ExtractionPage,
    schema: Mapping[str, Any] | None = None,
    prompt: str | None = None,
) -> Extraction:
    """Return the data of a page for a schema or a prompt.

    Without a schema, the prompt names the fields. Without both, the data are the key
    facts of the page. A value that the page does not show is left out, or null where
    the schema requires it. No value is invented. If the prompt names a list and the
    page is about a single such thing, this thing is the only item of the list.

    :raises SchemaRefused: if :func:`field_of` does not support the schema.
    """
    ends = time.thread_time() + TIME_S
    named = () if schema else fields_of(prompt or "")
    field = Field(kind="object", properties=named or key_facts(page))
    if schema:
        field = field_of(schema)
    run = ExtractionRun(page, field, ends, find_records)
    found = run.result(field, run.value(field, page.scope))
    if len(named) == 1 and (item := named[0].items) and item.properties:
        run = ExtractionRun(page, item, ends, find_records)
        one = run.one_thing(named[0])
        if one and (
            run.is_of_one or _count_filled(one.data) > _count_filled(found.data)
        ):
            found = run.result(field, one)
    if schema or named:
        names = fields_without_value(field, found.data, has_required=False)
        return evolve(found, unfound=tuple(names))
    if prompt and prompt.strip():
        return evolve(found, warnings=(NOT_UNDERSTOOD, *found.warnings))
    return found


def _count_filled(data: Mapping[str, list[dict[str, Any]]]) -> int:
    """Return how many fields have a value in at least a single item of the list."""
    items = (item.items() for found in data.values() for item in found)
    return len({name for item in items for name, v in item if not is_empty(v)})
