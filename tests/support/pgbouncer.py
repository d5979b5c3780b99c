"""The system's PgBouncer in transaction pooling mode, in front of a test's server."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
START_TIMEOUT_S = 30
USER = "nobody"  # PgBouncer refuses to run as root


class PgBouncer:
    """A PgBouncer on a free port of 127.0.0.1, a context manager.

    ``url`` is the URL of the database through PgBouncer. :data:`PROGRAM` must be installed.
    """

    def __init__(self, url: str):
        address = urlsplit(url)
        user = address.netloc.rpartition("@")[0]
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self.url = address._replace(netloc=f"{user}@127.0.0.1:{self.port}").geturl()
        self._folder = Path(tempfile.mkdtemp(prefix="pgbouncer-"))
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "plain",
            "auth_file": self._folder / "users",
            "pool_mode": "transaction",
            "default_pool_size": 3,
            "server_login_retry": 1,
            "logfile": self._folder / "log",
        }
        lines = (
            *("[databases]", f"* = host={address.hostname} port={address.port}"),
            *(
                "[pgbouncer]",
                *(f"{name} = {value}" for name, value in settings.items()),
            ),
        )
        (self._folder / "ini").write_text("\n".join((*lines, "")))
        password = f'"{address.username}" "{address.password}"\n'
        (self._folder / "users").write_text(password)
        if os.geteuid() == 0:
            account = pwd.getpwnam(USER)
            for each in (self._folder, *self._folder.iterdir()):
                os.chown(each, account.pw_uid, account.pw_gid)

    def __enter__(self) -> Self:
        user = USER if os.geteuid() == 0 else None
        assert PROGRAM is not None
        self._process = subprocess.Popen(
            [PROGRAM, "-q", self._folder / "ini"], user=user
        )
        end = time.monotonic() + START_TIMEOUT_S
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            assert self._process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)

    def restart(self) -> None:
        """Cut all connections, and take new ones."""
        self._process.kill()
        self._process.wait()
        self.__enter__()

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
