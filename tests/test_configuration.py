"""``docs/configuration.md``: it is what the generator writes, and names every setting."""

from __future__ import annotations

import re

from scraper_service import settings
from tools import configuration


def test_the_page_is_what_the_generator_writes():
    text = "docs/configuration.md is not up to date: run make docs"
    assert configuration.PAGE.read_text() == configuration.page(), text


def test_the_page_names_settings_only():
    named = re.findall(r"^\| `SCRAPER_(\w+)`", configuration.page(), re.MULTILINE)
    assert [name for name in named if not hasattr(settings, name)] == []
    assert len(named) == len(set(named)) > 100
