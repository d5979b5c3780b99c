"""The responses that the pages of jobs were made of, as long as the jobs are stored.

Pages and responses are packed before others have to wait for the transaction.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen
from sqlalchemy import delete, exists, func, select

from scraper_service.content.stored_pages import StoredResponse, compress, pack
from scraper_service.storage.accounts import disk_use
from scraper_service.storage.schema import page, page_source
from scraper_service.storage.transactions import (
    Insertion,
    count_fitting,
    find_stored,
    number_of,
    transaction,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from scraper_service.storage.files.blob_stores import BlobStore
    from scraper_service.storage.job_records import Outcome

NAME = re.compile(r"([0-9a-f]{64})\.source")
DROPPED_AT_ONCE = 200  # in one transaction
_ADD = Insertion(
    page_source,
    "page_id",
    "job_number",
    "size",
    "facts",
    "head",
    "body",
    "length",
    "digest",
)


def add_sources(
    connection: Connection,
    job_id: str,
    job_number: int,
    outcomes: Iterable[Outcome],
    responses: Mapping[int, StoredResponse],
) -> int:
    """Store the responses of pages and sitemap files that have one, by their rows.

    Returns their stored bytes.
    """
    rows, size = [], 0
    for outcome in outcomes:
        if outcome.kept is None:
            continue
        found = responses[outcome.row_id]
        size += found.stored_size
        rows.append(
            {
                "page_id": outcome.page_id or sitemap_source(job_id, outcome.key),
                "job_number": job_number,
                "size": found.size,
                "facts": found.facts,
                "head": found.head,
                "body": found.body,
                "length": found.length or None,
                "digest": found.digest,
            }
        )
    _ADD.run_many(connection, rows)
    return size


def sitemap_source(job_id: str, key: int) -> str:
    """Return what stands for the id of a page in the source of a sitemap file.

    ``key`` is that of its URL.
    """
    return str(uuid.uuid5(uuid.UUID(job_id), f"sitemap {key}"))


@transaction(row="{job_id}")
def drop_sources(connection: Connection, job_id: str) -> int:
    """Delete some responses of an ended job. Return their number, 0 at the end."""
    columns = page_source.c
    size = func.length(columns.head) + func.length(columns.body)
    size += func.coalesce(columns.length, 0)
    rows = connection.execute(
        select(page_source.c.page_id, size.label("bytes"))
        .where(page_source.c.job_number == number_of(job_id))
        .limit(DROPPED_AT_ONCE)
    ).all()
    if rows:
        ids = [row.page_id for row in rows]
        connection.execute(delete(page_source).where(page_source.c.page_id.in_(ids)))
        disk_use.add_to_job(connection, job_id, -sum(row.bytes for row in rows))
    return len(rows)


def has_sources(connection: Connection, job_id: str) -> bool:
    """Return True if a job has kept the response of any page."""
    found = exists().where(
        page_source.c.job_number == number_of(job_id),
        page.c.id == page_source.c.page_id,
    )
    return bool(connection.scalar(select(found)))


#: The columns of :func:`stored_response`.
RESPONSE = tuple(
    page_source.c[name] for name in ("facts", "head", "body", "length", "digest")
)


def stored_response(row: Any) -> StoredResponse:
    """Return the response in a row with the columns :data:`RESPONSE`."""
    digest = None if row.digest is None else bytes(row.digest)
    head, body, length = bytes(row.head), bytes(row.body), row.length or 0
    return StoredResponse(row.facts, head, body, digest=digest, length=length)


def read_archived(
    connection: Connection, job_id: str, first: int, most: int, max_bytes: int
) -> tuple[list[tuple[bytes, StoredResponse]], int]:
    """Return compressed pages with their responses, and the number of the page after them.

    Reads from page number ``first``, at most ``most`` pages, and at least one whatever its
    size. Pages without a response are left out. After the last page the number is ``first``.
    """
    of_job = [
        page.c.job_number == number_of(job_id),
        page.c.seq >= first,
        page.c.seq < first + most,
    ]
    joined = page.outerjoin(page_source, page_source.c.page_id == page.c.id)
    sizes = connection.execute(
        select(page.c.size, page_source.c.size.label("source"))
        .select_from(joined)
        .where(*of_job)
        .order_by(page.c.seq)
    ).all()
    whole = [row.size + (row.source or 0) for row in sizes]
    after = first + count_fitting(whole, max_bytes)
    rows = connection.execute(
        select(page.c.body.label("page"), *RESPONSE)
        .join(page_source, page_source.c.page_id == page.c.id)
        .where(*of_job, page.c.seq < after)
        .order_by(page.c.seq)
    )
    return [(bytes(row.page), stored_response(row)) for row in rows], after


class SourceFiles:
    """The responses in the object storage ``store``, which belongs to ``owner``.

    Objects are named by the hash of their bytes, which the rows have. Objects without a row
    are deleted, as files of pages are.

    Methods raise :exc:`~scraper_service.errors.StoreUnavailable`.
    """

    def __init__(self, store: BlobStore, owner: str):
        self._store = store
        self._owner = owner

    async def put(self, response: StoredResponse) -> StoredResponse:
        """Store the body of a response. Return the response with its hash instead."""
        digest = hashlib.sha256(response.body).digest()
        await self._store.claim(self._owner)
        await self._store.put(name_of(digest), response.body)
        length = len(response.body)
        return evolve(response, body=b"", digest=digest, length=length)

    async def whole(self, response: StoredResponse) -> StoredResponse:
        """Return a response with its body, wherever that is.

        Raises :exc:`FileNotFoundError` if the object is gone.
        """
        if response.digest is None:
            return response
        _, chunks = await self._store.get(name_of(response.digest))
        body = b"".join([chunk async for chunk in chunks])
        return evolve(response, body=body, digest=None, length=0)


def name_of(digest: bytes) -> str:
    """Return the name of an object. :data:`NAME` has the form."""
    return f"{digest.hex()}.source"


def unheld(connection: Connection, names: list[str]) -> list[str]:
    """Return the names of objects without a row."""
    digests = {name: bytes.fromhex(name.partition(".")[0]) for name in names}
    found = find_stored(connection, page_source.c.digest, list(digests.values()))
    stored = set(map(bytes, found))
    return [name for name in names if digests[name] not in stored]


@frozen
class PackedPage:
    """A page, compressed."""

    #: Bytes of its JSON.
    size: int
    body: bytes
    #: The page with its whole Markdown, if ``body`` has a part of it.
    whole: bytes | None

    @property
    def stored_size(self) -> int:
        """The bytes that it takes."""
        return len(self.body) + len(self.whole or b"")


@frozen
class Packed:
    """What outcomes store, by their rows."""

    pages: Mapping[int, PackedPage]
    #: The responses that jobs keep, of pages and sitemap files.
    responses: Mapping[int, StoredResponse]


def pack_all(outcomes: Sequence[Outcome]) -> Packed:
    """Return the pages and responses of outcomes that have one."""
    return Packed(
        pages={
            each.row_id: PackedPage(
                len(each.page),
                compress(each.page),
                None if each.whole is None else compress(each.whole),
            )
            for each in outcomes
            if each.page is not None
        },
        responses={
            each.row_id: kept if isinstance(kept, StoredResponse) else pack(kept)
            for each in outcomes
            if (kept := each.kept) is not None
        },
    )
