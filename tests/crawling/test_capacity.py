"""How many pages may be open at a time, by what control groups say."""

from __future__ import annotations

import os

import pytest

from scraper_service.crawling.browser.shared_browser import PAGE_MB, pages_at_once

CORES = len(os.sched_getaffinity(0))
UNLIMITED = 2 * CORES
MB = 2**20


@pytest.mark.parametrize(
    ("membership", "files", "pages"),
    [
        ("", {}, UNLIMITED),
        ("0::/", {"memory.max": "max"}, UNLIMITED),
        ("0::/", {"memory.max": 2 * PAGE_MB * MB}, 1),
        ("0::/", {"memory.max": MB}, 1),
        (
            "0::/system.slice/scraper.service",
            {"system.slice/scraper.service/memory.max": 2 * PAGE_MB * MB},
            1,
        ),
        (
            "0::/a/b",
            {"a/b/memory.max": "max", "a/memory.max": 2 * PAGE_MB * MB},
            1,
        ),
        ("0::/a", {"a/cpu.max": "50000 100000"}, 1),
        ("0::/a", {"a/cpu.max": "max 100000"}, UNLIMITED),
        ("0::/a", {"a/cpu.max": "100000 100000"}, 2),
        ("4:memory:/x", {"x/memory.max": MB}, UNLIMITED),
        ("1:pids:/x", {"pids/x/memory.max": MB}, UNLIMITED),
    ],
)
def test_limits_of_containers_and_services_count(tmp_path, membership, files, pages):
    known = tmp_path / "membership"
    known.write_text(membership)
    for name, content in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    assert pages_at_once(known, tmp_path / "mount") == pages


def test_without_control_groups_the_machine_counts(tmp_path):
    assert pages_at_once(tmp_path / "none", tmp_path) == UNLIMITED
