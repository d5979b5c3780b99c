"""Lines of agent-browser: what is a command, and what would need a shell."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies

from scraper_service.crawling.browser.command_lines import (
    COMMANDS,
    CommandInvalid,
    LineRefused,
    parse_lines,
)


def parsed(code):
    return [(each.name, *each.words) for each in parse_lines(code)]


@pytest.mark.parametrize(
    ("code", "commands"),
    [
        ("agent-browser snapshot -i", [("snapshot", "-i")]),
        ("snapshot", [("snapshot",)]),
        ("open a.example && snapshot", [("open", "a.example"), ("snapshot",)]),
        ("\n back \n\n  get url # where\n# all\n", [("back",), ("get", "url")]),
        ("fill @e1 'it''s | > $HOME'", [("fill", "@e1", "its | > $HOME")]),
        (r'fill @e1 "say \"hi\" & \$1"', [("fill", "@e1", 'say "hi" & $1')]),
        (r"fill @e1 a\ b\|c", [("fill", "@e1", "a b|c")]),
        ("fill @e1 ''", [("fill", "@e1", "")]),
        ("click \\\n  @e2", [("click", "@e2")]),
        ('click "a[href$=x]"', [("click", "a[href$=x]")]),
        ('click "#more" # an id', [("click", "#more")]),
        ("click a[href$=x]", [("click", "a[href$=x]")]),
        ('eval "a && b; (1)"', [("eval", "a && b; (1)")]),
        ("find text 'Sign in' click", [("find", "text", "Sign in", "click")]),
    ],
)
def test_lines_are_split_as_a_shell_splits_them(code, commands):
    assert parsed(code) == commands


@pytest.mark.parametrize(
    "code",
    [
        "agent-browser snapshot | sh",
        "snapshot > /tmp/x",
        "open < x",
        "back; back",
        "back & back",
        "(back)",
        "fill @e1 $HOME",
        'fill @e1 "${HOME}"',
        'fill @e1 "$(id)"',
        "fill @e1 `id`",
        'fill @e1 "`id`"',
        "curl http://a.example",
        "snapshot && rm -rf /",
        "/usr/bin/agent-browser snapshot",
        "A=1 snapshot",
    ],
)
def test_commands_that_need_a_shell_or_another_program_are_refused(code):
    with pytest.raises(LineRefused):
        parse_lines(code)


@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("", "no command"),
        ("# nothing", "no command"),
        ("agent-browser", "no command 'agent-browser'"),
        ("agent-browser record", "no command 'record'"),
        ("click", "click takes 1 word, got 0$"),
        ("click #more", 'got 0: # begins a comment; .* in quotes, "#more"'),
        ("fill #name Ada\nback", 'got 0: # begins a comment; .* quotes, "#name"'),
        ("get text #out", 'get text needs an element: # begins .* quotes, "#out"'),
        ("# all\nclick", "click takes 1 word, got 0$"),
        ("back\npress Entr", "not a key: 'Entr'; did you mean 'Enter'"),
        ("get text @e1 @e2", "get takes 1 to 2 words, got 3"),
        ("fill @e1 'open", "has no end"),
        ('fill @e1 "open', "has no end"),
        ("back\n" * 101, "at most 100 commands, got 101"),
    ],
)
def test_the_error_of_an_invalid_command_names_the_allowed_commands(code, part):
    with pytest.raises(CommandInvalid, match=part):
        parse_lines(code)


@hypothesis.given(strategies.text(max_size=60))
def test_any_text_gives_known_commands_or_a_refusal(code):
    try:
        found = parse_lines(code)
    except (CommandInvalid, LineRefused):
        return
    assert all(each.name in COMMANDS for each in found)


@hypothesis.given(strategies.text(max_size=30).filter(lambda t: "'" not in t))
def test_single_quotes_keep_every_letter(text):
    assert parsed(f"fill @e1 '{text}'") == [("fill", "@e1", text)]
