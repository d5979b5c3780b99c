"""Regular expressions and selectors of callers: which are taken, what they match, how fast."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper_service.errors import InvalidOptions
from scraper_service.options.selectors import MAX_CSS, MAX_SELECTORS, caller_selectors
from scraper_service.options.urls import Patterns, caller_patterns


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ((), ()),
        (("",), ()),
        (("", "["), ()),
        (("a", ""), ("a", "")),
        (("/blog/.*", "^/x$"), ("/blog/.*", "^/x$")),
        (("[[a]",), ("[[a]",)),
        ((r"\/en\/.*",), (r"\/en\/.*",)),
        (("(?P<a>x)(?P<a>y)",), ("(?P<a>x)(?P<a>y)",)),
        (("(?i)/Blog",), ("(?i)/Blog",)),
        (("[a-\uffff]" * 100,), ("[a-\uffff]" * 100,)),
        (("a" * 1024,) * 100, ("a" * 1024,) * 100),
    ],
)
def test_patterns_are_taken(patterns, expected):
    assert caller_patterns(patterns) == expected


@pytest.mark.parametrize(
    ("patterns", "path", "word"),
    [
        (("a", "["), (1,), r"not a regular expression \(RE2\): '\['"),
        (("a", "b", "(?=c)"), (2,), r"'\(\?=c\)': invalid perl operator: \(\?="),
        (("a(?!b)",), (0,), "invalid perl operator"),
        (("(?<=a)b",), (0,), "invalid"),
        (("(?<!a)b",), (0,), "invalid"),
        ((r"(a)\1",), (0,), r"invalid escape sequence: \\1"),
        (("a{1001}",), (0,), "invalid repetition size"),
        (("(" * 2000,), (0,), "1024 characters"),
        (("\ud800",), (0,), "no Unicode text"),
        (("a" * 1025,), (0,), "1024 characters"),
        (("a",) * 101, (), "at most 100"),
        ((r"\pL" * 51, r"\PN" * 50), (), "at most 100 Unicode classes"),
        (("[a-\uffff]" * 101,), (), "at most 100 Unicode classes"),
        (("a", "x{0,1000}" * 100, "["), (), "more than 16384 instructions"),
        ((r"(.{0,9}a){9}\d{9}b" * 40,), (), "too large together"),
    ],
)
def test_pattern_is_refused_at_its_path(patterns, path, word):
    with pytest.raises(InvalidOptions, match=word) as caught:
        caller_patterns(patterns)
    assert [issue.path for issue in caught.value.issues] == [path]


@pytest.mark.parametrize(
    ("patterns", "subject", "found"),
    [
        ((), "/a", None),
        (("b", "a"), "/a", "a"),
        (("a", "/"), "/a", "a"),
        (("^a",), "/a", None),
        (("A",), "/a", None),
        (("é",), "/caf%C3%A9", "é"),
        (("%C3%A9",), "/caf%C3%A9", "%C3%A9"),
        (("^/b/c",), "/b%2Fc", None),
        (("é", "caf"), "/caf%C3%A9", "caf"),
        (("é",), "/caf%E9", None),
    ],
)
def test_the_first_matching_pattern_is_returned(patterns, subject, found):
    assert Patterns(patterns).first_match(subject) == found


@pytest.mark.parametrize(
    "patterns",
    [
        ("^(a+)+$",),
        (".*.*.*.*x",),
        ("(a|aa)+$", "(a|a?)+$", "([a-z]+)*=", "(.*)*[^/a]$"),
        ("(((a{0,9}){0,9}){0,9})b",),
        tuple(f".*a.*a.*a.*{n}$" for n in range(100)),
    ],
)
@pytest.mark.parametrize("subject", ["/" + "a" * 4096, "/" + "ab" * 2048])
def test_searches_take_linear_time(patterns, subject):
    compiled = Patterns(caller_patterns(patterns))
    begin = time.process_time()
    compiled.first_match(subject)
    assert time.process_time() - begin < 0.5


def test_refusing_patterns_is_quick():
    begin = time.process_time()
    for patterns in (
        (r"\pL" * 341,) * 100,
        tuple("x{0,1000}" * 100 + str(number) for number in range(100)),
        tuple("x{0,1000}" * 5 + str(number) for number in range(100)),
        ("(?=a)",) * 100,
        tuple(f"(.{{9}}){{99}}{number}" for number in range(100)),
    ):
        with pytest.raises(InvalidOptions):
            caller_patterns(patterns)
    assert time.process_time() - begin < 3


@pytest.mark.parametrize(
    "selector",
    [
        "p",
        "iframe",
        "div > .a#b[data-x='(((((' ]:nth-child(2n+1)",
        ":not(:is(a, b))",
        "a, b, c",
        "*",
        "[onclick]",
        ":is(:is(:is(a)))",
    ],
)
def test_selector_passes(selector):
    assert caller_selectors((selector,)) == (selector,)


@pytest.mark.parametrize(
    "selector",
    [
        "",
        " ",
        "p[",
        "a::before",
        "a >",
        "*nav*",
        "p:nope-such(1)",
        ":not(:not(a))",
        ":is(:is(:is(:is(a))))",
        ":not(" * 200,
        "[a='\\1 ']",
        "a" * (MAX_CSS + 1),
    ],
)
def test_invalid_selectors_are_refused(selector):
    with pytest.raises(InvalidOptions) as caught:
        caller_selectors(("p", selector))
    (issue,) = caught.value.issues
    assert issue.path == (1,)
    assert issue.message.startswith("not a CSS selector: ")


def test_selectors_are_bounded_in_number_and_length():
    caller_selectors(("p",) * MAX_SELECTORS)
    caller_selectors(("a" * MAX_CSS,))
    with pytest.raises(InvalidOptions, match="at most 100 selectors"):
        caller_selectors(("p",) * (MAX_SELECTORS + 1))
    with pytest.raises(InvalidOptions, match="16384 characters"):
        caller_selectors(("a" * MAX_CSS,) * 16 + ("a",))


@given(st.text(alphabet="ap.#[]()=\"':,>+~*\\ :not", max_size=40))
def test_any_text_is_a_selector_or_an_issue(text):
    try:
        caller_selectors((text,))
    except InvalidOptions as error:
        assert error.issues[0].path == (0,)  # noqa: PT017  # it may also pass
