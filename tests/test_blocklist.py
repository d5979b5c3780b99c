"""`scraper-service blocklist update`, against a site with a list."""

from __future__ import annotations

from scraper_service.content.html.ads import load_hosts
from scraper_service.content.html.embedded import AD_HOSTS
from tests.support.scripted_site import ScriptedSite, text
from tests.test_local import COMMAND, run


def test_a_list_is_downloaded_and_used(tmp_path):
    pages = {
        "/hosts": text("# list\n0.0.0.0 ads.example\n||b.example^\n"),
        "/none": text(""),
    }
    with ScriptedSite(pages) as site:
        update = (*COMMAND, "blocklist", "update", "--data-dir", str(tmp_path))
        done = run(*update, site.url("/hosts"))
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("2 hosts in ")
        assert load_hosts(tmp_path) - AD_HOSTS == {"ads.example", "b.example"}
        for path in ("/none", "/missing"):
            failed = run(*update, site.url(path))
            assert failed.returncode == 1
            assert "Traceback" not in failed.stderr
        assert load_hosts(tmp_path) - AD_HOSTS == {"ads.example", "b.example"}
    assert run(*update).returncode == 2
    assert run(*update, "file:///etc/hosts").returncode == 2
