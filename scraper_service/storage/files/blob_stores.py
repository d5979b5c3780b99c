"""Where bytes are kept by name: a folder, or the object storage of the operator.

Names are paths of one part, such as ``0a1b.png``. A store knows nothing of what the bytes are.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from scraper_service.errors import StoreUnavailable, unwritable
from scraper_service.options.urls import url_parts
from scraper_service.storage.secrets import (
    is_older,
    private_file,
    private_folder,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection
    from pathlib import Path

SCHEMES = {"s3": "BUCKET", "gs": "BUCKET", "az": "CONTAINER"}
EXTRA = "object-storage"
NAMED = "SCRAPER_ARTEFACT_STORE"
# Variables of the environment that name a server.
ENDPOINTS = (
    *("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    *("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT", "GOOGLE_BASE_URL"),
)
CHUNK_BYTES = 256 * 2**10
CALL_S = 10.0  # for one request to the object storage
WHOLE_S = 15.0  # for a call with its repetitions
RETRIES = 2
MAX_CALLS = 16  # in flight to the object storage, per process
SLICE = 1000  # names of a listing, and of a deletion
LISTED_EVERY_S = 3600.0  # a listing of the object storage costs money
LISTED_S = 60.0  # for one slice of names
# What an error of the library has in its text, and what that means.
CAUSES = {
    "NoSuchBucket": "its bucket does not exist",
    "ContainerNotFound": "its container does not exist",
    "error sending request": "its server cannot be reached",
}
OWNER = "owner"  # the name of the object that says whose prefix it is
FOREIGN = (
    "The object storage {} belongs to another job database, which would delete these files:"
    f" name another prefix in {NAMED}, or delete the object {OWNER!r} there if no other service"
    " uses it."
)


class BlobStore(Protocol):
    """Keeps bytes by name.

    Every method raises :exc:`~scraper_service.errors.StoreUnavailable` if the store does not
    respond in time or refuses the call.
    """

    async def claim(self, owner: str) -> None:
        """Make sure that the store belongs to ``owner``, a word of ASCII.

        Raises :exc:`~scraper_service.errors.StoreUnavailable` if it belongs to another.
        """
        ...

    async def put(self, name: str, data: bytes) -> None:
        """Store bytes, whole or not at all. A stored name is new again afterwards."""
        ...

    async def get(self, name: str) -> tuple[int, AsyncIterator[bytes]]:
        """Return the size in bytes, and the bytes. Raises :exc:`FileNotFoundError`."""
        ...

    async def size(self, name: str) -> int:
        """Return the size in bytes. Raises :exc:`FileNotFoundError`."""
        ...

    async def next_names(self, before: float) -> list[str]:
        """Return a slice of the names that were stored before a Unix time.

        Repeated calls return all of them in time. The list is empty at the end of a pass.
        """
        ...

    async def delete(self, names: Collection[str], before: float) -> None:
        """Delete those of the names that were stored before a Unix time."""
        ...


class FileStore:
    """A folder that only the user of this process can read."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, name: str) -> Path:
        """Return the path of a file."""
        return self.folder / name[:2] / name

    async def claim(self, owner: str) -> None:
        """Do nothing: the folder is that of one data directory."""

    async def put(self, name: str, data: bytes) -> None:
        try:
            await asyncio.to_thread(self.write, name, data)
        except OSError as error:
            raise unwritable(error) from error

    def write(self, name: str, data: bytes) -> None:
        """Store a file atomically. Blocks. Raises :exc:`OSError`."""
        path = self.path(name)
        if not path.parent.exists():
            private_folder(self.folder)
            private_folder(path.parent)
        try:
            os.utime(path)  # the file is in use again, even if its rows have expired
        except FileNotFoundError:
            temporary = path.with_name(f"{name}.{os.getpid()}.{time.monotonic_ns()}")
            private_file(temporary)
            try:
                temporary.write_bytes(data)
                temporary.replace(path)
            except OSError:
                temporary.unlink(missing_ok=True)  # a part would keep the disk full
                raise

    async def get(self, name: str) -> tuple[int, AsyncIterator[bytes]]:
        data = await asyncio.to_thread(self.path(name).read_bytes)

        async def whole() -> AsyncIterator[bytes]:
            yield data

        return len(data), whole()

    async def size(self, name: str) -> int:
        return (await asyncio.to_thread(self.path(name).stat)).st_size

    async def next_names(self, before: float) -> list[str]:
        """Return the names of all files of before a Unix time."""

        def old() -> list[str]:
            paths = self.folder.glob("*/*")
            return [path.name for path in paths if is_older(path, before)]

        return await asyncio.to_thread(old)

    async def delete(self, names: Collection[str], before: float) -> None:
        def unlink() -> None:
            for name in names:
                if is_older(self.path(name), before):
                    self.path(name).unlink(missing_ok=True)

        await asyncio.to_thread(unlink)


class ObjectStore:
    """A prefix of a bucket: ``s3://BUCKET/PREFIX``, ``gs://`` or ``az://CONTAINER/PREFIX``.

    Credentials, region and endpoint are those of the environment when the store is made, or of
    the machine (instance and workload identities). Raises :exc:`ValueError` for a URL that names
    no bucket, and if the extra ``object-storage`` is not installed.
    """

    def __init__(self, url: str):
        check_store_url(url)
        try:
            import obstore  # noqa: PLC0415
            from obstore.store import from_url  # noqa: PLC0415
        except ImportError:
            raise ValueError(
                f"{redact_url(url)} needs the extra {EXTRA}:"
                f" pip install 'scraper-service[{EXTRA}]'"
            ) from None
        servers = [os.environ[name] for name in ENDPOINTS if os.environ.get(name)]
        self.url = redact_url(url)
        self._no_bucket = f"The object storage {self.url}: its bucket does not exist."
        self._api: Any = obstore
        try:
            self._store: Any = from_url(
                url,
                client_options={
                    # Only where the operator's own endpoint has no TLS.
                    "allow_http": any(each.startswith("http://") for each in servers),
                    "timeout": timedelta(seconds=CALL_S),
                    "connect_timeout": timedelta(seconds=CALL_S / 2),
                },
                retry_config={
                    "max_retries": RETRIES,
                    "retry_timeout": timedelta(seconds=CALL_S),
                },
            )
        except (obstore.exceptions.BaseError, OSError, ValueError) as error:
            # The text of the library may quote credentials.
            kind = type(error).__name__
            text = f"{self.url} cannot be opened ({kind}); check its credentials"
            raise ValueError(text) from None
        self._calls = asyncio.Semaphore(MAX_CALLS)
        self._listing: Any = None
        self._listed_at = float("-inf")
        self._owner = ""

    async def claim(self, owner: str) -> None:
        """Raise :exc:`StoreUnavailable` if the prefix belongs to another owner.

        Two owners would delete each other's files. A prefix without an owner gets this one.
        """
        if self._owner == owner:
            return
        found = await self.owner()
        if found is None:
            await self.put(OWNER, owner.encode())
            found = await self.owner()  # two owners may have claimed it at once
        if found != owner:
            raise StoreUnavailable(FOREIGN.format(self.url))
        self._owner = owner

    async def owner(self) -> str | None:
        """Return the owner of the prefix, None if nobody has claimed it."""
        try:
            _, chunks = await self.get(OWNER)
        except FileNotFoundError:
            return None
        data = b"".join([chunk async for chunk in chunks])
        return data.decode("ascii", "replace")

    async def try_out(self, name: str) -> None:
        """Store and delete an empty object. Raises :exc:`StoreUnavailable`."""
        await self.put(name, b"")
        await self.delete([name], math.inf)

    async def put(self, name: str, data: bytes) -> None:
        """Store an object. An equal one is stored again, so that it counts as new."""
        try:
            async with self._call("store a file"):
                await self._api.put_async(self._store, name, data)
        except FileNotFoundError:
            raise StoreUnavailable(self._no_bucket) from None

    async def get(self, name: str) -> tuple[int, AsyncIterator[bytes]]:
        async with self._call("read a file"):
            found = await self._api.get_async(self._store, name)
        return found.meta["size"], self._read(found)

    async def _read(self, found: Any) -> AsyncIterator[bytes]:
        chunks = found.stream(min_chunk_size=CHUNK_BYTES)
        while True:
            async with self._call("read a file"):
                try:
                    data = bytes(await chunks.__anext__())
                except StopAsyncIteration:
                    return
            yield data

    async def size(self, name: str) -> int:
        async with self._call("read a file"):
            found = await self._api.head_async(self._store, name)
        return int(found["size"])

    async def next_names(self, before: float) -> list[str]:
        """Return the old names of the next slice of the listing, which begins hourly."""
        now = time.monotonic()
        if self._listing is None:
            if now - self._listed_at < LISTED_EVERY_S:
                return []
            self._listing = self._api.list(self._store, chunk_size=SLICE)
        while True:
            try:
                async with self._call("list its files", LISTED_S):
                    found = await self._listing.__anext__()
            except StopAsyncIteration:
                self._listing, self._listed_at = None, now
                return []
            except StoreUnavailable:
                self._listing = None  # the next call begins again
                raise
            names = [
                each["path"]
                for each in found
                if each["last_modified"].timestamp() < before
            ]
            if names:
                return names

    async def delete(self, names: Collection[str], before: float) -> None:
        old = [name for name in names if await self._is_older(name, before)]
        for first in range(0, len(old), SLICE):
            async with self._call("delete files", LISTED_S):
                await self._api.delete_async(self._store, old[first : first + SLICE])

    async def check(self) -> None:
        """Raise :exc:`StoreUnavailable` if the bucket cannot be read."""
        with_slice = self._api.list(self._store, chunk_size=1)
        try:
            async with self._call("list its files"):
                await with_slice.__anext__()
        except StopAsyncIteration:
            return

    async def _is_older(self, name: str, before: float) -> bool:
        """Return True if an object was not stored again since it was listed."""
        try:
            async with self._call("read a file"):
                found = await self._api.head_async(self._store, name)
        except FileNotFoundError:
            return False
        return bool(found["last_modified"].timestamp() < before)

    @asynccontextmanager
    async def _call(self, purpose: str, most_s: float = WHOLE_S) -> AsyncIterator[None]:
        errors = self._api.exceptions
        what = f"The object storage {self.url} did not {purpose}"
        try:
            async with asyncio.timeout(most_s), self._calls:
                yield
        except (FileNotFoundError, StopAsyncIteration):
            raise
        except TimeoutError:
            raise StoreUnavailable(f"{what} in {most_s:.0f} s.") from None
        except (errors.PermissionDeniedError, errors.UnauthenticatedError):
            raise StoreUnavailable(f"{what}: access is denied.") from None
        except (errors.BaseError, OSError, ValueError) as error:
            # The text of the library has paragraphs, and may quote signed URLs.
            text = str(error)
            found = (cause for mark, cause in CAUSES.items() if mark in text)
            cause = next(found, type(error).__name__)
            raise StoreUnavailable(f"{what}: {cause}.") from None


def check_store_url(url: str) -> None:
    """Raise :exc:`ValueError` for a URL that names no bucket or container."""
    parts = url_parts(url)
    if parts.scheme not in SCHEMES or not parts.netloc or "@" in parts.netloc:
        allowed = ", ".join(f"{k}://{what}/PREFIX" for k, what in SCHEMES.items())
        raise ValueError(f"{NAMED} must be one of {allowed}, got {redact_url(url)!r}")
    if parts.query or parts.fragment:
        raise ValueError(
            f"{NAMED} must have no query: credentials come from the environment, got"
            f" {redact_url(url)!r}"
        )


def redact_url(url: str) -> str:
    """Return a URL without user, password and query."""
    scheme, separator, tail = url.partition("://")
    return f"{scheme}{separator}{tail.partition('?')[0].rpartition('@')[2]}"
