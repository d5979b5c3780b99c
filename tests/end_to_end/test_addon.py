"""Other Scrapy projects with our add-on, by the example of the documentation."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scrapy.settings import Settings

from scraper_service.addon import ServiceAddon
from tests.content.pdfmaker import pdf
from tests.support.scripted_site import ScriptedSite, answer, page
from tests.support.waiting import WAIT_S

DOCS = (Path(__file__).parents[2] / "docs" / "how-to" / "scrapy.md").read_text()
_, SETTINGS, SPIDER, *_ = re.findall(
    r"^```python\n(.*?)^```", DOCS, re.DOTALL | re.MULTILINE
)

MANUAL = pdf([[(72, 700, 12, "the parts of the lamp")]])


@pytest.fixture(scope="module")
def site():
    pages = {
        "/": page(
            "/lamp",
            "/manual.pdf",
            "mailto:shop@example.org",
            "javascript:void(0)",
            "tel:+4930123456",
            "/lamp.png",
            "http://127.0.0.3:9/elsewhere",
            text="All that we sell is on the next page.",
            title="Shop",
        ),
        "/lamp": page(title="A lamp", text="Price: $5.50, and it is bright."),
        "/manual.pdf": answer(MANUAL, Content_Type="application/pdf"),
        "/lamp.png": answer(b"\x89PNG\r\n\x1a\n", Content_Type="image/png"),
        "/cut": answer("<p>cut", Content_Length="1000"),
    }
    with ScriptedSite(pages) as running:
        yield running


@pytest.fixture(scope="module")
def project(tmp_path_factory, site):
    """A new project with the add-on and the spider that are shown."""
    folder = tmp_path_factory.mktemp("project")
    done = scrapy(folder, "startproject", "shop", ".")
    assert done.returncode == 0, done.stderr
    settings = folder / "shop" / "settings.py"
    text = settings.read_text().replace("DOWNLOAD_DELAY = 1", "DOWNLOAD_DELAY = 0")
    settings.write_text(text.replace("ADDONS = {}\n", SETTINGS))
    spider = SPIDER.replace("https://example.org", site.url("/"))
    spider = spider.replace("example.org", "127.0.0.2")
    (folder / "shop" / "spiders" / "pages.py").write_text(spider)
    return folder


def scrapy(folder, *arguments):
    own = ("SCRAPER_", "SCRAPY_", "PYTHONPATH")
    return subprocess.run(
        (f"{Path(sys.executable).parent}/scrapy", *arguments),
        cwd=folder,
        env={k: v for k, v in os.environ.items() if not k.startswith(own)},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


ALLOWED = ("-s", "EGRESS_ALLOW=127.0.0.2/32")


def test_the_spider_of_the_documentation_gets_markdown_and_metadata(project, site):
    done = scrapy(project, "crawl", "pages", *ALLOWED, "-O", "pages.jsonl")
    assert "Traceback" not in done.stderr
    assert "ERROR" not in done.stderr
    assert "lamp.png: The page is a file of type image/png" in done.stderr
    assert "Filtered offsite request to '127.0.0.3'" in done.stderr
    lines = (project / "pages.jsonl").read_text().splitlines()
    first, *others = map(json.loads, lines)
    assert first["url"] == site.url("/")
    assert first["title"] == "Shop"
    assert f"[to /lamp]({site.url('/lamp')})" in first["markdown"]
    linked = {each["url"].rpartition("/")[2]: each for each in others}
    assert linked.keys() == {"lamp", "manual.pdf"}
    assert linked["lamp"]["title"] == "A lamp"
    assert "the parts of the lamp" in linked["manual.pdf"]["markdown"]


@pytest.mark.full
def test_the_handler_refuses_private_networks_unless_they_are_allowed(project, site):
    asked = len(site.paths())
    shown = scrapy(project, "fetch", site.url("/lamp"))
    assert "127.0.0.2 is refused" in shown.stderr
    assert "EGRESS_ALLOW" in shown.stderr
    assert "Price" not in shown.stdout
    assert len(site.paths()) == asked
    assert (
        "Price: $5.50" in scrapy(project, "fetch", site.url("/lamp"), *ALLOWED).stdout
    )


@pytest.mark.full
def test_settings_of_the_project_take_precedence(project):
    def get(name, *arguments):
        code = f"settings[{name!r}]"
        return scrapy(
            project, "shell", "-c", code, "--nolog", *arguments
        ).stdout.strip()

    assert get("DOWNLOAD_MAXSIZE") == str(20 * 2**20)
    assert get("DOWNLOAD_MAXSIZE", "-s", "DOWNLOAD_MAXSIZE=7") == "7"
    assert get("HOST_CONCURRENCY") == "8"
    assert get("HOST_CONCURRENCY", "-s", "HOST_CONCURRENCY=3") == "3"
    assert get("ROBOTSTXT_OBEY") == "True"
    assert get("BOT_NAME") == "shop"


@pytest.mark.full
def test_a_proxy_of_the_project_is_used(project, site):
    proxy = site.address.replace("http://", "")
    code = "fetch(scrapy.Request('http://127.0.0.2:8999/far', meta={'proxy': '%s'}))"
    options = ("-s", "ROBOTSTXT_OBEY=False", *ALLOWED)
    shown = scrapy(project, "shell", "-c", code % f"http://{proxy}", *options)
    assert "Traceback" not in shown.stderr
    assert "http://127.0.0.2:8999/far" in site.paths()


@pytest.mark.parametrize(
    ("feeds", "is_used"), [({}, False), ("{}", False), ({"x.csv": {}}, True)]
)
def test_unused_extensions_are_not_imported(feeds, is_used):
    settings = Settings({"FEEDS": feeds})
    ServiceAddon().update_settings(settings)
    found = settings["EXTENSIONS_BASE"]["scraper_service.feeds.Feeds"]
    assert (found is not None) is is_used
