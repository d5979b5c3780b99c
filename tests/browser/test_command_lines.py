"""Lines of commands are split as a POSIX shell splits them, without a shell."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper_service.crawling.browser.command_lines import LineRefused, _split


def words_of(text: str) -> list[str]:
    ((words, _),) = _split(f"x {text}")
    return words[1:]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (r'"$\"a"', '$"a'),
        (r'"$\$5"', "$$5"),
        (r"a\ b", "a b"),
        ("a#b", "a#b"),
        ('""#x', "#x"),
        ("''", ""),
        ("a\\\nb", "ab"),
    ],
)
def test_quotes_and_escapes_give_the_word_of_a_shell(text, word):
    assert words_of(text) == [word]


@pytest.mark.parametrize("text", ['"$a"', "$a", '"`a`"', "a|b", "a;b", "a&b"])
def test_what_a_shell_would_expand_is_refused(text):
    with pytest.raises(LineRefused):
        words_of(text)


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0\r\f\v\x1c\x1d\x1e\x85")),
        max_size=4,
    )
)
def test_quoted_words_come_back(words):
    assert words_of(shlex.join(words)) == words


def test_a_comment_follows_the_words_of_its_command():
    found = list(_split("click a#b # c\nclick d"))
    assert found == [(["click", "a#b"], "# c"), (["click", "d"], "")]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("letter", ["#", "a", "!", "\\#"])
def test_a_long_word_takes_linear_time(letter):
    assert words_of("a" + letter * 400_000)[0].count(letter[-1]) >= 400_000
