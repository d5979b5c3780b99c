"""Messages of monitors to channels of the operator, through Apprise."""

from __future__ import annotations

import itertools

import pytest
import sqlalchemy as sa

from tests.support.crash import kill, sqlite_of
from tests.support.monitors import RARELY, create, ended, run, scrape
from tests.support.receiver import Receiver
from tests.support.scripted_site import ScriptedSite, moved, page
from tests.support.waiting import wait_until

_numbers = itertools.count()


@pytest.fixture(scope="module")
def web():
    with ScriptedSite({}) as site:
        yield site


@pytest.fixture(scope="module")
def receiver():
    with Receiver() as running:
        yield running


@pytest.fixture
def path(web):
    """A page of the site of its own."""
    found = f"/{next(_numbers)}"
    web.put(found, page(text="The price is 10."))
    return found


def as_json(url, query=""):
    """Return the URL of Apprise that posts JSON to ``url``."""
    return url.replace("http://", "json://") + query


def told(receiver, path):
    return [each.json for each in receiver.received(path)]


def state(service, made, check):
    return ended(service, made, check["id"])["notificationStatus"]


def test_a_channel_gets_one_message_per_check_with_changes(
    start_service, web, receiver, path
):
    channels = f"team={as_json(receiver.url('/ok/team'))},other={as_json(receiver.url('/ok/other'))}"
    service = start_service(SCRAPER_NOTIFICATION_CHANNELS=channels)
    pages = [f"{path}/{n}" for n in range(22)]
    for each in pages:
        web.put(each, page(text=f"This is {each}."))
    urls = [web.url(each) for each in pages]
    made = create(service, scrape(*urls), notification={"channels": ["team"]})
    assert made["notification"] == {"channels": ["team"]}
    check = run(service, made)
    wait_until(lambda: state(service, made, check)["channels"] == "delivered")
    assert state(service, made, check) == {"webhook": "none", "channels": "delivered"}
    assert run(service, made)["notificationStatus"] is None  # nothing has changed
    [message] = told(receiver, "/ok/team")
    assert message["title"] == "Prices: 22 new"
    assert check["id"] in message["message"]
    assert message["message"].count("\nnew: ") == 20
    assert "and 2 more" in message["message"]
    assert told(receiver, "/ok/other") == []


@pytest.mark.parametrize("change", [False, True])
def test_an_unknown_channel_is_a_400_with_its_path(service, change):
    target = scrape("https://a.example/")
    body = {"notification": {"channels": ["team"]}}
    if change:
        made = create(service, target)
        reply = service.request("PATCH", f"/v2/monitor/{made['id']}", body)
    else:
        reply = service.post(
            "/v2/monitor",
            {"name": "x", "schedule": RARELY, "targets": [target], **body},
        )
    assert reply.status == 400
    [issue] = reply.json["details"]
    assert issue["path"] == ["notification", "channels", 0]
    assert "'team'" in issue["message"]


def trial(service, made):
    reply = service.post(f"/v2/monitor/{made['id']}/notification/test")
    assert reply.status == 200, reply.json
    return {
        each["name"]: (each["delivered"], each["error"]) for each in reply.json["data"]
    }


@pytest.mark.full
def test_the_egress_policy_applies_to_notification_channels(
    start_service, web, receiver, canary, path
):
    web.put("/to-canary", moved(canary.url, 302))
    url = as_json(web.url("/to-canary"), "?method=get")
    channels = {
        "private": as_json(canary.url),
        "named": f"json://localhost:{canary.port}/",
        "redirected": url,
        "fine": as_json(receiver.url("/ok/fine")),
    }
    setting = ",".join(f"{name}={url}" for name, url in channels.items())
    service = start_service(SCRAPER_NOTIFICATION_CHANNELS=setting)
    made = create(
        service, scrape(web.url(path)), notification={"channels": list(channels)}
    )
    before = canary.count()
    found = trial(service, made)
    assert canary.count() == before
    assert found.pop("fine") == (True, None)
    assert [is_sent for is_sent, _ in found.values()] == [False] * 3
    assert all("egress rule" in error for _, error in found.values()), found
    [message] = told(receiver, "/ok/fine")
    assert message["title"] == "Prices: test"
    # No answer and no log has an address or a secret of a channel.
    assert "127.0.0.1" not in str(found)


def test_a_monitor_without_receivers_has_no_test_message(service):
    made = create(service, scrape("https://a.example/"))
    reply = service.post(f"/v2/monitor/{made['id']}/notification/test")
    assert reply.status == 400
    assert "channels" in reply.json["error"]


@pytest.mark.full
def test_a_message_that_was_not_taken_is_sent_again_after_a_crash(
    start_service, web, receiver, path, tmp_path
):
    channels = {
        "SCRAPER_NOTIFICATION_CHANNELS": f"a={as_json(receiver.url('/silent/a'))}"
    }
    service = start_service(**channels)
    made = create(service, scrape(web.url(path)), notification={"channels": ["a"]})
    check = run(service, made)
    wait_until(lambda: told(receiver, "/silent/a"))
    assert state(service, made, check)["channels"] == "pending"
    kill(service)
    again = {"SCRAPER_NOTIFICATION_CHANNELS": f"a={as_json(receiver.url('/ok/again'))}"}
    make_due(tmp_path)
    start_service(tmp_path, **again)
    [message] = wait_until(lambda: told(receiver, "/ok/again"))
    assert check["id"] in message["message"]


def make_due(folder):
    """Let the time pass after which another process tries again."""
    engine = sa.create_engine(sqlite_of(folder), poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE monitor_message SET due_at=1, tried_at=1"))
    engine.dispose()
