"""``scraper-service explain``: which blocks are main content, and why."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.support import forked_start

PAGE = Path(__file__).parents[1] / "samples" / "pages" / "news-cards.html"


def explain(*arguments):
    variables = {**os.environ, "SCRAPER_EGRESS_ALLOW": "127.0.0.2/32"}
    return forked_start.run(
        forked_start.SERVICE, ("explain", *arguments), variables, Path.cwd()
    )


def test_a_file_is_explained_in_lines():
    done = explain(PAGE)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("kind: article (article ")
    kept = [line for line in lines if line.startswith("+ ")]
    dropped = [line for line in lines if line.startswith("- ")]
    assert any("The board voted by seven" in line for line in kept)
    assert any("Lighthouse flat sold" in line for line in dropped)


def test_no_chance_decides_on_a_small_page(tmp_path):
    page = tmp_path / "small.html"
    page.write_text("<header><nav><a href=/>Home</a></nav></header><main><p>Hello.")
    lines = explain(page).stdout.splitlines()
    assert "the page is small: all blocks but menus and footers are kept" in lines
    assert "with a chance of" not in "".join(lines)


def test_a_page_of_the_web_is_explained_as_json(site):
    done = explain(site.url("/article"), "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert {"kind", "kinds", "evidence", "bar", "blocks", "losses"} == set(facts)
    assert any(block["keep"] for block in facts["blocks"])


def test_an_unreadable_page_is_an_error_that_names_the_reason(tmp_path, site):
    done = explain(tmp_path / "none.html")
    assert done.returncode == 2
    assert "neither an http(s) URL nor a file" in done.stderr
    done = explain(site.url("/drop"))
    assert done.returncode == 1
    assert "SCRAPE_SITE_ERROR" in done.stderr


def test_selectors_list_the_elements_they_match(tmp_path):
    page = tmp_path / "list.html"
    page.write_text(
        "<ul>" + "<li class=item>\x1b[31mone <b>two</b></li>" * 25 + "</ul>"
    )
    done = explain(page, "--selector", "li", "--selector", "//b/text()")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "li: 25 matches"
    assert lines[1].split() == ["1", "html", ">", "body", ">", "ul", ">", "li.item"]
    assert "one two" in lines[2]
    assert "\x1b" not in done.stdout
    assert lines[41].strip() == "and 5 more"
    assert lines[42:44] == ["//b/text(): 25 matches", "    1  two"]
    done = explain(page, "--selector", "i", "--json")
    assert json.loads(done.stdout) == {
        "selectors": [{"selector": "i", "count": 0, "matches": [], "error": None}]
    }


def test_an_invalid_selector_is_refused_before_the_page_is_read(tmp_path):
    for selector, part in (("li[", "not a CSS selector: 'li['"), (" ", "1 to 1000")):
        done = explain(tmp_path / "none.html", "--selector", selector)
        assert done.returncode == 2
        assert "--selector" in done.stderr
        assert part in done.stderr
