"""The text files of a site."""

from __future__ import annotations

import json
import time

import pytest

from scraper_service.content.formats import llms_txt_and_agents as llms_txt
from scraper_service.content.formats.llms_txt_and_agents import (
    first_sentence,
    llms_json,
    llms_pages,
)

URL = "https://a.example"


def body(path="", markdown="", **facts):
    metadata = {"sourceURL": URL + path, "statusCode": 200, **facts}
    return json.dumps({"markdown": markdown, "metadata": metadata}).encode()


def texts(*bodies, full=False):
    pages = llms_pages(bodies, full)
    return json.loads(llms_json(URL, pages, full))["data"]


def test_pages_are_listed_with_titles_and_descriptions():
    found = texts(
        body(title="Home", description="All of  it.\nReally."),
        body(
            "/b",
            "# The *B* page\n\n![x](y)\n\nIt [says](http://x) a **lot** of things. More.",
            title="",
        ),
        body("/c%20d/", "Short."),
        body("/e", title="A [b] c"),
        body("/f", title=["First", "Second"]),
    )
    assert found == {
        "llmstxt": "# https://a.example llms.txt\n\n"
        "- [Home](https://a.example): All of it. Really.\n"
        "- [The B page](https://a.example/b): It says a lot of things.\n"
        "- [c d](https://a.example/c%20d/)\n"
        "- [A \\[b\\] c](https://a.example/e)\n"
        "- [First](https://a.example/f)\n"
    }


def test_the_full_text_has_each_page_after_its_number():
    pages = body("/a", "# A\n\nText.\n", title="A"), body("/b", "Other", title="B")
    found = texts(*pages, full=True)
    assert found["llmsfulltxt"] == (
        "# https://a.example llms-full.txt\n\n"
        "<|page-1|>\n## A\n\n# A\n\nText.\n\n"
        "<|page-2|>\n## B\n\nOther\n"
    )


def test_the_full_text_ends_at_its_size(monkeypatch):
    monkeypatch.setattr(llms_txt, "FULL_TEXT", 10)
    found = texts(
        body("/a", "12345678"), body("/b", "1234"), body("/c", "12"), full=True
    )
    parts = found["llmsfulltxt"].split("<|page-")
    assert [llms_txt.LEFT_OUT in part for part in parts] == [False, False, True, False]


def test_a_long_description_is_cut_at_a_word():
    found = texts(body(title="T", description="word " * 100))["llmstxt"]
    line = found.splitlines()[-1].partition(": ")[2]
    assert line.endswith("word…")
    assert len(line) <= llms_txt.DESCRIPTION


def test_missing_pages_name_the_status_of_the_site():
    [page] = llms_pages([body(statusCode=404)], full=False)
    assert page.error == "the site answered 404"


@pytest.mark.parametrize(
    ("markdown", "sentence"),
    [
        ("", ""),
        ("# Only a heading", ""),
        ("| a | b |\n|---|---|\n\nThis is a text. And more.", "This is a text."),
        ("- A list that says something. More", "A list that says something."),
        ("> Quoted words are words, too! Yes", "Quoted words are words, too!"),
        ("Menu\n\nHere it begins at last.", "Here it begins at last."),
        ("Version 1.5 is out now. More", "Version 1.5 is out now."),
        ("[Link](http://a) to what `code` does here", "Link to what code does here"),
    ],
)
def test_the_first_sentence_of_a_text(markdown, sentence):
    assert first_sentence(markdown) == sentence


@pytest.mark.parametrize("row", ["![", "[](", "*a ", "#"])
def test_titles_and_descriptions_of_hostile_texts_are_found_soon(row):
    text = row * 20_000
    started = time.process_time()
    [page] = llms_pages([body("/a", f"# {text}x\n\n{text}x")], full=False)
    assert time.process_time() - started < 2
    assert page.title
    assert len(page.description) <= llms_txt.DESCRIPTION


def test_the_title_is_the_first_heading_without_closing_marks():
    pages = llms_pages([body("/a", "# The title ##\n\nA b c.")], full=False)
    assert [page.title for page in pages] == ["The title"]
