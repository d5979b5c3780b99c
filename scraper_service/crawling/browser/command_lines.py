"""Reads lines of ``agent-browser``, a command line for browsers that agents know.

A snapshot is the accessibility tree of a page as text, with ids of its elements for
commands.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from scraper_service.options.actions import check_keys

if TYPE_CHECKING:
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
}
_EXPANDED = re.compile(r"[A-Za-z0-9_({@*#?!$-]")
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
    found = [_command(words, comment) for words, comment in _Words(code).read()]
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
    """Return what to do if the comment behind a command was meant as its words."""
    if not comment:
        return ""
    [word, *_] = comment.split(maxsplit=1)
    return f': # begins a comment; write a selector in quotes, "{word[:60]}"'


@define
class _Words:
    """Splits lines into commands and words, with the quotes of a POSIX shell."""

    text: str
    _at: int = 0
    #: The parts of the word so far, None between two words.
    _word: list[str] | None = None
    _words: list[str] = field(factory=list)
    _comment: str = ""
    _commands: list[tuple[list[str], str]] = field(factory=list)

    def read(self) -> list[tuple[list[str], str]]:
        """Return the words of each command, and the comment behind them or ""."""
        while self._at < len(self.text):
            letter = self.text[self._at]
            self._at += 1
            if letter == "\n":
                self._end_command()
            elif letter.isspace():
                self._end_word()
            elif letter == "'":
                self._single_quoted()
            elif letter == '"':
                self._double_quoted()
            elif letter == "\\":
                self._take_escaped()
            elif letter == "#" and self._word is None:
                self._skip_comment()
            elif letter == "&" and self.text[self._at : self._at + 1] == "&":
                self._at += 1
                self._end_command()
            else:
                self._check(letter)
                self._add(letter)
        self._end_command()
        return self._commands

    def _check(self, letter: str) -> None:
        """Raise :exc:`LineRefused` for a letter that a shell would not take as it is."""
        if (what := _OPERATORS.get(letter)) is not None:
            raise LineRefused(f"{what} ({letter}) is not possible here: no shell runs")
        if letter == "$" and _EXPANDED.match(self.text, self._at):
            raise LineRefused("a variable ($) is not possible here: no shell runs")

    def _add(self, letter: str) -> None:
        if self._word is None:
            self._word = []
        self._word.append(letter)

    def _end_word(self) -> None:
        if self._word is not None:
            self._words.append("".join(self._word))
            self._word = None

    def _end_command(self) -> None:
        self._end_word()
        if self._words:
            self._commands.append((self._words, self._comment))
            self._words = []
        self._comment = ""

    def _single_quoted(self) -> None:
        end = self.text.find("'", self._at)
        if end < 0:
            raise CommandInvalid("a quote (') has no end")
        self._add(self.text[self._at : end])
        self._at = end + 1

    def _double_quoted(self) -> None:
        self._add("")
        while self._at < len(self.text):
            letter = self.text[self._at]
            self._at += 1
            if letter == '"':
                return
            if letter == "\\" and self.text[self._at : self._at + 1] in {*'"\\$`'}:
                letter = self.text[self._at]
                self._at += 1
            elif letter in {"$", "`"}:
                self._check(letter)
            self._add(letter)
        raise CommandInvalid('a quote (") has no end')

    def _take_escaped(self) -> None:
        """Take the next letter as it is; a line that ends with a backslash goes on."""
        letter = self.text[self._at : self._at + 1]
        self._at += 1
        if letter and letter != "\n":
            self._add(letter)

    def _skip_comment(self) -> None:
        end = self.text.find("\n", self._at)
        end = len(self.text) if end < 0 else end
        self._comment = self.text[self._at - 1 : end]
        self._at = end


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
