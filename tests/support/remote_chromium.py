"""A Chromium with a DevTools port, in a process that the service has not started."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from scrapy.settings import Settings

from scraper_service.crawling.browser.chromium import find_chromium
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from types import TracebackType

PORT_FILE = "DevToolsActivePort"


class RemoteChromium:
    """The browser as a context manager. None of its flags is the service's.

    ``port`` is 0 for any.
    """

    def __init__(self, port: int = 0):
        self._wanted = port

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        program = find_chromium(Settings({"CHROMIUM_PATH": ""}))
        assert program is not None
        self._process = subprocess.Popen(
            (
                program,
                "--headless",
                f"--remote-debugging-port={self._wanted}",
                f"--user-data-dir={self._folder.name}",
                *(() if os.geteuid() else ("--no-sandbox",)),
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        file = Path(self._folder.name, PORT_FILE)
        wait_until(lambda: file.exists() and "\n" in file.read_text())
        port, path = file.read_text().split()
        self.port = int(port)
        #: The two forms of its URL.
        self.url = f"http://127.0.0.1:{port}"
        self.socket_url = f"ws://127.0.0.1:{port}{path}"
        return self

    def kill(self) -> None:
        """End all its processes at once."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self.kill()
        self._folder.cleanup()
