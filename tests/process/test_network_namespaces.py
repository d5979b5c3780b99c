"""Two workers, a service, a database and a site, each on a machine of its own.

The machines are namespaces of the kernel, so their links fail as links do: packets get
lost, and connections hang.
"""

from __future__ import annotations

import itertools
import time
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest
from attrs import frozen

from tests.conftest import KEY, Service
from tests.support.crash import TERMINAL, Invariants, crawl_of
from tests.support.linked_site import page_number
from tests.support.mockserver import MockServer
from tests.support.network import Elsewhere, Machine, NetworkMissing, Switch
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, Worker
from tools.bench.postgres import Postgres, PostgresMissing

LEASE_S = 4
CUT_S = 3 * LEASE_S
AWAY_S = 2 * LEASE_S
STILL_S = LEASE_S + 10  # after a repair, until pages end and each worker fetches again
LONG_S = 300
DELAY_S, LOSS = 0.05, 0.05  # of packets from the second worker
HOST_CONCURRENCY = 8
TEAM_CONCURRENCY = 3
SLACK_S = 0.5  # from the start of a request to its arrival at the site
# Names and limits of the crawls of both teams. The second team has a limit of its own.
WIDE = (("300-slow400-a", 250), ("300-slow400-flaky9-b", None))
NARROW = (("110-slow400-c", None), ("140-slow400-d", 120))
# Fetches of a page beside those of the cuts: heartbeats get lost, too.
LAPSES = 2

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class ServiceElsewhere(Elsewhere, Service):
    pass


class WorkerElsewhere(Elsewhere, Worker):
    pass


@frozen
class Caller:
    """The API with the key of one team, for :class:`Invariants`."""

    api: Service
    key: str

    def get(self, path):
        return self.api.get(path, key=self.key)

    @property
    def url(self):
        return self.api.url


@frozen(eq=False)
class Place:
    """A worker, the name of its machine, its address for the site, and its links."""

    worker: Worker
    name: str
    address: str
    to_database: object
    to_site: object


@frozen
class Cut:
    """A worker without its database, by the clock of all."""

    address: str
    lease_end: float
    repair: float
    #: Pages that it had leased, see :func:`place_of`.
    leased: frozenset[tuple[str, int]]
    has_site: bool
    #: True if another worker went on, which takes over its pages.
    has_others: bool


class World:
    """All machines and crawls. The test itself is on the machine of the service."""

    def __init__(self, stack, folder):
        self._stack, self._folder = stack, folder
        names = ("inside", "web")
        self._inside, self._web = (
            stack.enter_context(Switch(name, number))
            for number, name in enumerate(names, 1)
        )
        self._database = stack.enter_context(Machine("database"))
        address, self.to_database = self._inside.join(self._database)
        with self._database.inside():
            url = stack.enter_context(Postgres(address))()
        machine = stack.enter_context(Machine("site"))
        address, _ = self._web.join(machine)
        with machine.inside():
            self.site = stack.enter_context(MockServer(address))
        machine = stack.enter_context(Machine("service"))
        for switch in (self._inside, self._web):
            switch.join(machine)
        stack.enter_context(machine.inside())
        settings = {
            "SCRAPER_LEASE_S": str(LEASE_S),
            "SCRAPER_EGRESS_ALLOW": self._web.network,
            "SCRAPER_HOST_CONCURRENCY": str(HOST_CONCURRENCY),
        }
        self.fleet = Fleet(stack, url, folder, self._start, **settings)
        self.jobs = []
        self.cuts = []

    def _start(self, **settings):
        service = ServiceElsewhere(self._folder / "service", **settings)
        self._stack.callback(service.stop)
        return service

    def worker(self, name, **quality):
        machine = self._stack.enter_context(Machine(name))
        _, to_database = self._inside.join(machine, **quality)
        address, to_site = self._web.join(machine, **quality)
        with machine.inside():
            worker = self.fleet.worker(WorkerElsewhere)
        return Place(worker, name, address, to_database, to_site)

    def crawl(self, key, name, limit):
        # Less to store over the slow link, where each response would be a transaction.
        scrape = {"storeInCache": False}
        path = self.fleet.crawl(self.site, name, limit or 10_000, key, **scrape)
        expected, database = crawl_of(name, limit), self.fleet.url
        job = Invariants(path, expected, name=name, site=self.site, database=database)
        job.kills = LAPSES
        self.jobs.append((job, Caller(self.fleet.api, key)))

    # -- what happens ------------------------------------------------------------------

    def poll(self):
        for job, caller in self.jobs:
            job.poll(caller)
        assert any(job.state not in TERMINAL for job, _ in self.jobs), "too few pages"
        return sum(job.completed for job, _ in self.jobs)

    def goes_on(self, places=()):
        """Wait until a page ends and each of the workers fetches one, or fail."""
        before, since = self.poll(), time.time()
        wait_until(lambda: self.poll() > before, STILL_S - (time.time() - since))
        for place in places:
            left_s = STILL_S - (time.time() - since)
            wait_until(lambda p=place: self.fetched(p, since), left_s)

    def fetched(self, place, since):
        """Return the requests of a worker for pages since a time."""
        visits = self.site.visits("/site/")
        return [v for v in visits if v.client == place.address and v.begin > since]

    @contextmanager
    def cut(self, places, *links, silently=True):
        """Cut links, so that workers are without the database; repair them at the end."""
        for job, _ in self.jobs:
            job.kills += 1  # pages are fetched again
        for link in links:
            link.drop() if silently else link.pull()
        try:
            yield
            states = [self._state(place.name) for place in places]
        finally:
            for link in links:
                link.mend()
        for place, (lease_end, leased) in zip(places, states, strict=True):
            has_site = place.to_site not in links
            has_others = len(places) == 1
            now = time.time()
            cut = Cut(place.address, lease_end, now, leased, has_site, has_others)
            assert lease_end < cut.repair
            self.cuts.append(cut)
        self.goes_on(places)
        print(f"{sum(job.completed for job, _ in self.jobs)} pages at {time.ctime()}")

    def _state(self, name):
        """Return when the lease of a worker ends, and its URLs."""
        leased = "SELECT url FROM frontier JOIN worker ON owner = worker.id"
        with self._database.inside():  # its link may be cut
            [(end,)] = self.fleet.rows(
                "SELECT until FROM worker WHERE host = :name", name=name
            )
            urls = self.fleet.rows(f"{leased} WHERE host = :name", name=name)
        return end, frozenset(place_of(urlsplit(url).path) for (url,) in urls)

    # -- what must hold ------------------------------------------------------------------

    def check(self):
        for job, caller in self.jobs:
            job.wait(caller, LONG_S)
        for job, caller in self.jobs:
            job.check(caller)
        assert self.fleet.rows("SELECT count(*) FROM frontier WHERE state = 2") == [
            (0,)
        ]
        visits = self.site.visits("/site/")
        assert self._most(visits) == HOST_CONCURRENCY
        paths = tuple(f"/site/{name}/" for name, _ in NARROW)
        narrow = [visit for visit in visits if visit.path.startswith(paths)]
        assert self._most(narrow) == TEAM_CONCURRENCY
        for cut in self.cuts:
            if cut.has_site:
                late = [v for v in visits if self._is_late(v, cut)]
                assert not late, "a worker without a lease began a request"
            if cut.has_others:
                self._check_ends(cut, visits)

    def _most(self, visits):
        """Return the maximum of concurrent requests.

        Those that a worker has begun in its lease count until its end, since nobody counts
        them any more, also if they arrive late because of the link to the site.
        """
        steps = []
        for visit in visits:
            begin, end = visit.begin, visit.end
            for cut in self.cuts:
                if visit.client == cut.address and self._was_leased(visit, cut):
                    if begin < cut.lease_end + SLACK_S:
                        end = min(end, cut.lease_end)
                    elif not cut.has_site and begin < cut.repair + STILL_S:
                        end = begin
            if begin < end:
                steps += [(begin, 1), (end, -1)]
        return max(itertools.accumulate(step for _, step in sorted(steps)))

    def _was_leased(self, visit, cut):
        return place_of(visit.path) in cut.leased

    def _is_late(self, visit, cut):
        begin = visit.begin
        is_late = cut.lease_end + SLACK_S < begin < cut.repair
        return is_late and visit.client == cut.address

    def _check_ends(self, cut, visits):
        """Check that pages which ended after a lease are not those of its worker."""
        others = {
            place_of(visit.path)
            for visit in visits
            if visit.client != cut.address or visit.begin > cut.repair
        }
        ended = self.fleet.rows(
            "SELECT url FROM frontier WHERE state = 3 AND ended_at > :end",
            end=cut.lease_end,
        )
        late = {place_of(urlsplit(url).path) for (url,) in ended} & cut.leased
        assert late <= others, "a page without a lease was stored"


def place_of(path):
    """Return the site and the number of a page."""
    return path.split("/")[2], page_number(path)


@pytest.fixture
def world(tmp_path):
    with ExitStack() as stack:
        try:
            yield World(stack, tmp_path)
        except (NetworkMissing, PostgresMissing) as error:
            pytest.skip(str(error))


def test_crawls_are_exact_over_networks_that_fail(world):
    first = world.worker("worker1")
    second = world.worker("worker2", delay_s=DELAY_S, loss=LOSS)
    both = (first, second)
    limited = ("--team", "narrow", "--concurrency", str(TEAM_CONCURRENCY))
    narrow = world.fleet.command("keys", "create", *limited)
    for crawls, key in ((WIDE, KEY), (NARROW, narrow)):
        for name, limit in crawls:
            world.crawl(key, name, limit)
    world.goes_on(both)

    with world.cut([first], first.to_database):
        world.goes_on([second])
        time.sleep(CUT_S)
    [cut] = world.cuts
    assert world.fetched(first, cut.lease_end - LEASE_S / 3), "it fetched nothing more"

    with world.cut([first], first.to_database, first.to_site, silently=False):
        world.goes_on([second])
        time.sleep(CUT_S)

    with world.cut(both, world.to_database):
        time.sleep(AWAY_S)

    # It returns what it has leased, else the others would wait for its slow link.
    assert second.worker.stop() == 0, second.worker.stderr
    world.check()
    assert first.worker.stop() == 0, first.worker.stderr
