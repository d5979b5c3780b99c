"""Pages that a test adds to a finished job in the database of a service."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from typing import TYPE_CHECKING

from scraper_service.content.stored_pages import compress

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

DONE = 3


def add_pages(data_dir: Path, job_id: str, pages: Iterable[bytes]) -> None:
    """Append pages, JSON objects of /v2, to the end of a job."""
    path = data_dir / "jobs.sqlite"
    with closing(sqlite3.connect(path, timeout=60)) as connection, connection:
        seq, number = connection.execute(
            "SELECT pages, number FROM job WHERE id = ?", (job_id,)
        ).fetchone()
        (row,) = connection.execute("SELECT max(id) FROM frontier").fetchone()
        count = 0
        for count, page in enumerate(pages, 1):
            page_id = str(uuid.uuid4())
            connection.execute(
                "INSERT INTO frontier (id, job_number, key, url, depth, state, page_id)"
                " VALUES (?, ?, ?, ?, 1, ?, ?)",
                (
                    *(row + count, number, -count - seq),
                    *(f"http://127.0.0.2/stored-{seq + count}", DONE, page_id),
                ),
            )
            connection.execute(
                "INSERT INTO page (id, job_number, seq, size, frontier_id, body)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (
                    *(page_id, number, seq + count - 1, len(page), row + count),
                    compress(page),
                ),
            )
        connection.execute(
            "UPDATE job SET done = done + ?, pages = pages + ? WHERE id = ?",
            (count, count, job_id),
        )
