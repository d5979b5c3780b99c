"""Steps in the browser before a page is taken: one frozen class per kind."""

from __future__ import annotations

import re
from typing import ClassVar, TypeAlias

from attrs import frozen

from scraper_service.options.formats import Viewport
from scraper_service.options.parsing import guesses

MAX_SCROLLS = 500  # of one action
#: Names of keys, those that Playwright has for an American keyboard; its characters are
#: names of their keys, too.
KEY_NAMES = frozenset(
    (
        *("Alt", "Control", "ControlOrMeta", "Meta", "Shift", "AltGraph"),
        *(
            f"{name}{side}"
            for name in ("Alt", "Control", "Meta", "Shift")
            for side in ("Left", "Right")
        ),
        *("Enter", "Tab", "Space", "Backspace", "Delete", "Insert", "Escape"),
        *("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"),
        *("Home", "End", "PageUp", "PageDown"),
        *("CapsLock", "NumLock", "ScrollLock", "PrintScreen", "Pause", "ContextMenu"),
        *(f"F{number}" for number in range(1, 13)),
        *(f"Key{letter}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        *(f"{group}{digit}" for group in ("Digit", "Numpad") for digit in range(10)),
        *("NumpadAdd", "NumpadDecimal", "NumpadDivide", "NumpadEnter"),
        *("NumpadMultiply", "NumpadSubtract"),
        *("Backquote", "Minus", "Equal", "Backslash", "BracketLeft", "BracketRight"),
        *("Semicolon", "Quote", "Comma", "Period", "Slash"),
        *("AudioVolumeMute", "AudioVolumeDown", "AudioVolumeUp"),
        *("MediaTrackNext", "MediaTrackPrevious", "MediaPlayPause"),
    )
)
_CHARACTER = re.compile(r"[ -~\r\n]")
_BETWEEN_KEYS = re.compile(r"(?<=[^+])\+")  # a + at the start, or after one, is a key


@frozen
class Wait:
    """Wait for a time, or until an element exists. Exactly one of both is set."""

    type: ClassVar[str] = "wait"
    #: Above 0.
    milliseconds: int | None = None
    #: A CSS selector.
    selector: str | None = None


@frozen
class Click:
    """Click an element."""

    type: ClassVar[str] = "click"
    #: A CSS selector.
    selector: str
    #: True clicks every element that matches, not only the first.
    all: bool = False


@frozen
class ScreenshotAction:
    """Take a screenshot, with the fields of the format."""

    type: ClassVar[str] = "screenshot"
    full_page: bool = False
    quality: int | None = None
    viewport: Viewport | None = None


@frozen
class Write:
    """Type text into the focused element."""

    type: ClassVar[str] = "write"
    text: str


@frozen
class Press:
    """Press a key."""

    type: ClassVar[str] = "press"
    key: str


def check_keys(text: str) -> str:
    """Return ``text`` if it names a key, or several with + between them.

    :raises ValueError: with a message for the caller.
    """
    for key in _BETWEEN_KEYS.split(text):
        if key in KEY_NAMES or _CHARACTER.fullmatch(key):
            continue
        raise ValueError(
            f"not a key: {key[:60]!r}; {guesses([key], KEY_NAMES)}allowed are characters of an American"
            " keyboard, names such as Enter, Tab, Escape, Backspace, ArrowDown, PageDown"
            " and F1, and several with +, such as Control+A"
        )
    return text


@frozen
class Scroll:
    """Scroll the window, or the element ``selector``, one page up or down."""

    type: ClassVar[str] = "scroll"
    direction: str = "down"
    selector: str | None = None


@frozen
class ScrollToEnd:
    """Scroll down until nothing more appears, or until a limit."""

    type: ClassVar[str] = "scroll_to_end"
    #: The element to scroll; None is the window.
    selector: str | None = None
    #: At most so many scrolls, 1 to :data:`MAX_SCROLLS`.
    max_scrolls: int = 50
    #: At most so many milliseconds, 100 to 60,000.
    timeout_ms: int = 15_000


@frozen
class ScrapeAction:
    """Return the page as it is at this step."""

    type: ClassVar[str] = "scrape"


@frozen
class ExecuteJavascript:
    """Run a script in the page and return its value."""

    type: ClassVar[str] = "execute_javascript"
    script: str


@frozen
class Pdf:
    """Print the page to a PDF."""

    type: ClassVar[str] = "pdf"
    landscape: bool = False
    scale: float = 1
    format: str = "Letter"


Action: TypeAlias = (
    Wait
    | Click
    | ScreenshotAction
    | Write
    | Press
    | Scroll
    | ScrollToEnd
    | ScrapeAction
    | ExecuteJavascript
    | Pdf
)
