"""The archive of a job without a service: the responses that its pages were made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scraper_service.content.stored_pages import archive_row
from scraper_service.storage.pages import page_sources

if TYPE_CHECKING:
    from scraper_service.cli.job_state import Status
    from scraper_service.cli.local_run import DatabaseSource
    from scraper_service.cli.outputs.output import Output

ROWS, BYTES = 250, 8 * 2**20  # that are read at once


async def write_archive(source: DatabaseSource, output: Output) -> tuple[Status, int]:
    """Write the responses of a job; return its status and their number.

    Raises :exc:`click.ClickException` for a job without responses, and the errors of
    outputs.
    """
    database, job_id = source.database, source.job_id
    if not await database.read(page_sources.has_sources, job_id):
        raise click.ClickException(
            f"job {job_id} has not kept the responses of its pages"
            " (SCRAPER_KEEP_SOURCES, zero data retention)"
        )
    status, _ = await source.poll(0)
    output.open()
    written = first = 0
    while True:
        rows, behind = await database.read(
            page_sources.read_archived, job_id, first, ROWS, BYTES
        )
        if behind == first:
            break
        first = behind
        # Responses of local jobs are in the database.
        output.write([archive_row(*row) for row in rows])
        written += len(rows)
    output.close(await source.failures())
    return status, written
