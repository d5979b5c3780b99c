"""The export of a job without a service: pages, or the responses they were made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scraper_service.cli.local_run import DatabaseSource, keys_of_job, open_database
from scraper_service.content.text.kept_responses import archive_row
from scraper_service.storage.jobs import job_store
from scraper_service.storage.pages import page_sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.settings import Settings
    from sqlalchemy import Connection

    from scraper_service.cli.outputs.output import Destination
    from scraper_service.storage.job_records import Job

ROWS, BYTES = 250, 8 * 2**20  # that are read at once


def export_job(settings: Settings, job: Job, place: Destination) -> int:
    """Write all pages that a job has so far; return their number.

    Raises :exc:`click.ClickException` for an archive of a job without responses, and the
    errors of outputs.
    """
    database = open_database(settings)
    source = DatabaseSource(database, job.id)
    if place.is_archive:
        with database.engine.begin() as connection:
            if not page_sources.has_sources(connection, job.id):
                raise click.ClickException(
                    f"job {job.id} has not kept the responses of its pages"
                    " (SCRAPER_KEEP_SOURCES, zero data retention)"
                )
    output = place.of_pages(keys_of_job(job)).output()
    output.open()
    written = 0
    for rows in _slices(settings, job.id, archive=place.is_archive):
        output.write(rows)
        written += len(rows)
    with database.engine.begin() as connection:
        failures = source.read_failures(connection)
    output.close(failures)
    return written


def _slices(settings: Settings, job_id: str, *, archive: bool) -> Iterator[list[bytes]]:
    first = 0
    while True:
        with open_database(settings).engine.begin() as connection:
            rows, behind = _read(connection, job_id, first, archive=archive)
        if behind == first:
            return
        first = behind
        yield rows


def _read(
    connection: Connection, job_id: str, first: int, *, archive: bool
) -> tuple[list[bytes], int]:
    """Return rows from page number ``first``, and the number of the page after them."""
    if archive:
        found, behind = page_sources.read_archived(
            connection, job_id, first, ROWS, BYTES
        )
        # Responses of local jobs are in the database.
        return [archive_row(*row) for row in found], behind
    pages = job_store.read_pages(connection, job_id, first, ROWS, BYTES)
    return pages, first + len(pages)
