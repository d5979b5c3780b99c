"""Agents that may read nothing but the URLs of the request, in a browser."""

from __future__ import annotations

from tests.api.test_agent import EXTRACT, OTHER_HOST, agent, behave, scrape
from tests.browser.conftest import SETTINGS
from tests.support.scripted_site import ScriptedSite, answer, page

SCRIPT = "document.body.append('Written by a script of another host.')"


def test_scripts_lead_a_page_nowhere_but_parts_may_come(start_service, chat):
    environment = {**SETTINGS, **chat.environment}
    environment["SCRAPER_EGRESS_ALLOW"] = "127.0.0.0/8"
    parts = {
        "/part.js": answer(SCRIPT, **{"Content-Type": "text/javascript"}),
        "/": page(title="Elsewhere", text="This is another place."),
    }
    with ScriptedSite(parts, host=OTHER_HOST) as other, ScriptedSite({}) as web:
        written = f'<html><body><script src="{other.url("/part.js")}"></script></html>'
        leaving = f'<html><script>location.href = "{other.url("/")}"</script></html>'
        web.put("/written", answer(written, **{"Content-Type": "text/html"}))
        web.put("/leaves", answer(leaving, **{"Content-Type": "text/html"}))
        urls = [web.url("/written"), web.url("/leaves")]
        behave(chat, scrape(*urls), EXTRACT)
        running = start_service(**environment)
        found = agent(running, urls=urls, strictConstrainToURLs=True)
        assert "/" not in other.paths()
    assert found["status"] == "completed", found
    assert [each["url"] for each in found["sources"]] == [urls[0]]
    asked = str(chat.asked()[-1]["body"]["messages"])
    assert "Written by a script of another host." in asked
    assert "/leaves" in found["warning"]
