"""Files that callers send before the call that parses them.

The rows are in the database, the bytes in ``DATA_DIR/uploads``. Processes that share both
share the uploads.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import secrets
import shutil
import time
import uuid
from typing import IO, TYPE_CHECKING

from attrs import frozen
from sqlalchemy import delete, func, insert, select, update

from scraper_service.errors import (
    QueueFull,
    UploadMissing,
    UploadNotFound,
    UploadUsed,
    unwritable,
)
from scraper_service.items import Upload
from scraper_service.storage.accounts import disk_use
from scraper_service.storage.accounts.credits import lock_team
from scraper_service.storage.schema import upload
from scraper_service.storage.secrets import (
    is_older,
    private_file,
    private_folder,
)
from scraper_service.storage.transactions import now_of

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

    from scraper_service.storage.database import Database

FOLDER = "uploads"  # in DATA_DIR
LIFE_S = 900.0  # from the first step
TOKEN_BYTES = 32
MAX_OPEN = 100  # uploads of a team at a time
MAX_STORED = 20  # of them with bytes, which are 50 MiB each at most
LEAST_FREE_BYTES = 512 * 2**20  # that uploads leave on the disk
GRACE_S = 60.0  # age of a file without a row before it is deleted


@frozen
class OpenUpload:
    """An upload that waits for its bytes."""

    #: The id, for the call that parses the file.
    ref: str
    #: The secret part of the URL that takes the bytes.
    token: str
    #: In seconds since 1970.
    expires_at: float


class Uploads:
    """The uploads of all teams.

    Callers use the methods in order. :meth:`open` makes an upload, :meth:`store` keeps its
    bytes, and :meth:`take` returns and deletes them. Each works once for an upload.
    :meth:`expire` deletes uploads that were not taken within :data:`LIFE_S`. ``usual_mb`` is
    the disk quota in MiB of teams without one of their own, 0 for none. All methods raise :exc:`~scraper_service.errors.ServiceUnavailable` if the database does not
    respond.
    """

    def __init__(self, database: Database, usual_mb: int = 0):
        self._database = database
        self._usual_mb = usual_mb
        self._folder = database.data_dir / FOLDER
        self._arriving: set[str] = set()  # tokens whose bytes are being copied

    async def open(self, team_id: str, name: str, kind: str) -> OpenUpload:
        """Make an upload of a file with this name and content type.

        Raises :exc:`QueueFull` if the team has :data:`MAX_OPEN` uploads.
        """
        token = secrets.token_urlsafe(TOKEN_BYTES)
        values = {"team_id": team_id, "name": name, "kind": kind}
        return await self._database.write(_open, token, values)

    async def store(self, token: str, content: IO[bytes]) -> None:
        """Keep the bytes of an upload.

        Raises :exc:`UploadNotFound` for an unknown or expired ``token``,
        :exc:`UploadUsed` if there are bytes already, :exc:`QueueFull` if the team has
        :data:`MAX_STORED` files that were not parsed,
        :exc:`~scraper_service.errors.DiskQuotaExceeded`, and
        :exc:`~scraper_service.errors.DiskFull`.
        """
        if token in self._arriving:
            raise UploadUsed
        self._arriving.add(token)
        try:
            await self._store(token, content)
        finally:
            self._arriving.discard(token)

    async def _store(self, token: str, content: IO[bytes]) -> None:
        # Before the bytes are copied, and again with them: many may arrive at a time.
        await self._database.read(_check_room, token, self._usual_mb)
        file = str(uuid.uuid4())
        try:
            size = await asyncio.to_thread(_copy, content, self._folder / file)
            await self._database.write(_store, token, file, size, self._usual_mb)
        except BaseException as error:
            await asyncio.to_thread((self._folder / file).unlink, missing_ok=True)
            if isinstance(error, OSError):
                raise unwritable(error) from error
            raise

    async def take(self, ref: str, team_id: str) -> Upload:
        """Return the file of an upload, and delete the upload.

        Raises :exc:`UploadNotFound` for an unknown, expired or taken upload, and
        :exc:`UploadMissing` if its bytes were not sent yet.
        """
        name, kind, file = await self._database.write(_take, ref, team_id)
        try:
            body = await asyncio.to_thread(_read_once, self._folder / file)
        except FileNotFoundError:  # in the folder of another machine
            raise UploadNotFound from None
        return Upload(name, kind, body)

    async def expire(self) -> None:
        """Delete expired uploads and files without a row."""
        while await self._database.write(_expire):
            pass
        names = await asyncio.to_thread(_old_files, self._folder)
        if names:
            stored = await self._database.read(_held_files, names)
            for name in set(names) - stored:
                await asyncio.to_thread((self._folder / name).unlink, missing_ok=True)


def _open(connection: Connection, token: str, values: dict[str, str]) -> OpenUpload:
    now = now_of(connection)
    alive = (upload.c.team_id == values["team_id"], upload.c.expires_at > now)
    count = connection.scalar(select(func.count()).where(*alive))
    if (count or 0) >= MAX_OPEN:
        raise QueueFull(f"{MAX_OPEN} uploads of this team wait to be parsed already.")
    found = OpenUpload(str(uuid.uuid4()), token, now + LIFE_S)
    row = {"id": found.ref, "token": _hash(token), "expires_at": found.expires_at}
    connection.execute(insert(upload).values(**row, **values))
    return found


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _check(connection: Connection, token: str) -> str:
    """Return the team of an upload that waits for its bytes."""
    row = connection.execute(
        select(upload.c.file, upload.c.team_id).where(
            upload.c.token == _hash(token), upload.c.expires_at > now_of(connection)
        )
    ).one_or_none()
    if row is None:
        raise UploadNotFound
    if row.file is not None:
        raise UploadUsed
    team_id: str = row.team_id
    return team_id


def _check_room(
    connection: Connection, token: str, usual_mb: int, *, locks: bool = False
) -> None:
    """Raise why the file of an upload cannot be kept. ``locks`` the team until the commit."""
    team_id = _check(connection, token)
    if locks:
        lock_team(connection, team_id)
    stored = select(func.count()).where(
        upload.c.team_id == team_id,
        upload.c.file.is_not(None),
        upload.c.expires_at > now_of(connection),
    )
    if (connection.scalar(stored) or 0) >= MAX_STORED:
        raise QueueFull(f"{MAX_STORED} files of this team wait to be parsed already.")
    if refused := disk_use.refusal_of(connection, team_id, usual_mb):
        raise refused


def _store(
    connection: Connection, token: str, file: str, size: int, usual_mb: int
) -> None:
    _check_room(connection, token, usual_mb, locks=True)
    # One statement, so that one of two equal requests wins.
    team_id = connection.scalar(
        update(upload)
        .where(
            upload.c.token == _hash(token),
            upload.c.file.is_(None),
            upload.c.expires_at > now_of(connection),
        )
        .values(file=file, size=size)
        .returning(upload.c.team_id)
    )
    if team_id is None:
        _check(connection, token)
        raise UploadNotFound
    disk_use.add(connection, team_id, size)


def _take(connection: Connection, ref: str, team_id: str) -> tuple[str, str, str]:
    found = (
        upload.c.id == ref,
        upload.c.team_id == team_id,
        upload.c.expires_at > now_of(connection),
    )
    row = connection.execute(
        delete(upload)
        .where(*found, upload.c.file.is_not(None))
        .returning(upload.c.name, upload.c.kind, upload.c.file, upload.c.size)
    ).one_or_none()
    if row is not None:
        disk_use.add(connection, team_id, -row.size)
        return row.name, row.kind, row.file
    if connection.scalar(select(upload.c.id).where(*found)) is not None:
        raise UploadMissing
    raise UploadNotFound


def _expire(connection: Connection) -> int:
    return disk_use.take_expired(connection, upload, upload.c.size)


def _held_files(connection: Connection, names: list[str]) -> set[str]:
    kept = select(upload.c.file).where(upload.c.file.is_not(None))
    return set(names) & set(connection.scalars(kept))


def _copy(content: IO[bytes], path: Path) -> int:
    private_folder(path.parent)
    size = content.seek(0, os.SEEK_END)
    if shutil.disk_usage(path.parent).free < size + LEAST_FREE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    private_file(path)
    content.seek(0)
    with path.open("wb") as file:
        shutil.copyfileobj(content, file)
    return size


def _read_once(path: Path) -> bytes:
    body = path.read_bytes()
    path.unlink()
    return body


def _old_files(folder: Path) -> list[str]:
    before = time.time() - GRACE_S
    if not folder.exists():
        return []
    return [path.name for path in folder.iterdir() if is_older(path, before)]
