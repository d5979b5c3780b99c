"""The page about classes that settings name: its names exist, its example is used."""

from __future__ import annotations

import asyncio
import re
import sys
from importlib.metadata import distribution
from pkgutil import resolve_name
from types import ModuleType, SimpleNamespace

import pytest
from scrapy.settings import Settings

from scraper_service import settings
from scraper_service.search_engines.search_engine import load_providers
from tests.support.documents import ROOT, blocks

PAGE = ROOT / "docs" / "how-to" / "extension-points.md"
NAMES = sorted(
    set(re.findall(r"`((?:scrapy\w*|scraper_service)\.[\w.]+)`", PAGE.read_text()))
)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_each_name_of_the_page_can_be_imported(name):
    assert resolve_name(name)


def test_each_setting_of_the_page_exists():
    named = re.findall(r"\| [^|]*`(?:SCRAPER_)?([A-Z_]+)`", PAGE.read_text())
    assert len(named) >= 7
    assert [name for name in named if name not in Settings(vars(settings))] == []


def test_the_documented_extension_points_equal_the_real_ones():
    declared = distribution("scraper-service").entry_points
    ours = {(each.group, each.name) for each in declared}
    assert ours == {("console_scripts", "scraper-service"), ("scrapy", "settings")}


def test_the_search_engine_of_the_page_is_loaded_and_finds(monkeypatch):
    [example] = [block.text for block in blocks(PAGE) if block.language == "python"]
    module = ModuleType("shop_engine")
    exec(example, vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    named = Settings({**vars(settings), "SEARCH_PROVIDERS": ["shop_engine.ShopSearch"]})
    engine = load_providers(named)[0]
    [hit] = asyncio.run(engine.search(SimpleNamespace(text="lamp")))
    assert (hit.url, hit.title) == ("https://shop.example/lamp", "lamp")
