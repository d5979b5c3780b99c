from __future__ import annotations

import pytest

from scraper_service.content.words import fingerprint
from scraper_service.storage.frontier import job_counts
from scraper_service.storage.frontier.job_counts import (
    DeliveredText,
    Repeats,
    add_texts,
    texts_after,
)
from scraper_service.storage.transactions import read_number
from tests.storage.test_frontier import Harness

HOST = "site.example"


def text(number, *blocks, host=HOST, words=""):
    address = f"https://{host}/{number}"
    return DeliveredText(host, address, fingerprint(words), tuple(blocks), number)


def known(*texts):
    found = Repeats()
    found.add(texts)
    return found


def test_a_written_log_is_read_back(database):
    harness = Harness(database)
    job_id, other = harness.start(), harness.start()
    texts = [
        DeliveredText(
            HOST, f"https://{HOST}/ü{n}", 2**64 - 1 - n, (-(2**63), 0, 2**63 - 1)
        )
        for n in range(3)
    ]
    number, of_other = (harness.run(read_number, each) for each in (job_id, other))
    harness.run(add_texts, number, texts)
    harness.run(add_texts, of_other, [DeliveredText(HOST, "x", 0)])
    found = harness.run(texts_after, job_id, 0)
    assert [(t.host, t.url, t.fingerprint, t.blocks) for t in found] == [
        (t.host, t.url, t.fingerprint, t.blocks) for t in texts
    ]
    assert harness.run(texts_after, job_id, found[1].id) == found[2:]


def test_a_block_counts_once_most_pages_have_it():
    pages = [text(n, 1, n + 100) for n in range(1, 4)]
    assert known(*pages).repeated_blocks(HOST, [1, 101]) == set()
    pages.append(text(4, 1, 1, 104))
    assert known(*pages).repeated_blocks(HOST, [1, 101]) == {1}
    pages += [text(n, 2) for n in range(5, 10)]
    assert known(*pages).repeated_blocks(HOST, [1, 2]) == {2}
    assert known(*pages).repeated_blocks("other.example", [1, 2]) == set()


def test_texts_are_counted_once():
    pages = [text(n, 1) for n in range(1, 4)]
    found = known(*pages)
    found.add(pages)
    assert found.repeated_blocks(HOST, [1]) == set()


def test_each_host_is_learnt_from_few_pages(monkeypatch):
    found = known(*(text(n, 1) for n in range(1, job_counts.LEARNT_PAGES + 1)))
    assert not found.learns(HOST)
    assert found.learns("other.example")
    found.add([text(n, 2) for n in range(100, 200)])
    assert found.repeated_blocks(HOST, [1, 2]) == {1}
    monkeypatch.setattr(job_counts, "MAX_HOSTS", 1)
    assert not found.learns("other.example")


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(job_counts, "MAX_TEXTS", 3)
    assert not known(text(1), text(2)).is_full
    assert known(text(1), text(2), text(3)).is_full


@pytest.mark.parametrize("bits", [(), (0,), (15, 16), (1, 40, 63)])
def test_a_text_that_differs_in_few_bits_is_nearly_the_same(bits):
    found = known(
        text(1, words="a b c"), text(2, words="x y z"), text(3, words="x y z")
    )
    near = fingerprint("x y z")
    for bit in bits:
        near ^= 1 << bit
    assert found.original(near) == f"https://{HOST}/2"


def test_a_text_with_more_differences_is_no_duplicate():
    found = known(text(1, words="x y z"), text(2))
    assert found.original(fingerprint("x y z") ^ 0b1111) is None
    assert found.original(0) is None
