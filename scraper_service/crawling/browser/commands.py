"""Commands of ``agent-browser``, a command line for browsers that agents know.

The module reads command lines and runs them in a page. A snapshot is the accessibility tree
of a page as text, with ids of its elements for commands.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen
from playwright.async_api import Error as PlaywrightError

from scraper_service.crawling.browser.actions import evaluate, message_of, screenshot
from scraper_service.crawling.browser.held_page import HeldPage
from scraper_service.crawling.browser.loading import settle
from scraper_service.crawling.browser.render import check_place
from scraper_service.crawling.download.download_errors import ActionFailed
from scraper_service.options.actions import pressed_keys
from scraper_service.options.urls import caller_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

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
            pressed_keys(rest[0])
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
                self._escaped()
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

    def _escaped(self) -> None:
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


async def snapshot(page: Page, *, only_interactive: bool, timeout_ms: float) -> str:
    """Return the tree, one line for each element, with ids as ``@e1``.

    ``only_interactive`` leaves all out that a visitor does not operate. An id is valid
    until the next snapshot, or the next page.
    """
    tree = await page.aria_snapshot(mode="ai", timeout=timeout_ms)
    # In a thread: the lines of a large page take longer than the event loop may wait.
    text = await asyncio.to_thread(
        shortened, tree[:MAX_TREE], only_interactive=only_interactive
    )
    if len(text) <= MAX_SNAPSHOT:
        return text
    return text[:MAX_SNAPSHOT].rpartition("\n")[0] + CUT.format(MAX_SNAPSHOT)


def shortened(tree: str, *, only_interactive: bool) -> str:
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


LOAD_S = 60.0
WAIT_MS = 60_000  # the longest fixed wait
SCROLL_PIXELS = 300
MAX_PIXELS = 100_000
MAX_TEXT = 2**20  # characters of one command
STATES = ("load", "domcontentloaded", "networkidle")
_REFERENCE = re.compile(r"@([a-z]*\d*e\d+)")


@define
class CommandRun:
    """The commands of one step and what they print."""

    page: HeldPage
    #: The output of each command that was done.
    printed: list[str] = field(factory=list)
    #: True if the session shall end.
    closes: bool = False

    async def run(self, commands: Sequence[PageCommand]) -> None:
        """Run commands in order. Raises :exc:`ActionFailed` for the first that fails."""
        for command in commands:
            self.page.opened.moves.begin_action()
            try:
                text = await _COMMANDS[command.name](self, *command.words)
            except (PlaywrightError, ValueError) as error:
                if self.page.opened.lost.done():
                    raise
                raise ActionFailed(f"{command}: {message_of(error)}") from error
            self.printed.append((text or "")[:MAX_TEXT])
            if self.page.url and command.name != "close":
                check_place(self.page.opened, self.page.url)

    async def _open(self, text: str) -> None:
        await self.page.go(caller_url(text), LOAD_S)

    async def _snapshot(self, option: str = "") -> str:
        if option not in {"", "-i"}:
            raise ValueError(f"the only option is -i, got {option!r}")
        opened = self.page.opened
        return await snapshot(
            opened.page, only_interactive=bool(option), timeout_ms=opened.patience_ms
        )

    async def _click(self, target: str) -> None:
        await (await self._element(target)).click(timeout=self._patience_ms)
        await settle(self.page.opened)

    async def _fill(self, target: str, text: str) -> None:
        await (await self._element(target)).fill(text, timeout=self._patience_ms)
        await settle(self.page.opened)

    async def _type(self, target: str, text: str) -> None:
        element = await self._element(target)
        await element.press_sequentially(text, timeout=self._patience_ms)
        await settle(self.page.opened)

    async def _press(self, key: str) -> None:
        await self.page.opened.page.keyboard.press(key)
        await settle(self.page.opened)

    async def _scroll(self, direction: str, pixels: str = "") -> None:
        if direction not in {"up", "down"}:
            raise ValueError(f"the direction must be up or down, got {direction!r}")
        far = _number(pixels, MAX_PIXELS) if pixels else SCROLL_PIXELS
        script = "(y) => window.scrollBy({ top: y, behavior: 'instant' })"
        far = -far if direction == "up" else far
        await self.page.opened.page.evaluate(script, far)
        await settle(self.page.opened)

    async def _get(self, what: str, target: str = "") -> str:
        page = self.page.opened.page
        if what == "url":
            return self.page.url
        if what == "title":
            # title() of Playwright says "Loading" and the URL while a navigation waits.
            return str(await page.evaluate("document.title"))
        if what not in {"text", "html"}:
            raise ValueError(f"get takes text, html, url or title, got {what!r}")
        element = await self._element(target)
        ms = self._patience_ms
        if what == "text":
            return str(await element.inner_text(timeout=ms))
        return str(await element.inner_html(timeout=ms))

    async def _wait(self, what: str, state: str = "") -> None:
        page = self.page.opened.page
        if what == "--load":
            if (state or "load") not in STATES:
                raise ValueError(f"--load takes {', '.join(STATES)}, got {state!r}")
            await page.wait_for_load_state(state or "load", timeout=self._patience_ms)
        elif state:
            raise ValueError(f"only --load takes a further word, got {state!r}")
        elif what.isdigit():
            await page.wait_for_timeout(_number(what, WAIT_MS))
        else:
            await self._element(what)

    async def _find(self, by: str, text: str, act: str) -> None:
        if by != "text" or act != "click":
            raise ValueError("find takes text, the text, and click")
        element = self.page.opened.page.get_by_text(text).first
        try:
            await element.wait_for(state="visible", timeout=self._patience_ms)
        except PlaywrightError as error:
            if "Timeout" not in str(error):
                raise
            raise ValueError(f"no element has the text {text!r}") from error
        await element.click(timeout=self._patience_ms)
        await settle(self.page.opened)

    async def _screenshot(self) -> str:
        taken = await screenshot(self.page.opened, full_page=False, quality=None)
        return await self.page.opened.keep(taken, "png")

    async def _eval(self, script: str) -> str:
        value = (await evaluate(self.page.opened, script)).get("value")
        if value is None or isinstance(value, str):
            return value or ""
        return json.dumps(value, ensure_ascii=False)

    async def _back(self) -> None:
        await self.page.opened.page.go_back(timeout=self._patience_ms)
        await settle(self.page.opened, anew=False)

    async def _close(self) -> None:
        self.closes = True

    @property
    def _patience_ms(self) -> float:
        return self.page.opened.patience_ms

    async def _element(self, target: str) -> Any:
        """Return the first element of a reference or CSS selector, once it is visible."""
        page = self.page.opened.page
        if target.startswith("@"):
            found = _REFERENCE.fullmatch(target)
            if found is None:
                raise ValueError(f"{target!r} is no id of a snapshot, such as @e1")
            element = page.locator(f"aria-ref={found[1]}")
            if not await element.count():
                raise ValueError(
                    f"the last snapshot has no element {target}, or it is gone: take"
                    " another one"
                )
            return element
        element = page.locator(f"css={target}").first
        try:
            await element.wait_for(state="visible", timeout=self._patience_ms)
        except PlaywrightError as error:
            if "Timeout" not in str(error):
                raise
            raise ValueError(f"no element matches {target!r}") from error
        return element


def _number(text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7 and int(text) <= most):
        raise ValueError(f"must be a number from 0 to {most}, got {text!r}")
    return int(text)


_COMMANDS: Mapping[str, Callable[..., Awaitable[str | None]]] = {
    "open": CommandRun._open,
    "snapshot": CommandRun._snapshot,
    "click": CommandRun._click,
    "fill": CommandRun._fill,
    "type": CommandRun._type,
    "press": CommandRun._press,
    "scroll": CommandRun._scroll,
    "get": CommandRun._get,
    "wait": CommandRun._wait,
    "find": CommandRun._find,
    "screenshot": CommandRun._screenshot,
    "eval": CommandRun._eval,
    "back": CommandRun._back,
    "close": CommandRun._close,
}
