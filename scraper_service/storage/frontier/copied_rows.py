"""Copies the rows of a source job into a job that reads its stored responses.

It goes through the pages of the source in slices: a job may have a million of them. The first
slice belongs to the transaction that creates the job. The position is stored with each slice,
and any process may go on: that of the caller does so at once, and the others with each claim.
Until the last slice the job does not complete. Functions run inside a transaction that has
locked the job.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from attrs import asdict, define
from sqlalchemy import insert, literal, select, update

from scraper_service.storage.frontier.job_warnings import JobWarning
from scraper_service.storage.frontier.open_job import OpenJob
from scraper_service.storage.job_records import ACTIVE, JobState, RowState, UrlKind
from scraper_service.storage.schema import frontier, job, page
from scraper_service.storage.transactions import number_of, transaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

SLICE_ROWS = 2000  # in one transaction: some 10 ms


@define
class _Position:
    """How far the pages of the source are copied."""

    #: How many pages are looked at, and how many there are.
    done: int
    count: int
    #: Pages that were deleted meanwhile.
    gone: int = 0
    #: The numbers of the pages, None for all pages from 0 on.
    numbers: list[int] | None = None


def begin(
    connection: Connection, job_id: str, count: int, numbers: Sequence[int] | None
) -> None:
    """Start to copy ``count`` pages of the source of a new job, and copy a slice.

    ``numbers`` are those of the pages, None for all pages from number 0 on.
    """
    chosen = None if numbers is None else list(numbers)
    _store(connection, job_id, _Position(0, count, numbers=chosen))
    go_on(connection, job_id)


@transaction(row="{job_id}")
def go_on(connection: Connection, job_id: str) -> bool:
    """Copy the next slice of a job. Return True if no slice is left."""
    row = connection.execute(
        select(job).where(job.c.id == job_id).with_for_update()
    ).one_or_none()
    if row is None or row.state not in ACTIVE or row.copying is None:
        return True
    position = _Position(**json.loads(row.copying))
    end = min(position.count, position.done + SLICE_ROWS)
    if position.numbers is None:
        chosen = page.c.seq.between(position.done, end - 1)
    else:
        chosen = page.c.seq.in_(position.numbers[position.done : end])
    names = ("job_number", "kind", "key", "url", "depth", "state", "lastmod")
    rows = (
        select(
            literal(row.number),
            literal(UrlKind.PAGE.value),
            frontier.c.key,
            frontier.c.url,
            frontier.c.depth,
            literal(RowState.PENDING.value),
            frontier.c.lastmod,
        )
        .join(page, page.c.frontier_id == frontier.c.id)
        .where(page.c.job_number == number_of(row.source_job_id), chosen)
        .order_by(page.c.seq)
    )
    copy = insert(frontier).from_select(names, rows)
    added = connection.execute(
        copy, execution_options={"preserve_rowcount": True}
    ).rowcount
    position.gone += end - position.done - added
    position.done = end
    is_over = end >= position.count
    opened = OpenJob(connection, row)
    opened.open += added
    opened.hold_surplus()  # the caller may have lowered the limit meanwhile
    opened.is_copying = not is_over
    if is_over and position.gone:
        opened.warn(JobWarning.SOURCE_LOST, pages=position.gone)
    _store(connection, job_id, None if is_over else position)
    opened.write(JobState(row.state))
    return is_over


def _store(connection: Connection, job_id: str, position: _Position | None) -> None:
    text = None if position is None else json.dumps(asdict(position))
    connection.execute(update(job).where(job.c.id == job_id).values(copying=text))
