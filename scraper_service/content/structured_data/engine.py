"""From a schema or a prompt to data, without a model."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.content.structured_data.facts import facts
from scraper_service.content.structured_data.fields.prompts import fields_of, key_facts
from scraper_service.content.structured_data.lists import plain_list
from scraper_service.content.structured_data.record_lists import RecordLists
from scraper_service.content.structured_data.run import Readers, Run
from scraper_service.content.unfound import (
    NOT_UNDERSTOOD,
    is_empty,
    unfound,
)
from scraper_service.options.schemas import Field, field_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.content.structured_data.page import ExtractionPage
    from scraper_service.content.structured_data.results import Extraction

TIME_S = 3.0  # of CPU for one page; what is not found by then is left out
READERS = Readers(facts, plain_list, RecordLists)


def extract(
    page: ExtractionPage,
    schema: Mapping[str, Any] | None = None,
    prompt: str | None = None,
) -> Extraction:
    """Return what the page has of a schema; without one, of what a prompt names.

    With neither, the key facts of the page. A value that was not found is left out, or
    null where the schema requires it; none is made up. A list that a prompt names has
    the page itself as its only item where it is about one such thing.

    :raises SchemaRefused: for a schema that :func:`field_of` does not take.
    """
    ends = time.thread_time() + TIME_S
    named = () if schema else fields_of(prompt or "")
    wanted = Field(kind="object", properties=named or key_facts(page))
    if schema:
        wanted = field_of(schema)
    run = Run(page, wanted, ends, READERS)
    found = run.result(wanted, run.value(wanted, page.scope))
    if len(named) == 1 and (item := named[0].items) and item.properties:
        run = Run(page, item, ends, READERS)
        one = run.one_thing(named[0])
        if one and (run.is_of_one or _filled(one.data) > _filled(found.data)):
            found = run.result(wanted, one)
    if schema or named:
        names = unfound(wanted, found.data, has_required=False)
        return evolve(found, unfound=tuple(names))
    if prompt and prompt.strip():
        return evolve(found, warnings=(NOT_UNDERSTOOD, *found.warnings))
    return found


def _filled(data: Mapping[str, list[dict[str, Any]]]) -> int:
    """Return how many fields have a value in some item of the only list."""
    items = (item.items() for found in data.values() for item in found)
    return len({name for item in items for name, v in item if not is_empty(v)})
