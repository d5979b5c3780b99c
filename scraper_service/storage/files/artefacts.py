"""Files of pages, such as screenshots and PDFs, named by the hash of their content.

They are in ``DATA_DIR/artefacts`` and served under signed URLs. Rows tell how long a job
or a scrape needs a file. Files without a row are deleted.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import time
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import parse_qs

from sqlalchemy import and_, or_, select, update

from scraper_service.storage.files.private_files import (
    is_older,
    private_file,
    private_folder,
)
from scraper_service.storage.jobs.job_records import ACTIVE
from scraper_service.storage.schema import artefact, job
from scraper_service.storage.secrets import derived_key
from scraper_service.storage.transactions import (
    DAY_S,
    RETENTION_S,
    delete_some,
    now_of,
    upsert,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sqlalchemy import Connection

FOLDER = "artefacts"  # in DATA_DIR
KINDS = {"png": "image/png", "jpeg": "image/jpeg", "pdf": "application/pdf"}
#: Stands for the URL of the service in stored pages. Responses replace it.
BASE = "http://artefacts.invalid"
# Validity of a signature beyond the longest retention, since a job may run for days.
ADDRESS_S = 7 * DAY_S
CACHED = "source:"  # the start of holders that are pages of the cache
GRACE_S = 600.0  # age of a file without a row before it is deleted
MAX_SWEPT = 500  # files in one call
EXPIRE_ROWS = 1000  # deleted in one transaction

_NAME = re.compile(r"[0-9a-f]{64}\.(png|jpeg|pdf)")


class Artefacts:
    """The files in ``folder``.

    ``secret`` signs their URLs, which are valid longer than a page may be stored,
    ``most_s`` seconds. A file can be read only while a page has it.
    """

    PATH: ClassVar[str] = "/artefacts/"

    def __init__(self, folder: Path, secret: bytes, most_s: float = RETENTION_S):
        self.folder = folder
        self._valid_s = ADDRESS_S + most_s
        self._key = derived_key(secret, "artefacts")

    def put(self, data: bytes, kind: str) -> str:
        """Store a file atomically and return its name. Blocks."""
        name = f"{hashlib.sha256(data).hexdigest()}.{kind}"
        path = self.path(name)
        if not path.parent.exists():
            private_folder(self.folder)
            private_folder(path.parent)
        try:
            os.utime(path)  # the file is in use again, even if its rows have expired
        except FileNotFoundError:
            temporary = path.with_name(f"{name}.{os.getpid()}.{time.monotonic_ns()}")
            private_file(temporary)
            temporary.write_bytes(data)
            temporary.replace(path)
        return name

    def path(self, name: str) -> Path:
        """Return the path of a file. Raise :exc:`ValueError` for an invalid name."""
        if not _NAME.fullmatch(name):
            raise ValueError(name)
        return self.folder / name[:2] / name

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
        expires, signature = (
            given.get("expires", [""])[0],
            given.get("signature", [""])[0],
        )
        if not (expires.isascii() and expires.isdigit()) or len(expires) > 12:
            return False
        wanted = self._signature(name, int(expires))
        return hmac.compare_digest(signature.encode(), wanted.encode()) and (
            int(expires) > time.time()
        )

    def _signature(self, name: str, expires: int) -> str:
        text = f"{name} {expires}".encode()
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()[:40]

    def remove(self, names: Iterable[str]) -> None:
        """Delete files that are older than :data:`GRACE_S`. Blocks."""
        for name in names:
            path = self.path(name)
            try:
                if path.stat().st_mtime < time.time() - GRACE_S:
                    path.unlink()
            except FileNotFoundError:
                continue

    def names(self) -> list[str]:
        """Return the names of files that are older than :data:`GRACE_S`. Blocks."""
        before = time.time() - GRACE_S
        return [
            path.name
            for path in self.folder.glob("*/*")
            if _NAME.fullmatch(path.name) and is_older(path, before)
        ]


def name_in(address: str) -> str | None:
    """Return the name of the file at a URL below :data:`BASE`, else None."""
    if not address.startswith(BASE + Artefacts.PATH):
        return None
    return address.removeprefix(BASE + Artefacts.PATH).partition("?")[0]


def hold(
    connection: Connection,
    name: str,
    holder: str,
    job_id: str | None = None,
    keep_s: float = RETENTION_S,
) -> None:
    """Keep a file for ``holder``: as long as its job is stored, or for ``keep_s``."""
    expires_at = None if job_id else now_of(connection) + keep_s
    row = {"name": name, "holder": holder, "job_id": job_id, "expires_at": expires_at}
    upsert(connection, artefact, [row])


def keep_until(connection: Connection, holder: str, expires_at: float) -> None:
    """Keep the files of a single call until a time in seconds since 1970."""
    connection.execute(
        update(artefact)
        .where(artefact.c.holder == holder, artefact.c.job_id.is_(None))
        .values(expires_at=expires_at)
    )


def expire(connection: Connection) -> int:
    """Delete a slice of expired rows. Return the number of rows."""
    columns, now = artefact.c, now_of(connection)
    is_gone = and_(columns.job_id.is_not(None), columns.job_id.not_in(select(job.c.id)))
    return sum(
        delete_some(connection, artefact, which, limit=EXPIRE_ROWS, skips_locked=True)
        for which in (columns.expires_at <= now, is_gone)
    )


def is_readable(connection: Connection, name: str) -> bool:
    """Return True if a stored job or single call has a file.

    A page of the cache may hold a file too, for other calls.
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
    held: set[str] = set()
    for first in range(0, len(names), MAX_SWEPT):
        part = names[first : first + MAX_SWEPT]
        found = select(artefact.c.name).where(artefact.c.name.in_(part))
        held.update(connection.scalars(found))
    return [name for name in names if name not in held]
