"""Two services on one database check many monitors, and are killed one after the other.

``MONITOR_KILLS`` is the number of kills, 2 unless given, ``MONITOR_COUNT`` that of the
monitors, 6 unless given; ``CRASH_SEED`` repeats a run. Each turn sets the run times of all
monitors to the past, in place of a clock.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter

import pytest
import sqlalchemy as sa

from tests.support.crash import kill
from tests.support.mail_server import MailReceiver
from tests.support.monitors import create, scrape
from tests.support.receiver import Receiver
from tests.support.scripted_site import ScriptedSite, page, slow
from tests.support.waiting import wait_until

KILLS = int(os.environ.get("MONITOR_KILLS", "2"))
SEED = os.environ.get("CRASH_SEED", "tides")
MONITORS = int(os.environ.get("MONITOR_COUNT", "6"))
MAILED = 5  # one in so many monitors sends mail
MAIL = {"enabled": True, "recipients": ["x@b.example"]}
PAGES = 2  # of a monitor: one that changes with a check, and one that never does
LONGEST_S = 3.0  # from the due time to the kill: schedulers look every 2 s
SECONDS_PER_KILL = 100 + 2 * MONITORS  # far more than one takes
OVER = ("completed", "partial", "failed")


def put(web, number, version):
    """Change the first page of a monitor."""
    found = page(text=f"Version {version} of page {number}.")
    web.put(f"/{number}/a", slow(found, 0.2))


def set_due(database):
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE monitor SET next_at = :at"), {"at": time.time() - 1}
        )
    engine.dispose()


def checks_of(service, monitor):
    """Return the ended checks of a monitor, the oldest first."""
    path = f"/v2/monitor/{monitor['id']}/checks?limit=100"
    found = service.get(path).json["data"]
    return [each for each in reversed(found) if each["status"] in OVER]


def pages_of(service, monitor, check):
    path = f"/v2/monitor/{monitor['id']}/checks/{check['id']}"
    pages = service.get(path).json["data"]["pages"]
    return {each["url"].rpartition("/")[2]: each["status"] for each in pages}


@pytest.mark.full
@pytest.mark.timeout(600 + KILLS * SECONDS_PER_KILL)
def test_checks_run_once_and_changes_are_reported_once_despite_kills(
    start_service, postgres, tmp_path
):
    chance, begun = random.Random(SEED), time.monotonic()
    database = postgres()
    settings = {
        "SCRAPER_DATABASE_URL": database,
        "SCRAPER_KEY_SECRET": "s" * 32,
        "SCRAPER_LEASE_S": "2",
        "SCRAPER_EGRESS_ALLOW": "127.0.0.2/31",
    }
    folders = [tmp_path / name for name in ("one", "two")]
    with ScriptedSite({}) as web, Receiver() as receiver, MailReceiver() as mail:
        channel = receiver.url("/ok/channel").replace("http://", "json://")
        settings["SCRAPER_NOTIFICATION_CHANNELS"] = f"team={channel}"
        settings["SCRAPER_SMTP_URL"] = mail.url
        services = [start_service(folder, **settings) for folder in folders]
        made = []
        for number in range(MONITORS):
            put(web, number, 0)
            web.put(f"/{number}/b", slow(page(text=f"Page {number}."), 0.2))
            urls = [web.url(f"/{number}/{name}") for name in "ab"]
            hook = receiver.url(f"/ok/{number}/")
            told = {} if number % MAILED else {"email": MAIL}
            if number == 0:  # a channel takes one message in 5 s
                told["channels"] = ["team"]
            more = {"webhook": hook, "notification": told}
            made.append(create(services[0], scrape(*urls), **more))
        changed: list[set[int]] = []
        for turn in range(KILLS + 1):
            changed.append(
                {n for n in range(MONITORS) if turn and chance.random() < 0.5}
            )
            for number in changed[-1]:
                put(web, number, turn)
            set_due(database)
            time.sleep(chance.uniform(0, LONGEST_S))
            victim = turn % 2
            other = services[1 - victim]
            if turn < KILLS:
                kill(services[victim])
            for each in made:
                wait_until(
                    lambda m=each, s=other, n=turn + 1: len(checks_of(s, m)) >= n
                )
            if turn < KILLS:
                services[victim] = start_service(folders[victim], **settings)
        mails = set()
        for number, monitor in enumerate(made):
            checks = checks_of(services[0], monitor)
            assert len(checks) == KILLS + 1
            assert {each["trigger"] for each in checks} == {"scheduled"}
            for turn, check in enumerate(checks):
                first = "changed" if number in changed[turn] else "same"
                expected = (
                    {"a": first, "b": "same"} if turn else dict.fromkeys("ab", "new")
                )
                assert pages_of(services[0], monitor, check) == expected, (number, turn)
            assert_told_once(receiver, number, checks)
            turns = [t for t in range(KILLS + 1) if t == 0 or number in changed[t]]
            news = {checks[turn]["id"] for turn in turns}
            if number == 0:
                wait_until(lambda x=news: messages_of(receiver) >= x)
                assert messages_of(receiver) == news
            if number % MAILED == 0:
                mails |= {f"<{check_id}@a.example>" for check_id in news}
        # A mail may come twice, with the same id.
        wait_until(lambda: {each["Message-ID"] for each in mail.messages} >= mails)
        assert {each["Message-ID"] for each in mail.messages} == mails
        spent = time.monotonic() - begun
        print(  # the figures of docs/how-to/monitors.md
            f"{MONITORS} monitors, {KILLS} kills, {MONITORS * (KILLS + 1)} checks,"
            f" {len(mails)} mails ({len(mail.messages)} received), {spent:.0f} s"
        )


def messages_of(receiver):
    """Return the checks that the messages to the channel are about."""
    texts = [each.json["message"] for each in receiver.received("/ok/channel")]
    return {text.split("Check ")[1].split(":")[0] for text in texts}


def assert_told_once(receiver, number, checks):
    """Assert that each page and each end of a check has one event.

    An event may be delivered twice, and has the same id then.
    """
    count = len(checks) * (PAGES + 1)
    wait_until(
        lambda: len({each.id for each in receiver.received(f"/ok/{number}/")}) >= count
    )
    events = {each.id: each.json for each in receiver.received(f"/ok/{number}/")}
    found = Counter((each["id"], each["type"]) for each in events.values())
    expected = Counter()
    for check in checks:
        expected[check["id"], "monitor.page"] = PAGES
        expected[check["id"], "monitor.check.completed"] = 1
    assert found == expected
