"""Notes on pages: the sentences that a report is written from."""

from __future__ import annotations

import json

import pytest

from scraper_service.content.text.page_notes import KEPT, excerpts, notes, source_list

QUERY = "What is Klein in Python and who maintains it?"
PAGES = (
    (
        "Klein web framework",
        (
            "# Klein\n\nKlein is a micro-framework for developing web services with Python."
            " It is built on widely used libraries such as Werkzeug and Twisted."
        ),
    ),
    (
        "About us",
        (
            "Klein is maintained by the people of Twisted Matrix Laboratories.\n\n"
            "In Python the name Twisted Matrix Laboratories stands for many libraries."
        ),
    ),
    ("Cooking", "A good soup needs time and salt and a lot of water."),
)


def page(number, title, markdown, **facts):
    metadata = {"sourceURL": f"http://{number}.example", "title": title, **facts}
    return json.dumps({"markdown": markdown, "metadata": metadata}).encode()


@pytest.fixture(scope="module")
def read():
    bodies = [page(number, *each) for number, each in enumerate(PAGES, 1)]
    return notes(bodies, QUERY)


def test_every_sentence_is_of_its_page(read):
    assert [len(note.said) for note in read] == [2, 2, 1]
    for note, (title, markdown) in zip(read, PAGES, strict=True):
        assert note.title == title
        assert all(sentence in markdown for sentence in note.said)


def test_sentences_with_words_of_the_query_are_kept_first():
    idle = [f"The soup number {n} needs a lot of time and water." for n in range(KEPT)]
    wanted = "Those who maintain Klein live in the city of Utrecht."
    [note] = notes([page(1, "T", "\n\n".join([*idle, wanted]))], QUERY)
    assert len(note.said) == KEPT
    assert note.said[-1] == wanted


def test_languages_have_their_own_stems():
    idle = [f"Die Suppe Nummer {n} braucht viel Wasser und Zeit." for n in range(KEPT)]
    wanted = "Die Gründungen der Städte Italiens sind oft legendär gewesen."
    text = "\n\n".join([*idle, wanted])
    [note] = notes([page(1, "Rom", text, language="de")], "Gründung einer Stadt")
    assert note.said[-1] == wanted


def test_pages_that_are_none_have_no_notes():
    bodies = [
        page(1, "T", "Text.", statusCode=404),
        page(2, "T", ""),
        page(3, "", "Text."),
    ]
    first, second, third = notes(bodies, QUERY)
    assert (first, second) == (None, None)
    assert (third.title, third.said) == ("http://3.example", ())


def test_excerpts_keep_to_their_size(read):
    text = excerpts(read, 600)
    assert len(text) <= 600
    assert [f"[{n}] " in text for n in (1, 2, 3, 4)] == [True, True, True, False]
    assert excerpts([], 100) == ""


def test_sources_are_numbered(read):
    sources = source_list(read)
    assert sources.startswith(
        "## Sources\n\n1. [Klein web framework](http://1.example)\n2. "
    )
