"""The installed command as its users run it: in a shell, in a pipe, on a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from pathlib import Path

from tests.support import forked_start
from tests.support.waiting import WAIT_S

ROOT = Path(__file__).parents[2]
COMMAND = forked_start.COMMAND.words


def environment(**changes: str) -> dict[str, str]:
    """Return the environment of a user who has set nothing but what tests need."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SCRAPER_")
        and not name.lower().endswith("_proxy")
        and name not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}
    }
    ours = {"SCRAPER_EGRESS_ALLOW": "127.0.0.2/32", "PYTHONPATH": str(ROOT)}
    return {**inherited, **ours, **changes}


def run(folder: Path, *arguments, stdin: str = "", **changes: str):
    """Run a command in ``folder``; standard output and error are pipes."""
    values = environment(**changes)
    return forked_start.run(forked_start.COMMAND, arguments, values, folder, stdin)


class Command(forked_start.ForkedProcess):
    """A command that runs in ``folder``, with pipes; a context manager."""

    def __init__(self, folder: Path, *arguments, **changes: str):
        errors, their_errors = os.pipe()
        self.stderr = os.fdopen(errors)
        words = tuple(map(str, arguments))
        values = environment(**changes)
        super().__init__(words, values, their_errors, forked_start.COMMAND, str(folder))
        os.close(their_errors)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        for stream in (self.stdout, self.stderr, self.stdin):
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        self.wait(WAIT_S)


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def pages_of(path: Path) -> list[dict]:
    """Return the pages in a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def jobs(folder: Path) -> list[dict]:
    """Return the jobs that the job database in ``folder`` knows, the newest first."""
    done = run(folder, "jobs", "list")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class Terminal:
    """A command on a terminal of its own; ``seen`` is all that came to the screen."""

    def __init__(self, folder: Path, *arguments, columns: int = 80, **changes: str):
        self._screen, theirs = pty.openpty()
        # The size has to be there when the command looks at it.
        size = struct.pack("HHHH", 24, columns, 0, 0)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
        self._process = forked_start.ForkedProcess(
            tuple(map(str, arguments)),
            environment(TERM="xterm-256color", **changes),
            theirs,
            forked_start.COMMAND,
            str(folder),
        )
        os.close(theirs)
        self.seen = ""

    def press(self, key: str) -> None:
        os.write(self._screen, key.encode())

    def until(self, text: str) -> None:
        """Read until ``text`` was on the screen."""
        end = time.monotonic() + WAIT_S
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            assert self._read(), self.seen

    def end(self) -> int:
        """Read to the end; return the exit code."""
        try:
            end = time.monotonic() + WAIT_S
            while self._read() and time.monotonic() < end:
                pass
        finally:
            if time.monotonic() >= end:
                self._process.send_signal(signal.SIGKILL)
            os.close(self._screen)
        with self._process.stdin, self._process.stdout:
            return self._process.wait()

    def _read(self) -> bool:
        if not select.select([self._screen], [], [], 1)[0]:
            return True
        try:
            data = os.read(self._screen, 65_536)
        except OSError:  # the command has closed it
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)

    @property
    def rows(self) -> list[str]:
        """What was seen, without steering, row by row, also those overwritten."""
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.seen)
        return [row for row in re.split(r"[\r\n]+", plain) if row]
