"""The formats of a page: one frozen class each.

``type`` is the name of the format inside the service (snake_case) and the key of its
result in :class:`scraper_service.items.PageContent`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from attrs import field, fields, frozen
from attrs.validators import optional

from scraper_service.options.selectors import plan_of

if TYPE_CHECKING:
    from collections.abc import Iterable


def _has_plan(_: object, __: object, selectors: dict[str, Any]) -> None:
    plan_of(selectors)


@frozen
class Markdown:
    """The main content as CommonMark with GFM tables."""

    type: ClassVar[str] = "markdown"


@frozen
class Html:
    """The cleaned HTML: without scripts, styles and excluded elements."""

    type: ClassVar[str] = "html"


@frozen
class RawHtml:
    """The decoded source, otherwise unchanged."""

    type: ClassVar[str] = "raw_html"


@frozen
class Links:
    """Absolute URLs of links."""

    type: ClassVar[str] = "links"


@frozen
class Images:
    """Absolute URLs of images."""

    type: ClassVar[str] = "images"


@frozen
class RawBase64:
    """The bytes of the response. No other format may stand beside it."""

    type: ClassVar[str] = "raw_base64"


@frozen
class AttributeSelector:
    """An attribute of the elements that match a selector."""

    #: A CSS selector.
    selector: str
    #: The name of the attribute.
    attribute: str


@frozen
class Attributes:
    """Attribute values of matching elements, in document order."""

    type: ClassVar[str] = "attributes"
    selectors: tuple[AttributeSelector, ...]


@frozen
class Summary:
    """A summary of the main content."""

    type: ClassVar[str] = "summary"


@frozen
class Json:
    """Structured data by a JSON Schema, a prompt or both."""

    type: ClassVar[str] = "json"
    #: The data to find, in words.
    prompt: str | None = None
    #: A JSON Schema of the result.
    schema: dict[str, Any] | None = None
    #: The key of the result: ``json``, or ``extract`` for callers of v1.
    key: str = "json"
    #: True refuses pages with instructions to language models.
    check_prompt_injection: bool = False
    #: Instructions to the language model. Without a model it has no effect.
    system_prompt: str | None = None
    #: What to read without a model, see :mod:`scraper_service.options.selectors`.
    selectors: dict[str, Any] | None = field(
        default=None, validator=optional(_has_plan)
    )


@frozen
class Viewport:
    """Size of the browser's window in CSS pixels."""

    width: int
    height: int


@frozen
class Screenshot:
    """A picture of the rendered page."""

    type: ClassVar[str] = "screenshot"
    #: True takes the whole page, not only the window.
    full_page: bool = False
    #: 1 to 100 makes a JPEG, None a PNG.
    quality: int | None = None
    viewport: Viewport | None = None


@frozen
class ChangeTracking:
    """The changes since the last scrape of the page."""

    type: ClassVar[str] = "change_tracking"
    #: ``git-diff``, ``json`` or both.
    modes: tuple[str, ...] = ()
    #: A JSON Schema of the data that the mode ``json`` compares.
    schema: dict[str, Any] | None = None
    #: The data that the mode ``json`` compares, in words.
    prompt: str | None = None
    #: The name of a history of its own.
    tag: str | None = None
    #: See :attr:`Json.selectors`.
    selectors: dict[str, Any] | None = field(
        default=None, validator=optional(_has_plan)
    )


@frozen
class Question:
    """The answer to a question about the page."""

    type: ClassVar[str] = "question"
    question: str


@frozen
class Highlights:
    """Quotations of the page that fit a query."""

    type: ClassVar[str] = "highlights"
    query: str


@frozen
class Query:
    """A question, or a query for highlights."""

    type: ClassVar[str] = "query"
    #: The question or the query.
    prompt: str
    #: ``freeform`` for a question, ``directQuote`` for highlights.
    mode: str = "freeform"


@frozen
class Branding:
    """Colours, fonts and logo of the site."""

    type: ClassVar[str] = "branding"


@frozen
class Product:
    """The product of a shop's page."""

    type: ClassVar[str] = "product"


@frozen
class Menu:
    """The dishes of a restaurant's menu."""

    type: ClassVar[str] = "menu"


@frozen
class Audio:
    """The audio of the page."""

    type: ClassVar[str] = "audio"


@frozen
class Video:
    """The video of the page."""

    type: ClassVar[str] = "video"


@frozen
class ComparedText:
    """The Markdown of the parts of a page that a monitor compares; no caller names it."""

    type: ClassVar[str] = "compared_text"
    #: CSS selectors of the elements that count; empty for the whole content.
    include: tuple[str, ...] = ()
    #: CSS selectors of elements that do not count.
    exclude: tuple[str, ...] = ()


Format: TypeAlias = (
    Markdown
    | Html
    | RawHtml
    | Links
    | Images
    | RawBase64
    | Attributes
    | Summary
    | Json
    | Screenshot
    | ChangeTracking
    | Question
    | Highlights
    | Query
    | Branding
    | Product
    | Menu
    | Audio
    | Video
    | ComparedText
)


def merge_formats(formats: Iterable[Format]) -> tuple[Format, ...]:
    """Return ``formats`` without duplicates, in the order of first mention.

    A later mention replaces an earlier one, unless it has only a name.

    :raises ValueError: for a second screenshot.
    """
    kept: dict[tuple[str, str], Format] = {}
    for item in formats:
        key = (item.type, item.key if isinstance(item, Json) else "")
        if key in kept and isinstance(item, Screenshot):
            raise ValueError("at most one screenshot format is allowed")
        if key not in kept or not _is_bare(item):
            kept[key] = item
    return tuple(kept.values())


def _is_bare(item: Format) -> bool:
    return all(
        getattr(item, a.name) == a.default
        for a in fields(type(item))
        if a.name != "key"
    )
