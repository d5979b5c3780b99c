"""What the times of sitemaps prove."""

from __future__ import annotations

from datetime import datetime

import pytest

from scraper_service.discovery.sitemap import proves_no_change


@pytest.mark.parametrize(
    ("lastmod", "fetched_at", "expected"),
    [
        ("2026-03-04T10:00:00Z", "2026-03-04T12:00:00Z", True),
        ("2026-03-04T10:00:00Z", "2026-03-04T10:30:00Z", False),  # clocks differ
        ("2026-03-04T10:00:00+02:00", "2026-03-04T09:30:00Z", True),
        ("2026-03-04T10:00", "2026-03-04T12:00:00Z", False),  # in any time zone
        ("2026-03-04", "2026-03-04T23:00:00Z", False),
        ("2026-03-04", "2026-03-05T11:00:00Z", False),
        ("2026-03-04", "2026-03-05T14:00:00Z", True),
        ("2026-02", "2026-02-28T23:00:00Z", False),
        ("2026-02", "2026-03-02T00:00:00Z", True),
        ("2025", "2025-12-31T23:00:00Z", False),
        ("2025", "2026-01-02T00:00:00Z", True),
        (" 2026-03-04 ", "2026-03-06T00:00:00Z", True),
        ("2026-13", "2027-06-01T00:00:00Z", False),
        ("2026-02-30", "2027-06-01T00:00:00Z", False),
        ("0000", "2027-06-01T00:00:00Z", False),
        ("yesterday", "2027-06-01T00:00:00Z", False),
        ("", "2027-06-01T00:00:00Z", False),
    ],
)
def test_a_time_before_the_fetch_proves_no_change(lastmod, fetched_at, expected):
    at = datetime.fromisoformat(fetched_at).timestamp()
    assert proves_no_change(lastmod, at) is expected
