"""Tables and folders as they are written, from page objects made here."""

from __future__ import annotations

import csv
import json

import pytest
from markdown_it import MarkdownIt

from scraper_service.cli.folder import MarkdownFolder
from scraper_service.cli.output import COLUMNS, Failure, JsonLines, OutputFailed, Table
from scraper_service.cli.terminal import printable


def _lines(path):
    return path.read_text().splitlines()


def page(url="http://example.org/", **values):
    title = values.pop("title", "A page")
    facts = {"url": url, "sourceURL": url, "statusCode": 200, "title": title}
    return json.dumps({"markdown": "# Text", **values, "metadata": facts}).encode()


def test_cells_are_quoted_and_no_formulas(tmp_path):
    path = tmp_path / "pages.csv"
    table = Table(path)
    table.open()
    titles = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", 'a "b", c\nd', "\uff1dx", "plain"]
    table.write([page(title=title) for title in titles])
    table.write([page(links=["http://a.example", "http://b.example"], title=None)])
    table.close([])
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    shown = [row["title"] for row in rows]
    assert shown[:6] == [f"'{title}" for title in titles[:6]]
    assert shown[6:] == [titles[6], "'\uff1dx", "plain", ""]
    assert rows[0]["markdown"] == "# Text"
    assert rows[-1]["links"] == "http://a.example\nhttp://b.example"


def test_a_file_is_cut_only_when_there_is_something_to_write(tmp_path):
    path = tmp_path / "pages.jsonl"
    path.write_text("what was there before, and is longer than a page " * 20)
    before = path.read_text()
    output = JsonLines(path)
    output.open()
    output.close(None)
    assert path.read_text() == before
    output = JsonLines(path)
    output.open()
    output.write([page()])
    output.close([])
    assert path.read_bytes() == page() + b"\n"


def test_a_folder_has_pages_and_an_index_that_nothing_breaks_out_of(tmp_path):
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
    output.close([Failure("http://example.org/gone", "SCRAPE_X", "It is gone.")])
    lines = [json.loads(line) for line in _lines(folder / "index.jsonl")]
    assert [line["file"] for line in lines[2:]] == [None, None]
    assert lines[3]["error"] == "It is gone. (SCRAPE_X)"
    names = [line["file"] for line in lines[:2]]
    assert sorted(p.name for p in tmp_path.rglob("*")) == sorted(
        ["out", "index.md", "index.jsonl", *names]
    )
    index = (folder / "index.md").read_text()
    tokens = [t for block in MarkdownIt().parse(index) for t in block.children or ()]
    hrefs = {t.attrs["href"] for t in tokens if t.type == "link_open"}
    addresses = ["../../../x", "X", "no", "gone"]
    assert hrefs == {*names, *(f"http://example.org/{rest}" for rest in addresses)}
    assert not any(t.type == "html_inline" for t in tokens)
    assert "\x1b" not in index
    assert "\u202e" not in index
    assert (folder / names[0]).read_text() == "# Text\n"


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(OutputFailed, match="files already"):
        MarkdownFolder(tmp_path).open()
    output = MarkdownFolder(tmp_path, overwrite=True)
    output.open()
    output.write([page("http://readme/")])
    output.close([])
    assert (tmp_path / "README.md").read_text() == "mine"


def test_what_strangers_wrote_does_not_steer_a_terminal():
    assert printable("a\x1b[2Jb\x07\u202ec\n d\x9b") == "a[2Jbc d"
    assert printable("abcdef", 5) == "ab..."
