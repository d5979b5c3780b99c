"""A scrapyd node with the configuration of ``deploy/``, on a free port."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tools.bench.processes import ROOT, ServerProcess

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = "scraper_service"
USER = "operator"
PASSWORD = "a pass:word, with @ marks"  # must be percent-encoded in a URL
START_TIMEOUT_S = 30
POLL_S = 0.1


class ScrapydNode(ServerProcess):
    """A running node with its files in ``folder``.

    ``environment`` is added to the caller's environment. The node listens on ``port`` of
    127.0.0.1; 0 means a free port. ``kill()`` also kills the node's processes, as a power
    failure would.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 0,
        config: Path | None = ROOT / "deploy" / "scrapyd.conf",
        **environment: str,
    ):
        self.folder = folder
        self.port = port or free_port()
        folder.mkdir(parents=True, exist_ok=True)
        if config is not None:
            shutil.copy(config, folder / "scrapyd.conf")
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SCRAPER_", "SCRAPYD_"))
            and not name.lower().endswith("_proxy")
        }
        super().__init__(
            "scrapyd",
            *("--pidfile", str(folder / f"{time.monotonic()}.pid")),
            cwd=folder,
            environment={
                **inherited,
                "PYTHONPATH": str(ROOT),
                "SCRAPY_SETTINGS_MODULE": "scraper_service.settings",
                "SCRAPYD_HTTP_PORT": str(self.port),
                "SCRAPYD_USERNAME": USER,
                "SCRAPYD_PASSWORD": PASSWORD,
                "SCRAPER_CONVERTER_PROCESSES": "1",
                **environment,
            },
        )
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < end and self.is_running:
            try:
                self.call("daemonstatus.json")
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise self._failure("it does not respond")

    @property
    def name(self) -> str:
        """The URL without user and password."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """The URL with user and password, as in ``SCRAPYD_NODES``."""
        user, password = (urllib.parse.quote(x, safe="") for x in (USER, PASSWORD))
        return f"http://{user}:{password}@127.0.0.1:{self.port}"

    def call(
        self, name: str, form: Any = None, *, password: str | None = PASSWORD
    ) -> dict[str, Any]:
        """Call scrapyd's API; raises :exc:`urllib.error.HTTPError`, an OSError."""
        data = None if form is None else urllib.parse.urlencode(form).encode()
        request = urllib.request.Request(f"{self.name}/{name}", data=data)
        if password is not None:
            pair = base64.b64encode(f"{USER}:{password}".encode()).decode()
            request.add_header("Authorization", f"Basic {pair}")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as response:
            found: dict[str, Any] = json.load(response)
        return found

    def status_of(self, name: str, **options: Any) -> int:
        """Return the HTTP status of a call."""
        try:
            self.call(name, **options)
        except urllib.error.HTTPError as error:
            return error.code
        return 200

    def jobs(self, state: str) -> list[str]:
        """Return the ids of the jobs in a state: ``pending``, ``running``, ``finished``."""
        return [job["id"] for job in self.call("listjobs.json")[state]]

    def wait_for(self, job: str, seconds: float = START_TIMEOUT_S) -> None:
        """Wait until a job has finished."""
        end = time.monotonic() + seconds
        while job not in self.jobs("finished"):
            assert time.monotonic() < end, self.stderr
            time.sleep(POLL_S)

    def log(self, spider: str, job: str) -> str:
        return (self.folder / f"logs/{PROJECT}/{spider}/{job}.log").read_text()

    def feed(self, spider: str, job: str) -> list[dict[str, Any]]:
        """Return the pages in the feed of a job."""
        path = self.folder / f"items/{PROJECT}/{spider}/{job}.jl"
        return [json.loads(line) for line in path.read_text().splitlines()]


def free_port() -> int:
    """Return a free port below the kernel's range of ephemeral ports."""
    while True:
        port = random.randrange(10_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
