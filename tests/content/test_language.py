"""The language of a page is detected from its words, or stays unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from scraper_service.content.metadata.evidence import detect_language

LINES = (Path(__file__).parents[1] / "samples/languages.tsv").read_text(
    encoding="utf-8"
)
ROWS = [line.split("\t") for line in LINES.splitlines() if not line.startswith("#")]
TEXTS = {text: language for language, text in ROWS if language}
OTHERS = [text for language, text in ROWS if not language]


def test_short_texts_in_thirty_languages_are_detected_or_unknown():
    found = {text: detect_language(text) for text in TEXTS}
    assert {
        text: tag for text, tag in found.items() if tag not in {None, TEXTS[text]}
    } == {}
    assert len(set(TEXTS.values())) == 30
    assert sum(tag is not None for tag in found.values()) >= 0.9 * len(TEXTS)


# Croatian and Bosnian, and Indonesian and Malay, have mostly the same words.
CLEAR = sorted({*TEXTS.values()} - {"hr", "id"})


@pytest.mark.parametrize("language", CLEAR)
def test_a_paragraph_has_its_language(language):
    text = " ".join(text for text, tag in TEXTS.items() if tag == language)
    assert detect_language(text) == language


@pytest.mark.parametrize("text", OTHERS, ids=range(len(OTHERS)))
def test_names_codes_and_numbers_have_no_language(text):
    assert detect_language(text) is None


def test_broken_characters_do_not_hinder_the_detection():
    text = "Der Laden öffnet um neun Uhr und schließt am \ud800 späten Abend. " * 3
    assert detect_language(text) == "de"
