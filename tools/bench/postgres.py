"""A PostgreSQL server from the system's packages, private to a test run."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

USER = "tester"
DEBIAN = Path("/usr/lib/postgresql")
START_TIMEOUT_S = 200
STOP_TIMEOUT_S = 15
# Written data survives a crash of the server; tests need no protection from power loss.
OPTIONS = {
    "autovacuum": "off",  # it would look at all databases of all tests, once a minute
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "unix_socket_directories": "",
}


class PostgresMissing(LookupError):
    """Raised when this machine has no usable PostgreSQL; the text has the reason."""


class Postgres:
    """A server on a free port of ``host``; a call creates a database. A context manager.

    ``options`` are settings of the server. Clients need its password, from any address. Under root it runs as the user ``postgres``, else
    ``nobody``. Raises :exc:`PostgresMissing`, and :exc:`RuntimeError` if an installed server
    does not start.
    """

    def __init__(self, host: str = "127.0.0.1", **options: str) -> None:
        self._host = host
        self._options = {**OPTIONS, "listen_addresses": host, **options}
        self._programs = programs = find_programs()
        self._user = _unprivileged()
        self._count = 0
        self._password = secrets.token_hex(16)
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        try:
            self._initialise(programs)
            self.port = _free_port()
            self._process = self._start(programs)
            self._wait()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def __call__(self, original: str = "") -> str:
        """Create a database and return its URL for SQLAlchemy.

        It is empty, or a copy of the one with the URL ``original``, which nobody may use
        meanwhile.
        """
        self._count += 1
        name = f"test_{self._count}"
        command = f"CREATE DATABASE {name}"
        if original:
            command += f" TEMPLATE {original.rpartition('/')[2]} STRATEGY file_copy"
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(command)
        return self._address(name).replace("postgresql:", "postgresql+psycopg:")

    @property
    def pid(self) -> int:
        return self._process.pid

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server and start it again; SIGINT is ``fast``, SIGQUIT ``immediate``."""
        self._process.send_signal(how)
        self._process.wait(STOP_TIMEOUT_S)
        self._process = self._start(self._programs)
        self._wait()

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Stop the server, and start it again at the end."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(STOP_TIMEOUT_S)
        try:
            yield
        finally:
            self._process = self._start(self._programs)
            self._wait()

    def stop(self) -> None:
        """Stop the server with all its connections, and remove its files."""
        process = getattr(self, "_process", None)
        if process is not None:
            process.send_signal(signal.SIGINT)  # the "fast" shutdown
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGQUIT)
                process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _initialise(self, programs: Path) -> None:
        password_file = self._folder / "password"
        password_file.write_text(self._password)
        if self._user:
            account = pwd.getpwnam(self._user)
            os.chown(self._folder, account.pw_uid, account.pw_gid)
            os.chown(password_file, account.pw_uid, account.pw_gid)
        # md5 is checked faster than scram-sha-256, and tests open thousands of connections.
        command = (
            *(str(programs / "initdb"), "--pgdata", str(self._folder / "data")),
            *("--username", USER, "--pwfile", str(password_file)),
            *("--auth", "md5", "--encoding", "UTF8", "--locale", "C"),
            "--no-sync",
        )
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, **self._rights()
        )
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stderr or done.stdout}")
        with (self._folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all md5\n")

    def _start(self, programs: Path) -> subprocess.Popen[bytes]:
        options = {**self._options, "port": str(self.port)}
        settings = (f"--{name}={value}" for name, value in options.items())
        with (self._folder / "log").open("wb") as log:
            return subprocess.Popen(
                (programs / "postgres", "-D", self._folder / "data", *settings),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._rights(),
            )

    def _wait(self) -> None:
        end = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                psycopg.connect(self._address("postgres"), connect_timeout=5).close()
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > end:
                    log = (self._folder / "log").read_text(errors="replace")
                    raise RuntimeError(
                        f"PostgreSQL: no start: {error}\n{log}"
                    ) from None
                time.sleep(0.05)
            else:
                return

    def _address(self, database: str) -> str:
        return (
            f"postgresql://{USER}:{self._password}@{self._host}:{self.port}/{database}"
        )

    def _rights(self) -> dict[str, object]:
        """Return the arguments of :mod:`subprocess` to run as another user."""
        if not self._user:
            return {"cwd": self._folder}
        account = pwd.getpwnam(self._user)
        ids = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        return {"cwd": self._folder, **ids}


def find_programs() -> Path:
    """Return the folder of both programs: from the PATH, else Debian's newest."""
    found = [Path(path).parent for path in [shutil.which("initdb")] if path]
    found += sorted(DEBIAN.glob("*/bin"), key=_version, reverse=True)
    for folder in found:
        if all((folder / name).exists() for name in ("initdb", "postgres")):
            return folder
    raise PostgresMissing("PostgreSQL is not installed: no initdb on the PATH")


def _version(folder: Path) -> float:
    try:
        return float(folder.parent.name)
    except ValueError:
        return 0


def _unprivileged() -> str:
    """Return the user for PostgreSQL, which refuses root; empty for the current user."""
    if os.geteuid() != 0:
        return ""
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    raise PostgresMissing("PostgreSQL refuses root and there is no user to run it as")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
