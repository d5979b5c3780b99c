"""The job database: one engine, work in threads, the schema brought up to date."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Concatenate, ParamSpec, TypeVar

from sqlalchemy import event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from scraper_service.errors import DatabaseUnusable, ServiceUnavailable
from scraper_service.private import close_to_others, private_file
from scraper_service.storage.commits import Commits
from scraper_service.storage.database_url import (
    database_url,
    is_sqlite,
    make_engine,
    unusable,
)
from scraper_service.storage.key_secret import (
    SECRET_BYTES,
    Box,
    key_secret,
    make_data_dir,
)
from scraper_service.storage.schema import metadata
from scraper_service.storage.timeouts import MIGRATING, READING, is_ended
from scraper_service.storage.write_queue import Writer

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable, Hashable, Iterator

    from scrapy.settings import BaseSettings
    from sqlalchemy import URL, Connection, Engine

ItemT = TypeVar("ItemT")
ParamT = ParamSpec("ParamT")
ResultT = TypeVar("ResultT")

FIRST = "r0001"  # the oldest migration; a layout from before it was never released
HEAD = FIRST  # the newest of the migrations; a test holds the two together
READERS = 4  # threads
READ_S = 40  # for an answer, the wait for a thread included
BUSY_TIMEOUT_MS = 5_000
NO_ANSWER = "The job database does not answer."
MOMENT_S = 0.1
EXPECTED_S = 1.0
INDEX = "index"  # with a team: its search index, for those who expect it
# As Alembic makes it.
_VERSION_TABLE = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL,"
    " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
_VERSION = "INSERT INTO alembic_version (version_num) VALUES (:head)"
# Keys of addresses are spread over the whole index of a job, so that each page changes
# as many pages of the file as it has links: they are kept until they have been changed
# often, and copied into the file when there are many of them.
WRITER_CACHE_KB = 16 * 1024
CHECKPOINT_PAGES = 4_000  # of 4 kB each
MIGRATION_LOCK = 0x5C4A9E12  # any number, the same in every process
LOOK_S = 0.1  # at the lock of a file

logger = logging.getLogger(__name__)


class Database:
    """SQLite in ``data_dir``, or the server of ``url``.

    ``secret`` is the setting ``KEY_SECRET``, with which secrets of jobs are encrypted;
    an empty one is kept in ``data_dir``.

    The constructor brings the schema up to date. It raises :exc:`DatabaseUnusable` if
    the database cannot be opened, or ``data_dir`` cannot be made. Functions given to
    :meth:`read` and :meth:`write` take a connection inside a transaction, which their
    return commits and their exception rolls back.
    """

    _shared: ClassVar[dict[tuple[str, str], Database]] = {}

    def __init__(self, data_dir: Path, url: str = "", secret: str = ""):
        self.data_dir = data_dir
        address = database_url(url, data_dir)
        _make_files(data_dir, address)
        engine = make_engine(address)
        writing = engine
        if is_sqlite(address):
            # Of its own: what a connection has read is of no use to another one.
            writing = make_engine(address, pool_size=1, max_overflow=0)
            event.listen(writing, "connect", _prepare_sqlite_writer)
        self._open(engine, writing, Box(lambda: key_secret(data_dir, secret), "jobs"))
        try:
            _connect(self.engine)
            _prepare(self.engine, data_dir)
        except BaseException:
            self.close()
            raise

    @classmethod
    def shared(cls, settings: BaseSettings) -> Database:
        """Return the one database of this process for these settings."""
        key = (settings["DATA_DIR"], settings["DATABASE_URL"])
        if key not in cls._shared:
            cls._shared[key] = cls(Path(key[0]), key[1], settings["KEY_SECRET"])
        return cls._shared[key]

    @classmethod
    def in_memory(cls) -> Database:
        """Return a database of its own that leaves no file behind."""
        database = cls.__new__(cls)
        engine = make_engine(
            make_url("sqlite://"),
            poolclass=StaticPool,
            connect_args={"check_same_thread": False},
        )
        box = Box(partial(secrets.token_bytes, SECRET_BYTES), "jobs")
        database._open(engine, engine, box, readers=0)
        metadata.create_all(database.engine)
        return database

    def _open(
        self, engine: Engine, writing: Engine, box: Box, readers: int = READERS
    ) -> None:
        if engine.dialect.name == "sqlite":
            for each in {engine, writing}:
                event.listen(each, "connect", _prepare_sqlite, insert=True)
                event.listen(each, "begin", _begin_sqlite)
        elif engine.driver == "psycopg":
            from scraper_service.storage.postgres import prepare_engine  # noqa: PLC0415

            prepare_engine(engine)
        engine, writing = (e.execution_options(box=box) for e in (engine, writing))
        self.engine, self._writing = engine, writing
        self._writer = Writer(writing)
        self._commits = Commits()
        self._moment: asyncio.Future[None] | None = None
        self._expected: dict[Hashable, asyncio.Task[None]] = {}
        # Counts and rows of one answer must be of one moment.
        self._snapshots = engine.execution_options(waits=READING)
        # One connection in memory serves all: reads queue with the writes.
        self._readers = (
            ThreadPoolExecutor(readers, "database-read") if readers else None
        )

    async def read(
        self,
        function: Callable[Concatenate[Connection, ParamT], ResultT],
        *args: ParamT.args,
        **kwargs: ParamT.kwargs,
    ) -> ResultT:
        """Run ``function`` in a reader thread, on one snapshot; see the class."""
        if self._readers is None:
            return await self.write(function, *args, **kwargs)

        def transact() -> ResultT:
            with self._snapshots.begin() as connection:
                return function(connection, *args, **kwargs)

        return await self._in_thread(transact)

    async def write(
        self,
        function: Callable[Concatenate[Connection, ParamT], ResultT],
        *args: ParamT.args,
        **kwargs: ParamT.kwargs,
    ) -> ResultT:
        """Run ``function`` in the one writer thread; see the class.

        Functions that wait share a transaction; returns after its commit. One that
        locks rows is for :meth:`write_locking`.
        """

        def work_on(connection: Connection) -> ResultT:
            return function(connection, *args, **kwargs)

        work = self._writer.submit(work_on)
        return await _answered(asyncio.wrap_future(work))

    async def write_later(
        self,
        function: Callable[Concatenate[Connection, str, ParamT], ResultT],
        name: str,
        *args: ParamT.args,
        **kwargs: ParamT.kwargs,
    ) -> ResultT:
        """Do as :meth:`write_locking` after a moment, with what else comes in it.

        For what nobody waits for: the threads share the processor with those who wait.
        """
        if self._moment is None or self._moment.done():
            self._moment = asyncio.ensure_future(asyncio.sleep(MOMENT_S))
        await asyncio.shield(self._moment)
        return await self.write_locking(function, name, *args, **kwargs)

    def expect(self, name: Hashable, writing: asyncio.Task[None]) -> None:
        """Note that ``writing`` will write what is read by ``name``."""
        self._expected[name] = writing

        def forget(_: object) -> None:
            if self._expected.get(name) is writing:
                del self._expected[name]

        writing.add_done_callback(forget)

    async def expected(self, name: Hashable) -> None:
        """Wait until what is on its way in this process under ``name`` is written.

        So a caller finds what an answer before told it. It takes :data:`EXPECTED_S` at
        most, whatever else is written.
        """
        if (writing := self._expected.get(name)) is not None:
            await asyncio.wait((writing,), timeout=EXPECTED_S)

    async def write_apart(
        self,
        function: Callable[Concatenate[Connection, ParamT], ResultT],
        *args: ParamT.args,
        **kwargs: ParamT.kwargs,
    ) -> ResultT:
        """Do as :meth:`write`, but not behind what waits, where the database can.

        SQLite has one writer at a time. ``function`` locks nothing that others want,
        since readers wait for its thread, and may be repeated.
        """
        if self._readers is None or self.engine.dialect.name == "sqlite":
            return await self.write(function, *args, **kwargs)

        def transact() -> ResultT:
            with self.engine.begin() as connection:
                return function(connection, *args, **kwargs)

        return await self._in_thread(transact)

    async def write_aside(
        self,
        function: Callable[Concatenate[Connection, ParamT], ResultT],
        name: str,
        *args: ParamT.args,
        **kwargs: ParamT.kwargs,
    ) -> ResultT:
        """Do as :meth:`write_first`, but not behind what waits, where the database can.

        SQLite has one writer at a time.
        """
        if self.engine.dialect.name == "sqlite":
            return await self.write_first(function, name, *args, **kwargs)

        def work_on(connection: Connection) -> ResultT:
            return function(connection, *args, **kwargs)

        work = self._writer.submit_aside(work_on, f"!{name}")
        return await _answered(asyncio.wrap_future(work))

    def write_at_once(
        self,
        function: Callable[Concatenate[Connection, ParamT], ResultT],
        *args: ParamT.args,
        **kwargs: ParamT.kwargs,
    ) -> ResultT:
        """Do as :meth:`write`, while a process that begins waits for it.

        Raises :exc:`sqlalchemy.exc.SQLAlchemyError`.
        """

        def work_on(connection: Connection) -> ResultT:
            return function(connection, *args, **kwargs)

        return self._writer.submit(work_on).result()

    async def drain(self) -> None:
        """Wait until what was to be written later is with the writer."""
        if self._moment is not None:
            await asyncio.wait([self._moment])
            await asyncio.sleep(0)  # what waited for it comes first

    async def write_locking(
        self,
        function: Callable[Concatenate[Connection, str, ParamT], ResultT],
        name: str,
        *args: ParamT.args,
        **kwargs: ParamT.kwargs,
    ) -> ResultT:
        """Do as :meth:`write`; ``function`` locks a row that others want, too.

        ``name`` is its key: a job (whose row is locked before others of it), a host, a
        source. Of what shares a transaction, names come in their order.
        """

        def work_on(connection: Connection) -> ResultT:
            return function(connection, name, *args, **kwargs)

        work = self._writer.submit(work_on, name)
        result = await _answered(asyncio.wrap_future(work))
        self._commits.note(name)
        return result

    async def write_first(
        self,
        function: Callable[Concatenate[Connection, ParamT], ResultT],
        name: str,
        *args: ParamT.args,
        **kwargs: ParamT.kwargs,
    ) -> ResultT:
        """Do as :meth:`write`; ``function`` locks the row of a team, or one below it.

        ``name`` is the team's id, or begins with it. Teams are locked before jobs.
        """

        def work_on(connection: Connection) -> ResultT:
            return function(connection, *args, **kwargs)

        work = self._writer.submit(work_on, f"!{name}")  # before all ids and hosts
        return await _answered(asyncio.wrap_future(work))

    async def write_each(
        self,
        function: Callable[[Connection, str, list[ItemT]], list[ResultT]],
        job_id: str,
        item: ItemT,
        *,
        waits: bool = True,
    ) -> ResultT:
        """Do as :meth:`write_locking`; ``function`` takes all items that wait for it.

        An item that ``waits`` does so a moment for others; not one of a row of items,
        each of which is written after the one before.
        """
        work = self._writer.submit_each(function, job_id, item, waits=waits)
        result = await _answered(asyncio.wrap_future(work))
        self._commits.note(job_id)
        return result

    def changed(self, name: str, within_s: float) -> asyncio.Future[None]:
        """Return what is done after the next commit of this process under ``name``.

        After ``within_s`` at the latest, see :meth:`Commits.next`. The names are those
        of :meth:`write_locking` and :meth:`write_each`.
        """
        return self._commits.next(name, within_s)

    async def _in_thread(self, transact: Callable[[], ResultT]) -> ResultT:
        """Run ``transact`` in a reader thread, twice if its connection had ended."""

        def run() -> ResultT:
            try:
                return transact()
            except SQLAlchemyError as error:
                if not is_ended(error):
                    raise
                return transact()

        work = asyncio.get_running_loop().run_in_executor(self._readers, run)
        try:
            async with asyncio.timeout(READ_S):
                return await _answered(work)
        except TimeoutError:
            logger.error("the job database did not answer within %d s", READ_S)
            raise ServiceUnavailable(NO_ANSWER) from None

    def close(self) -> None:
        """Wait for what is under way and close the connections."""
        for key, database in tuple(self._shared.items()):
            if database is self:
                del self._shared[key]
        if self._readers is not None:
            self._readers.shutdown()
        self._writer.close()
        self._writing.dispose()
        self.engine.dispose()


async def _answered(work: Awaitable[ResultT]) -> ResultT:
    try:
        return await work
    except SQLAlchemyError as error:
        logger.error("the job database failed: %s", error)
        raise ServiceUnavailable(NO_ANSWER) from error


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    # The driver opens transactions only for writes, and none for DDL: we open all.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    cursor.close()


def _prepare_sqlite_writer(connection: sqlite3.Connection, _: object) -> None:
    connection.execute(f"PRAGMA cache_size = -{WRITER_CACHE_KB}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")


def _begin_sqlite(connection: Connection) -> None:
    # A writer that began as a reader would fail when another wrote in between.
    immediate = connection.get_execution_options().get("immediate")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _make_files(data_dir: Path, url: URL) -> None:
    """Make what has to be private before anything is written into it."""
    try:
        make_data_dir(data_dir)
    except OSError as error:
        text = f"the data directory {data_dir} cannot be made: {error.strerror}"
        raise DatabaseUnusable(text) from error
    if not is_sqlite(url) or "uri" in url.query:
        return
    path = Path(url.database or "")
    try:
        private_file(path)  # SQLite gives its mode to what it makes beside it
    except OSError as error:
        raise unusable(url, error) from error
    for suffix in ("-wal", "-shm"):
        close_to_others(path.with_name(path.name + suffix))


def _connect(engine: Engine) -> None:
    """Open a first connection; raise :exc:`DatabaseUnusable`."""
    try:
        with engine.connect():
            pass
    except (SQLAlchemyError, TypeError, ValueError) as error:
        # The drivers raise all of them for parts of a URL.
        raise unusable(engine.url, error) from error


def _prepare(engine: Engine, data_dir: Path) -> None:
    """Make the tables of an empty database, or bring those of an older one up to date.

    Raises :exc:`OSError` when another process does that, and does not come to an end.
    """
    try:
        found = _revision(engine)
    except SQLAlchemyError as error:
        raise unusable(engine.url, error) from error
    if found == HEAD:
        return
    if found is not None and found < FIRST:
        raise DatabaseUnusable(
            "the job database was made before the first release, whose tables differ:"
            " move the data directory away, or name an empty database by"
            " SCRAPER_DATABASE_URL; finish or export its jobs with the old version before"
        )
    if found is not None and found > HEAD:
        raise DatabaseUnusable(
            f"the tables of the job database are of a newer version ({found}) than this"
            f" program knows ({HEAD}): install the newer version here, too"
        )
    engine = engine.execution_options(waits=MIGRATING)
    with _alone(engine, data_dir), engine.begin() as connection:
        if engine.dialect.name != "sqlite":
            # Of the transaction: a session may have many behind a pooler.
            lock = text("SELECT pg_advisory_xact_lock(:id)")
            connection.execute(lock, {"id": MIGRATION_LOCK})
        if inspect(connection).get_table_names():
            migrate(connection)
        else:
            metadata.create_all(connection)
            connection.execute(text(_VERSION_TABLE))
            connection.execute(text(_VERSION), {"head": HEAD})


def migrate(connection: Connection) -> None:
    """Run the migrations that a database has not had, over ``connection``."""
    # Imported here: a start that migrates nothing saves its time and memory.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", "scraper_service.storage:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _revision(engine: Engine) -> str | None:
    with engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        found = connection.execute(text("SELECT version_num FROM alembic_version"))
        return found.scalar()


@contextmanager
def _alone(engine: Engine, data_dir: Path) -> Iterator[None]:
    """Keep other processes from migrating the same file at the same time."""
    if engine.dialect.name != "sqlite":
        yield
        return
    path = data_dir / "jobs.lock"
    private_file(path)
    with path.open("w") as lock:
        end = time.monotonic() + MIGRATING.lock_s
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    text = (
                        "another process has been migrating the job database for long"
                    )
                    raise TimeoutError(text) from None
                time.sleep(LOOK_S)
        yield
