"""Parts of Markdown: never too large, nothing lost, tables and fences whole."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scraper_service.content.formats.summary_and_tokens import (
    count_tokens,
    part_of,
    parts,
)

SIZE = 100  # tokens
WORDS = [
    "word",
    "Sentence.",
    "日本語。",
    "naïve",
    "🎉",
    "x" * 90,
    "- item\n",
    "\n\n",
    "\n",
]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=150).map(" ".join)


def bare(text):
    return re.sub(r"\s", "", text)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("four", 1),
        ("fours", 2),
        ("日本", 2),
        ("éé", 1),
        ("é한ab", 2),
    ],
)
def test_tokens_are_counted_by_the_formula(text, tokens):
    assert count_tokens(text) == tokens


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.integers(SIZE, 3 * SIZE))
def test_no_part_is_too_large_and_no_text_is_lost(text, size):
    found = parts(text, size)
    assert all(count_tokens(part) <= size for part in found)
    assert bare("".join(found)) == bare(text)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text("abc é日\n", max_size=300), max_size=8))
def test_blocks_joined_by_blank_lines_give_the_whole(texts):
    blocks = [block for text in texts if (block := re.sub(r"\n+", "\n", text).strip())]
    whole = "\n\n".join(blocks)
    if all(count_tokens(block) <= SIZE for block in blocks):
        assert "\n\n".join(parts(whole, SIZE)) == whole


def test_a_short_text_is_a_single_part():
    found = part_of("# Title\n\nText.", SIZE, 1)
    assert (found.text, found.chunk) == (
        "# Title\n\nText.",
        {"page": 1, "pageCount": 1, "tokenCount": 4},
    )


def test_a_part_ends_before_a_heading():
    text = "\n\n".join(
        f"## Part {number}\n\n" + "Some words here. " * 12 for number in range(6)
    )
    found = parts(text, SIZE)
    assert len(found) > 2
    assert all(part.startswith("## Part") for part in found)


def test_no_part_ends_with_a_heading():
    text = "\n\n".join(["word " * 70, "## Next", "word " * 60])
    first, second = parts(text, SIZE)
    assert "## Next" not in first
    assert second.startswith("## Next")


def test_a_table_repeats_its_header():
    rows = [f"| name {number} | {number} |" for number in range(200)]
    found = parts("\n".join(["| Name | Number |", "| --- | --- |", *rows]), SIZE)
    assert len(found) > 2
    for part in found:
        lines = part.split("\n")
        assert lines[:2] == ["| Name | Number |", "| --- | --- |"]
        assert set(lines[2:]) <= set(rows)
    assert [row for part in found for row in part.split("\n")[2:]] == rows


@pytest.mark.parametrize("end", ["\n```", ""])
@pytest.mark.parametrize("before", ["", "Example:\n"])
def test_a_fence_is_closed_and_opened_again(before, end):
    lines = [f"line({number})" + "\n" * (number % 9 == 0) for number in range(200)]
    code = "\n".join(lines)
    found = parts(f"Text.\n\n{before}```python\n{code}{end}\n\n## After", SIZE)
    codes = []
    for part in found:
        inside = re.findall(r"^```python\n(.*?)\n```$", part, re.DOTALL | re.MULTILINE)
        assert part.count("```") == 2 * len(inside)
        codes += inside
    assert len(codes) > 2
    if end:
        assert bare("".join(codes)) == bare(code)
        assert found[-1].endswith("## After")


def test_a_long_line_is_cut_at_sentences_and_words():
    text = "One sentence has eight words in it here. " * 40
    for part in parts(text, SIZE):
        assert part.startswith("One sentence")
        assert part.endswith("here.")
    for part in parts("word " * 400, SIZE):
        assert set(part.split()) == {"word"}


def test_text_without_spaces_gets_no_spaces_at_part_ends():
    text = "これは長い文です。" * 50
    assert all(" " not in part for part in parts(text, SIZE))


def test_a_part_beyond_the_last_is_empty():
    found = part_of("Text.", SIZE, 3)
    assert found.is_beyond
    assert (found.text, found.count) == ("", 1)
