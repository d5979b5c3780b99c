"""Deliveries that cannot be made: they end, and later ones of their job are sent."""

from __future__ import annotations

import asyncio
import json

import pytest
from scrapy.settings import Settings
from sqlalchemy import delete, select, update

from scraper_service.api.events import event_body
from scraper_service.options.jobs import Webhook
from scraper_service.services.webhooks import Webhooks
from scraper_service.storage.database import Database
from scraper_service.storage.job_records import DeliveryState, PageRow
from scraper_service.storage.monitors import check_steps
from scraper_service.storage.monitors.checks import CheckedPages
from scraper_service.storage.schema import delivery, monitor_page, webhook
from tests.storage.test_monitors import URLS, World
from tests.support.receiver import Receiver
from tests.support.waiting import wait_until

SETTINGS = Settings(
    {
        "EGRESS_ALLOW": "127.0.0.2/32",
        "LEASE_S": 60,
        "USER_AGENT": "test",
        "WEBHOOK_BODIES_MB": 1,
        "WEBHOOK_CONCURRENCY": 1,
        "WEBHOOK_RETRY_S": "0,0",
        "WEBHOOK_TIMEOUT_S": 10,
    }
)
FIRST = monitor_page.c.seq == 0


def with_a_page_that_is_gone(connection):
    connection.execute(delete(monitor_page).where(FIRST))


def with_a_damaged_page(connection):
    connection.execute(update(monitor_page).where(FIRST).values(body=b"damaged"))


def with_a_key_of_a_newer_version(connection):
    config = json.loads(connection.scalar(select(webhook.c.config)))
    connection.execute(update(webhook).values(config=json.dumps({**config, "new": 1})))


def told_pages(world):
    """Start a check of a monitor with two events; the second of each is of a good page."""
    target = world.made.definition.targets[0].id
    check = world.start(world.made, None, "manual")
    lease = world.take(check)
    for url in URLS:
        rows = [PageRow({"url": url, "status": "new", "previous": None})]
        pages = CheckedPages(target_id=target, rows=rows, new=[])
        world.do(check_steps.add_pages, check.id, lease, "{}", pages)


def ends(world):
    """Return state, attempts and last error of all deliveries, None if one is pending."""
    rows = world.do(
        lambda c: c.execute(select(delivery).order_by(delivery.c.seq)).all()
    )
    if any(row.state == DeliveryState.PENDING for row in rows):
        return None
    return [
        (row.state, row.attempts, json.loads(row.log)[-1].get("error")) for row in rows
    ]


@pytest.fixture
def database(tmp_path):
    opened = Database(tmp_path)
    yield opened
    opened.close()


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("harm", "attempts", "sent"),
    [
        (with_a_page_that_is_gone, 1, URLS[1:]),
        (with_a_damaged_page, 3, URLS[1:]),
        (with_a_key_of_a_newer_version, 3, ()),
    ],
)
def test_a_delivery_that_cannot_be_made_ends(database, harm, attempts, sent):
    world = World(database)
    with Receiver() as receiver:
        hook = Webhook(url=receiver.url("/ok"), events=("page",))
        world.made = world.make(hook=hook)
        told_pages(world)
        world.do(harm)

        async def send():
            hooks = Webhooks(SETTINGS, database, event_body)
            hooks.open()
            found = await asyncio.to_thread(wait_until, lambda: ends(world), 60)
            await hooks.close()
            return found

        first, second = asyncio.run(send())
        got = [each.json["data"][0]["url"] for each in receiver.received("/ok")]
    assert first[1] == attempts
    assert first[2]
    assert got == list(sent)
    assert (second[2] is None) == bool(sent)
