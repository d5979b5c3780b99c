"""Notes on a page: the sentences that a language model gets of it."""

from __future__ import annotations

import json

from scraper_service.content.formats.llms_txt_and_agents import KEPT, sentences_for
from scraper_service.content.stored_pages import read_pages

QUERY = "What is Klein in Python and who maintains it?"


def said(markdown, query=QUERY, **facts):
    metadata = {"sourceURL": "http://a.example", "title": "T", **facts}
    body = json.dumps({"markdown": markdown, "metadata": metadata}).encode()
    [page] = read_pages([body])
    return sentences_for(page, query)


def test_short_lines_and_headings_are_left_out():
    sentences = [
        "Klein is a micro-framework for developing web services with Python.",
        "It is built on widely used libraries such as Werkzeug and Twisted.",
    ]
    assert said(f"# Klein\n\n{' '.join(sentences)}\n\nText.") == sentences


def test_sentences_with_words_of_the_query_are_kept_first():
    idle = [f"The soup number {n} needs a lot of time and water." for n in range(KEPT)]
    wanted = "Those who maintain Klein live in the city of Utrecht."
    found = said("\n\n".join([*idle, wanted]))
    assert len(found) == KEPT
    assert found[-1] == wanted


def test_languages_have_their_own_stems():
    idle = [f"Die Suppe Nummer {n} braucht viel Wasser und Zeit." for n in range(KEPT)]
    wanted = "Die Gründungen der Städte Italiens sind oft legendär gewesen."
    text = "\n\n".join([*idle, wanted])
    assert said(text, "Gründung einer Stadt", language="de")[-1] == wanted
