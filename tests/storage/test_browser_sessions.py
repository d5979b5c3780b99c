"""The sessions of the browser in the database, as a contract that every database has to keep."""

from __future__ import annotations

import time

import pytest

from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.accounts import sessions
from scraper_service.storage.accounts.credits import Call
from scraper_service.storage.accounts.sessions import SessionRecord
from scraper_service.storage.frontier import leases
from scraper_service.storage.jobs import job_rows
from tests.support.waiting import WAIT_S

TEAM = "team"


def write(database, function, *args, **kwargs):
    work = database._writer.submit(lambda c: function(c, *args, **kwargs))
    return work.result(timeout=WAIT_S)


def session_of(owner):
    return SessionRecord(
        id="session",
        team_id=TEAM,
        owner=owner,
        scrape_id=None,
        profile=None,
        has_view=True,
        created_at=0.0,
        last_at=0.0,
        expires_at=0.0,
    )


@pytest.mark.parametrize("price", [None, 4])
def test_a_session_of_a_dead_process_costs_the_credits_charged_so_far(database, price):
    write(database, job_rows.make_team, TEAM)
    wanted = session_of("dead")
    write(database, sessions.open_session, wanted, 60.0, 1)
    if price is not None:
        call = Call("session", TEAM, None, "interact", 2, None, time.time())
        write(database, ledger.record, call, price)

    def listed():
        [row] = write(database, sessions.list_browser_sessions, TEAM, is_active=None)
        return row.is_active, row.credits

    assert listed() == (False, price or 0)
    assert write(database, sessions.end_lost_sessions) == 1
    assert listed() == (False, price or 0)
    assert write(database, sessions.end_lost_sessions) == 0


@pytest.mark.parametrize(("ttl_s", "ended"), [(-3600, 1), (3600, 0)])
def test_a_session_ends_after_its_time_though_its_process_lives(database, ttl_s, ended):
    write(database, job_rows.make_team, TEAM)
    write(database, leases.beat, "live", WAIT_S)
    write(database, sessions.open_session, session_of("live"), ttl_s, 1)
    assert write(database, sessions.end_lost_sessions) == ended
    [row] = write(database, sessions.list_browser_sessions, TEAM, is_active=None)
    assert row.is_active != bool(ended)
