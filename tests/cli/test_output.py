"""Tables and folders as they are written, from page objects made here."""

from __future__ import annotations

import base64
import csv
import json

import click
import pytest
import yaml
from markdown_it import MarkdownIt

from scraper_service.cli.follow import FLAGS, Ending, summary
from scraper_service.cli.outputs import OutputFailed
from scraper_service.cli.outputs.files import TableFile, WriterFile
from scraper_service.cli.outputs.output import destination
from scraper_service.cli.outputs.page_files import (
    EVERY_KEY,
    NAMES,
    WITH_OPTIONS,
    MarkdownFolder,
    keys_of_body,
)
from scraper_service.cli.terminal import FailedUrl, Status, fit_columns
from scraper_service.errors import printable
from scraper_service.exports.formats import FileSpec
from scraper_service.exports.markdown_zip import front_matter
from scraper_service.exports.tables import FACTS, LAST
from scraper_service.options import catalogue
from scraper_service.options.formats import FORMATS, NAMED
from scraper_service.storage.frontier.job_warnings import JobWarning, sentence_of


def test_only_endings_that_a_command_writes_are_named():
    for archives in (False, True):
        with pytest.raises(click.UsageError, match=r"must end in \.jsonl") as refused:
            destination("x.md", None, overwrite=False, archives=archives)
        assert (".wacz" in refused.value.message) is archives


def _lines(path):
    return path.read_text().splitlines()


def page(url="http://example.org/", **values):
    title = values.pop("title", "A page")
    facts = {"url": url, "sourceURL": url, "statusCode": 200, "title": title}
    return json.dumps({"markdown": "# Text", **values, "metadata": facts}).encode()


def test_a_summary_names_options_of_the_command_line():
    warning = f"{sentence_of(JobWarning.ROBOTS)} Skipped URLs: 3 outside (see crawlEntireDomain)."
    shown = summary(
        Status(state="completed", total=5, pages=2, warning=warning), Ending()
    )
    assert "scraper-service jobs show --json` lists them" in shown
    assert "(see --entire-domain)" in shown
    assert "robotsBlocked" not in shown
    flags = {row.flag.names for row in catalogue.CRAWL if row.flag is not None}
    named = {text.split()[-1] for text in FLAGS.values() if "jobs show" not in text}
    assert named <= flags


def test_cells_are_quoted_and_no_formulas(tmp_path):
    path = tmp_path / "pages.csv"
    table = TableFile(path, ("markdown", "links"))
    table.open()
    titles = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", 'a "b", c\nd', "\uff1dx", "plain"]
    table.write([page(title=title) for title in titles])
    table.write([page(links=["http://a.example", "http://b.example"], title=None)])
    table.close([])
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == (*FACTS, "markdown", "links", "warning", "error")
    shown = [row["title"] for row in rows]
    assert shown[:6] == [f"'{title}" for title in titles[:6]]
    assert shown[6:] == [titles[6], "'\uff1dx", "plain", ""]
    assert rows[0]["markdown"] == "# Text"
    assert json.loads(rows[-1]["links"]) == ["http://a.example", "http://b.example"]


NESTED = {"name": "Tides", "parts": [{"n": 1}]}


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_table_has_a_column_per_requested_format(tmp_path):
    keys = keys_of_body(
        {"formats": [{"type": "json", "schema": {}}, "summary", "product", "menu"]}
    )
    table = TableFile(tmp_path / "pages.csv", keys)
    table.open()
    table.write([page(markdown=None, json=NESTED, summary="Short.", product=NESTED)])
    table.close([])
    [row] = rows_of(tmp_path / "pages.csv")
    own = ("json", "summary", "product", "menu")
    assert tuple(row) == (*FACTS, *own, "warning", "error")
    assert json.loads(row["json"]) == json.loads(row["product"]) == NESTED
    assert (row["summary"], row["menu"]) == ("Short.", "")


@pytest.mark.parametrize(
    ("formats", "keys"),
    [
        (["changeTracking", "branding"], ("changeTracking", "branding")),
        ([{"type": "question", "question": "a"}, "links"], ("answer", "links")),
        ([{"type": "query", "prompt": "a", "mode": "directQuote"}], ("highlights",)),
        ([{"type": "screenshot@fullPage"}, "screenshot"], ("screenshot",)),
        ([{"type": "attributes", "selectors": []}, "nope"], ("attributes",)),
    ],
)
def test_every_format_has_the_column_of_its_result(formats, keys):
    assert keys_of_body({"formats": formats}) == keys
    assert set(NAMES) | set(WITH_OPTIONS) <= set(NAMED)


def test_every_format_of_the_api_has_a_column():
    plain = {row.name for row in FORMATS if row.tag == row.cls.type and not row.options}
    plain -= {"audio", "video"}
    assert plain | {"json", "screenshot", "changeTracking"} <= set(NAMES)


def test_a_table_of_a_job_that_is_not_known_has_all_columns(tmp_path):
    path = tmp_path / "pages.csv"
    table = TableFile(path)
    table.open()
    table.write([page("http://a.example/", title="=1"), page("http://b.example/")])
    table.write([page("http://c.example/", json=NESTED, odd="x")])
    table.close([])
    rows = rows_of(path)
    assert [bool(row["json"]) for row in rows] == [False, False, True]
    assert [row["markdown"] for row in rows] == ["# Text"] * 3
    assert rows[0]["title"] == "'=1"
    assert tuple(rows[0]) == (*FACTS, *EVERY_KEY, *LAST)
    assert list(tmp_path.iterdir()) == [path]


PNG = b"\x89PNG\r\n\x1a\n picture"
DATA_URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


def test_pictures_are_saved_in_a_folder_next_to_a_table(tmp_path):
    table = TableFile(tmp_path / "pages.csv", ("screenshot",))
    table.open()
    table.write([page(markdown=None, screenshot=DATA_URL)])
    table.close([])
    [row] = rows_of(tmp_path / "pages.csv")
    assert row["screenshot"] == "pages.files/example.org.png"
    assert (tmp_path / row["screenshot"]).read_bytes() == PNG


def test_a_folder_has_each_format_of_a_page_in_a_file(tmp_path):
    folder = tmp_path / "out"
    output = MarkdownFolder(folder)
    output.open()
    raw = base64.b64encode(b"%PDF-1.7").decode()
    whole = {"html": "<p>a", "rawHtml": "<html>b", "json": NESTED, "links": ["x"]}
    output.write([page(**whole, screenshot=DATA_URL, warning="Mind it.")])
    output.write([page("http://example.org/", markdown=None, screenshot=DATA_URL)])
    output.write([page("http://example.org/a.pdf", markdown=None, rawBase64=raw)])
    output.close([])
    first, second, third = [json.loads(line) for line in _lines(folder / "index.jsonl")]
    files = {key: (folder / name).read_bytes() for key, name in first["files"].items()}
    assert files["screenshot"] == PNG
    assert (files["html"], files["rawHtml"]) == (b"<p>a", b"<html>b")
    data = json.loads(files["data"])
    assert (data["json"], data["links"]) == (NESTED, ["x"])
    head = head_of(files["markdown"].decode())
    assert head["screenshot"] == first["files"]["screenshot"]
    assert head["warning"] == first["warning"] == "Mind it."
    assert f"[screenshot](<{head['screenshot']}>)" in (folder / "index.md").read_text()
    assert (folder / second["file"]).read_bytes() == PNG
    assert second["file"] != first["files"]["screenshot"]
    assert (folder / third["file"]).read_bytes() == b"%PDF-1.7"
    assert third["file"].endswith(".pdf")


def head_of(text):
    """Return the values in the head of a file of Markdown."""
    before, head, _ = text.split("---\n", 2)
    assert before == ""
    return yaml.safe_load(head)


TITLES = [
    'say "no": # {x} [y] \\ end',
    "no",
    "2020-01-01",
    "- a\n---\nb: c",
    "'",
    "%x @y `z`",
    "\U0001f600 \u00e9\u4e2d",
    "a\x7fb\x85c\u2028d\ufeffe\ufffff\ud800",
    "!!python/object:os.system",
]


@pytest.mark.parametrize("title", TITLES)
def test_the_front_matter_of_a_page_is_yaml_for_any_title(title):
    facts = {"title": title, "url": "http://e.example/: #", "statusCode": 200}
    facts |= {"publishedTime": "2024-05-06", "language": "no", "author": title}
    head = head_of(front_matter({"metadata": facts}, {}).decode())
    cut = "".join(c for c in printable(title) if c != "\ud800")
    assert head["title"] == head["author"] == cut
    assert head["url"] == facts["url"]
    assert head["statusCode"] == 200
    assert (head["date"], head["language"]) == ("2024-05-06", "no")


def test_a_file_is_cut_only_when_there_is_something_to_write(tmp_path):
    path = tmp_path / "pages.jsonl"
    path.write_text("what was there before, and is longer than a page " * 20)
    before = path.read_text()
    output = WriterFile(path, FileSpec(format="jsonl"))
    output.open()
    output.close(None)
    assert path.read_text() == before
    output = WriterFile(path, FileSpec(format="jsonl"))
    output.open()
    output.write([page()])
    output.close([])
    assert path.read_bytes() == page() + b"\n"


def test_page_files_never_leave_the_output_folder(tmp_path):
    folder = tmp_path / "out"
    output = MarkdownFolder(folder)
    output.open()
    output.write(
        [
            page("http://example.org/../../../x", title="](evil) <b>"),
            page("http://example.org/X", title="\x1b[31mred\u202e\nline"),
            page("http://example.org/no", markdown=None),
        ]
    )
    output.close(
        [
            FailedUrl("http://example.org/gone", "SCRAPE_X", "It is gone."),
            FailedUrl.of_robots("http://example.org/secret"),
        ]
    )
    lines = [json.loads(line) for line in _lines(folder / "index.jsonl")]
    assert [line["file"] for line in lines[2:]] == [None, None, None]
    assert lines[4]["leftOut"] == "robots.txt refuses it (ROBOTS)"
    assert lines[3]["error"] == "It is gone. (SCRAPE_X)"
    names = [line["file"] for line in lines[:2]]
    assert sorted(p.name for p in tmp_path.rglob("*")) == sorted(
        ["out", "index.md", "index.jsonl", *names]
    )
    index = (folder / "index.md").read_text()
    tokens = [t for block in MarkdownIt().parse(index) for t in block.children or ()]
    hrefs = {t.attrs["href"] for t in tokens if t.type == "link_open"}
    addresses = ["../../../x", "X", "no", "gone", "secret"]
    assert index.index("# Failed") < index.index("/gone") < index.index("# Left out")
    assert hrefs == {*names, *(f"http://example.org/{rest}" for rest in addresses)}
    assert not any(t.type == "html_inline" for t in tokens)
    assert "\x1b" not in index
    assert "\u202e" not in index
    assert (folder / names[0]).read_text().endswith("---\n\n# Text\n")


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(OutputFailed, match="files already"):
        MarkdownFolder(tmp_path).open()
    output = MarkdownFolder(tmp_path, overwrite=True)
    output.open()
    output.write([page("http://readme/")])
    output.close([])
    assert (tmp_path / "README.md").read_text() == "mine"


def test_control_characters_of_pages_do_not_reach_the_terminal():
    assert printable("a\x1b[2Jb\x07\u202ec\n d\x9b") == "a[2Jbc d"
    assert printable("abcdef", 5) == "ab..."


def test_a_line_fits_a_terminal_with_wide_characters_too():
    assert fit_columns("\u7d75\u6587\u5b57" * 10, 9) == "\u7d75\u6587\u5b57..."
    assert fit_columns("\u7d75\u6587", 4) == "\u7d75\u6587"
    assert fit_columns("abc", 3) == "abc"
