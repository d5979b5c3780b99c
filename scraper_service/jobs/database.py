"""The job database: one engine, work in threads, the schema brought up to date."""

from __future__ import annotations

import asyncio
import fcntl
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Concatenate, ParamSpec, TypeVar

from sqlalchemy import create_engine, event, inspect, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from scraper_service.errors import ServiceUnavailable
from scraper_service.jobs.commits import Commits
from scraper_service.jobs.tables import metadata
from scraper_service.jobs.writer import Writer

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Awaitable, Callable, Iterator

    from scrapy.settings import BaseSettings
    from sqlalchemy import Connection, Engine

ItemT = TypeVar("ItemT")
ParamT = ParamSpec("ParamT")
ResultT = TypeVar("ResultT")

HEAD = "0016"  # the newest of the migrations; a test holds the two together
READERS = 4  # threads
BUSY_TIMEOUT_MS = 5_000
MOMENT_S = 0.1
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

logger = logging.getLogger(__name__)


class Database:
    """SQLite in ``data_dir``, or the server of ``url``.

    The constructor brings the schema up to date; it raises
    :exc:`sqlalchemy.exc.SQLAlchemyError` or :exc:`OSError` when there is no database
    to be had. Functions given to :meth:`read` and :meth:`write` take a connection
    inside a transaction, which their return commits and their exception rolls back.
    """

    _shared: ClassVar[dict[tuple[str, str], Database]] = {}

    def __init__(self, data_dir: Path, url: str = ""):
        self.data_dir = data_dir
        data_dir.mkdir(parents=True, exist_ok=True)
        address = url or f"sqlite:///{data_dir / 'jobs.sqlite'}"
        engine = create_engine(address)
        writing = engine
        if engine.dialect.name == "sqlite":
            # Of its own: what a connection has read is of no use to another one.
            writing = create_engine(address, pool_size=1, max_overflow=0)
            event.listen(writing, "connect", _prepare_sqlite_writer)
        self._open(engine, writing)
        _prepare(self.engine, data_dir)

    @classmethod
    def shared(cls, settings: BaseSettings) -> Database:
        """Return the one database of this process for these settings."""
        key = (settings["DATA_DIR"], settings["DATABASE_URL"])
        if key not in cls._shared:
            cls._shared[key] = cls(Path(key[0]), key[1])
        return cls._shared[key]

    @classmethod
    def in_memory(cls) -> Database:
        """Return a database of its own that leaves no file behind."""
        database = cls.__new__(cls)
        engine = create_engine(
            "sqlite://",
            poolclass=StaticPool,
            connect_args={"check_same_thread": False},
        )
        database._open(engine, engine, readers=0)
        metadata.create_all(database.engine)
        return database

    def _open(self, engine: Engine, writing: Engine, readers: int = READERS) -> None:
        self.engine, self._writing = engine, writing
        if engine.dialect.name == "sqlite":
            for each in {engine, writing}:
                event.listen(each, "connect", _prepare_sqlite, insert=True)
                event.listen(each, "begin", _begin_sqlite)
        self._writer = Writer(writing)
        self._commits = Commits()
        self._moment: asyncio.Future[None] | None = None
        # Counts and rows of one answer must be of one moment.
        self._snapshots = (
            engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
            if engine.dialect.name == "postgresql"
            else engine
        )
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

        loop = asyncio.get_running_loop()
        return await _answered(loop.run_in_executor(self._readers, transact))

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

    async def write_apart(
        self,
        function: Callable[Concatenate[Connection, ParamT], ResultT],
        *args: ParamT.args,
        **kwargs: ParamT.kwargs,
    ) -> ResultT:
        """Do as :meth:`write`, but not behind what waits, where the database can.

        SQLite has one writer at a time.
        """
        if self._readers is None or self.engine.dialect.name == "sqlite":
            return await self.write(function, *args, **kwargs)

        def transact() -> ResultT:
            with self.engine.begin() as connection:
                return function(connection, *args, **kwargs)

        loop = asyncio.get_running_loop()
        return await _answered(loop.run_in_executor(self._readers, transact))

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
        raise ServiceUnavailable("The job database does not answer.") from error


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


def _prepare(engine: Engine, data_dir: Path) -> None:
    """Make the tables of an empty database, or bring those of an older one up to date."""
    if _revision(engine) == HEAD:
        return
    with _alone(engine, data_dir), engine.begin() as connection:
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
    config.set_main_option("script_location", "scraper_service.jobs:migrations")
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
    """Keep other processes from migrating the same database at the same time."""
    if engine.dialect.name == "sqlite":
        with (data_dir / "jobs.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    else:
        with engine.connect() as connection:
            lock_id = {"id": MIGRATION_LOCK}
            connection.execute(text("SELECT pg_advisory_lock(:id)"), lock_id)
            try:
                yield
            finally:
                connection.execute(text("SELECT pg_advisory_unlock(:id)"), lock_id)
