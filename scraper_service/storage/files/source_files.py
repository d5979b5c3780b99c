"""Kept responses in the object storage of the operator, named by the hash of their bytes.

The rows of :data:`~scraper_service.storage.schema.page_source` have the hashes. Objects
without a row are deleted, as files of pages are.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from attrs import evolve
from sqlalchemy import select

from scraper_service.storage.schema import page_source

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from scraper_service.content.text.kept_responses import StoredResponse
    from scraper_service.storage.files.blob_stores import BlobStore

NAME = re.compile(r"([0-9a-f]{64})\.source")
AT_ONCE = 500  # names in one statement


class SourceFiles:
    """The responses in ``store``, which belongs to ``owner``.

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
    held: set[bytes] = set()
    digests = {name: bytes.fromhex(name.partition(".")[0]) for name in names}
    for first in range(0, len(names), AT_ONCE):
        some = [digests[name] for name in names[first : first + AT_ONCE]]
        found = select(page_source.c.digest).where(page_source.c.digest.in_(some))
        held.update(bytes(each) for each in connection.scalars(found))
    return [name for name in names if digests[name] not in held]
