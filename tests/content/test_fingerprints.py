"""Fingerprints of texts: alike for texts that are nearly the same, quick to make."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import pytest

from scraper_service.content.words import distance, fingerprint

WORDS = [f"word{number}" for number in range(5000)]


def mixture(share, seed):
    """Return two texts of 300 words that share so many of them."""
    words = random.Random(seed).sample(WORDS, 600)
    same = words[: int(300 * share)]
    return " ".join(words[:300]), " ".join(same + words[300 : 600 - len(same)])


@pytest.mark.parametrize(
    ("share", "least", "most"),
    [(1, 0, 0), (0.98, 1, 7), (0.9, 5, 13), (0.5, 17, 26), (0, 28, 36)],
)
def test_the_distance_grows_with_the_differences(share, least, most):
    pairs = [mixture(share, seed) for seed in range(50)]
    mean = sum(distance(fingerprint(a), fingerprint(b)) for a, b in pairs) / 50
    assert least <= mean <= most


def test_neither_order_nor_case_nor_repetition_counts():
    assert fingerprint("A b c") == fingerprint("c\n\nB  a b")


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_no_words_have_no_fingerprint(text):
    assert fingerprint(text) == 0


@pytest.mark.parametrize("text", ["a", "é", "\ud800", "\0", "日本語の文章"])
def test_any_text_has_a_fingerprint_of_64_bits(text):
    assert 0 < fingerprint(text) < 2**64


def test_a_fingerprint_is_the_same_in_every_process():
    code = "from scraper_service.content.words import fingerprint as f; print(f('a b'))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) == fingerprint("a b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", 0xB8310DF7F1F1E7C9),
        ("a b", 0x10200C2700918300),
        ("Gr\u00fc\u00dfe aus \u65e5\u672c", 0x38DC4167281745DA),
        (" ".join(f"word{number}" for number in range(300)), 0xE91F450A25630285),
    ],
)
def test_a_fingerprint_equals_fingerprints_of_earlier_versions(text, expected):
    assert fingerprint(text) == expected


def test_20_kb_take_milliseconds():
    text = " ".join(random.Random(1).choices(WORDS[:1000], k=2600))
    assert len(text) > 20_000
    best = min(_seconds(text) for _ in range(20))
    assert best < 0.02  # measured: 0.001 s


def _seconds(text):
    begin = time.process_time()
    fingerprint(text)
    return time.process_time() - begin
