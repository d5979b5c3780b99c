"""The list of hosts that an operator adds to the rules of ``blockAds``."""

from __future__ import annotations

from scraper_service.content.html.embedded import AD_HOSTS
from scraper_service.content.page_urls import load_hosts


def test_a_list_of_the_operator_is_read_in_each_form(tmp_path):
    assert load_hosts(tmp_path) == AD_HOSTS
    lines = "# list\n0.0.0.0 ads.example\n||b.example^\nc.example  # tail\n\n10.0.0.1\n"
    (tmp_path / "blocklist.txt").write_text(lines)
    assert load_hosts(tmp_path) - AD_HOSTS == {"ads.example", "b.example", "c.example"}
