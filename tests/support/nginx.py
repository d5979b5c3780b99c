"""The system's nginx with ``deploy/nginx.conf``, in front of services of a test."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tools.bench.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

PROGRAM = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
START_TIMEOUT_S = 30
FORM = "$request $status [$upstream_addr $upstream_status]"
MAIN = """
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    log_format test '{form}';
    access_log {folder}/access.log test;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


class Nginx:
    """An nginx on a free port of 127.0.0.1, a context manager.

    It has the configuration of ``deploy/``, without TLS, for services on ``ports``.
    :data:`PROGRAM` must be installed.
    """

    def __init__(self, ports: Iterable[int]):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = Path(tempfile.mkdtemp(prefix="nginx-"))
        self._folder.chmod(0o755)  # its workers have another user
        text = (ROOT / "deploy" / "nginx.conf").read_text()
        [line] = re.findall(r"^ +server 127.0.0.1:3002.*;\n", text, re.MULTILINE)
        lines = "".join(line.replace("3002", str(port)) for port in ports)
        text = text.replace(line, lines)
        text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{self.port}")
        text = re.sub(r"^ +ssl_.*\n", "", text, flags=re.MULTILINE)
        (self._folder / "site.conf").write_text(text)
        main = MAIN.format(folder=self._folder, form=FORM)
        (self._folder / "nginx.conf").write_text(main)

    def __enter__(self) -> Self:
        assert PROGRAM is not None
        command = (PROGRAM, "-e", self._folder / "error.log", "-c")
        self._process = subprocess.Popen((*command, self._folder / "nginx.conf"))
        end = time.monotonic() + START_TIMEOUT_S
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            assert self._process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def requests(self) -> list[str]:
        """Return the log so far, a line for each request, as in :data:`FORM`."""
        return (self._folder / "access.log").read_text().splitlines()
