"""What a caller may ask of a page: one frozen class per format.

``type`` is the name of the format inside the service (snake_case) and the key of its
result in :class:`scraper_service.items.PageContent`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from attrs import fields, frozen

if TYPE_CHECKING:
    from collections.abc import Iterable


@frozen
class Markdown:
    type: ClassVar[str] = "markdown"


@frozen
class Html:
    """The cleaned HTML: without scripts, styles and what the caller excluded."""

    type: ClassVar[str] = "html"


@frozen
class RawHtml:
    """The source as received, decoded, otherwise untouched."""

    type: ClassVar[str] = "raw_html"


@frozen
class Links:
    type: ClassVar[str] = "links"


@frozen
class Images:
    type: ClassVar[str] = "images"


@frozen
class RawBase64:
    """The bytes of the answer; stands alone, with no other format beside it."""

    type: ClassVar[str] = "raw_base64"


@frozen
class AttributeSelector:
    """``selector`` is a CSS selector, ``attribute`` the attribute to read."""

    selector: str
    attribute: str


@frozen
class Attributes:
    """Attribute values of the elements that match, in document order."""

    type: ClassVar[str] = "attributes"
    selectors: tuple[AttributeSelector, ...]


@frozen
class Summary:
    type: ClassVar[str] = "summary"


@frozen
class Json:
    """Structured data; ``key`` is ``json``, or ``extract`` for old callers.

    ``system_prompt`` is for a language model alone.
    """

    type: ClassVar[str] = "json"
    prompt: str | None = None
    schema: dict[str, Any] | None = None
    key: str = "json"
    check_prompt_injection: bool = False
    system_prompt: str | None = None


@frozen
class Viewport:
    """Size of the browser's window in CSS pixels."""

    width: int
    height: int


@frozen
class Screenshot:
    """``quality`` 1...100 makes a JPEG, None a PNG."""

    type: ClassVar[str] = "screenshot"
    full_page: bool = False
    quality: int | None = None
    viewport: Viewport | None = None


@frozen
class ChangeTracking:
    """``modes`` holds ``git-diff`` and ``json``; ``tag`` names one history of several."""

    type: ClassVar[str] = "change_tracking"
    modes: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None
    prompt: str | None = None
    tag: str | None = None


@frozen
class Question:
    type: ClassVar[str] = "question"
    question: str


@frozen
class Highlights:
    type: ClassVar[str] = "highlights"
    query: str


@frozen
class Query:
    """``mode`` is ``freeform`` (a question) or ``directQuote`` (highlights)."""

    type: ClassVar[str] = "query"
    prompt: str
    mode: str = "freeform"


@frozen
class Branding:
    type: ClassVar[str] = "branding"


@frozen
class Product:
    type: ClassVar[str] = "product"


@frozen
class Menu:
    type: ClassVar[str] = "menu"


@frozen
class Audio:
    type: ClassVar[str] = "audio"


@frozen
class Video:
    type: ClassVar[str] = "video"


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
)


def merged(formats: Iterable[Format]) -> tuple[Format, ...]:
    """Return ``formats`` without repetitions, in the order of first mention.

    A later mention replaces an earlier one unless it says nothing but the name.

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
