"""Steps in the browser before a page is taken: one frozen class per kind.

Rules: the interface document,
part 5.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from attrs import frozen

from scraper_service.options.formats import Viewport


@frozen
class Wait:
    """Exactly one of ``milliseconds`` (> 0) and ``selector`` is set."""

    type: ClassVar[str] = "wait"
    milliseconds: int | None = None
    selector: str | None = None


@frozen
class Click:
    type: ClassVar[str] = "click"
    selector: str
    all: bool = False


@frozen
class ScreenshotAction:
    type: ClassVar[str] = "screenshot"
    full_page: bool = False
    quality: int | None = None
    viewport: Viewport | None = None


@frozen
class Write:
    type: ClassVar[str] = "write"
    text: str


@frozen
class Press:
    type: ClassVar[str] = "press"
    key: str


@frozen
class Scroll:
    """One page up or down, of the window or of the element ``selector``."""

    type: ClassVar[str] = "scroll"
    direction: str = "down"
    selector: str | None = None


@frozen
class ScrapeAction:
    type: ClassVar[str] = "scrape"


@frozen
class ExecuteJavascript:
    type: ClassVar[str] = "execute_javascript"
    script: str


@frozen
class Pdf:
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
    | ScrapeAction
    | ExecuteJavascript
    | Pdf
)
