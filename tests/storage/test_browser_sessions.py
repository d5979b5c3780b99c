"""The sessions of the browser in the database, as a contract that every database has to keep."""

from __future__ import annotations

import time

import pytest

from scraper_service.storage.accounts import browser_sessions
from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.accounts.browser_sessions import SessionRecord
from scraper_service.storage.accounts.credits import Call
from scraper_service.storage.jobs import job_store
from tests.support.waiting import WAIT_S

TEAM = "team"


def write(database, function, *args, **kwargs):
    work = database._writer.submit(lambda c: function(c, *args, **kwargs))
    return work.result(timeout=WAIT_S)


@pytest.mark.parametrize("price", [None, 4])
def test_a_session_of_a_dead_process_costs_what_that_had_charged(database, price):
    write(database, job_store.make_team, TEAM)
    wanted = SessionRecord(
        id="session",
        team_id=TEAM,
        owner="dead",
        scrape_id=None,
        profile=None,
        has_view=True,
        created_at=0.0,
        last_at=0.0,
        expires_at=0.0,
    )
    write(database, browser_sessions.open_session, wanted, 60.0, 1)
    if price is not None:
        call = Call("session", TEAM, None, "interact", 2, None, time.time())
        write(database, ledger.record, call, price)

    def listed():
        [row] = write(database, browser_sessions.list_sessions, TEAM, is_active=None)
        return row.is_active, row.credits

    assert listed() == (False, price or 0)
    assert write(database, browser_sessions.end_lost) == 1
    assert listed() == (False, price or 0)
    assert write(database, browser_sessions.end_lost) == 0
