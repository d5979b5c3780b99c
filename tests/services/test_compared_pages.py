"""Pages that break their converter do not end a check."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

from scraper_service.content.formats.change_tracking import compare_monitored
from scraper_service.options.monitors import Compare
from scraper_service.services.monitoring.target_runs import compare_pages

BAD = b"bad"


class Check:
    """A model job whose converters a bad page always breaks."""

    id = "check"

    async def in_pool(self, function, pages, *args, **_):
        assert function is compare_monitored
        if BAD in pages:
            raise TimeoutError
        return function(pages, *args)


def page(number):
    facts = {"statusCode": 200, "url": f"https://a.example/{number}"}
    return json.dumps({"markdown": "x", "metadata": facts}).encode()


def test_a_bad_page_is_an_error_and_other_pages_are_compared():
    pages = [page(n) for n in range(7)]
    pages[4] = BAD
    target = SimpleNamespace(mode="markdown", compare=Compare())
    work = compare_pages(Check(), target, pages, [None] * 7)
    found = asyncio.run(work)
    assert [each.status for each in found] == [*["new"] * 4, "error", "new", "new"]
    assert found[4].error == "The page could not be compared (TimeoutError)."
    assert [each.url[-1:] for each in found] == ["0", "1", "2", "3", "", "5", "6"]
