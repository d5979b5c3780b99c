"""What callers send to a session of the browser: its options, steps, and input by hand."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from scraper_service.options.actions import Action
from scraper_service.options.jobs import Caller
from scraper_service.options.scrape import Location, Profile, ScrapeOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from playwright.async_api import Page


#: The exit codes of a step: done, failed, after its time, no such program.
DONE, FAILED, LATE, NO_PROGRAM = 0, 1, 124, 127
#: The language of lines of ``agent-browser``, which need no shell.
BASH = "bash"


@frozen(kw_only=True)
class SessionOptions(Caller):
    """A session to open."""

    #: Seconds until it ends, 30 to 3600.
    ttl_s: int
    #: Seconds without a call until it ends, 10 to 3600.
    idle_s: int
    has_view: bool
    block_ads: bool
    profile: Profile | None
    location: Location | None
    #: The first page; None is a blank page.
    url: str | None


@frozen(kw_only=True)
class Step(Caller):
    """One step in the page of a session: exactly one of code, prompt and actions."""

    code: str | None
    prompt: str | None
    actions: tuple[Action, ...] | None
    #: The formats of the page after the step, None without one.
    take: ScrapeOptions | None
    #: The language of ``code``.
    language: str
    timeout_s: int

    @property
    def is_program(self) -> bool:
        """Return True for code that runs as a program, in Python or Node."""
        return self.code is not None and self.language != BASH


# -- the mouse and the keys of a person ------------------------------------------------

MAX_INPUT: Final = 20_000  # characters of a message
MAX_TEXT: Final = 10_000  # characters that are written at once
MOST_WHEEL: Final = 10_000  # pixels
BUTTONS: Final = ("left", "middle", "right")
ACTIONS: Final = ("move", "down", "up", "wheel", "keydown", "keyup", "text")
#: The members that each action must have.
NEEDED: Final = {
    **dict.fromkeys(("move", "down", "up", "wheel"), ("x", "y")),
    **dict.fromkeys(("keydown", "keyup"), ("key",)),
    "text": ("text",),
}


class InputInvalid(ValueError):
    """Raised for a message that is no input. The text names field and value."""


@frozen
class Input:
    """One event of the mouse or of a key."""

    action: str
    #: The position of the mouse, as shares of the width and height of the picture, 0 to 1.
    x: float = 0.0
    y: float = 0.0
    button: str = "left"
    #: Pixels that the wheel scrolls.
    dx: float = 0.0
    dy: float = 0.0
    #: The name of a key, or its character.
    key: str = ""
    text: str = ""


def parse_input(message: str) -> Input:
    """Return the input of a message, a JSON object. Raises :exc:`InputInvalid`."""
    try:
        value = json.loads(message) if len(message) <= MAX_INPUT else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InputInvalid(
            f"a message must be a JSON object of up to {MAX_INPUT} letters"
        )
    if (action := value.get("action")) not in ACTIONS:
        names = ", ".join(ACTIONS)
        raise InputInvalid(f"action must be one of {names}, got {action!r:.60}")
    if missing := [name for name in NEEDED[action] if value.get(name, "") == ""]:
        raise InputInvalid(f"{action} needs {' and '.join(missing)}")
    return Input(
        action,
        x=_number(value, "x", 0, 1),
        y=_number(value, "y", 0, 1),
        button=_choice(value),
        dx=_number(value, "dx", -MOST_WHEEL, MOST_WHEEL),
        dy=_number(value, "dy", -MOST_WHEEL, MOST_WHEEL),
        key=_text(value, "key", 32),
        text=_text(value, "text", MAX_TEXT),
    )


def _number(value: Mapping[str, Any], name: str, least: float, most: float) -> float:
    found = value.get(name, 0)
    if type(found) not in {int, float} or not least <= found <= most:
        raise InputInvalid(f"{name} must be {least} to {most}, got {found!r:.60}")
    return float(found)


def _choice(value: Mapping[str, Any]) -> str:
    if (found := value.get("button", "left")) not in BUTTONS:
        names = ", ".join(BUTTONS)
        raise InputInvalid(f"button must be one of {names}, got {found!r:.60}")
    return str(found)


def _text(value: Mapping[str, Any], name: str, most: int) -> str:
    found = value.get(name, "")
    if not isinstance(found, str) or len(found) > most:
        raise InputInvalid(f"{name} must be a text of up to {most} letters")
    return found


async def send_input(page: Page, given: Input) -> None:
    """Give an input to a page. Raises errors of Playwright if the page has ended."""
    from playwright.async_api import Error as PlaywrightError  # noqa: PLC0415  # slow

    match given.action:
        case "move" | "down" | "up" | "wheel":
            size = page.viewport_size or {"width": 0, "height": 0}
            await page.mouse.move(given.x * size["width"], given.y * size["height"])
            button: Any = given.button
            if given.action == "down":
                await page.mouse.down(button=button)
            elif given.action == "up":
                await page.mouse.up(button=button)
            elif given.action == "wheel":
                await page.mouse.wheel(given.dx, given.dy)
        case "keydown":
            await _press(page, given.key)
        case "keyup":
            with contextlib.suppress(PlaywrightError):  # a key that it does not know
                await page.keyboard.up(given.key)
        case _:
            await page.keyboard.insert_text(given.text)


async def _press(page: Page, key: str) -> None:
    from playwright.async_api import Error as PlaywrightError  # noqa: PLC0415

    try:
        await page.keyboard.down(key)
    except PlaywrightError:
        if page.is_closed():
            raise
        # A letter that is on no American keyboard, or a key without a letter.
        if len(key) == 1:
            await page.keyboard.insert_text(key)
