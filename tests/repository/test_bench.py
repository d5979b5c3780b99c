"""The benchmarks run and print their tables; how fast is no matter of a test."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.browser.conftest import why_no_browser
from tests.support.waiting import WAIT_S
from tools.bench import linked, rivals
from tools.bench.crawl import CRAWLERS, NAMES, QUICK, WORK
from tools.bench.processes import ROOT
from tools.bench.sitemap import WORK as SITEMAP_WORK
from tools.bench.stages import STAGES

pytestmark = pytest.mark.slow


def run_quick(module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", module, "--quick", *arguments]
    environment = {name: x for name, x in os.environ.items() if name != "WCXB"}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def scrapes() -> str:
    return run_quick("tools.bench.scrape")


@pytest.fixture(scope="module")
def crawls() -> str:
    return run_quick("tools.bench.crawl")


def rows(output: str, start: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith(start)]


@pytest.mark.parametrize("callers", [1, 16, 64])
@pytest.mark.parametrize("page", ["17 kB", "200 kB"])
def test_table_has_a_row_without_failures(scrapes: str, page: str, callers: int):
    (row,) = rows(scrapes, f"| {page} | {callers} |")
    assert row.endswith("| 0 |")
    assert "nan" not in row


def test_lag_and_memory_are_reported(scrapes: str):
    assert "## Event-loop lag with 64 callers" in scrapes
    assert "| main " in scrapes


@pytest.mark.parametrize(
    ("work", "name"), [(work, name) for work in CRAWLERS for name in CRAWLERS[work]]
)
def test_every_crawler_finds_every_page(crawls: str, work: str, name: str):
    if name == "crawlee" and not rivals.HAS_CRAWLEE:
        pytest.skip("crawlee is not installed")
    (row,) = rows(crawls, f"| {WORK[work]} | {NAMES[name]} |")
    assert f"| {QUICK.pages} |" in row


def test_reads_of_a_stored_job_do_not_fail(crawls: str):
    found = [*rows(crawls, "| limit=100, skip="), *rows(crawls, "| one chunk ")]
    assert len(found) == 4
    for row in found:
        assert row.endswith("| 0 |")
        assert "nan" not in row


def test_memory_is_reported_for_every_frontier(crawls: str):
    for count in QUICK.frontier_rows:
        assert len(rows(crawls, f"| {count} |")) == 1


def test_sitemaps_have_a_row_for_all_work():
    names = SITEMAP_WORK.values()
    output = run_quick("tools.bench.sitemap")
    assert [len(rows(output, f"| {name} | 3 | 6000 |")) for name in names] == [1] * 3


def test_the_frontier_admits_links():
    output = run_quick("tools.bench.frontier")
    assert len(rows(output, "| 1000 of a sitemap | 5,000 | 0 |")) == 1
    assert len(rows(output, "| 50 on a page")) == 2


def test_every_watcher_gets_every_page():
    output = run_quick("tools.bench.watch")
    for kind in ("WebSocket", "event stream"):
        for job in ("running", "ended"):
            assert len(rows(output, f"| {kind} | {job} | 5 |")) == 1


def test_pdf_pages_are_read():
    output = run_quick("tools.bench.pdf")
    assert len(rows(output, "| generated book | 5 |")) == 3


def test_sentences_are_read():
    assert rows(run_quick("tools.bench.sentences"), "| written after the rules | 17 |")


def test_maps_in_the_benchmark_have_all_urls():
    output = run_quick("tools.bench.map")
    for search in ("none", "three words"):
        assert len(rows(output, f"| 2 | 4000 | 2 | {search} |")) == 1


def test_all_kinds_of_searches_are_measured():
    output = run_quick("tools.bench.search")
    assert len(rows(output, "| SQLite | 500 |")) == 7


def test_processes_on_nodes_fetch_all_pages():
    output = run_quick("tools.bench.scrapyd")
    assert [len(rows(output, f"| {count} | 40 |")) for count in (1, 2)] == [1, 1]


@pytest.mark.parametrize("known", ["0", "1000"])
def test_workers_that_share_a_database_are_measured(known):
    (row,) = rows(run_quick("tools.bench.scale", "--known", known), "| 2 | 2 |")
    assert "nan" not in row


def test_pages_are_rendered_both_ways():
    if why := why_no_browser():
        pytest.skip(why)
    output = run_quick("tools.bench.browser")
    for page in ("17 kB", "200 kB"):
        (row,) = rows(output, f"| {page} |")
        assert "nan" not in row
        assert "| 0.00 |" not in row


@pytest.mark.parametrize("kind", linked.SITES)
@pytest.mark.parametrize("count", [1, 2, 30])
def test_every_page_can_be_reached(count: int, kind: str):
    site = linked.site("", count, "http://a.test", kind)
    assert len(site) == count
    seen, new = set(), {linked.path(0)}
    while new:
        seen |= new
        found = {x for x in site if x not in seen}
        new = {
            x
            for x in found
            if any(f'"http://a.test{x}"'.encode() in site[y] for y in seen)
        }
    assert seen == set(site)


def test_pages_come_from_a_directory(tmp_path):
    real = b"<html><head><title>x</title></head><body><p>y</body></html>"
    (tmp_path / "1.html").write_bytes(real)
    (tmp_path / "2.html").write_bytes(b"neither head nor end")
    site = linked.site(str(tmp_path), 5, "http://a.test")
    assert list(site) == [linked.path(0)]
    assert site[linked.path(0)].startswith(b"<html><head>" + linked.BASE)


def test_a_small_site_has_the_smallest_pages_from_20_kb(tmp_path):
    for size in (50_000, 1_000, 30_000, 40_000):
        page = f"<html><head></head><body>{'x' * size}</body></html>"
        (tmp_path / f"{size}.html").write_text(page)
    site = linked.site(str(tmp_path), 2, "http://a.test", "small")
    assert [len(body) // 10_000 for body in site.values()] == [3, 4]


def test_links_of_real_pages_to_their_own_site_lead_to_pages_of_the_site(tmp_path):
    page = (
        "<html><head></head><body><a class=a href='/one?a=1&amp;b=2#part'>1</a>"
        '<A HREF="https://own.test/one?a=1&b=2">same</A><a href=#top>here</a>'
        '<a href="https://other.test/x">away</a><a href="mailto:a@b.test">mail</a></body></html>'
    )
    urls = {"1": "https://own.test/start", "2": "https://own.test/one?a=1&b=2"}
    truth = [json.dumps({"id": name, "url": url}) for name, url in urls.items()]
    (tmp_path / "truth.jsonl").write_text("\n".join(truth))
    for name in urls:
        (tmp_path / f"{name}.html").write_text(page)
    site = linked.site(str(tmp_path), 5, "http://a.test")
    first, second = (
        re.findall(r'(?i)href=["\']?([^"\' >]+)', x.decode()) for x in site.values()
    )
    home = [f"http://a.test{linked.path(number)}" for number in (0, 1)]
    assert first[1] == first[2] in home
    assert first[3] == home[0]
    assert first[4:6] == ["https://other.test/x", "mailto:a@b.test"]
    assert second[1] == second[3] == home[1]


def test_table_has_a_row_for_each_stage_of_a_conversion():
    output = run_quick("tools.bench.stages")
    for stage in (*STAGES, "sum"):
        assert rows(output, f"| {stage} |")


def test_both_writers_of_markdown_are_timed():
    [line] = rows(run_quick("tools.bench.writers"), "| CPU ms a page, 10 pages |")
    assert all(float(cell) > 0 for cell in line.strip("| ").split(" | ")[1:])


def test_exports_are_measured():
    output = run_quick("tools.bench.exports")
    for name in ("jsonl", "csv", "md", "parquet", "warc", "wacz"):
        assert f"| {name} |" in output
