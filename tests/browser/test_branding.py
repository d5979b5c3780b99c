"""``branding`` of a page whose style sheets are files of their own."""

from __future__ import annotations

from tests.support.scripted_site import ScriptedSite, answer

SHEET = """:root{--brand:#123456}
body{background:#101010;color:#eee;font-family:Inter,sans-serif}
.btn-primary{background:var(--brand);color:#fff;border-radius:4px}"""
PAGES = {
    "/": (
        '<!DOCTYPE html><link rel="stylesheet" href="/main.css"><title>Acme</title>'
        '<h1>Acme</h1><button class="btn-primary">Buy</button>'
    ),
    "/main.css": answer(SHEET, Content_Type="text/css"),
}


def test_style_sheets_of_their_own_count(service):
    with ScriptedSite(PAGES) as site:
        body = {"url": site.url("/"), "formats": ["branding", "rawHtml", "markdown"]}
        first = service.post("/v2/scrape", {**body, "maxAge": 0}).json["data"]
        again = service.post("/v2/scrape", body).json["data"]
    for found in (first, again):
        assert found["metadata"]["engine"] == "browser"
        assert found["branding"]["colorScheme"] == "dark"
        assert found["branding"]["colors"]["background"] == "#101010"
        assert found["branding"]["colors"]["primary"] == "#123456"
        assert found["branding"]["components"]["buttonPrimary"] == {
            "background": "#123456",
            "textColor": "#FFFFFF",
            "borderRadius": "4px",
        }
        assert found["branding"]["fonts"] == [{"family": "Inter"}]
        assert "warning" not in found
        assert "scraper-looks" not in found["rawHtml"]
    assert again["metadata"]["cacheState"] == "hit"
