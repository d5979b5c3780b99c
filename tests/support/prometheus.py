"""A real Prometheus that scrapes a service, in a subprocess."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.support.waiting import wait_until
from tools.bench.scrapyd_node import free_port

if TYPE_CHECKING:
    from collections.abc import Sequence

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Prometheus:
    """Prometheus with the configuration ``config``, which scrapes ``target`` every second."""

    def __init__(self, config: str, target: str):
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        path = folder / "prometheus.yml"
        text = config.replace("127.0.0.1:3002", target)
        text = text.replace("scrape_interval: 15s", "scrape_interval: 1s")
        assert target in text
        assert "scrape_interval: 1s" in text
        path.write_text(text.replace("  - alerts.yaml\n", ""))
        self.address = f"127.0.0.1:{free_port()}"
        self._process = subprocess.Popen(
            (
                *("prometheus", f"--config.file={path}", "--log.level=error"),
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self.address}",
            ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @staticmethod
    def is_installed() -> bool:
        return shutil.which("prometheus") is not None

    def __enter__(self) -> Self:
        wait_until(self._is_ready)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def values(self, query: str) -> Sequence[float]:
        """Return the values of a query now, without those that are no number."""
        asked = urllib.parse.urlencode({"query": query})
        found = self._get(f"/api/v1/query?{asked}")["data"]["result"]
        values = [float(each["value"][1]) for each in found]
        return [each for each in values if not math.isnan(each)]

    def _is_ready(self) -> bool:
        try:
            with _opener.open(f"http://{self.address}/-/ready", timeout=10):
                return True
        except OSError:
            return False

    def _get(self, path: str) -> Any:
        try:
            with _opener.open(f"http://{self.address}{path}", timeout=60) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error
