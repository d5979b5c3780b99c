"""Answers made of the sentences of pages."""

from __future__ import annotations

import json
import re

import pytest

from scraper_service.content.text.digest import (
    digest,
    excerpts,
    further_terms,
    notes,
    questions_of,
    searches_of,
    source_list,
    subject_of,
)

QUERY = "What is Klein in Python and who maintains it?"
PAGES = (
    (
        "Klein web framework",
        (
            "# Klein\n\nKlein is a micro-framework for developing web services with Python."
            " It is built on widely used libraries such as Werkzeug and Twisted.\n\n"
            "Cookies help us to deliver our services to you every day."
        ),
    ),
    (
        "About us",
        (
            "Klein is maintained by the people of Twisted Matrix Laboratories.\n\n"
            "In Python the name Twisted Matrix Laboratories stands for many libraries."
        ),
    ),
    (
        "Cooking",
        (
            "A good soup needs time and salt and a lot of water. In Python 3, Klein is a"
            " micro-framework for developing web services with Python.\n\n"
            "Those of the Twisted Matrix Laboratories write Python."
        ),
    ),
)


def page(number, title, markdown, **facts):
    metadata = {"sourceURL": f"http://{number}.example", "title": title, **facts}
    return json.dumps({"markdown": markdown, "metadata": metadata}).encode()


@pytest.fixture(scope="module")
def read():
    bodies = [page(number, *each) for number, each in enumerate(PAGES, 1)]
    return notes(bodies, QUERY)


@pytest.mark.parametrize(
    ("query", "questions"),
    [
        ("best wine", ["best wine"]),
        (QUERY, ["What is Klein in Python", "who maintains it"]),
        (
            "Tell me who founded Rome, and when it fell",
            ["who founded Rome", "when it fell"],
        ),
        ("History of Rome; its kings", ["History of Rome", "its kings"]),
        (
            "Wer hat Rom gegründet und wann ging es unter?",
            ["Wer hat Rom gegründet", "wann ging es unter"],
        ),
        ("What?", ["What?"]),
        ("a? b?", ["a? b?"]),
    ],
)
def test_a_query_consists_of_questions(query, questions):
    assert questions_of(query) == questions


def test_a_further_question_takes_its_subject_from_the_first():
    questions = questions_of(QUERY)
    assert searches_of(QUERY, questions) == [
        "What is Klein in Python",
        "What is Klein in Python who maintains it",
    ]
    both = ["Who founded Rome", "when did Rome fall"]
    assert searches_of("x", both) == both
    assert subject_of(QUERY) == "Klein Python"
    assert subject_of("how do granite bridges age") == "granite bridges"


def test_sentences_are_chosen_by_what_was_asked_and_cited(read):
    text = digest(QUERY, questions_of(QUERY), read)
    assert text.startswith(
        f"# {QUERY}\n\n## What is Klein in Python\n\n- Klein is a micro"
    )
    first, second, sources = text.split("\n## ")[1:]
    assert "developing web services with Python. [1]" in first
    assert "maintained by the people of Twisted Matrix Laboratories. [2]" in second
    for no_answer in ("soup", "Cookies"):
        assert no_answer not in text
    # What says the same as another sentence stands there once.
    assert text.count("micro-framework") == 1
    assert sources.startswith(
        "Sources\n\n1. [Klein web framework](http://1.example)\n2. "
    )
    assert f"## {sources}" == source_list(read)


def test_every_sentence_stands_in_its_page(read):
    text = digest(QUERY, questions_of(QUERY), read)
    lines = re.findall(r"^- (.+) \[(\d+)\]$", text, re.MULTILINE)
    assert len(lines) == 2
    for sentence, number in lines:
        assert sentence in PAGES[int(number) - 1][1]


def test_one_question_needs_no_headings(read):
    text = digest("Klein in Python", ["Klein in Python"], read)
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# Klein in Python",
        "## Sources",
    ]


def test_nothing_is_said_where_no_page_says_anything(read):
    assert digest("nuclear fusion reactors", ["nuclear fusion reactors"], read) == ""
    assert digest("x", ["x"], []) == ""


def test_pages_that_are_none_have_no_notes():
    bodies = [
        page(1, "T", "Text.", statusCode=404),
        page(2, "T", ""),
        page(3, "", "Text."),
    ]
    first, second, third = notes(bodies, QUERY)
    assert (first, second) == (None, None)
    assert (third.title, third.said) == ("http://3.example", ())


def test_names_that_pages_share_are_searched_for_next(read):
    assert further_terms(QUERY, [QUERY], read) == ["Twisted Matrix Laboratories"]
    asked = [QUERY, "klein python Twisted Matrix Laboratories"]
    assert further_terms(QUERY, asked, read) == []


def test_excerpts_keep_to_their_size(read):
    text = excerpts(read, 600)
    assert len(text) <= 600
    assert [f"[{n}] " in text for n in (1, 2, 3, 4)] == [True, True, True, False]
    assert excerpts([], 100) == ""


def test_languages_have_their_own_stems():
    body = page(
        1,
        "Rom",
        "Die Gründungen der Städte Italiens sind oft legendär gewesen.",
        language="de",
    )
    text = digest(
        "Gründung von Städten",
        ["Gründung von Städten"],
        notes([body], "Gründung von Städten"),
    )
    assert "Gründungen der Städte Italiens" in text
