"""The pace of a host, on a clock that the tests move."""

from __future__ import annotations

import asyncio
import heapq
import inspect
import itertools
from email.utils import formatdate

import pytest

from scraper_service.crawling.page_errors import HostBusy
from scraper_service.crawling.politeness import host_pace
from scraper_service.crawling.politeness.host_limits import (
    FORGET_S,
    LOST_PAGES,
    LOST_S,
    SAMPLE,
    STREAK,
    Host,
    pace_key,
)
from scraper_service.crawling.politeness.host_pace import HostPace
from scraper_service.discovery.outgoing_requests import (
    MAX_BACKOFF_S,
    backoff_s,
    retry_after_s,
)

NOW = 1_800_000_000.0
SITE = "a.example"
PAGES = map("/{}".format, itertools.count())


class Time:
    """A clock and its timers; nothing happens until :meth:`advance`."""

    class Timer:
        def __init__(self, function):
            self.function = function

        def cancel(self):
            self.function = lambda: None

    def __init__(self):
        self.now = 0.0
        self.timers = []
        self.numbers = itertools.count()

    def clock(self):
        return self.now

    def call_later(self, seconds, function):
        timer = self.Timer(function)
        heapq.heappush(self.timers, (self.now + seconds, next(self.numbers), timer))
        return timer

    async def advance(self, seconds):
        end = self.now + seconds
        await settle()
        while self.timers and self.timers[0][0] <= end:
            self.now, _, timer = heapq.heappop(self.timers)
            timer.function()
            await settle()
        self.now = end


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def make_pace(time):
    return lambda ceiling=8: HostPace(ceiling, time.clock, time.call_later)


class Asker:
    """Requests under way at one host; ``started`` has (when, name) in order."""

    def __init__(self, pace, time, name=SITE):
        self.pace, self.time, self.name = pace, time, name
        self.started = []
        self.ends = {}

    def ask(self, name, owner="", deadline=float("inf"), status=200, **answer):
        """Start a task that ends with ``end(name)``."""
        self.ends[name] = asyncio.Event()
        return asyncio.ensure_future(
            self._run(name, owner, deadline, {"status": status, **answer})
        )

    async def _run(self, name, owner, deadline, answer):
        async with self.pace.slot(self.name, owner, deadline) as slot:
            self.started.append((self.time.now, name))
            await self.ends[name].wait()
            slot.note_response(
                **{"size": 10, "latency_s": 0.01, "page": next(PAGES), **answer}
            )

    async def end(self, *names):
        for name in names:
            self.ends[name].set()
        await settle()

    @property
    def names(self):
        return [name for _, name in self.started]

    @property
    def times(self):
        return [at for at, _ in self.started]


@pytest.fixture
def asker(make_pace, time):
    return lambda ceiling=8: Asker(make_pace(ceiling), time)


def run(function):
    """Run an asynchronous test."""

    def test(*args, **kwargs):
        asyncio.run(function(*args, **kwargs))

    test.__signature__ = inspect.signature(function)
    test.__name__ = function.__name__
    return test


# -- which host, which pause ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://a.example/", "a.example"),
        ("https://a.example/x?y#z", "a.example"),
        ("https://www.a.example/", "a.example"),
        ("http://A.Example.:80/", "a.example"),
        ("http://a.example:443/", "a.example"),
        ("http://a.example:8080/", "a.example:8080"),
        ("http://b.a.example/", "b.a.example"),
        ("http://me:secret@a.example/", "a.example"),
        ("http://2130706434/", "127.0.0.2"),
        ("http://127.2:81/", "127.0.0.2:81"),
        ("http://[::1]:81/", "::1:81"),
        ("http://a.example:x/", ""),
        (f"http://{'a' * 2000}/", "a" * 260),
    ],
)
def test_the_pace_key_of_a_url_is_its_host(url, key):
    assert pace_key(url) == key


@pytest.mark.parametrize(
    ("value", "pause_s"),
    [
        ("1", 1),
        (" 30 ", 30),
        ("1.5", 1.5),
        ("601", 600),
        ("1000000000", 600),
        ("9" * 18, 600),
        ("0", None),
        ("-1", None),
        ("1e9", None),
        ("9" * 5000, None),
        ("inf", None),
        ("nan", None),
        ("", None),
        ("soon", None),
        ("٣", None),
        (formatdate(NOW + 7, usegmt=True), 7),
        (formatdate(NOW + 7), 7),
        (formatdate(NOW + 86_400, usegmt=True), 600),
        (formatdate(NOW - 7, usegmt=True), None),
        ("Friday, 15-Jan-27 08:00:10 GMT", 10),
        ("Fri Jan 15 08:00:10 2027", 10),
        ("Fri, 99 Jan 2027 08:00:10 GMT", None),
        ("Fri, 15 Jan 99999 08:00:10 GMT", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_a_date(value, pause_s):
    assert retry_after_s(value, "", NOW) == pause_s


def test_a_retry_after_date_is_relative_to_the_date_of_the_response():
    sent = formatdate(NOW + 1000, usegmt=True)
    until = formatdate(NOW + 1005, usegmt=True)
    assert retry_after_s(until, sent, NOW) == 5
    assert retry_after_s(until, "junk", NOW) == 600


def test_backoffs_double_with_jitter_up_to_a_minute():
    for times, about_s in ((1, 1), (2, 2), (3, 4), (7, 60), (5000, 60)):
        found = {backoff_s(times) for _ in range(50)}
        assert len(found) > 1
        assert all(0.75 * about_s <= s <= 1.25 * about_s for s in found)
    assert MAX_BACKOFF_S == 60


# -- one host ------------------------------------------------------------------------------


def host_of(ceiling=8):
    return Host(ceiling)


def test_a_round_trip_of_refusals_halves_once():
    host = host_of()
    news = [host.busy(503, None, 0.0, 1.0, next(PAGES)) for _ in range(8)]
    assert news[:2] == [True, False]
    assert host.window == 4
    assert host.backoffs == {"503": 1}


def test_a_new_host_takes_one_request_then_more_with_each_round():
    host = Host(8, is_new=True)
    found = []
    for number in range(11):
        found.append(host.limit)
        host.good(number, number + 0.1, 0.01)
    assert found == [1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 8]
    assert host.limit == 8


@pytest.mark.parametrize(("ceiling", "limits"), [(1, [1, 1]), (3, [1, 2, 2, 3, 3])])
def test_a_low_ceiling_ends_the_ramp(ceiling, limits):
    host = Host(ceiling, is_new=True)
    found = []
    for number in range(len(limits)):
        found.append(host.limit)
        host.good(number, number + 0.1, 0.01)
    assert found == limits


@pytest.mark.parametrize("status", [429, 503])
def test_trouble_ends_the_ramp_of_a_host(status):
    host = Host(8, is_new=True)
    host.good(0.0, 0.1, 0.01)
    host.good(0.2, 0.3, 0.01)
    host.busy(status, 1.0, 0.2, 0.4, next(PAGES))
    assert host.limit == 1
    for number in range(STREAK):
        host.good(2.0 + number, 2.5 + number, 0.01)
    assert host.limit == 2


def test_a_host_in_its_ramp_may_be_forgotten():
    host = Host(8, is_new=True)
    host.start(1.0)
    assert not host.is_plain(1.0)
    host.in_flight -= 1
    host.good(1.0, 1.1, 0.01)
    assert host.is_plain(1.2)


@run
async def test_a_slow_new_host_gets_more_requests_with_time(time):
    asker = Asker(HostPace(8, time.clock, time.call_later, ramps=True), time)
    tasks = [asker.ask(n) for n in range(12)]
    await settle()
    counts = []
    for _ in range(6):
        counts.append(len(asker.started))
        await time.advance(1.0)
    assert counts == [1, 2, 3, 4, 8, 8]
    await asker.end(*range(12))
    await asyncio.gather(*tasks)


@run
async def test_a_fast_new_host_is_at_its_ceiling_soon(time):
    asker = Asker(HostPace(8, time.clock, time.call_later, ramps=True), time)
    tasks = [asker.ask(n) for n in range(30)]
    await settle()
    most = []
    done = 0
    while done < 30:
        under_way = asker.names[done:]
        most.append(len(under_way))
        await asker.end(*under_way)
        done += len(under_way)
    assert most == [1, 2, 3, 4, 8, 8, 4]
    assert asker.times[-1] == asker.times[0]
    await asyncio.gather(*tasks)


def test_the_window_halves_down_to_one_and_recovers_by_one():
    host = host_of()
    for now, window in enumerate((4, 2, 1, 1), 1):
        host.busy(503, None, now, now, next(PAGES))
        assert host.window == window
    for number in range(7 * STREAK):
        host.good(10.0, 11.0 + number, 0.01)
        assert host.window == 1 + (number + 1) // STREAK
    host.good(10.0, 100.0, 0.01)
    assert host.window == 8


def test_a_streak_that_is_broken_begins_anew():
    host = host_of()
    host.busy(503, None, 0.0, 1.0, next(PAGES))
    for _ in range(STREAK - 1):
        host.good(2.0, 3.0, 0.01)
    host.note_timeout(3.0, 10.0)
    host.good(11.0, 12.0, 0.01)
    assert host.window == 2


@pytest.mark.parametrize(("waited_s", "window"), [(1, 8), (4.9, 8), (5, 4), (60, 4)])
def test_only_a_patient_time_out_counts(waited_s, window):
    host = host_of()
    host.note_timeout(10.0, 10.0 + waited_s)
    assert host.window == window


@pytest.mark.parametrize(
    ("usual_s", "then_s", "window"),
    [
        (0.6, 1.1, 8),
        (0.6, 1.3, 4),
        (0.01, 0.5, 8),  # below a second it may be our own load
        (5.0, 9.0, 8),
        (5.0, 11.0, 4),
    ],
)
def test_doubled_latency_halves(usual_s, then_s, window):
    host = host_of()
    for _ in range(SAMPLE):
        host.good(0.0, 1.0, usual_s)
    # A few slow pages are no trouble.
    for number in range(SAMPLE):
        host.good(2.0, 3.0, then_s if number < SAMPLE // 3 else usual_s)
    assert host.window == 8
    for _ in range(SAMPLE):
        host.good(4.0, 5.0, then_s)
    assert host.window == window


@pytest.mark.parametrize(
    ("status", "asked_s", "low_s", "high_s"),
    [
        (429, 7.0, 7, 7),
        (503, 7.0, 7, 7),
        (429, None, 0.75, 1.25),
        (503, None, 0, 0),
    ],
)
def test_the_pause_after_a_busy_response(status, asked_s, low_s, high_s):
    host = host_of()
    host.busy(status, asked_s, 0.0, 1.0, next(PAGES))
    assert low_s <= max(0, host.opens_at - 1.0) <= high_s


def test_many_broken_pages_pause_a_host_and_one_does_not():
    host = host_of()
    for now in (1, 2):
        host.busy(503, None, now, now, next(PAGES))
    assert host.opens_at <= 2
    host.busy(503, None, 3, 3, next(PAGES))
    assert host.opens_at > 3


def test_pauses_without_a_length_grow():
    host = host_of()
    pauses = []
    now = 0.0
    for _ in range(4):
        host.busy(429, None, now, now, next(PAGES))
        pauses.append(host.opens_at - now)
        now = host.opens_at
    assert all(1.2 < b / a < 3.4 for a, b in itertools.pairwise(pauses))
    host.good(now, now, 0.01)
    host.busy(429, None, now + 1, now + 1, next(PAGES))
    assert host.opens_at - (now + 1) < 1.3


@pytest.mark.parametrize(
    ("good", "asked_s", "gap_s"),
    [
        (5, 1.0, 0.25),  # five a second
        (5, None, 0.31),  # the same, with a pause of our own of about a second
        (60, 60.0, 1.25),  # sixty a minute
        (0, 1.0, 1.0),
        (1, 600.0, 60.0),
    ],
)
def test_the_rate_of_a_site_is_derived_from_a_429(good, asked_s, gap_s):
    host = host_of()
    for _ in range(good):
        host.good(1000.0, 1000.4, 0.01)
    for _ in range(3):
        host.busy(429, asked_s, 1000.0, 1000.5, next(PAGES))
    assert host.gap_s == pytest.approx(gap_s, rel=0.26 if asked_s is None else 0.01)


def test_a_page_that_is_always_busy_does_not_slow_its_host_down():
    host, now = host_of(), 1000.0
    for number in range(10):
        host.busy(429, 3.0, now, now + 0.1, "/always")
        # It waits alone, if others are fine.
        assert (host.opens_at == pytest.approx(now + 3.1)) == (number == 0)
        if number == 0:
            window, gap_s = host.window, host.gap_s
        host.good(now + 4, now + 4.1, 0.1)
        now += 10
    assert host.window >= window
    assert host.gap_s <= gap_s
    before = host.gap_s
    host.busy(429, 3.0, now, now + 0.1, "/another")
    assert host.gap_s >= 2 * before


def test_a_page_that_repeats_the_longest_pause_does_not_pause_its_host():
    host, now = host_of(), 1000.0
    host.busy(503, 600.0, now, now, "/broken")
    assert host.opens_at == now + 600
    host.good(now + 601, now + 601, 0.1)
    for later_s in (602, 603, 1150):  # without a good response in between
        host.busy(503, 600.0, now + later_s, now + later_s, "/broken")
        assert host.opens_at == now + 600
    host.busy(503, 7.0, now + 1160, now + 1160, "/another")
    assert host.opens_at == now + 1167


def test_pages_that_are_busy_again_together_do_close_their_host():
    host = host_of()
    for page in ("/a", "/b"):
        host.busy(429, 1.0, 1000.0, 1000.1, page)
    host.good(1002.0, 1002.1, 0.1)
    host.busy(429, 1.0, 1003.0, 1003.1, "/a")
    host.busy(429, 1.0, 1003.0, 1003.2, "/b")
    assert host.opens_at == pytest.approx(1004.2)


def test_a_host_that_is_busy_for_all_pages_becomes_slower():
    host, now, gaps = host_of(), 1000.0, []
    for page in ("/a", "/b", "/c"):
        host.busy(429, 1.0, now, now + 0.1, page)
        gaps.append(host.gap_s)
        now += 10
    assert gaps[0] < gaps[1] < gaps[2]


@pytest.mark.parametrize(("asked_s", "most_s"), [(1.0, 1.25), (5.0, 6.25), (None, 1.6)])
def test_a_part_of_429s_at_any_rate_slows_a_host_down_to_a_bound(asked_s, most_s):
    host, now = host_of(), 1000.0
    for number in range(20):
        host.busy(429, asked_s, now, now + 0.1, f"/{number}")
        now += 10
        host.good(now, now + 0.1, 0.1)
    assert host.gap_s <= most_s


def test_the_rate_of_a_site_with_too_short_retry_after_is_found():
    host, now, taken_at, refused = host_of(), 1000.0, [], []
    for number in range(200):
        now = max(now, host.opens_at, host.next_at)
        host.start(now)
        host.in_flight -= 1
        if sum(at > now - 60 for at in taken_at) < 6:
            taken_at.append(now)
            host.good(now, now, 0.1)
        else:
            refused.append(number)
            host.busy(429, 1.0, now, now, f"/{number}")
        now += 0.1
    assert len(refused) < 40
    assert host.gap_s > 5


def test_429s_without_a_pause_cause_no_gap_of_a_minute():
    host, now = host_of(), 1000.0
    for number in range(20):
        host.busy(429, None, now, now, f"/{number}")
        now = max(host.opens_at, host.next_at) + 1
    assert host.gap_s == 10


def test_a_host_that_loses_all_pages_becomes_no_slower():
    host, now = host_of(), 1000.0

    def ask(page, tries):
        nonlocal now
        for _ in range(tries):
            now = max(now, host.opens_at, host.next_at)
            host.start(now)
            host.busy(429, None, now, now, page)
        host.note_lost_page(now)

    for number in range(LOST_PAGES):
        assert not host.refuses_all(now)
        ask(f"/{number}", 4)
    began, gap_s = now, host.gap_s
    for number in range(100, 130):
        assert host.refuses_all(now)
        ask(f"/{number}", 1)
    assert host.gap_s == gap_s
    assert now - began < 30 * (gap_s + 1)
    assert not host.refuses_all(now + LOST_S + 1)  # rounding
    host.good(now, now, 0.01)
    assert not host.refuses_all(now)


def test_responses_after_the_429_count_for_the_rate():
    host = host_of()
    host.busy(429, 1.0, 1000.0, 1000.1, next(PAGES))
    for _ in range(5):
        host.good(1000.0, 1000.3, 0.3)
    assert host.gap_s == 0.25


def test_a_rate_that_was_too_much_is_halved_and_not_tried_for_long():
    host = host_of()
    for _ in range(10):
        host.good(0.0, 0.5, 0.01)
    host.busy(429, 1.0, 0.0, 0.6, next(PAGES))
    assert host.gap_s == 0.125
    for _ in range(8):
        host.good(2.0, 2.5, 0.01)
    host.busy(429, 1.0, 2.0, 2.6, next(PAGES))
    assert host.gap_s == 0.25
    for number in range(10 * STREAK):
        host.good(3.0, 4.0 + number, 0.01)
    assert host.gap_s == 0.25
    for number in range(60 * STREAK):
        host.good(3.0, 3.0 + FORGET_S + number, 0.01)
    assert host.gap_s == 0


# -- slots -----------------------------------------------------------------------------------


@run
async def test_an_idle_host_starts_without_waiting(make_pace):
    slot = make_pace().slot(SITE)
    entering = slot.__aenter__()
    with pytest.raises(StopIteration):  # it ran to its end without a pause
        entering.send(None)
    await slot.__aexit__(None, None, None)


@run
async def test_no_more_than_the_ceiling_are_in_flight(asker):
    site = asker(2)
    tasks = [site.ask(n) for n in range(5)]
    await settle()
    assert site.names == [0, 1]
    await site.end(1)
    assert site.names == [0, 1, 2]
    await site.end(0, 2, 3, 4)
    await asyncio.gather(*tasks)
    assert site.names == [0, 1, 2, 3, 4]


@run
async def test_hosts_do_not_wait_for_each_other(make_pace, time):
    pace = make_pace(1)
    first, second = Asker(pace, time), Asker(pace, time, "b.example")
    tasks = [first.ask(0), second.ask(0)]
    await settle()
    assert first.names == second.names == [0]
    await first.end(0)
    await second.end(0)
    await asyncio.gather(*tasks)


@run
async def test_permits_alternate_between_owners(asker):
    site = asker(1)
    tasks = [site.ask(f"big{n}", "big") for n in range(5)]
    tasks += [site.ask(f"small{n}", "small") for n in range(2)]
    tasks += [site.ask("one", "third")]
    await settle()
    for _ in tasks:
        await site.end(site.names[-1])
    await asyncio.gather(*tasks)
    assert site.names == [
        *("big0", "big1", "small0", "one", "big2", "small1", "big3", "big4")
    ]


@run
async def test_a_cancelled_request_returns_its_permit(asker):
    site = asker(1)
    first, second, third = (site.ask(n) for n in range(3))
    await settle()
    second.cancel()
    await site.end(0)
    assert site.names == [0, 2]
    third.cancel()  # in flight
    await asyncio.gather(first, second, third, return_exceptions=True)
    fourth = site.ask(3)
    await site.end(3)
    await fourth
    assert site.names == [0, 2, 3]


@run
async def test_a_cancelled_request_passes_its_permit_on(asker):
    site = asker(1)
    first, second, third = (site.ask(n) for n in range(3))
    await settle()
    site.ends[0].set()
    await asyncio.sleep(0)  # the first ends: it is the second's turn
    await asyncio.sleep(0)
    second.cancel()
    await settle()
    assert site.names[-1] == 2
    await site.end(2, 1)
    await asyncio.gather(first, second, third, return_exceptions=True)
    assert not site.pace._hosts[SITE].in_flight


@run
async def test_the_moment_of_cancelling_does_not_matter(make_pace, time):
    for steps in range(12):
        site = Asker(make_pace(1), time)
        tasks = [site.ask(n) for n in range(3)]
        await settle()
        site.ends[0].set()
        for _ in range(steps):
            await asyncio.sleep(0)
        tasks[1].cancel()
        site.ends[2].set()
        await settle()
        assert tasks[2].done(), steps
        assert not site.pace._hosts[SITE].in_flight, steps
        await asyncio.gather(*tasks, return_exceptions=True)


@run
async def test_a_deadline_ends_the_waiting(asker, time):
    site = asker(1)
    first, second = site.ask(0), site.ask(1, deadline=5.0)
    await time.advance(4.9)
    assert not second.done()
    await time.advance(0.2)
    assert isinstance(second.exception(), HostBusy)
    await site.end(0)
    await first
    assert not site.pace._hosts[SITE].waiting


@pytest.mark.parametrize(("deadline", "starts"), [(9.9, False), (10.1, True)])
def test_a_request_that_cannot_start_before_its_deadline_fails_at_once(
    asker, time, deadline, starts
):
    @run
    async def test():
        site = asker()
        first = site.ask(0, status=429, pause_s=10.0)
        await site.end(0)
        await first
        second = site.ask(1, deadline=deadline)
        await settle()
        assert second.done() is not starts
        if starts:
            await time.advance(10)
            assert site.times == [0, 10]
            await site.end(1)
            await second
        else:
            assert second.exception().opens_at == 10

    test()


@run
async def test_a_new_pause_fails_waiting_requests_with_an_earlier_deadline(asker, time):
    site = asker(1)
    first = site.ask(0, status=503, pause_s=10.0)
    short, long = site.ask(1, deadline=8.0), site.ask(2, deadline=20.0)
    await time.advance(1)
    await site.end(0)
    assert isinstance(short.exception(), HostBusy)
    assert not long.done()
    await time.advance(11)
    assert site.names == [0, 2]
    await site.end(2)
    await asyncio.gather(first, long)


@run
async def test_a_request_without_patience_does_not_wait_for_a_pause(asker, time):
    site = asker(1)
    first = site.ask(0, status=503, pause_s=2.0)
    await settle()
    waits = asyncio.ensure_future(site.pace.slot(SITE, patience_s=1.0).__aenter__())
    await settle()
    assert not waits.done()  # for a place it waits
    await site.end(0)
    await first
    assert waits.exception().opens_at == 2
    with pytest.raises(HostBusy):
        await site.pace.slot(SITE, patience_s=1.9).__aenter__()
    await time.advance(0.2)
    waits = asyncio.ensure_future(site.pace.slot(SITE, patience_s=1.9).__aenter__())
    await time.advance(2)
    await waits


@run
async def test_starts_keep_the_gap_that_a_site_taught(asker, time):
    site = asker()
    tasks = [site.ask(n) for n in range(5)]
    tasks += [site.ask(n, status=429, pause_s=1.0) for n in range(5, 8)]
    await settle()
    await site.end(*range(8))
    assert site.pace.report(SITE).gap_s == 0.25
    tasks += [site.ask(n) for n in range(8, 14)]
    for number in range(8, 14):
        site.ends[number].set()
    await time.advance(5)
    assert site.times[8:] == [1.0, 1.25, 1.5, 1.75, 2.0, 2.25]
    await asyncio.gather(*tasks)


@run
async def test_a_deadline_accounts_for_the_requests_of_other_owners(asker, time):
    site = asker()
    first = site.ask(0, status=429, pause_s=1.0)
    await site.end(0)
    await first
    job = [site.ask(f"job{n}", "job") for n in range(20)]
    await settle()
    # Taking turns, a request of another owner starts second, at 1 s + 1 gap.
    late = site.ask("late", "b", deadline=1.9)
    good = site.ask("good", "c", deadline=3.1)
    await settle()
    assert isinstance(late.exception(), HostBusy)
    for end in site.ends.values():
        end.set()
    await time.advance(60)
    await asyncio.gather(good, *job)
    assert site.names[1:3] == ["job0", "good"]


@run
async def test_a_job_sees_free_permits_and_pause_of_a_host(make_pace, time):
    pace = make_pace()
    assert pace.job_limit(SITE) > 1000
    assert pace.pause_s(SITE) == 0
    async with pace.slot(SITE) as slot:
        slot.note_response(503, 0, 0.01, 7.0, page=next(PAGES))
    assert pace.job_limit(SITE) == 0
    assert pace.pause_s(SITE) == 7
    await time.advance(7)
    assert pace.job_limit(SITE) == 5
    async with pace.slot(SITE) as slot:
        slot.note_response(429, 0, 0.01, 60.0, page=next(PAGES))
    await time.advance(60)
    assert pace.report(SITE).gap_s == 1.0
    assert pace.job_limit(SITE) == 3  # the window is 2 by now


def test_idle_hosts_are_forgotten(make_pace, time, monkeypatch):
    @run
    async def test():
        pace = make_pace()
        async with pace.slot("paused.example") as slot:
            slot.note_response(503, 0, 0.01, 500.0, page=next(PAGES))
        async with pace.slot("busy.example"):
            for number in range(100):
                async with pace.slot(f"{number}.example"):
                    pass
            assert {"paused.example", "busy.example"} < set(pace._hosts)
        assert len(pace._hosts) < 20

    monkeypatch.setattr(host_pace, "MAX_HOSTS", 10)
    test()


# -- turns ------------------------------------------------------------------------------------


@run
async def test_delayed_starts_are_exclusive_and_spaced(make_pace, time):
    turns = make_pace().locks
    log = []

    async def page(name, delay_s):
        turn = await turns.take(SITE, delay_s)
        log.append((time.now, name))
        await asyncio.sleep(0)
        time.call_later(1, turn.end)

    tasks = [asyncio.ensure_future(page(n, d)) for n, d in enumerate((2, 5, 2))]
    await time.advance(30)
    await asyncio.gather(*tasks)
    # From the end of a page, a second after its start, its own pause.
    assert log == [(0, 0), (3, 1), (9, 2)]


@run
async def test_a_host_lock_ends_once_and_a_cancelled_wait_passes_the_lock_on(
    make_pace, time
):
    turns = make_pace().locks
    first = await turns.take(SITE, 1.0)
    waiting = [asyncio.ensure_future(turns.take(SITE, 1.0)) for _ in range(3)]
    await settle()
    waiting[0].cancel()
    first.end()
    first.end()
    await settle()
    waiting[1].cancel()  # it sleeps out the pause
    await time.advance(1.1)
    (await waiting[2]).end()
    assert (await asyncio.wait_for(turns.take("b.example", 1.0), 1)) is not None


def test_crawl_delays_are_kept_up_to_ten_seconds(make_pace):
    turns = make_pace().locks
    assert turns.crawl_delay_s(SITE) == 0
    for asked, kept in ((3.5, 3.5), (3600, 10), (-1, 0)):
        turns.set_crawl_delay(SITE, asked)
        assert turns.crawl_delay_s(SITE) == kept
