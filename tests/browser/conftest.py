"""The service with a browser, and a site that needs one."""

from __future__ import annotations

import functools
import os
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from scraper_service.crawling.browser.chromium import INSTALL, find_chromium
from tests.conftest import KEY, Service
from tests.support.app_site import HOSTS, AppSite
from tests.support.waiting import WAIT_S, wait_until

SETTINGS = {
    "SCRAPER_API_KEYS": f"{KEY},fc-other-team",
    "SCRAPER_EGRESS_ALLOW": ",".join(f"{host}/32" for host in HOSTS),
    "SCRAPER_RENDER": "auto",
    # Root, as in containers of CI, cannot have it.
    "SCRAPER_BROWSER_SANDBOX": "true" if os.geteuid() else "false",
}


@functools.cache
def why_no_browser() -> str | None:
    """Tell why Chromium does not run here, None if it does."""
    path = find_chromium(Settings({"CHROMIUM_PATH": ""}))
    if path is None:
        return f"no Chromium is installed. {INSTALL}"
    done = subprocess.run((path, "--version"), capture_output=True, check=False)
    return f"{path} does not run" if done.returncode else None


@pytest.fixture(scope="session", autouse=True)
def _browser():
    if why := why_no_browser():
        pytest.skip(why)


@pytest.fixture(scope="session")
def app():
    """The site that needs a browser."""
    with AppSite() as site:
        yield site


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """The service with a browser, one for all tests that change none."""
    running = Service(tmp_path_factory.mktemp("data"), **SETTINGS)
    yield running
    assert running.stop() == 0, running.stderr
    assert chromium_processes(running.pid) == []


@pytest.fixture
def scrape(service, app):
    """Return a function that scrapes a path of the site and returns the reply."""

    def call(path: str, version: str = "v2", **options: Any):
        body = {"url": app.url(path), "maxAge": 0, "timeout": 200_000, **options}
        return service.post(f"/{version}/scrape", body)

    return call


@pytest.fixture
def page(scrape):
    """Return a function that scrapes a path and returns the page."""

    def call(path: str, version: str = "v2", **options: Any) -> dict[str, Any]:
        reply = scrape(path, version, **options)
        assert reply.status == 200, reply.json
        found: dict[str, Any] = reply.json["data"]
        return found

    return call


def chromium_processes(service: int, kind: str = "") -> list[int]:
    """Return the processes of Chromium that come from a process, the oldest first.

    ``kind`` is one such as ``renderer``, else all are meant.
    """
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        is_wanted = f"--type={kind}" in command if kind else True
        program = command.partition("\0")[0]
        if "chrom" in program and is_wanted and service in _parents(int(entry.name)):
            found.append(int(entry.name))
    return sorted(found)


def _parents(pid: int) -> list[int]:
    found = []
    while pid > 1:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            break
        if stat[0] == "Z":
            break
        pid = int(stat[1])
        found.append(pid)
    return found


def finished(service, reply):
    """Return the pages of a job that was just started, when it is completed."""
    assert reply.status == 200, reply.json
    return finished_at(service, "/" + reply.json["url"].split("/", 3)[3])


def finished_at(service, path):
    """Return the pages of a job by the path of its status, when it is completed."""
    wait_until(lambda: service.get(path).json["status"] != "scraping")
    found = service.get(path).json
    assert found["status"] == "completed", found
    return found["data"]


def fetch(address: str) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of an address."""
    import urllib.error
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=WAIT_S) as found:
            return found.status, dict(found.headers), found.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


class Png:
    """Size and pixels of a PNG with 8 bits a channel (RFC 2083)."""

    def __init__(self, data: bytes):
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        self.width, self.height, depth, kind = struct.unpack(">IIBB", data[16:26])
        assert depth == 8
        self._channels = {2: 3, 6: 4}[kind]
        packed, at = b"", 8
        while at < len(data):
            size, name = struct.unpack(">I4s", data[at : at + 8])
            packed += data[at + 8 : at + 8 + size] if name == b"IDAT" else b""
            at += size + 12
        self._raw = zlib.decompress(packed)

    def pixel(self, x: int, y: int) -> tuple[int, int, int]:
        at = x * self._channels
        red, green, blue = self._unfiltered(y + 1)[y][at : at + 3]
        return red, green, blue

    def _unfiltered(self, count: int) -> list[bytearray]:
        raw = self._raw
        step, length = self._channels, self.width * self._channels
        rows: list[bytearray] = []
        above = bytearray(length)
        for y in range(count):
            start = y * (length + 1)
            kind, row = raw[start], bytearray(raw[start + 1 : start + 1 + length])
            if kind:
                for i in range(length):
                    left = row[i - step] if i >= step else 0
                    corner = above[i - step] if i >= step else 0
                    row[i] = (row[i] + _predicted(kind, left, above[i], corner)) & 255
            rows.append(row)
            above = row
        return rows


def _predicted(kind: int, left: int, above: int, corner: int) -> int:
    if kind == 1:
        return left
    if kind == 2:
        return above
    if kind == 3:
        return (left + above) // 2
    guess = left + above - corner
    return min((left, above, corner), key=lambda v: abs(guess - v))
