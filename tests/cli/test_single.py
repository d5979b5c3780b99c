"""Where `scrape` and `parse` put a page: the table of the README, a row at a time."""

from __future__ import annotations

import base64
import csv
import json
import os

import pytest
from click.testing import CliRunner

from scraper_service.cli.main import main
from scraper_service.cli.outputs.output import target
from tests.browser.conftest import why_no_browser
from tests.cli.command import Command, Terminal, pages_of, run
from tests.support.scripted_site import ScriptedSite, answer, page, slow, text
from tests.support.waiting import wait_until

HTML = "<title>Tides: #1</title><h1>Tides</h1><p>Of the year, for all who sail.</p>"
SMALL = {"type": "screenshot", "quality": 5}
PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
pytestmark = pytest.mark.timeout(300)  # some start several interpreters
UNSANDBOXED = {"SCRAPER_BROWSER_SANDBOX": "true" if os.geteuid() else "false"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "page.html").write_text(HTML)
    return tmp_path


PAGE = {
    "markdown": "# Tides",
    "links": ["https://example.org/"],
    "json": {"title": "Tides"},
    "rawBase64": base64.b64encode(HTML.encode()).decode(),
    "metadata": {"title": "Tides: #1", "url": "page.html", "contentType": "text/html"},
}


def written(folder, path, *keys):
    """Write a page with these keys below ``folder``; return the new files."""
    before = {each for each in folder.rglob("*") if each.is_file()}
    place = target(f"{folder}/{path}", keys, as_json=False, is_remote=False)
    place.write({key: PAGE[key] for key in (*keys, "metadata")})
    after = {each for each in folder.rglob("*") if each.is_file()}
    return {str(each.relative_to(folder)): each for each in after - before}


def test_the_file_extension_chooses_the_output_format(tmp_path):
    [(name, file)] = written(tmp_path, "a/b/page.md", "markdown").items()
    assert (name, file.read_text()) == ("a/b/page.md", "# Tides\n")
    [file] = written(tmp_path, "data.json", "json").values()
    assert json.loads(file.read_text()) == PAGE["json"]
    [file] = written(tmp_path, "same.html", "rawBase64").values()
    assert file.read_text() == HTML
    many = ("markdown", "links", "json")
    for path in ("page.json", "page", "one/page.jsonl"):
        [file] = written(tmp_path, path, *many).values()
        assert set(json.loads(file.read_text())) == {*many, "metadata"}
    [file] = written(tmp_path, "d/page.csv", *many).values()
    with file.open(newline="") as lines:
        [row] = csv.DictReader(lines)
    assert json.loads(row["json"]) == PAGE["json"]
    files = written(tmp_path, "out/", *many)
    assert set(files) == {"out/page.md", "out/page.json"}
    assert (
        files["out/page.md"]
        .read_text()
        .startswith('---\nurl: "page.html"\ntitle: "Tides: #1"\n')
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-f", "markdown,screenshot", "-o", "ms.png"), "-o FOLDER/ gives each format"),
        (("-f", "markdown", "-o", "page.png"), ".png is for screenshot alone"),
        (("-f", "screenshot", "--json", "-o", "page.png"), ".png is for screenshot"),
        (("-f", "json", "-o", "page.md"), "not for json"),
        (("-f", "markdown", "-o", "page.html"), ".html is for html or rawHtml"),
        (("-f", "links", "--json", "-o", "x.csv"), "--json"),
        *(
            (("-f", formats, "-o", f"x.{ending}"), f".{suffix} is for crawl, batch and")
            for formats, ending, suffix in (
                ("markdown", "parquet", "parquet"),
                ("markdown,links", "SQLITE", "sqlite"),
                ("links", "zip", "zip"),
                ("html", "warc.gz", "gz"),
            )
        ),
        (
            ("--options", json.dumps({"formats": [SMALL]}), "-o", "page.png"),
            "a screenshot with a quality is a JPEG",
        ),
    ],
)
def test_a_name_that_stands_for_another_kind_of_file_is_refused(
    monkeypatch, tmp_path, arguments, said
):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ("scrape", "http://127.0.0.2/", *arguments))
    assert done.exit_code == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [("map", "http://127.0.0.2/"), ("search", "hay")])
def test_lines_do_not_go_into_a_file_of_another_kind(monkeypatch, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, (*command, "-o", "x.parquet"))
    assert done.exit_code == 2
    assert ".parquet is for crawl, batch and jobs export" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_gets_no_base64(folder):
    for formats in ("screenshot", "markdown,rawBase64"):
        terminal = Terminal(folder, "scrape", "http://127.0.0.2:9/", "-f", formats)
        assert terminal.end() == 2
        assert any("a terminal cannot show it" in row for row in terminal.rows)
    done = run(folder, "parse", "page.html", "-f", "rawBase64")
    assert (done.returncode, done.stdout) == (0, HTML)


def test_a_screenshot_is_saved_as_a_picture_in_each_output(tmp_path):
    if why := why_no_browser():
        pytest.skip(why)
    with ScriptedSite({"/": page(title="Home"), "/robots.txt": text("")}) as site:
        url = site.url("/")
        formats = ("-f", "markdown,screenshot")
        asked = ("-f", "screenshot", "-o", "small.jpg")
        done = run(tmp_path, "scrape", url, *asked, **UNSANDBOXED)
        assert done.returncode == 0, done.stderr
        done = run(
            *(tmp_path, "batch", "-", *formats, "-o", "all/"),
            stdin=url,
            **UNSANDBOXED,
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "small.jpg").read_bytes().startswith(JPEG)
    [line] = pages_of(tmp_path / "all" / "index.jsonl")
    assert set(line["files"]) == {"markdown", "screenshot"}
    assert (tmp_path / "all" / line["files"]["screenshot"]).read_bytes()[:8] == PNG
    head = (tmp_path / "all" / line["file"]).read_text()
    assert f'screenshot: "{line["files"]["screenshot"]}"' in head


@pytest.mark.full
def test_a_service_makes_files_of_its_pictures_here(tmp_path, start_service):
    if why := why_no_browser():
        pytest.skip(why)
    service = start_service(tmp_path / "data", SCRAPER_RENDER="auto", **UNSANDBOXED)
    asked = {"SCRAPER_SERVER": service.url, "SCRAPER_KEY": service.key}
    with ScriptedSite({"/": page(title="Home"), "/robots.txt": text("")}) as site:
        url = site.url("/")
        done = run(
            *(tmp_path, "scrape", url, "-f", "screenshot", "-o", "page.png"), **asked
        )
        assert done.returncode == 0, done.stderr
        terminal = Terminal(tmp_path, "scrape", url, "-f", "screenshot", **asked)
        assert terminal.end() == 0
        done = run(
            *(tmp_path, "batch", "-", "-f", "screenshot", "-o", "pages.csv"),
            stdin=url,
            **asked,
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.png").read_bytes().startswith(PNG)
    assert terminal.rows[0].startswith(f"{service.url}/artefacts/")
    with (tmp_path / "pages.csv").open(newline="") as file:
        [row] = csv.DictReader(file)
    assert (tmp_path / row["screenshot"]).read_bytes().startswith(PNG)


def test_files_are_read_as_a_service_reads_them(folder, service):
    asked = {"SCRAPER_SERVER": service.url, "SCRAPER_KEY": service.key}
    pages = []
    for variables in ({}, asked):
        done = run(folder, "parse", "page.html", "--json", **variables)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        found["metadata"].pop("scrapeId")
        pages.append(found)
    assert pages[0] == pages[1]
    assert pages[0]["metadata"]["sourceURL"] == "page.html"


def test_scrape_reads_a_file_that_exists_and_parse_standard_input(folder):
    done = run(folder, "scrape", "page.html")
    assert done.stdout.startswith("# Tides")
    assert done.stderr == "page.html is a file: read as `parse` does\n"
    done = run(folder, "parse", "-", stdin=HTML)
    assert done.stdout.startswith("# Tides")
    for arguments, said in (
        (("parse", "none.html"), "none.html cannot be read"),
        (("scrape", "page.html", "--max-age", 5), "--max-age: it is for pages"),
        (("parse", "page.html", "-f", "screenshot", "-o", "x.png"), "uploaded file"),
    ):
        done = run(folder, *arguments)
        assert done.returncode == 2
        assert said in done.stderr


def test_a_missing_file_is_named_before_its_name_is_taken_for_a_host(tmp_path):
    done = run(tmp_path, "scrape", "none.pdf")
    assert done.returncode == 1
    first, *_ = done.stderr.splitlines()
    assert first == "warning: there is no file none.pdf: it is fetched as a URL"


def test_an_error_of_the_site_has_a_sentence_and_an_exit_code(tmp_path):
    gone = answer("<h1>Gone</h1><p>Nothing is here.</p>", 404, Content_Type="text/html")
    with ScriptedSite({"/gone": gone, "/robots.txt": text("")}) as site:
        done = run(tmp_path, "scrape", site.url("/gone"))
        said = f"warning: {site.url('/gone')}: the site answered 404 Not Found"
    assert done.returncode == 3
    assert done.stdout.startswith("# Gone")
    assert said in done.stderr


def test_a_port_that_no_page_comes_from_is_named(tmp_path):
    done = run(tmp_path, "scrape", "http://127.0.0.1:9/")
    assert done.returncode == 1
    assert "Port 9 is on the list of ports that no page comes from" in done.stderr
    assert "SCRAPER_EGRESS_ALLOW=NETWORK@9" in done.stderr


def test_a_reader_that_goes_away_is_no_error(folder):
    (folder / "long.html").write_text(f"<p>{'words ' * 200_000}</p>")
    with Command(folder, "parse", "long.html", "-f", "rawHtml") as process:
        assert process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (141, "")


def test_ctrl_c_ends_a_scrape_without_complaints(tmp_path):
    with ScriptedSite({"/": slow(page(), 60), "/robots.txt": text("")}) as site:
        terminal = Terminal(tmp_path, "scrape", site.url("/"))
        wait_until(lambda: "/" in site.paths())
        terminal.press("\x03")
        assert terminal.end() == 130
    assert "Traceback" not in terminal.seen
    assert "leaked" not in terminal.seen


def test_rawBase64_of_a_file_is_unchanged_in_json(folder):
    done = run(folder, "parse", "page.html", "-f", "rawBase64", "--json")
    assert base64.b64decode(json.loads(done.stdout)["rawBase64"]).decode() == HTML


def test_requested_fields_that_a_page_lacks_are_named(folder):
    done = run(folder, "scrape", "page.html", "-f", "json", "--prompt", "title and fax")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"title": "Tides"}
    assert "Not found: fax." in done.stderr
    done = run(folder, "scrape", "page.html", "-f", "json", "--prompt", "Explain it.")
    assert "No requested field was understood from the prompt" in done.stderr
