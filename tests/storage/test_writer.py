"""What waits for the writer shares a transaction, and only items wait for each other."""

from __future__ import annotations

import threading
import time

import pytest
from sqlalchemy import create_engine, text

from scraper_service.storage import write_queue
from scraper_service.storage.write_queue import Writer

LONG_S = 600


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A writer whose items wait for long, and what was written in each call."""
    monkeypatch.setattr(write_queue, "ITEMS_EVERY_S", LONG_S)
    opened = Writer(create_engine(f"sqlite:///{tmp_path / 'a.sqlite'}"))
    calls: list[list[int]] = []

    def note(connection, job_id, items):
        calls.append(items)
        return [-item for item in items]

    yield opened, note, calls
    opened.close()


def test_the_first_item_is_written_at_once(written):
    opened, note, calls = written
    assert opened.submit_each(note, "job", 1).result(LONG_S / 10) == -1
    assert calls == [[1]]


def test_items_are_grouped_and_join_the_next_urgent_write(written):
    opened, note, calls = written
    opened.submit_each(note, "job", 1).result(LONG_S / 10)
    items = [opened.submit_each(note, "job", number) for number in (2, 3, 4)]
    work = opened.submit(lambda connection: connection.scalar(text("SELECT 5")))
    assert work.result(LONG_S / 10) == 5
    assert [item.result(LONG_S / 10) for item in items] == [-2, -3, -4]
    assert calls == [[1], [2, 3, 4]]


def test_an_item_that_does_not_wait_takes_the_others_along(written):
    opened, note, calls = written
    opened.submit_each(note, "job", 1).result(LONG_S / 10)
    waiting = opened.submit_each(note, "job", 2)
    hasty = opened.submit_each(note, "job", 3, waits=False)
    assert [hasty.result(LONG_S / 10), waiting.result(LONG_S / 10)] == [-3, -2]
    assert calls == [[1], [2, 3]]


def test_more_items_than_a_group_do_not_delay_other_writes(written, monkeypatch):
    opened, note, _ = written
    monkeypatch.setattr(write_queue, "MAX_GROUP", 3)
    began, go_on = threading.Event(), threading.Event()

    def hold(connection):
        began.set()
        go_on.wait(LONG_S / 10)

    opened.submit(hold)
    assert began.wait(LONG_S / 10)
    items = [opened.submit_each(note, "job", number) for number in (1, 2, 3)]
    work = opened.submit(lambda connection: connection.scalar(text("SELECT 5")))
    go_on.set()
    assert work.result(LONG_S / 10) == 5
    assert [item.result(0) for item in items] == [-1, -2, -3]


def test_items_that_wait_are_written_before_the_end(written):
    opened, note, calls = written
    opened.submit_each(note, "job", 1).result(LONG_S / 10)
    item = opened.submit_each(note, "job", 2)
    opened.close()
    assert item.result(0) == -2
    assert calls == [[1], [2]]


def test_work_that_waits_goes_along_with_an_item(written):
    opened, note, calls = written
    opened.submit_each(note, "job", 1).result(LONG_S / 10)
    later = opened.submit(lambda _: calls.append([0]), "a", waits=True)
    item = opened.submit_each(note, "job", 2)
    assert not later.done()
    opened.submit_each(note, "job", 3, waits=False).result(LONG_S / 10)
    later.result(0)
    assert item.result(0) == -2
    assert calls == [[1], [0], [2, 3]]


def test_after_many_items_the_next_wait_longer(written, monkeypatch):
    opened, note, _ = written
    monkeypatch.setattr(write_queue, "ITEMS_EVERY_S", 0.3)
    opened.submit_each(note, "job", 1).result(LONG_S / 10)
    items = [opened.submit_each(note, "job", number) for number in (2, 3, 4)]
    assert [item.result(LONG_S / 10) for item in items] == [-2, -3, -4]
    began = time.monotonic()
    assert opened.submit_each(note, "job", 5).result(LONG_S / 10) == -5
    assert time.monotonic() - began > 0.6


def test_a_group_that_takes_long_is_stored_in_parts(written, monkeypatch):
    opened, *_ = written
    monkeypatch.setattr(write_queue, "GROUP_S", 0.05)
    started, goes_on = threading.Event(), threading.Event()

    def first(connection):
        started.set()
        goes_on.wait(LONG_S / 10)

    def slow(connection):
        time.sleep(0.1)
        return [work.done() for work in group]

    begun = opened.submit(first)  # the others wait for the writer, and are one group
    started.wait(LONG_S / 10)
    group = [opened.submit(slow) for _ in range(3)]
    goes_on.set()
    begun.result(LONG_S / 10)
    assert [work.result(LONG_S / 10) for work in group] == [
        [False, False, False],
        [True, False, False],
        [True, True, False],
    ]
