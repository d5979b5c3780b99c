"""Runs servers in subprocesses: start, wait for a line of output, stop by pid.

The benchmarks and the tests use this module.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
START_TIMEOUT_S = 200  # long enough for a busy machine
STOP_TIMEOUT_S = 120  # the service gives accepted requests up to 30 s


class ServerProcess:
    """``python -m <arguments>`` in a new session, in the folder ``cwd``; a context manager.

    ``environment`` replaces the caller's environment; None inherits it. Standard error goes
    to a temporary file; see :attr:`stderr`.
    """

    def __init__(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
    ):
        self.command = (sys.executable, "-m", *arguments)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by stop()
        self._last_words = ""
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._process = self._launch(environment, cwd)
        # A thread empties the pipe: a full pipe would block the server.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _launch(self, environment: Mapping[str, str] | None, cwd: Path) -> Any:
        """Return the new process, a :class:`subprocess.Popen`."""
        return subprocess.Popen(
            self.command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def stderr(self) -> str:
        """The server's standard error so far."""
        if self._errors.closed:
            return self._last_words
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), size, 0).decode(errors="replace")

    def line(self, prefix: str = "", timeout_s: float = START_TIMEOUT_S) -> str:
        """Return the next line of standard output that starts with ``prefix``.

        Raises :exc:`RuntimeError` with the standard error if no such line comes in time.
        """
        end = time.monotonic() + timeout_s
        while True:
            try:
                line = self._lines.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                raise self._failure(f"no {prefix!r} within {timeout_s} s") from None
            if line is None:
                raise self._failure(f"ended before {prefix!r}")
            if line.startswith(prefix):
                return line

    def write(self, line: str) -> None:
        """Send one line to the server's standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Stop the server with SIGTERM and return its exit code; may be called again.

        After ``timeout_s`` the server and its children are killed; the code is negative.
        """
        if self.is_running:
            self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
        code = self._process.wait()
        self._close()
        return code

    def kill(self) -> None:
        """Kill the server and its children, as a crash of the machine would."""
        os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _close(self) -> None:
        self._reader.join(timeout=5)
        self._last_words = self.stderr
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()

    def _failure(self, reason: str) -> RuntimeError:
        command = " ".join(self.command[1:])
        text = f"{command}: {reason}; standard error:\n{self.stderr}"
        self.stop(timeout_s=5)
        return RuntimeError(text)


class ServiceProcess(ServerProcess):
    """The service on 127.0.0.1; the constructor waits until it is ready.

    It listens on ``SCRAPER_PORT`` of ``environment``, else on a free port. It inherits the caller's environment without proxies and settings of the service.
    ``environment`` adds variables; the value None removes a variable.
    """

    #: The subcommand, and how its line of output begins that ends with the URL.
    subcommand = "serve"
    ready = "listening on "

    def __init__(self, data_dir: Path, environment: Mapping[str, str | None]):
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("SCRAPER_") and not name.lower().endswith("_proxy")
        }
        merged = {**inherited, **environment}
        super().__init__(
            "scraper_service",
            *(
                self.subcommand,
                "--host",
                "127.0.0.1",
                "--port",
                merged.pop("SCRAPER_PORT", "0"),
            ),
            *("--data-dir", str(data_dir)),
            environment={k: v for k, v in merged.items() if v is not None},
        )
        self.url = self.line(self.ready).rpartition("listening on ")[2].strip()
