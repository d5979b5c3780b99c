"""The job database: connections, threads for reads and writes, migrations."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import secrets
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, TypeVar

from sqlalchemy import create_mock_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from scraper_service.errors import (
    DatabaseUnusable,
    DiskFull,
    ServiceError,
    ServiceUnavailable,
)
from scraper_service.shared_objects import Singletons
from scraper_service.storage.connections import (
    DRIVERS,
    MIGRATING,
    READING,
    database_url,
    is_ended,
    is_full,
    is_sqlite,
    make_engine,
    unusable,
)
from scraper_service.storage.schema import metadata
from scraper_service.storage.secrets import (
    SECRET_BYTES,
    Box,
    close_to_others,
    key_secret,
    make_data_dir,
    private_file,
)
from scraper_service.storage.transactions import locking_of
from scraper_service.storage.write_queue import READ_TIME, STORE_TIME, Commits, Writer

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Coroutine,
        Hashable,
        Iterator,
        Mapping,
        Sequence,
    )

    from scrapy.settings import BaseSettings
    from sqlalchemy import URL, Connection, Engine
    from sqlalchemy.schema import DDLElement

ItemT = TypeVar("ItemT")
ParamT = ParamSpec("ParamT")
ResultT = TypeVar("ResultT")

# The migrations of the oldest layout that is known, and of the newest one.
FIRST = HEAD = "v0005"
TOO_OLD = (
    "was made by an earlier version, whose tables differ: move the data directory away, or"
    " name an empty database by SCRAPER_DATABASE_URL; finish or export its jobs with the old"
    " version before"
)
READERS = 4  # threads
TOLD_EVERY_S = 1.0  # between two lines of the log about a database that fails
READ_S = 40  # for a read, with the wait for a thread
BUSY_TIMEOUT_MS = 5_000
NO_ANSWER = "The job database does not answer."
MOMENT_S = 0.1
EXPECTED_S = 1.0
INDEX = "index"  # with a team id: the name of its page index for Database.expect
# As Alembic creates it.
_VERSION_TABLE = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL,"
    " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
_VERSION = "INSERT INTO alembic_version (version_num) VALUES (:head)"
# Keys of URLs are hashes, so the links of a page change as many pages of the file. A
# large cache and rare checkpoints combine many changes of the same page.
WRITER_CACHE_KB = 16 * 1024
CHECKPOINT_PAGES = 4_000  # of 4 kB each
MIGRATION_LOCK = 0x5C4A9E12  # an arbitrary number, the same in each process
LOOK_S = 0.1  # between two tries to lock the file

logger = logging.getLogger(__name__)


class Database:
    """A SQLite database in ``data_dir``, or the database server of ``url``.

    The constructor migrates the schema. It raises :exc:`DatabaseUnusable` if the database
    cannot be opened or ``data_dir`` cannot be created. ``secret`` is the setting
    ``KEY_SECRET``, which encrypts the secrets of jobs. Without a setting, a file in
    ``data_dir`` has the secret.

    Functions for :meth:`read` and the ``write`` methods take a connection inside a
    transaction. Their return commits the transaction, and an exception rolls it back.
    :meth:`read` runs in a reader thread. Writes run in one writer thread and share
    transactions. So a function returns a :exc:`ServiceError` that must not undo the others,
    and the methods raise it after the commit. A function that locks rows declares them
    with :func:`~scraper_service.storage.transactions.transaction`. All methods raise
    :exc:`ServiceUnavailable` if the database does not respond.
    """

    _instances: ClassVar[Singletons[Database]] = Singletons()
    _watched: sqlite3.Connection | None = None

    def __init__(self, data_dir: Path, url: str = "", secret: str = ""):
        self.data_dir = data_dir
        where = database_url(url, data_dir)
        _make_files(data_dir, where)
        engine = make_engine(where)
        writing = engine
        if is_sqlite(where):
            # An engine of its own with a large cache, which readers do not share.
            writing = make_engine(where, pool_size=1, max_overflow=0)
            event.listen(writing, "connect", _prepare_sqlite_writer)
        self._open(engine, writing, Box(lambda: key_secret(data_dir, secret), "jobs"))
        try:
            _connect(self.engine)
            _prepare(self.engine, data_dir)
            self._watched = _watching(self.engine)
        except BaseException:
            self.close()
            raise

    @classmethod
    def shared(cls, settings: BaseSettings) -> Database:
        """Return the database of this process for these settings."""
        key = (settings["DATA_DIR"], settings["DATABASE_URL"])

        def make() -> Database:
            return cls(Path(key[0]), key[1], settings["KEY_SECRET"])

        return cls._instances.get(key, make)

    @classmethod
    def in_memory(cls) -> Database:
        """Return a new database in memory."""
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
        self._expected: dict[Hashable, asyncio.Future[None]] = {}
        # Counts and rows of one response must be of one moment.
        self._snapshots = engine.execution_options(waits=READING)
        # A database in memory has one connection: reads queue with writes.
        self._readers = (
            ThreadPoolExecutor(readers, "database-read") if readers else None
        )

    async def read(
        self,
        function: Callable[Concatenate[Connection, ParamT], ResultT | ServiceError],
        *args: ParamT.args,
        **kwargs: ParamT.kwargs,
    ) -> ResultT:
        """Run ``function`` in a reader thread, on one snapshot of the database."""
        if self._readers is None:
            return await self.write(function, *args, **kwargs)

        def transact() -> ResultT | ServiceError:
            with READ_TIME.time(), self._snapshots.begin() as connection:
                return function(connection, *args, **kwargs)

        return _unless_error(await self._in_thread(transact))

    async def write(
        self,
        function: Callable[Concatenate[Connection, ParamT], ResultT | ServiceError],
        *args: ParamT.args,
        **kwargs: ParamT.kwargs,
    ) -> ResultT:
        """Run ``function`` where its :func:`transaction` says. Return after the commit."""
        return await self._write(function, args, kwargs)

    async def write_later(
        self,
        function: Callable[Concatenate[Connection, ParamT], ResultT | ServiceError],
        *args: ParamT.args,
        **kwargs: ParamT.kwargs,
    ) -> ResultT:
        """Do as :meth:`write` after :data:`MOMENT_S`, together with other calls.

        For writes without a waiting client: they leave the processor to other threads.
        """
        if self._moment is None or self._moment.done():
            self._moment = asyncio.ensure_future(asyncio.sleep(MOMENT_S))
        await asyncio.shield(self._moment)
        return await self._write(function, args, kwargs, waits=True)

    async def _write(
        self,
        function: Callable[..., ResultT | ServiceError],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        waits: bool = False,
    ) -> ResultT:
        def run(connection: Connection) -> ResultT | ServiceError:
            return function(connection, *args, **kwargs)

        def transact() -> ResultT | ServiceError:
            with self.engine.begin() as connection:
                return run(connection)

        locking = locking_of(function)
        name = locking.name_of(args, kwargs)
        if not locking.is_apart or self.engine.dialect.name == "sqlite":
            work = self._writer.submit(run, name, waits=waits)
        elif name:
            work = self._writer.submit_aside(run, name)
        else:
            return _unless_error(await self._in_thread(transact))
        result = await _translate_errors(asyncio.wrap_future(work))
        if locking.is_row:
            self._commits.note(name)
        return _unless_error(result)

    def write_blocking(
        self,
        function: Callable[Concatenate[Connection, ParamT], ResultT | ServiceError],
        *args: ParamT.args,
        **kwargs: ParamT.kwargs,
    ) -> ResultT:
        """Do as :meth:`write` in the writer thread, and block until the commit.

        For the start of a process. Raises :exc:`sqlalchemy.exc.SQLAlchemyError`.
        """
        name = locking_of(function).name_of(args, kwargs)
        work = self._writer.submit(lambda c: function(c, *args, **kwargs), name)
        return _unless_error(work.result())

    async def write_each(
        self,
        function: Callable[[Connection, str, list[ItemT]], list[ResultT]],
        job_id: str,
        item: ItemT,
        *,
        waits: bool = True,
    ) -> ResultT:
        """Run ``function`` with all waiting items of a job at once, with the job's lock.

        An item that ``waits`` does so a moment for others. Items that are written one after
        the other do not wait.
        """
        with STORE_TIME.time():
            work = self._writer.submit_each(function, job_id, item, waits=waits)
            result = await _translate_errors(asyncio.wrap_future(work))
        self._commits.note(job_id)
        return result

    async def drain(self) -> None:
        """Wait until the calls of :meth:`write_later` have reached the writer."""
        if self._moment is not None:
            await asyncio.wait([self._moment])
            await asyncio.sleep(0)  # the waiting calls run first

    def expect(self, name: Hashable, writing: asyncio.Future[None]) -> None:
        """Register the future or task ``writing`` of what readers of ``name`` expect."""
        self._expected[name] = writing

        def forget(_: object) -> None:
            if self._expected.get(name) is writing:
                del self._expected[name]

        writing.add_done_callback(forget)

    async def wait_for_expected(self, name: Hashable) -> None:
        """Wait for the last that :meth:`expect` registered for ``name``.

        So a client can read what an earlier response has confirmed. The wait ends after at most
        :data:`EXPECTED_S`.
        """
        if (writing := self._expected.get(name)) is not None:
            await asyncio.wait((writing,), timeout=EXPECTED_S)

    def next_commit(self, name: str, within_s: float) -> asyncio.Future[None]:
        """Return a future of the next commit of this process under ``name``.

        The future is done after ``within_s`` at the latest, see :meth:`Commits.next`. Names are
        those of rows in :func:`transaction`, and the jobs of :meth:`write_each`.
        """
        return self._commits.next(name, within_s)

    def version(self) -> int | None:
        """Return a number that another number follows after each commit of any process.

        None if nobody knows, as for a database server. Does not wait for the database.
        """
        if self._watched is None:
            return None
        try:
            return int(self._watched.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error:
            return None

    async def _in_thread(self, transact: Callable[[], ResultT]) -> ResultT:
        """Run ``transact`` in a reader thread, a second time if its connection had ended."""

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
                return await _translate_errors(work)
        except TimeoutError:
            logger.error("the job database did not answer within %d s", READ_S)
            raise ServiceUnavailable(NO_ANSWER) from None

    def close(self) -> None:
        """Wait for running functions and close the connections."""
        self._instances.discard(self)
        if self._readers is not None:
            self._readers.shutdown()
        self._writer.close()
        if self._watched is not None:
            self._watched.close()
        self._writing.dispose()
        self.engine.dispose()


def reading(
    function: Callable[Concatenate[Connection, ParamT], ResultT | ServiceError],
) -> Callable[Concatenate[Any, ParamT], Coroutine[Any, Any, ResultT]]:
    """Return a method of a store that runs ``function`` by :meth:`Database.read`.

    The store has its database in ``_database``. The method raises the errors that the
    function may return.
    """
    return _method(Database.read, function)


def writing(
    function: Callable[Concatenate[Connection, ParamT], ResultT | ServiceError],
) -> Callable[Concatenate[Any, ParamT], Coroutine[Any, Any, ResultT]]:
    """Do as :func:`reading` by :meth:`Database.write`."""
    return _method(Database.write, function)


def _method(run: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def method(store: Any, /, *args: Any, **kwargs: Any) -> Any:
        return run(store._database, function, *args, **kwargs)

    return method


class _Failures:
    """Logs the failures of databases, one in :data:`TOLD_EVERY_S` during an outage."""

    def __init__(self) -> None:
        self._told_at = -TOLD_EVERY_S

    def tell(self, error: Exception) -> None:
        now = time.monotonic()
        is_due = now >= self._told_at + TOLD_EVERY_S
        if is_due:
            self._told_at = now
        level = logging.ERROR if is_due else logging.DEBUG
        logger.log(level, "the job database failed: %s", error)


_failures = _Failures()


async def _translate_errors(work: Awaitable[ResultT]) -> ResultT:
    try:
        return await work
    except SQLAlchemyError as error:
        _failures.tell(error)
        if is_full(error):
            raise DiskFull from error
        raise ServiceUnavailable(NO_ANSWER) from error


def _unless_error(result: ResultT | ServiceError) -> ResultT:
    if isinstance(result, ServiceError):
        raise result
    return result


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    # The driver opens transactions for writes only, and none for DDL: we open all.
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
    # A transaction that begins with a read fails if another process writes before it.
    immediate = connection.get_execution_options().get("immediate")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _make_files(data_dir: Path, url: URL) -> None:
    """Create private files before anything is written into them."""
    try:
        make_data_dir(data_dir)
    except OSError as error:
        text = f"the data directory {data_dir} cannot be made: {error.strerror}"
        raise DatabaseUnusable(text) from error
    if not is_sqlite(url) or "uri" in url.query:
        return
    path = Path(url.database or "")
    try:
        private_file(path)  # SQLite creates its other files with the same mode
    except OSError as error:
        raise unusable(url, error) from error
    for suffix in ("-wal", "-shm"):
        close_to_others(path.with_name(path.name + suffix))


def _connect(engine: Engine) -> None:
    try:
        with engine.connect():
            pass
    except (SQLAlchemyError, TypeError, ValueError) as error:
        # The drivers raise these errors for parts of a URL.
        raise unusable(engine.url, error) from error


def _watching(engine: Engine) -> sqlite3.Connection | None:
    """Return a connection that only :meth:`Database.version` uses, in any one thread.

    None for a database server, or if it cannot be opened.
    """
    if engine.dialect.name != "sqlite":
        return None
    given: Any = engine.dialect.create_connect_args(engine.url)  # as each connection
    path, options = given[0], {**given[1], "timeout": 0, "check_same_thread": False}
    try:
        found: sqlite3.Connection = sqlite3.connect(*path, **options)
    except sqlite3.Error:
        return None
    return found


def _prepare(engine: Engine, data_dir: Path) -> None:
    """Create the tables of an empty database, or migrate older tables.

    Raises :exc:`OSError` if another process migrates and does not finish.
    """
    try:
        found = revision_of(engine)
    except SQLAlchemyError as error:
        raise unusable(engine.url, error) from error
    if found == HEAD:
        return
    if found is not None and found < FIRST:
        raise DatabaseUnusable(f"the job database {TOO_OLD}")
    if found is not None and found > HEAD:
        raise DatabaseUnusable(
            f"the tables of the job database are of a newer version ({found}) than this"
            f" program knows ({HEAD}): install the newer version here, too"
        )
    engine = engine.execution_options(waits=MIGRATING)
    with _alone(engine, data_dir), engine.begin() as connection:
        if engine.dialect.name != "sqlite":
            # For the transaction, since a pooler shares sessions.
            lock = text("SELECT pg_advisory_xact_lock(:id)")
            connection.execute(lock, {"id": MIGRATION_LOCK})
        if inspect(connection).get_table_names():
            migrate(connection)
        else:
            for statement in create_statements(engine.dialect.name):
                connection.exec_driver_sql(statement)
            connection.execute(text(_VERSION_TABLE))
            connection.execute(text(_VERSION), {"head": HEAD})


@cache
def create_statements(dialect: str) -> tuple[str, ...]:
    """Return the SQL that creates all tables in ``sqlite`` or ``postgresql``.

    It takes far longer to make than to run.
    """
    statements: list[str] = []

    def add(statement: DDLElement, *_: object, **__: object) -> None:
        statements.append(str(statement.compile(dialect=engine.dialect)))

    engine = create_mock_engine(f"{DRIVERS[dialect]}://", add)
    metadata.create_all(engine, checkfirst=False)
    return tuple(statements)


def migrate(connection: Connection, revision: str = "head") -> None:
    """Run the missing migrations up to ``revision`` over ``connection``."""
    # Imported here, since most starts migrate nothing.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def revision_of(engine: Engine) -> str | None:
    """Return the revision of the tables, None for an empty database."""
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
