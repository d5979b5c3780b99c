"""Steps in the browser before a page is taken: one frozen class per kind."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from attrs import frozen

from scraper_service.options.formats import Viewport

MAX_SCROLLS = 500  # of one action


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
