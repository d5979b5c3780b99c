"""Warnings of jobs: codes with data in a row, sentences for callers."""

from __future__ import annotations

import json

import pytest

from scraper_service.storage.frontier.job_warnings import (
    MAX_WARNING,
    OF_END,
    JobWarning,
    add_warning,
    remove_warnings,
    sentence_of,
    warning_text,
)

ROBOTS = "robots.txt refuses some URLs of this crawl: robotsBlocked in its errors lists them."


@pytest.mark.parametrize(
    ("code", "data", "text"),
    [
        ("robots", {}, ROBOTS),
        (
            "limit_lowered",
            {"wanted": 50, "pages": 1},
            (
                "The limit was lowered from 50 to 1 page: more cannot be paid with what"
                " remains."
            ),
        ),
        (
            "few_credits",
            {"wanted": 5, "pages": 2},
            "The run may cost 2 credits: the team has no more of them.",
        ),
        (
            "no_page",
            {
                "reasons": {"robots": 2, "external": 3},
                "url": "http://a/",
                "why": "Gone",
            },
            (
                "The job ended without a page. http://a/: Gone. Skipped URLs: 2 refused by"
                " robots.txt, 3 on other sites (see allowExternalLinks)."
            ),
        ),
        (
            "no_page",
            {"reasons": {"excluded": 1000}, "others": 1234},
            (
                "The job ended without a page. 1,234 more URLs failed or were left out. Of the"
                " first 1,000 skipped URLs: 1000 matched by excludePaths."
            ),
        ),
        ("no_page", {"reasons": {}}, "The job ended without a page."),
        (
            "no_change",
            {"base": "b", "pages": 2000, "failed": 1},
            (
                "No page has changed since job b: 2,000 pages are as they were. 1 more URL"
                " failed or is gone."
            ),
        ),
        ("no_sitemap", {}, "No sitemap was found."),
        (
            "no_sitemap",
            {"url": "http://a/s", "why": "It is empty."},
            "No sitemap could be read. http://a/s: It is empty.",
        ),
        (
            "one_page",
            {"reasons": {"external": 1, "path_depth": 2}},
            "The result is one page. Skipped URLs: 2 below maxDepth.",
        ),
    ],
)
def test_a_code_with_its_data_has_a_sentence(code, data, text):
    assert sentence_of(JobWarning(code), **json.loads(json.dumps(data))) == text


def test_sentences_are_joined_in_their_order_each_once():
    stored = None
    for text in ("One.", "Two.", "One."):
        stored = add_warning(stored, JobWarning.SITEMAP, text=text)
    stored = add_warning(stored, JobWarning.ROBOTS)
    assert warning_text(stored) == f"One. Two. {ROBOTS}"
    assert json.loads(stored)[-1] == ["robots", {}]


def test_a_text_may_contain_the_sentence_of_a_code():
    """Warnings are removed by their code, not by their text."""
    stored = add_warning(None, JobWarning.SITEMAP, text="No sitemap was found. A")
    stored = add_warning(stored, JobWarning.SITEMAP, text=ROBOTS)
    stored = add_warning(stored, JobWarning.NO_SITEMAP)
    stored = remove_warnings(stored, JobWarning.ROBOTS, *OF_END)
    assert warning_text(stored) == f"No sitemap was found. A {ROBOTS}"
    assert remove_warnings(stored, JobWarning.SITEMAP) is None


def test_warnings_end_at_a_length():
    stored = None
    for number in range(100):
        text = f"{number:02} {'x' * 97}"
        stored = add_warning(stored, JobWarning.SITEMAP, text=text)
    assert MAX_WARNING <= len(warning_text(stored)) < MAX_WARNING + 101


def test_a_row_without_warnings_has_no_text():
    assert warning_text(None) is None
    assert warning_text("[]") is None
