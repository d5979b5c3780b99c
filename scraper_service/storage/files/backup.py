"""Backups of the data of a service: a folder that is made while the service runs.

The folder has a manifest, the job database (a SQLite file, or a dump of PostgreSQL), the secret,
and the other files of ``DATA_DIR``. It gets its name when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import closing, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict, field, frozen
from sqlalchemy import URL

from scraper_service.errors import BackupFailed
from scraper_service.storage.accounts.teams import MISMATCH, is_known_secret
from scraper_service.storage.connections import (
    SQLITE_FILE,
    database_url,
    is_sqlite,
    make_engine,
    place_of,
    unusable,
)
from scraper_service.storage.database import (
    BUSY_TIMEOUT_MS,
    FIRST,
    HEAD,
    TOO_OLD,
    revision_of,
)
from scraper_service.storage.secrets import (
    KEY_FILE,
    OURS,
    make_data_dir,
    mark_of,
    private_file,
    private_folder,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

FORM = 1  # of the manifest; a program restores its own form and older ones
MANIFEST = "manifest.json"
DUMP = "jobs.dump"  # of PostgreSQL
SQLITE, POSTGRESQL = "sqlite", "postgresql"
PROGRAM_S = 24 * 3600  # for pg_dump and pg_restore
# The database is copied by other means, and locks belong to running processes.
NOT_COPIED = ("jobs.sqlite", "jobs.lock", KEY_FILE)

_TEMPORARY = re.compile(r"\.\d+\.\d+$")  # of files that are being written


@frozen(kw_only=True)
class Manifest:
    """What a backup contains."""

    form: int = FORM
    #: Time of the backup as ISO 8601, UTC.
    made_at: str
    #: Version of the program that made it.
    version: str
    #: Revision of the tables.
    schema: str
    #: :data:`SQLITE` or :data:`POSTGRESQL`.
    database: str
    #: Name and SHA-256 of the database's file, and of the secret's if it has one.
    hashes: dict[str, str] = field(factory=dict)
    #: Stands for the secret of the service; empty if no secret was made yet.
    secret: str = ""
    #: Number of all other files, such as screenshots, and their bytes.
    files: int = 0
    bytes: int = 0


def back_up(folder: Path, data_dir: Path, url: str = "", secret: str = "") -> Manifest:
    """Write a backup into the new ``folder``.

    ``data_dir``, ``url`` and ``secret`` are the settings ``DATA_DIR``, ``DATABASE_URL`` and
    ``KEY_SECRET``. The database is that of one moment; each file that its rows name is there.
    Raises :exc:`BackupFailed` and :exc:`~scraper_service.errors.DatabaseUnusable`.
    """
    database = database_url(url, data_dir)
    if not data_dir.is_dir():
        raise BackupFailed(f"there is no data directory at {data_dir}")
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BackupFailed(f"{folder} exists already: name a new folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = tempfile.mkdtemp(prefix=f"{folder.name}.partial-", dir=folder.parent)
    except OSError as error:
        raise BackupFailed(f"{folder} cannot be made: {error.strerror}") from error
    try:
        made = _write(Path(partial), data_dir, database, secret)
        Path(partial).rename(folder)
    except OSError as error:
        raise BackupFailed(f"the backup cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return made


def _write(folder: Path, data_dir: Path, database: URL, secret: str) -> Manifest:
    # Files come before their rows and go after them. So each file of a row is there before
    # the database is copied, or new, and the second call copies it.
    _copy_files(data_dir, folder)
    if is_sqlite(database):
        kind, name = SQLITE, SQLITE_FILE
        schema = _copy_sqlite(Path(database.database or ""), folder / name)
    else:
        kind, name = POSTGRESQL, DUMP
        schema = _dump(database, folder / name)
    _check_secret(database, data_dir, secret)
    hashes = {name: _sha256(folder / name)}
    _copy_files(data_dir, folder)
    if not secret and (data_dir / KEY_FILE).exists():
        _copy(data_dir / KEY_FILE, folder / KEY_FILE)
        hashes[KEY_FILE] = _sha256(folder / KEY_FILE)
    copied = [path.stat().st_size for path in _files(folder) if path.name not in hashes]
    manifest = Manifest(
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        version=version("scraper-service"),
        schema=schema,
        database=kind,
        hashes=hashes,
        secret=mark_of(_secret(folder, secret)),
        files=len(copied),
        bytes=sum(copied),
    )
    private_file(folder / MANIFEST)
    (folder / MANIFEST).write_text(json.dumps(asdict(manifest), indent=1) + "\n")
    for path in _files(folder):
        _sync(path)
    return manifest


def restore(folder: Path, data_dir: Path, url: str = "", secret: str = "") -> Manifest:
    """Restore a backup into an empty database, and into ``data_dir``.

    The arguments are those of :func:`back_up`. Tables of an older version are migrated by the
    next start of the service. A restoration that was interrupted can be repeated. Raises
    :exc:`BackupFailed` and :exc:`~scraper_service.errors.DatabaseUnusable`.
    """
    manifest = read_manifest(folder)
    database = database_url(url, data_dir)
    _check(manifest, folder, data_dir, database, secret)
    try:
        make_data_dir(data_dir)
        _copy_files(folder, data_dir)
        if KEY_FILE in manifest.hashes and not secret:
            _copy(folder / KEY_FILE, data_dir / KEY_FILE)
        if manifest.database == SQLITE:
            _place(folder / SQLITE_FILE, Path(database.database or ""))
        else:
            _undump(folder / DUMP, database)
    except OSError as error:
        text = f"the backup cannot be restored: {error.strerror}"
        raise BackupFailed(text) from error
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a backup. Raises :exc:`BackupFailed`."""
    try:
        found: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
        if int(found["form"]) > FORM:
            text = f"the backup was made by a newer version ({found.get('version')})"
            raise BackupFailed(f"{text}: install that one")
        return Manifest(**found)
    except (OSError, ValueError, KeyError, TypeError) as error:
        text = f"{folder} is no backup: it has no valid {MANIFEST}"
        raise BackupFailed(text) from error


def _check(
    manifest: Manifest, folder: Path, data_dir: Path, database: URL, secret: str
) -> None:
    if manifest.schema < FIRST:
        raise BackupFailed(f"the database of the backup {TOO_OLD}")
    if manifest.schema > HEAD:
        raise BackupFailed(
            f"the backup has tables of a newer version ({manifest.version}) than this"
            " program knows: install that version"
        )
    if (manifest.database == SQLITE) != is_sqlite(database):
        named = "no PostgreSQL" if is_sqlite(database) else "a PostgreSQL"
        raise BackupFailed(
            f"the backup is of {manifest.database}, and SCRAPER_DATABASE_URL names {named}"
            " database"
        )
    for name, wanted in manifest.hashes.items():
        if not (folder / name).is_file() or _sha256(folder / name) != wanted:
            raise BackupFailed(f"{folder / name} is missing or damaged")
    here = _secret(data_dir, secret) or _secret(folder, "")
    if manifest.secret and mark_of(here) != manifest.secret:
        raise BackupFailed(
            "the backup belongs to another secret: set SCRAPER_KEY_SECRET to the one of"
            f" its service, or remove {data_dir / KEY_FILE} if it is not needed"
        )
    if is_sqlite(database):
        # SQLite would apply the log of an earlier database to the restored one.
        file = Path(database.database or "")
        if file.exists() or file.with_name(f"{file.name}-wal").exists():
            text = "the job database exists already, or a part of one (jobs.sqlite-wal)"
            raise BackupFailed(f"{text}: restore into an empty one")
    elif _revision(database) is not None:
        raise BackupFailed(
            f"the PostgreSQL database {database.database} at {place_of(database)} is not"
            " empty: restore into an empty one"
        )


# -- the database ----------------------------------------------------------------------


def _copy_sqlite(source: Path, target: Path) -> str:
    if not source.is_file():
        raise BackupFailed(f"there is no job database at {source}")
    private_file(target)
    timeout_s = BUSY_TIMEOUT_MS / 1000
    try:
        with (
            closing(
                sqlite3.connect(
                    f"{source.absolute().as_uri()}?mode=rw", timeout_s, uri=True
                )
            ) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            # In one step: with several it begins again after each write of others.
            old.backup(new, pages=-1)
            new.execute("PRAGMA journal_mode = DELETE")  # the copy is one file
            [(state,)] = new.execute("PRAGMA quick_check(1)").fetchall()
            found = new.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error as error:
        raise BackupFailed(f"{source} cannot be copied: {error}") from error
    if state != "ok":
        raise BackupFailed(f"{source} is damaged: {state}")
    if found is None:
        raise BackupFailed(f"{source} has no tables yet")
    return str(found[0])


def _place(source: Path, target: Path) -> None:
    """Copy the database to ``target``, in one step at the end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.restoring")
    _copy(source, partial)
    _sync(partial)
    partial.rename(target)


def _dump(database: URL, target: Path) -> str:
    found = _revision(database)
    if found is None:
        raise BackupFailed("the job database has no tables yet")
    private_file(target)
    _run("pg_dump", database, "--format=custom", f"--file={target}")
    return found


def _undump(source: Path, database: URL) -> None:
    options = ("--single-transaction", "--no-owner", "--no-privileges")
    _run("pg_restore", database, *options, str(source))


def _run(program: str, database: URL, *arguments: str) -> None:
    target = URL.create(
        POSTGRESQL,
        username=database.username,
        host=database.host,
        port=database.port,
        database=database.database,
        query=database.query,
    )
    environment = dict(os.environ)
    if database.password:
        environment["PGPASSWORD"] = str(database.password)
    command = (program, "--no-password", f"--dbname={target}", *arguments)
    try:
        done = subprocess.run(  # noqa: S603  # no shell, and the arguments are ours
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROGRAM_S,
        )
    except FileNotFoundError:
        raise BackupFailed(
            f"{program} is missing: install the client programs of PostgreSQL"
            " (postgresql-client), of the server's version or newer"
        ) from None
    except subprocess.TimeoutExpired:
        raise BackupFailed(f"{program} did not end within a day") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise BackupFailed(f"{program} failed: {lines[0]}")


def _revision(database: URL) -> str | None:
    engine = make_engine(database)
    try:
        return revision_of(engine)
    except Exception as error:
        raise unusable(database, error) from error
    finally:
        engine.dispose()


# -- files -----------------------------------------------------------------------------


def _files(folder: Path) -> Iterator[Path]:
    for where, _, names in os.walk(folder):
        yield from (Path(where, name) for name in names)


def _copy_files(source: Path, target: Path) -> None:
    """Copy the files of ``DATA_DIR`` that are missing in ``target`` or differ."""
    for entry in sorted(source.iterdir()):
        name = entry.name
        if not name.startswith(OURS) or name.startswith(NOT_COPIED):
            continue
        for path in _files(entry) if entry.is_dir() else (entry,):
            if not _TEMPORARY.search(path.name):
                with suppress(FileNotFoundError):  # its rows have just expired
                    _copy(path, target / path.relative_to(source))


def _copy(source: Path, target: Path) -> None:
    """Copy a file for this user only, unless ``target`` has its size and time."""
    of = source.stat()
    with suppress(FileNotFoundError):
        there = target.stat()
        if (there.st_size, there.st_mtime_ns) == (of.st_size, of.st_mtime_ns):
            return
    if not target.parent.exists():
        private_folder(target.parent)
    private_file(target)
    shutil.copyfile(source, target)
    os.utime(target, ns=(of.st_atime_ns, of.st_mtime_ns))


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- the secret ------------------------------------------------------------------------


def _check_secret(database: URL, data_dir: Path, setting: str) -> None:
    engine = make_engine(database)
    try:
        with engine.connect() as connection:
            if not is_known_secret(connection, _secret(data_dir, setting)):
                raise BackupFailed(MISMATCH)
    finally:
        engine.dispose()


def _secret(folder: Path, setting: str) -> bytes:
    """Return the secret of a setting or of a folder; empty if there is none."""
    if setting:
        return setting.encode()
    try:
        return (folder / KEY_FILE).read_text().strip().encode()
    except FileNotFoundError:
        return b""
