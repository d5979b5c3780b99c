"""Files of pages, such as screenshots and PDFs, named by the hash of their content.

They are in ``DATA_DIR/artefacts`` or in the object storage of the operator, and served under
signed URLs. Rows tell how long a job or a scrape needs a file. Files without a row are deleted.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import parse_qs

from sqlalchemy import and_, exists, or_, select

from scraper_service.errors import StoreUnavailable
from scraper_service.options.limits import DAY_S
from scraper_service.storage.accounts import disk_use
from scraper_service.storage.files import page_sources
from scraper_service.storage.files.blob_stores import FileStore
from scraper_service.storage.job_records import ACTIVE
from scraper_service.storage.schema import artefact, job
from scraper_service.storage.secrets import derive_key
from scraper_service.storage.transactions import (
    RETENTION_S,
    delete_some,
    dialect_insert,
    find_stored,
    now_of,
    transaction,
    upsert,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sqlalchemy import Connection

    from scraper_service.storage.database import Database
    from scraper_service.storage.files.blob_stores import BlobStore

FOLDER = "artefacts"  # in DATA_DIR
KINDS = {"png": "image/png", "jpeg": "image/jpeg", "pdf": "application/pdf"}
#: Stands for the URL of the service in stored pages. Responses replace it.
BASE = "http://artefacts.invalid"
# Validity of a signature beyond the longest retention, since a job may run for days.
ADDRESS_S = 7 * DAY_S
CACHED = "source:"  # the start of holders that are pages of the cache
GRACE_S = 600.0  # age of a file without a row before it is deleted

_NAME = re.compile(r"[0-9a-f]{64}\.(png|jpeg|pdf)")


class Artefacts:
    """The files in ``store``, or in ``folder`` if there is none.

    Files that ``folder`` has from before ``store`` was configured stay there until they expire.
    ``secret`` signs their URLs, which are valid longer than a page may be stored,
    ``most_s`` seconds. A file can be read only while a page has it.
    """

    PATH: ClassVar[str] = "/artefacts/"

    def __init__(
        self,
        folder: Path,
        secret: bytes,
        most_s: float = RETENTION_S,
        store: BlobStore | None = None,
    ):
        files = FileStore(folder)
        self._stores: tuple[BlobStore, ...] = (store, files) if store else (files,)
        self._valid_s = ADDRESS_S + most_s
        self._key = derive_key(secret, "artefacts")
        self._owner = owner_of(secret)

    async def put(self, data: bytes, kind: str) -> str:
        """Store a file and return its name.

        Raises :exc:`~scraper_service.errors.StoreUnavailable` and
        :exc:`~scraper_service.errors.DiskFull`.
        """
        name = f"{hashlib.sha256(data).hexdigest()}.{kind}"
        await self._stores[0].claim(self._owner)
        await self._stores[0].put(name, data)
        return name

    async def get(self, name: str) -> tuple[int, AsyncIterator[bytes]]:
        """Return the size in bytes of a file, and its bytes.

        Raises :exc:`FileNotFoundError`, also for an invalid name, and
        :exc:`~scraper_service.errors.StoreUnavailable`.
        """
        if not _NAME.fullmatch(name):
            raise FileNotFoundError(name)
        for store in self._stores:
            with suppress(FileNotFoundError):
                return await store.get(name)
        raise FileNotFoundError(name)

    async def sweep(self, database: Database) -> bool:
        """Delete old files and kept responses without a row.

        Looks at all of the folder, and at a slice of the store.
        Return True until a pass over the store is complete.
        A file that could not be deleted is found again by a later call. Raises
        :exc:`~scraper_service.errors.ServiceUnavailable`.
        """
        for store in reversed(self._stores):
            before = time.time() - GRACE_S
            found = await store.next_names(before)
            for form, unused in (
                (_NAME, unheld),
                (page_sources.NAME, page_sources.unheld),
            ):
                names = [name for name in found if form.fullmatch(name)]
                if names:
                    await store.claim(self._owner)
                    free = await database.read(unused, names)
                    await store.delete(free, before)
        return len(self._stores) > 1 and bool(found)

    async def size(self, name: str) -> int:
        """Return the bytes of a file, 0 if it is gone or its store does not respond."""
        for store in self._stores:
            with suppress(FileNotFoundError, StoreUnavailable):
                return await store.size(name)
        return 0

    def address(self, name: str) -> str:
        """Return a signed URL below :data:`BASE`."""
        expires = int(time.time() + self._valid_s)
        return (
            f"{BASE}{self.PATH}{name}"
            f"?expires={expires}&signature={self._signature(name, expires)}"
        )

    def allows(self, name: str, query: str) -> bool:
        """Return True if the query of a URL has a valid signature."""
        given = parse_qs(query)
        expires, signature = (given.get(k, [""])[0] for k in ("expires", "signature"))
        if not (expires.isascii() and expires.isdigit()) or len(expires) > 12:
            return False
        wanted = self._signature(name, int(expires))
        return hmac.compare_digest(signature.encode(), wanted.encode()) and (
            int(expires) > time.time()
        )

    def _signature(self, name: str, expires: int) -> str:
        text = f"{name} {expires}".encode()
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()[:40]


def owner_of(secret: bytes) -> str:
    """Return the name by which the service with a secret owns a prefix of object storage."""
    return derive_key(secret, "owner of artefacts").hex()


def name_in(url: str) -> str | None:
    """Return the name of the file at a URL below :data:`BASE`, else None."""
    if not url.startswith(BASE + Artefacts.PATH):
        return None
    return url.removeprefix(BASE + Artefacts.PATH).partition("?")[0]


def hold(
    connection: Connection,
    name: str,
    holder: str,
    job_id: str | None = None,
    keep_s: float = RETENTION_S,
    *,
    team_id: str | None = None,
    size: int = 0,
) -> None:
    """Keep a file for ``holder``: as long as its job is stored, or for ``keep_s``.

    Its ``size`` in bytes counts for the job, whose row is locked, or for ``team_id``. A
    second call counts nothing.
    """
    expires_at = None if job_id else now_of(connection) + keep_s
    row = {"name": name, "holder": holder, "job_id": job_id, "expires_at": expires_at}
    new = connection.execute(
        dialect_insert(connection, artefact)
        .values(**row, team_id=team_id, size=size)
        .on_conflict_do_nothing()
        .returning(artefact.c.name)
    )
    if new.first() is None:
        upsert(connection, artefact, [row])
    elif job_id is not None:
        disk_use.add_to_job(connection, job_id, size)
    elif team_id is not None:
        disk_use.add(connection, team_id, size)


@transaction(row="{job_id}")
def hold_for_job(connection: Connection, job_id: str, name: str, size: int) -> None:
    """Keep a file as long as its job is stored, see :func:`hold`."""
    hold(connection, name, job_id, job_id, size=size)


def expire(connection: Connection) -> int:
    """Delete a slice of expired rows. Return the number of rows."""
    columns = artefact.c
    # Not NOT IN: PostgreSQL would read all jobs for each row once they exceed its work_mem.
    is_gone = and_(
        columns.job_id.is_not(None),
        ~exists().where(job.c.id == columns.job_id),
    )
    removed = disk_use.take_expired(connection, artefact, columns.size)
    # The bytes of jobs were freed with the jobs.
    return removed + delete_some(connection, artefact, is_gone)


def is_readable(connection: Connection, name: str) -> bool:
    """Return True if a stored job or single call has a file.

    A page of the cache may have a file too, for other calls.
    """
    columns, now = artefact.c, now_of(connection)
    query = (
        select(columns.name)
        .outerjoin(job, job.c.id == columns.job_id)
        .where(
            columns.name == name,
            columns.holder.not_like(f"{CACHED}%"),
            or_(
                columns.expires_at > now,
                job.c.state.in_(ACTIVE),
                job.c.expires_at > now,
            ),
        )
        .limit(1)
    )
    return connection.scalar(query) is not None


def unheld(connection: Connection, names: list[str]) -> list[str]:
    """Return the names without a row."""
    stored = find_stored(connection, artefact.c.name, names)
    return [name for name in names if name not in stored]
