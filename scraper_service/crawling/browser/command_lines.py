"""Reads lines of ``agent-browser``, a command line for browsers that agents know.

A snapshot is the accessibility tree of a page as text, with ids of its elements for
commands.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, NoReturn

from attrs import frozen

from scraper_service.options.actions import check_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.async_api import Page

PROGRAM = "agent-browser"
MAX_COMMANDS = 100
#: Commands with the fewest and the most words that may follow.
COMMANDS = {
    "open": (1, 1),
    "snapshot": (0, 1),
    "click": (1, 1),
    "fill": (2, 2),
    "type": (2, 2),
    "press": (1, 1),
    "scroll": (1, 2),
    "get": (1, 2),
    "wait": (1, 2),
    "find": (3, 3),
    "screenshot": (0, 0),
    "eval": (1, 1),
    "back": (0, 0),
    "close": (0, 0),
}
# What a shell would do with them, these lines cannot.
_OPERATORS = {
    "|": "a pipe",
    ">": "a redirection",
    "<": "a redirection",
    ";": "a semicolon",
    "&": "a background command",
    "(": "a subshell",
    ")": "a subshell",
    "`": "a substitution",
    "$": "a variable",
}
_ESCAPED = re.compile(r'\\(["\\$`])')  # in double quotes
_EXPANDED = re.compile(r"`|\$(?=[A-Za-z0-9_({@*#?!$-])")
_PIECE = re.compile(
    rf"""
    (?P<end>\n|&&) | (?P<gap>[^\S\n]+) | (?P<joined>\\\n) | (?P<hash>\#)
    | '(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)" | \\(?P<escaped>.)
    | (?P<shell>[|><;&()]|{_EXPANDED.pattern}) | (?P<plain>[\w./:=@%+,-]+|[^'"])
    """,
    re.VERBOSE | re.DOTALL,
)
MAX_TREE = 2**20  # characters of Playwright's tree
MAX_SNAPSHOT = 200_000  # characters
CUT = "\n[the rest is left out: the page has more than {} characters]"
# Roles of WAI-ARIA 1.2 whose elements a visitor operates.
_INTERACTIVE = frozenset(
    "button checkbox combobox link listbox menuitem menuitemcheckbox menuitemradio option"
    " radio searchbox slider spinbutton switch tab textbox treeitem".split()
)
_LINE = re.compile(r"^\s*- (?P<role>[a-z]+)\b(?P<rest>.*?):?$")
_NOISE = re.compile(r" \[(?:cursor=\w+|active)\]")
_ID = re.compile(r"\[ref=(\w+)\]")


class LineRefused(ValueError):
    """Raised for a line that needs a shell, or another program."""


class CommandInvalid(ValueError):
    """Raised for an unknown command, or one with wrong words."""


@frozen
class PageCommand:
    """A command with the words that follow it."""

    name: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((self.name, *self.words))[:100]


def parse_lines(code: str) -> tuple[PageCommand, ...]:
    """Return the commands of some lines, in order.

    Raises :exc:`LineRefused` and :exc:`CommandInvalid`.
    """
    found = [_command(words, comment) for words, comment in _split(code)]
    if not found:
        raise CommandInvalid(f"no command was given; allowed are {', '.join(COMMANDS)}")
    if len(found) > MAX_COMMANDS:
        raise CommandInvalid(f"at most {MAX_COMMANDS} commands, got {len(found)}")
    return tuple(found)


def _command(words: list[str], comment: str) -> PageCommand:
    has_program = words[0] == PROGRAM
    name, *rest = words[1:] if has_program and len(words) > 1 else words
    if name not in COMMANDS:
        allowed = f"allowed are {', '.join(COMMANDS)}"
        if has_program:
            raise CommandInvalid(f"{PROGRAM} has no command {name[:60]!r}; {allowed}")
        raise LineRefused(
            f"{name[:60]}: no program runs here, only commands of {PROGRAM}; {allowed}"
        )
    fewest, most = COMMANDS[name]
    if not fewest <= len(rest) <= most:
        number = str(fewest) if fewest == most else f"{fewest} to {most}"
        words_of = "word" if number == "1" else "words"
        raise CommandInvalid(
            f"{name} takes {number} {words_of}, got {len(rest)}{_hint(comment)}"
        )
    if name == "get" and rest[0] in {"text", "html"} and len(rest) == 1:
        raise CommandInvalid(f"get {rest[0]} needs an element{_hint(comment)}")
    if name == "press":
        try:
            check_keys(rest[0])
        except ValueError as error:
            raise CommandInvalid(f"press: {error}") from None
    return PageCommand(name, tuple(rest))


def _hint(comment: str) -> str:
    if not comment:
        return ""
    [word, *_] = comment.split(maxsplit=1)
    return f': # begins a comment; write a selector in quotes, "{word[:60]}"'


def _split(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield the words of each command as a POSIX shell splits them, and the comment after it.

    Raises :exc:`LineRefused` for what a shell would not take as it is.
    """
    words: list[str] = []
    word: list[str] | None = None
    comment, at = "", 0
    text += "\n\n"  # the first may follow a backslash
    while at < len(text):
        if (found := _PIECE.match(text, at)) is None:
            raise CommandInvalid(f"a quote ({text[at]}) has no end")
        at, kind = found.end(), str(found.lastgroup)
        piece = found[kind]
        if kind in {"end", "gap"}:
            if word is not None:
                words.append("".join(word))
                word = None
            if kind == "end":
                if words:
                    yield words, comment
                words, comment = [], ""
        elif kind == "hash" and word is None:
            end = text.index("\n", at)
            comment, at = text[at - 1 : end], end
        elif kind == "shell":
            _refuse(piece)
        elif kind != "joined":
            if kind == "double":
                # The letters around an escape are not neighbours.
                if expanded := _EXPANDED.search(_ESCAPED.sub("\0", piece)):
                    _refuse(expanded[0])
                piece = _ESCAPED.sub(r"\1", piece)
            word = word or []
            word.append(piece)


def _refuse(sign: str) -> NoReturn:
    raise LineRefused(
        f"{_OPERATORS[sign]} ({sign}) is not possible here: no shell runs"
    )


async def snapshot(page: Page, *, only_interactive: bool, timeout_ms: float) -> str:
    """Return the tree, one line for each element, with ids as ``@e1``.

    ``only_interactive`` leaves all out that a visitor does not operate. An id is valid
    until the next snapshot, or the next page.
    """
    tree = await page.aria_snapshot(mode="ai", timeout=timeout_ms)
    # In a thread: the lines of a large page take longer than the event loop may wait.
    text = await asyncio.to_thread(
        shorten_tree, tree[:MAX_TREE], only_interactive=only_interactive
    )
    if len(text) <= MAX_SNAPSHOT:
        return text
    return text[:MAX_SNAPSHOT].rpartition("\n")[0] + CUT.format(MAX_SNAPSHOT)


def shorten_tree(tree: str, *, only_interactive: bool) -> str:
    """Return Playwright's tree without what commands do not need."""
    lines = (_ID.sub(r"@\1", _NOISE.sub("", line)) for line in tree.splitlines())
    if not only_interactive:
        return "\n".join(lines)
    return "\n".join(
        line.strip().removesuffix(":") for line in lines if _is_interactive(line)
    )


def _is_interactive(line: str) -> bool:
    found = _LINE.match(line)
    return found is not None and found["role"] in _INTERACTIVE and "@" in found["rest"]
