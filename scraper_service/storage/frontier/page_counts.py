"""Counts of the delivered pages of a job: statuses, verdicts, losses and filled fields.

They stand as JSON in the row of the job and change in the transaction of each page. So a
report reads one row, however many pages the job has.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import asdict, field, frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scraper_service.options.json_schema import Field
    from scraper_service.storage.job_records import CountedPage

MAX_NAMES = 100  # of one part; the row of the job is written with each page
MAX_LEVELS = 3  # of nested fields
MAX_FIELD_NAME = 200  # characters
MAX_DATA_BYTES = 2**20  # of the data of a page; the fields of more are not counted
OTHERS = "others"  # all statuses, depths, verdicts and fields beyond


@frozen(kw_only=True)
class PageCounts:
    """How many delivered pages have a status, a depth, a verdict or a filled field."""

    #: All counted pages: those that were delivered since the job has such counts.
    pages: int = 0
    statuses: Mapping[str, int]
    #: By the number of links from the start.
    depths: Mapping[str, int]
    verdicts: Mapping[str, int]
    #: Pages with data by a schema or prompt.
    with_data: int = 0
    #: Pages whose data has a value there, by name; ``a.b`` is a property of an object.
    fields: Mapping[str, int]
    #: By kind of ``metadata.losses``, how many ``pages`` have one, and their sum as
    #: ``count``.
    losses: Mapping[str, Mapping[str, int]] = field(factory=dict)


_NOTHING = json.dumps(
    asdict(PageCounts(statuses={}, depths={}, verdicts={}, fields={}))
)


def parse_counts(stored: str | None) -> PageCounts:
    """Return the counts in the row of a job."""
    return PageCounts(**_values(stored))


def add_pages(stored: str | None, pages: Iterable[CountedPage]) -> str:
    """Return the counts of the row of a job with further ``pages``."""
    known = _values(stored)
    for page in pages:
        known["pages"] += 1
        _count(known["statuses"], str(page.status or 0))
        _count(known["depths"], str(page.depth))
        _count(known["verdicts"], page.verdict or "unknown")
        for kind, count in page.losses.items():
            lost = known.setdefault("losses", {}).setdefault(
                kind, {"pages": 0, "count": 0}
            )
            lost["pages"] += 1
            lost["count"] += count
        if page.data is None:
            continue
        known["with_data"] += 1
        if len(page.data) <= MAX_DATA_BYTES:
            for name in dict.fromkeys(_filled_fields(json.loads(page.data))):
                _count(known["fields"], name)
    return json.dumps(known, separators=(",", ":"))


def _values(stored: str | None) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(stored or _NOTHING)
    return values


def _count(part: dict[str, int], name: str) -> None:
    if name not in part and len(part) >= MAX_NAMES:
        name = OTHERS
    part[name] = part.get(name, 0) + 1


def _filled_fields(value: Any, above: str = "", level: int = 1) -> Iterator[str]:
    """Yield the names of fields with a value: neither null nor empty."""
    if not isinstance(value, dict):
        return
    for key, each in value.items():
        if each is None or each in ("", [], {}):
            continue
        name = f"{above}{key}"[:MAX_FIELD_NAME]
        yield name
        if level < MAX_LEVELS:
            yield from _filled_fields(each, f"{name}.", level + 1)


def with_empty_fields(counts: PageCounts, schema: Field | None) -> dict[str, int]:
    """Return the filled fields, and all fields of the schema of the job, in its order."""
    names = [] if schema is None else list(_names(schema))[:MAX_NAMES]
    return dict.fromkeys(names, 0) | dict(Counter(counts.fields).most_common())


def _names(schema: Field, above: str = "", level: int = 1) -> Iterator[str]:
    for each in schema.properties:
        name = f"{above}{each.name}"[:MAX_FIELD_NAME]
        yield name
        if level < MAX_LEVELS:
            yield from _names(each, f"{name}.", level + 1)
