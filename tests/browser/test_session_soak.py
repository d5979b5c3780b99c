"""Sessions of the browser while service and browsers are killed; ``make soak`` runs it.

Whatever is killed, each session ends, and no process, profile or port of it is left.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from scraper_service.cli.main import main
from tests.browser.conftest import SETTINGS
from tests.conftest import Service
from tests.support.crash import sqlite_of
from tests.support.waiting import WAIT_S, wait_until

OPENS = int(os.environ.get("SESSION_OPENS", "200"))
CALLERS = 3
SEED = 24
CREDITS = 1_000_000
#: What is killed after an open, by a part of its command line, and how often.
KILLS = (("--remote-debugging-port", 0.25), ("cli.js", 0.1), ("--type=renderer", 0.15))
ENDED, SERVICE_KILLED = 0.3, 0.08
LISTENING = "0A"  # a state in /proc/net/tcp
GONE = (ConnectionError, http.client.HTTPException)


def commands(folder):
    """Return the command lines of all processes of browsers in ``folder``, by id."""
    mark, found = str(folder).encode(), {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            inherited = (entry / "environ").read_bytes()
            # The service itself has the folder as its own directory of temporary files.
            if mark + b"/scraper-browser-" in command + inherited:
                found[int(entry.name)] = command.decode(errors="replace")
    return found


def listening(pids):
    """Return the sockets that these processes listen at: their numbers and ports."""
    numbers = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for each in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    numbers.add(str(each.readlink()).removeprefix("socket:[")[:-1])
    return {each for each in sockets() if each[0] in numbers}


def sockets():
    """Return the number and the port of each socket of this machine that listens."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING:
                found.add((fields[9], int(fields[1].rpartition(":")[2], 16)))
    return found


class Soak:
    """Callers that open sessions, and what kills browsers and the service meanwhile."""

    def __init__(self, data_dir, folder, key, app):
        self.data_dir, self.folder, self.key, self.app = data_dir, folder, key, app
        self.choice = random.Random(SEED)
        self.lock = threading.Lock()
        self.service = self.start()
        self.opened = 0
        self.kills = 0
        self.seen = set()  # sockets that browsers and killed services listened at

    def start(self):
        settings = {
            **SETTINGS,
            "SCRAPER_API_KEYS": None,
            "SCRAPER_BROWSER_CDP": "true",
            "SCRAPER_BROWSER_SESSIONS": "100",
            "SCRAPER_LEASE_S": "2",
            "TMPDIR": str(self.folder),
            # A new interpreter: a fork would know another directory of temporary files.
            "PYTHONHASHSEED": "0",
        }
        return Service(self.data_dir, **settings)

    def call(self, method, path, body=None):
        """Return the response, None if the service ended meanwhile."""
        with contextlib.suppress(*GONE):
            return self.service.request(method, path, body, key=self.key)
        return None

    def open_some(self):
        """Open sessions until there were enough; each has a fate."""
        while True:
            with self.lock:
                if self.opened >= OPENS:
                    return
                self.opened += 1
                chance, moment = self.choice.random(), self.choice.random()
                kind = self.choice.random()
            if chance < SERVICE_KILLED:
                killer = threading.Timer(2 * moment, self.kill_service)
                killer.start()
                self.open_one(kind)
                killer.join()
            else:
                self.open_one(kind)

    def open_one(self, kind):
        body = {"ttl": 120, "activityTtl": 60, "url": self.app.url("/form")}
        if kind > 0.5:
            body["profile"] = {"name": f"profile {kind}"}
        reply = self.call("POST", "/v2/interact", body)
        if reply is None or reply.status != 200:
            # Its browser was killed while it was opened, or the service.
            assert reply is None or reply.status in {500, 502, 503}, reply
            return
        path = f"/v2/interact/{reply.json['id']}"
        step = {"code": "get title", "language": "bash"}
        done = self.call("POST", f"{path}/execute", step)
        assert done is None or done.status in {200, 410}, done
        for victim, share in KILLS:
            kind -= share
            if kind < 0:
                self.kill_browser(victim)
                return
        if kind < ENDED:
            ended = self.call("DELETE", path)
            assert ended is None or ended.status == 200, ended

    def kill_browser(self, part):
        """Kill a process of any browser: Chromium itself, its driver or a renderer."""
        found = commands(self.folder)
        self.seen |= listening(found)
        victims = sorted(pid for pid, text in found.items() if part in text)
        if victims:
            with self.lock:
                victim = self.choice.choice(victims)
                self.kills += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)

    def kill_service(self):
        """Kill the service alone, and start it again."""
        with self.lock:
            self.seen |= listening([self.service.pid, *commands(self.folder)])
            os.kill(self.service.pid, signal.SIGKILL)
            self.service.stop()
            self.kills += 1
            self.service = self.start()

    def active(self):
        with sa.create_engine(sqlite_of(self.data_dir)).connect() as connection:
            query = "SELECT count(*) FROM browser_session WHERE ended_at IS NULL"
            return connection.scalar(sa.text(query))

    def billed(self):
        with sa.create_engine(sqlite_of(self.data_dir)).connect() as connection:
            query = "SELECT sum(credits) FROM browser_session"
            return connection.scalar(sa.text(query)) or 0

    def left(self):
        found = self.service.get("/v2/team/credit-usage", key=self.key).json["data"]
        return found["remainingCredits"]


@pytest.mark.slow
@pytest.mark.timeout(60 + 15 * OPENS)
def test_sessions_leave_no_files_processes_or_sockets_after_kills(
    tmp_path_factory, app
):
    data_dir, folder = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("own")
    made = ("keys", "create", "--team", "soak", "--credits", str(CREDITS))
    done = CliRunner().invoke(main, [*made, "--data-dir", str(data_dir)])
    assert done.exit_code == 0, done.output
    soak = Soak(data_dir, folder, done.stdout.strip(), app)
    try:
        at_rest = listening([soak.service.pid])
        with ThreadPoolExecutor(CALLERS) as pool:
            for each in [pool.submit(soak.open_some) for _ in range(CALLERS)]:
                each.result()
        print(f"{soak.opened} opens, {soak.kills} kills")
        # What no caller has ended ends without a call.
        wait_until(lambda: soak.active() == 0, WAIT_S)
        wait_until(lambda: not commands(folder), WAIT_S)
        wait_until(lambda: not list(folder.glob("scraper-browser-*")), WAIT_S)
        now = listening([soak.service.pid])
        assert len(now) <= len(at_rest), (
            "the service listens for a session that is over"
        )
        assert not soak.seen & (sockets() - now)
        wait_until(lambda: soak.left() == CREDITS - soak.billed(), WAIT_S)
    finally:
        assert soak.service.stop() == 0, soak.service.stderr
    assert commands(folder) == {}
    assert list(folder.iterdir()) == []
