"""Spiders run by hand: their feeds, own pipelines, mistakes, and how they end."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support import forked_start
from tests.support.scripted_site import ScriptedSite, answer, page, slow
from tests.support.waiting import WAIT_S, wait_until

SCRAPY = f"{Path(sys.executable).parent}/scrapy"
HTML = "text/html; charset=utf-8"
PAGES = {
    "/": page(
        *("/a", "/b", "/drop", "/raise"),
        title="Home",
        text="form\ffeed",
        head='<meta name="og:x y" content="odd"><meta name=author content=Ada>',
    ),
    "/a": page(title="=1+1"),
    "/b": page(title="B"),
    "/drop": page(title="Drop me"),
    "/raise": page(title="Raise"),
    "/robots.txt": answer("", 404),
    "/sitemap.xml": answer("", 404),
    "/packed": answer(
        gzip.compress(page(title="Packed").encode()),
        Content_Encoding="gzip",
        Content_Type=HTML,
    ),
}
PIPELINE = """
import json
from scrapy.exceptions import DropItem


class Own:
    def process_item(self, item):
        json.dumps(item)
        assert not any(isinstance(value, dict) for value in item.values()), item
        if item["url"].endswith("/drop"):
            raise DropItem("not wanted")
        if item["url"].endswith("/raise"):
            raise RuntimeError("a bug of the user")
        item["length"] = len(item["markdown"])
        return item
"""
OWN_SPIDER = """
from scraper_service.spiders.crawl import CrawlSpider


class OwnSpider(CrawlSpider):
    name = "own"
    custom_settings = {"ITEM_PIPELINES": {"own.Own": 1}, "ADDONS": {}}
"""


WAITING = """
import asyncio

from twisted.internet.defer import Deferred, succeed


class Middleware:
    async def process_request(self, request):
        if request.url.endswith("/a"):
            asked = asyncio.get_running_loop().create_future()
            asked.cancel()
            await asked


class Pipeline:
    def process_item(self, item):
        if item["url"].endswith("/b"):
            later = Deferred()
            later.addCallback(lambda _: {**item, "title": "late"})
            asyncio.get_running_loop().call_later(0.1, later.callback, None)
            return later
        return succeed(item)


class Extension:
    @classmethod
    def from_crawler(cls, crawler):
        def told(manager, send):
            print("told", manager, send)

        crawler.signals.connect(told, "own signal", weak=False)
        crawler.signals.send_catch_log("own signal", manager=1, send=2)
        return cls()
"""


@pytest.fixture(scope="module")
def site():
    with ScriptedSite(PAGES) as running:
        yield running


def environment(**more):
    own = ("SCRAPER_", "SCRAPY_")
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith(own)},
        "SCRAPY_SETTINGS_MODULE": "scraper_service.settings",
        "SCRAPER_EGRESS_ALLOW": "127.0.0.2/32",
        "SCRAPER_RENDER": "never",
        "SCRAPER_CONVERTER_PROCESSES": "1",
        **more,
    }


def scrapy(folder, *arguments, **variables):
    """Run a command of Scrapy in a folder that is not the repository."""
    return forked_start.run(
        forked_start.SCRAPY, arguments, environment(**variables), folder
    )


def crawl(folder, site, *arguments, **variables):
    done = scrapy(
        folder, "crawl", "crawl", "-a", f"url={site.url('/')}", *arguments, **variables
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.full
def test_the_commands_of_the_documentation_work_in_an_empty_folder(tmp_path, site):
    (tmp_path / "shop.py").write_text(PIPELINE.replace("class Own", "class Prices"))
    docs = Path(__file__).parents[2] / "docs" / "how-to" / "scrapy.md"
    blocks = re.findall(
        r"^```sh\n(.*?)^```", docs.read_text(), re.DOTALL | re.MULTILINE
    )
    script = "".join(blocks).replace("https://example.org", site.url("/"))
    variables = environment(PYTHONPATH=".")
    del variables["SCRAPY_SETTINGS_MODULE"]
    variables["PATH"] = f"{Path(SCRAPY).parent}:{variables['PATH']}"
    done = subprocess.run(
        ("sh", "-ec", script),
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with (tmp_path / "pages.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 5
    assert all("length" in item for item in rows(tmp_path / "pages.jsonl"))


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_feeds_of_every_kind_have_the_same_flat_items(tmp_path, site):
    names = ("x.csv", "x.xml", "x.jsonl", "x.json")
    outputs = (word for name in names for word in ("-O", name))
    done = crawl(tmp_path, site, "-a", "formats=markdown,links", *outputs)
    assert "Traceback" not in done.stderr
    with (tmp_path / "x.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    head = "url sourceURL statusCode contentType title description language"
    tail = "markdown links warning error errorCode"
    assert list(table[0]) == [*head.split(), *tail.split()]
    cells = {row["url"].removeprefix(site.address): row for row in table}
    assert json.loads(cells["/"]["links"]) == [
        site.url(path) for path in ("/a", "/b", "/drop", "/raise")
    ]
    assert cells["/a"]["title"] == "'=1+1"
    items = {item["url"]: item for item in rows(tmp_path / "x.jsonl")}
    home = items[site.url("/")]
    assert list(home)[:3] == ["url", "sourceURL", "statusCode"]
    assert home["og:x y"] == "odd"
    assert home["author"] == "Ada"
    assert not any(isinstance(value, dict) for value in home.values())
    assert {i["url"]: i for i in json.loads((tmp_path / "x.json").read_text())} == items
    parsed = ElementTree.parse(tmp_path / "x.xml").getroot()
    found = {each.findtext("url"): each for each in parsed}
    assert found.keys() == items.keys()
    links = [each.text for each in found[site.url("/")].find("links")]
    assert links == home["links"]


def test_a_failed_page_has_its_error_in_a_table(tmp_path, site):
    url = site.url("/").replace("127.0.0.2", "127.0.0.1")
    scrapy(tmp_path, "crawl", "scrape", "-a", f"url={url}", "-O", "x.csv")
    with (tmp_path / "x.csv").open(newline="") as file:
        [row] = csv.DictReader(file)
    assert row["url"] == url
    assert row["error"]
    assert row["errorCode"]


@pytest.mark.full
@pytest.mark.parametrize("way", ["option", "variable", "spider"])
def test_own_pipelines_get_flat_items_and_ours_stay(tmp_path, site, way):
    (tmp_path / "own.py").write_text(PIPELINE)
    (tmp_path / "own_spiders.py").write_text(OWN_SPIDER)
    setting = '{"own.Own": 1}'
    name, options, variables = {
        "option": ("crawl", ("-s", f"ITEM_PIPELINES={setting}"), {}),
        "variable": ("crawl", (), {"SCRAPER_ITEM_PIPELINES": setting}),
        "spider": ("own", ("-s", "SPIDER_MODULES=own_spiders"), {}),
    }[way]
    done = scrapy(
        tmp_path,
        *("crawl", name, "-a", f"url={site.url('/')}", *options),
        *("-O", "x.jsonl", "-O", "x.csv"),
        PYTHONPATH=str(tmp_path),
        **variables,
    )
    assert done.returncode == 0, done.stderr
    items = rows(tmp_path / "x.jsonl")
    paths = {item["url"].removeprefix(site.address) for item in items}
    assert paths == {"/", "/a", "/b"}
    assert all(item["length"] == len(item["markdown"]) for item in items)
    assert "Dropped: not wanted" in done.stderr
    assert "a bug of the user" in done.stderr
    assert "PageContent(" not in done.stderr
    assert "5 pages, 0 failed" in done.stderr
    with (tmp_path / "x.csv").open(newline="") as file:
        assert all(int(row["length"]) for row in csv.DictReader(file))


@pytest.mark.full
def test_own_components_may_wait_as_with_scrapy(tmp_path, site):
    (tmp_path / "waiting.py").write_text(WAITING)
    done = crawl(
        tmp_path,
        site,
        *("-s", 'DOWNLOADER_MIDDLEWARES={"waiting.Middleware": 543}'),
        *("-s", 'ITEM_PIPELINES={"waiting.Pipeline": 1}'),
        *("-s", 'EXTENSIONS={"waiting.Extension": 1}'),
        *("-O", "x.jsonl"),
        PYTHONPATH=str(tmp_path),
    )
    items = {row["url"]: row for row in rows(tmp_path / "x.jsonl")}
    assert len(items) == 5
    assert "error" in items[site.url("/a")]
    assert items[site.url("/b")]["title"] == "late"
    assert "told 1 2" in done.stdout
    assert "1 failed" in done.stderr


def test_components_of_a_project_do_not_remove_our_components(tmp_path, site):
    settings = (
        *("DOWNLOADER_MIDDLEWARES", "DOWNLOAD_HANDLERS", "SPIDER_MIDDLEWARES"),
        *("EXTENSIONS", "ADDONS", "FEED_EXPORTERS"),
    )
    emptied = (word for name in settings for word in ("-s", f"{name}={{}}"))
    crawl(tmp_path, site, *emptied, "-O", "x.csv")
    with (tmp_path / "x.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 5


@pytest.mark.full(keep=2)
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("crawl",), "url is required"),
        (("crawl", "-a", "url=http://127.0.0.2/", "-a", "limit=x"), "limit .*'x'"),
        (("crawl", "-a", "url=http://127.0.0.2/", "-a", "foo=1"), r"'foo'.*formats"),
        (("crawl", "-a", "url=ftp://x"), "URL uses unsupported protocol"),
        (("batch",), "urls is required"),
        (("map",), "url is required"),
        (("search",), "query is required"),
        (("scrape", "-a", "url=http://127.0.0.2/", "-a", "formats=x"), "formats.*'x'"),
        (("crawl", "-a", "job_id=x", "-a", "url=y"), "job_id goes with no other"),
        (("nope",), "no spider nope; there are batch, crawl, map"),
    ],
    ids=lambda each: "_".join(each).replace("/", "") if isinstance(each, tuple) else "",
)
def test_a_wrong_argument_is_an_error_of_one_sentence(tmp_path, arguments, sentence):
    done = scrapy(tmp_path, "crawl", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    [told] = [line for line in done.stderr.splitlines() if ": error: " in line]
    assert re.search(sentence, told)


def test_a_wrong_argument_is_in_the_log_file_too(tmp_path):
    # A node of scrapyd gives each process such a file, and shows no standard error.
    found = ("-a", "url=http://127.0.0.2/", "-a", "limt=1", "-s", "LOG_FILE=x.log")
    done = scrapy(tmp_path, "crawl", "crawl", *found)
    assert done.returncode == 2
    assert ": error: " in done.stderr
    assert "did you mean 'limit'?" in (tmp_path / "x.log").read_text()


@pytest.mark.parametrize("name", ["mardown", "content"])
def test_an_unknown_format_is_refused_with_the_names_of_the_api(tmp_path, name):
    found = ("-a", "url=http://127.0.0.2/", "-a", f"formats={name}")
    done = scrapy(tmp_path, "crawl", "scrape", *found)
    assert done.returncode == 2
    assert "formats.0 must be one of 'markdown', 'html', 'rawHtml'," in done.stderr
    assert f", got '{name}'" in done.stderr


def test_a_missing_feature_is_an_error_of_one_sentence(tmp_path):
    done = scrapy(
        tmp_path,
        *("crawl", "scrape", "-a", "url=http://127.0.0.2/", "-a", "formats=screenshot"),
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "scrapy crawl: error: " in done.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    ("feed", "reason"),
    {
        "x.parquet": "`scraper-service crawl -o x.parquet`",
        "s4://b/x.csv": "log has",
    }.items(),
)
def test_a_feed_that_cannot_be_written_ends_the_run(tmp_path, feed, reason):
    with ScriptedSite(PAGES) as site:
        url = f"url={site.url('/')}"
        done = scrapy(tmp_path, "crawl", "crawl", "-a", url, "-O", feed)
        assert site.paths() == []
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    [told] = [line for line in done.stderr.splitlines() if ": error: " in line]
    assert reason in told
    assert not (tmp_path / "x.parquet").exists()


@pytest.mark.parametrize("place", ["/", "/packed"])
def test_the_shell_has_a_response(tmp_path, site, place):
    code = "response.status, response.css('title::text').get()"
    done = scrapy(tmp_path, "shell", site.url(place), "-c", code)
    assert "Traceback" not in done.stderr
    title = {"/": "Home", "/packed": "Packed"}[place]
    assert done.stdout.strip() == f"(200, '{title}')"


def test_the_shell_fetches(tmp_path, site):
    code = f"fetch({site.url('/b')!r}) or response.url"
    done = scrapy(tmp_path, "shell", "-c", code)
    assert "Traceback" not in done.stderr
    assert done.stdout.strip() == site.url("/b")


def test_other_commands_of_scrapy_work(tmp_path, site):
    def shown(*arguments):
        done = scrapy(tmp_path, *arguments)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout

    spiders = ["batch", "crawl", "map", "reprocess", "scrape", "search"]
    assert shown("list").split() == spiders
    assert "<h1>Packed</h1>" in shown("fetch", site.url("/packed"))
    assert "Ran 0 contracts" in scrapy(tmp_path, "check").stderr
    assert shown("settings", "--get", "HOST_CONCURRENCY").strip() == "8"
    assert shown("settings", "--get", "ITEM_PIPELINES").strip() == "{}"


def test_the_last_log_line_names_how_a_crawl_ended(tmp_path, site):
    done = crawl(tmp_path, site, "-O", "x.jsonl")
    assert re.search(
        r"5 pages, 0 failed, 0 left out, \d+ pages per minute; finished", done.stderr
    )
    done = crawl(tmp_path, site, "-a", "limit=2", "-O", "x.jsonl")
    assert re.search(r"2 pages, .*; ended at its limit", done.stderr)
    assert len(rows(tmp_path / "x.jsonl")) == 2
    done = crawl(tmp_path, site, "-a", 'exclude_paths=["/a"]')
    assert "4 pages, 0 failed, 1 left out" in done.stderr
    done = crawl(tmp_path, site, "-s", "CLOSESPIDER_PAGECOUNT=1")
    assert "ended early (closespider_pagecount)" in done.stderr


@pytest.mark.full
def test_an_interrupt_leaves_the_fetched_pages_in_the_feed(tmp_path):
    links = [f"/{number}" for number in range(40)]
    pages = {link: slow(page(title="Slow"), 0.2) for link in links}
    with (
        ScriptedSite({"/": page(*links), **pages}) as site,
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            (
                *(SCRAPY, "crawl", "crawl", "-a", f"url={site.url('/')}"),
                *("-a", "max_concurrency=1", "-s", "LOGSTATS_INTERVAL=0.1"),
                *("-O", "x.json"),
            ),
            cwd=tmp_path,
            env=environment(),
            stderr=log,
            start_new_session=True,
        ) as process,
    ):
        told = tmp_path / "log"
        wait_until(lambda: re.search(r"[1-9] pages, .* so far", told.read_text()))
        process.send_signal(signal.SIGINT)
        process.wait(WAIT_S)
    text = told.read_text()
    found = json.loads((tmp_path / "x.json").read_text())
    [count] = re.findall(r"(\d+) pages, .*; stopped by a signal", text)
    assert len(found) == int(count) < 41
    assert "Traceback" not in text


WITHOUT_SHORTCUTS = """
from scraper_service.crawling import scrapy_shortcuts

scrapy_shortcuts.has = lambda *names: False


class Told:
    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler)

    def __init__(self, crawler):
        self.crawler = crawler

    def process_item(self, item):
        start = self.crawler.engine._start_scheduled_request
        print("started by", type(start).__name__)
        return item
"""


@pytest.mark.full
def test_a_crawl_without_the_shortcuts_through_scrapy_has_the_same_pages(
    tmp_path, site
):
    (tmp_path / "own.py").write_text(WITHOUT_SHORTCUTS)
    crawl(tmp_path, site, "-O", "short.jsonl")
    done = crawl(
        tmp_path,
        site,
        *("-s", 'EXTENSIONS={"own.Told": -100}', "-O", "whole.jsonl"),
        *("-s", 'ITEM_PIPELINES={"own.Told": 1}'),
        PYTHONPATH=".",
    )
    found = rows(tmp_path / "short.jsonl")
    assert done.stdout.count("started by method") == len(found)
    keys = [
        sorted((row["url"], row["markdown"]) for row in each)
        for each in (found, rows(tmp_path / "whole.jsonl"))
    ]
    assert keys[0] == keys[1]


LEAVING = """
import asyncio

from scraper_service.crawling.page_state import PageState
from scraper_service.crawling.scheduler import LeasedScheduler


class Leaving:
    def __init__(self, crawler):
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler)

    def process_request(self, request):
        if PageState.find(request) is not None:
            LeasedScheduler.of(self.crawler).abandon()
            closing = self.crawler.engine.close_spider_async(reason="cancelled")
            self.closing = asyncio.ensure_future(closing)
"""


@pytest.mark.full
def test_a_page_whose_job_was_cancelled_before_the_first_request_is_not_fetched(
    tmp_path,
):
    (tmp_path / "own.py").write_text(LEAVING)
    with ScriptedSite({"/": slow(page(title="Slow"), WAIT_S)}) as site:
        middlewares = json.dumps({"own.Leaving": 1})
        crawl(
            tmp_path,
            site,
            *("-s", f"DOWNLOADER_MIDDLEWARES={middlewares}"),
            PYTHONPATH=".",
        )
        assert "/" not in site.paths()


@pytest.mark.full
def test_a_service_responds_if_a_custom_pipeline_drops_items(
    tmp_path, site, start_service
):
    (tmp_path / "own.py").write_text(PIPELINE)
    service = start_service(
        SCRAPER_ITEM_PIPELINES='{"own.Own": 1}', PYTHONPATH=str(tmp_path)
    )
    for path in ("/a", "/drop", "/raise"):
        reply = service.post("/v2/scrape", {"url": site.url(path)})
        assert reply.status == 200
        assert reply.json["data"]["markdown"]
    assert "Dropped: not wanted" in service.stderr
