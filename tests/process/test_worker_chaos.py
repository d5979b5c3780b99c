"""Workers of one database under everything that happens to machines: nothing lost or doubled.

``CHAOS_EVENTS`` is the number of events, ``CHAOS_SEED`` chooses them.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.crash import TERMINAL, kill
from tests.support.pgbouncer import PROGRAM, PgBouncer
from tests.support.proxy_line import ProxyLine
from tests.support.waiting import wait_until
from tests.support.workers import LEASE_S, Fleet
from tools.bench.postgres import Postgres, PostgresMissing

EVENTS = int(os.environ.get("CHAOS_EVENTS", "25"))
SEED = int(os.environ.get("CHAOS_SEED", "25"))
WORKERS = 3
# The host takes 8 requests at a time, so the crawls outlast the events.
SIZE = 20 + 30 * EVENTS
CRAWLS = [f"{SIZE}-slow400-{name}" for name in ("a", "b", "flaky9-c", "d")]
STILL_S = LEASE_S + 10  # that no page may end after an event, with the time to start
LONG_S = 600
RESTART_S = 2  # as in deploy/scraper-worker@.service
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
STEPS_S = (-7200, -LEASE_S, 3 * LEASE_S, 7200)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


class Chaos:
    """Three workers and their crawls.

    The first worker is behind a line that can be cut, the second behind PgBouncer, and the
    clock of the third can be stepped, as far as the machine has what that needs.
    """

    def __init__(self, fleet, server, line, pooler, clock):
        self.fleet, self.server = fleet, server
        self.line, self.pooler, self.clock = line, pooler, clock
        self.workers = [self._started(number) for number in range(WORKERS)]
        self.jobs = []
        self.done = []

    def _started(self, number):
        """Start a worker; again if the database was away, as its supervisor does."""
        end = time.monotonic() + STILL_S
        while True:
            try:
                return self._worker(number)
            except RuntimeError as error:
                if "cannot be opened" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(RESTART_S)

    def _worker(self, number):
        if number == 0:
            url = sa.engine.make_url(self.fleet.url).set(port=self.line.port)
            url = url.render_as_string(hide_password=False)
            return self.fleet.worker(SCRAPER_DATABASE_URL=url)
        if number == 1 and self.pooler:
            return self.fleet.worker(SCRAPER_DATABASE_URL=self.pooler.url)
        if number == 2 and FAKETIME:
            return self.fleet.worker(
                LD_PRELOAD=str(FAKETIME),
                FAKETIME_TIMESTAMP_FILE=str(self.clock),
                FAKETIME_NO_CACHE="1",
                FAKETIME_DONT_FAKE_MONOTONIC="1",
            )
        return self.fleet.worker()

    def poll(self):
        for job in self.jobs:
            job.poll(self.fleet.api)

    @property
    def completed(self):
        return sum(job.completed for job in self.jobs)

    @property
    def is_over(self):
        return all(job.state in TERMINAL for job in self.jobs)

    def goes_on(self):
        """Wait until a page ends. Fails if none does for :data:`STILL_S`."""
        before, end = self.completed, time.monotonic() + STILL_S
        while self.completed == before and not self.is_over:
            assert time.monotonic() < end, f"stands still after {self.done[-3:]}"
            time.sleep(0.1)
            self.poll()

    # -- events ------------------------------------------------------------------------

    def kill_worker(self, number):
        kill(self.workers[number])
        self.workers[number] = self._started(number)

    def replace_worker(self, number):
        old = self.workers[number]
        self.workers[number] = self._started(number)
        assert old.stop() == 0, old.stderr

    def stop_for_longer_than_its_lease(self, number):
        pid = self.workers[number].pid
        os.kill(pid, signal.SIGSTOP)
        self.goes_on()
        time.sleep(2 * LEASE_S)
        os.kill(pid, signal.SIGCONT)

    def stop_for_a_moment(self, number):
        pid = self.workers[number].pid
        for _ in range(5):  # within transactions, too
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.2)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.05)

    def restart_database(self, _):
        self.server.restart(signal.SIGINT)

    def crash_database(self, _):
        self.server.restart(signal.SIGQUIT)

    def cut_line(self, _):
        self.line.cut()
        self.goes_on()
        time.sleep(LEASE_S)
        self.line.mend()

    def restart_pooler(self, _):
        self.pooler.restart()

    def step_clock(self, _):
        self.clock.write_text(f"{next(self.steps):+d}s")

    def run(self, events):
        chosen = random.Random(SEED)
        self.steps = itertools.cycle(STEPS_S)
        kinds = [
            self.kill_worker,
            self.replace_worker,
            self.stop_for_longer_than_its_lease,
            self.stop_for_a_moment,
            self.restart_database,
            self.crash_database,
            self.cut_line,
            *([self.restart_pooler] if self.pooler else []),
            *([self.step_clock] if FAKETIME else []),
        ]
        for count in range(events):
            if self.is_over:
                break
            # Each kind comes once before any comes twice.
            kind = kinds[count] if count < len(kinds) else chosen.choice(kinds)
            number = chosen.randrange(WORKERS)
            self.done.append(f"{kind.__name__} {number}")
            for job in self.jobs:
                job.kills += 1  # any event may lose leases, and pages are fetched again
            kind(number)
            self.goes_on()
            time.sleep(chosen.uniform(0.2, 1.5))
            self.poll()


@pytest.fixture
def server():
    try:
        found = Postgres()
    except PostgresMissing as error:
        pytest.skip(str(error))
    with found:
        yield found


def test_crawls_are_exact_whatever_happens(server, site, start_service, tmp_path):
    with ExitStack() as stack:
        line = stack.enter_context(ProxyLine(server.port))
        clock = tmp_path / "clock"
        clock.write_text("+0s")
        fleet = Fleet(stack, server(), tmp_path, start_service)
        pooler = stack.enter_context(PgBouncer(fleet.url)) if PROGRAM else None
        chaos = Chaos(fleet, server, line, pooler, clock)
        chaos.jobs = [fleet.watched(site, name) for name in CRAWLS]
        wait_until(lambda: chaos.poll() or chaos.completed)
        chaos.run(EVENTS)
        print(f"{len(chaos.done)} events: {', '.join(chaos.done)}")
        for job in chaos.jobs:
            job.wait(fleet.api, LONG_S)
        for job in chaos.jobs:
            job.check(fleet.api)
        assert fleet.rows("SELECT count(*) FROM frontier WHERE state = 2") == [(0,)]
