"""The formats of a page: one frozen class each, and one row each in the table of formats.

``type`` is the name of the format inside the service (snake_case) and the key of its
result in :class:`scraper_service.items.PageContent`. The request bodies of both versions of
the API, spider arguments, the command line, the API description, the capabilities of the
service and its library are read from the rows. A new format is its class, one row, and the
code that makes it. A result that is no text has its shape in
``scraper_service/api/responses.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from attrs import evolve, field, fields, frozen
from attrs.validators import optional

from scraper_service.errors import InvalidOptions
from scraper_service.options.json_schema import Schema
from scraper_service.options.parsing import (
    MAX_PROMPT,
    PROMPT,
    Array,
    Bool,
    Key,
    KeysT,
    Object,
    Text,
    build,
    choice,
    integer,
    need,
)
from scraper_service.options.selectors import (
    MAX_SELECTORS,
    SELECTORS,
    caller_selectors,
    plan_of,
)

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
    """The bytes of the response. It excludes all other formats."""

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


def result_name(item: Format) -> str:
    """Return the name of the value that a format makes."""
    return item.key if isinstance(item, Json) else item.type


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


def caller_formats(formats: tuple[Format, ...]) -> tuple[Format, ...]:
    """Return ``formats`` if the selectors of all :class:`Attributes` are valid.

    :raises InvalidOptions: with the path of each invalid selector.
    """
    paths: list[tuple[str | int, ...]] = []
    selectors: list[str] = []
    for index, item in enumerate(formats):
        if isinstance(item, Attributes):
            for number, each in enumerate(item.selectors):
                paths.append((index, "selectors", number, "selector"))
                selectors.append(each.selector)
    try:
        caller_selectors(tuple(selectors))
    except InvalidOptions as error:
        raise InvalidOptions(
            [
                evolve(i, path=paths[int(i.path[0])]) if i.path else i
                for i in error.issues
            ]
        ) from None
    return formats


# Kinds of results: Markdown or plain text, HTML, JSON, and two that are base64.
TEXT, HTML, DATA, PICTURE, FILE = "text", "html", "data", "picture", "file"
# What some formats cannot be made of.
UPLOAD: Final = "upload"
STORED: Final = "stored"  # the stored response of an earlier scrape
BYTES: Final = "bytes"  # a call of scraper_service.convert()
EMBEDDED: Final = "embedded"  # a document in the page; the format shows the page itself
# What redactPII does to a format: its texts change, or the request is refused.
REPLACED, REFUSED = "replaced", "refused"

_MEDIA = "it needs a media extractor, which this release does not have"
_FETCHED = frozenset({UPLOAD, STORED, BYTES})


@frozen
class FormatRow:
    """A row of the table."""

    #: The name in JSON requests.
    name: str
    #: The class. A name that stands for a class with options comes after that of the class.
    cls: type[Format]
    #: The kind of the result: TEXT, HTML, DATA, PICTURE or FILE.
    result: str
    #: The key of the result in a page object. Not given: the name.
    key: str = field(kw_only=True)
    #: The options of a request of version 2.
    options: KeysT = field(factory=dict, kw_only=True)
    #: The options that the name stands for.
    preset: Mapping[str, Any] = field(factory=dict, kw_only=True)
    #: The versions of the API that know the name; the shell has those of v2.
    versions: tuple[str, ...] = field(default=("v1", "v2"), kw_only=True)
    #: What the format cannot be made of.
    not_of: frozenset[str] = field(default=frozenset(), kw_only=True)
    #: What redactPII does with the text of the format; None if it has none, or if it is
    #: made of text that is redacted already.
    personal_data: str | None = field(default=None, kw_only=True)
    #: Why this release cannot make the format; None if it can.
    missing: str | None = field(default=None, kw_only=True)
    #: True if only a language model makes the format.
    by_model: bool = field(default=False, kw_only=True)

    @key.default
    def _key(self) -> str:
        return self.name

    @property
    def tag(self) -> str:
        """The name in spider arguments."""
        return snake_case(self.name)

    @property
    def is_bare(self) -> bool:
        """Return True if a request may have the name alone."""
        return not any(key.required for key in self.options.values())

    def format(self) -> Format:
        """Return the format of a request that has the name alone."""
        return self.cls(**self.preset)

    def kind(self) -> Object:
        """Return the kind of the format as an object in a request of version 2."""
        return Object(self.options, build(self.cls, **self.preset))


def snake_case(name: str) -> str:
    """Return a name in camelCase as spider arguments spell it."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower().replace("-", "_")


_QUESTION = Text(MAX_PROMPT, minimum=1)
A_SELECTOR = "A CSS selector."
_VIEWPORT = Object(
    {
        "width": need(integer(1, 7680), "width", "In CSS pixels."),
        "height": need(integer(1, 4320), "height", "In CSS pixels."),
    },
    build(Viewport),
)
_ATTRIBUTE_SELECTOR = Object(
    {
        "selector": need(Text(), "selector", A_SELECTOR),
        "attribute": need(
            Text(256, minimum=1), "attribute", "The name of the attribute."
        ),
    },
    build(AttributeSelector),
)

# Each row keeps its lines.
# fmt: off

SCREENSHOT: KeysT = {
    "fullPage": Key(Bool(), "full_page",
        help="Take the whole page, not only the window."),
    "quality": Key(integer(1, 100), "quality",
        help="Make a JPEG of this quality, not a PNG."),
    "viewport": Key(_VIEWPORT, "viewport", help="The size of the window."),
}
_SELECTORS = Key(SELECTORS, "selectors", is_own=True,
    help="What to read exactly, by CSS or XPath, without a model.")
JSON: KeysT = {
    "prompt": Key(PROMPT, "prompt", help="What to find, in words."),
    "schema": Key(Schema(), "schema", help="The JSON Schema of the result."),
    "selectors": _SELECTORS,
    "checkPromptInjection": Key(Bool(), "check_prompt_injection",
        help="Refuse pages with instructions to language models."),
}
CHANGE_TRACKING: KeysT = {
    "modes": Key(Array(choice("git-diff", "json"), 10), "modes",
        help="Return a diff of the Markdown, or changes of the data."),
    "schema": Key(Schema(), "schema",
        help="The JSON Schema of the data that json compares."),
    "prompt": Key(PROMPT, "prompt", help="The data that json compares, in words."),
    "tag": Key(Text(256), "tag", help="The name of a history of its own."),
    "selectors": _SELECTORS,
}
_ATTRIBUTES: KeysT = {
    "selectors": need(Array(_ATTRIBUTE_SELECTOR, MAX_SELECTORS), "selectors",
        "The elements, and the attribute of each."),
}
_QUERY: KeysT = {
    "prompt": need(_QUESTION, "prompt", "The question or the query."),
    "mode": Key(choice("freeform", "directQuote"), "mode",
        help="Return an answer (freeform) or quotations (directQuote)."),
}
_PICTURE: dict[str, Any] = {
    "not_of": _FETCHED | {EMBEDDED},
    "personal_data": REFUSED,
    "key": "screenshot",
}
_OF_PAGE = frozenset({EMBEDDED})
_BY_MODEL: dict[str, Any] = {
    "versions": ("v2",), "not_of": frozenset({BYTES}), "by_model": True,
}

FORMATS = (
    FormatRow("markdown", Markdown, TEXT, personal_data=REPLACED),
    FormatRow("html", Html, HTML, personal_data=REFUSED),
    FormatRow("rawHtml", RawHtml, HTML, not_of=_OF_PAGE, personal_data=REFUSED),
    FormatRow("links", Links, DATA, not_of=_OF_PAGE),
    FormatRow("images", Images, DATA),
    FormatRow("summary", Summary, TEXT, personal_data=REPLACED),
    FormatRow("branding", Branding, DATA, not_of=_OF_PAGE | {UPLOAD}),
    FormatRow("product", Product, DATA, not_of=_OF_PAGE, personal_data=REPLACED),
    FormatRow("menu", Menu, DATA, not_of=_OF_PAGE, personal_data=REPLACED),
    FormatRow("audio", Audio, DATA, not_of=_FETCHED, missing=_MEDIA),
    FormatRow("video", Video, DATA, not_of=_FETCHED, missing=_MEDIA),
    FormatRow("rawBase64", RawBase64, FILE, not_of=frozenset({BYTES}),
        personal_data=REFUSED),
    FormatRow("content", Markdown, TEXT, key="markdown", versions=("v1",)),
    FormatRow("screenshot", Screenshot, PICTURE, options=SCREENSHOT, **_PICTURE),
    # The Python client's spelling of its screenshot_full_page.
    FormatRow("screenshot@fullPage", Screenshot, PICTURE,
        preset={"full_page": True}, **_PICTURE),
    FormatRow("json", Json, DATA, options=JSON, personal_data=REPLACED),
    FormatRow("extract", Json, DATA, versions=("v1",), preset={"key": "extract"},
        personal_data=REPLACED),
    FormatRow("changeTracking", ChangeTracking, DATA, options=CHANGE_TRACKING,
        not_of=_FETCHED),
    FormatRow("attributes", Attributes, DATA, options=_ATTRIBUTES,
        versions=("v2",), not_of=_OF_PAGE, personal_data=REFUSED),
    FormatRow("question", Question, TEXT, key="answer", **_BY_MODEL,
        options={"question": need(_QUESTION, "question", "The question.")}),
    FormatRow("highlights", Highlights, DATA, **_BY_MODEL,
        options={"query": need(_QUESTION, "query", "What quotations must fit.")}),
    FormatRow("query", Query, TEXT, key="answer", **_BY_MODEL, options=_QUERY),
)
# fmt: on

#: The rows by class, without further names of a class.
ROW_OF: Mapping[type[Format], FormatRow] = {
    row.cls: row for row in FORMATS if row.tag == row.cls.type
}
#: The rows of the names that v2 and the shell know.
NAMED: Mapping[str, FormatRow] = {r.name: r for r in FORMATS if "v2" in r.versions}
