"""The table of formats: names, options, results, and what makes a format, one row each.

The request bodies of both versions of the API, spider arguments, the command line, the
API description, the capabilities of the service and its library are read from these rows.
A new format is its class in :mod:`scraper_service.options.formats`, one row here, and the
code that makes it. A result that is no text has its shape in
``scraper_service/api/openapi/page_shapes.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import field, frozen

from scraper_service.options import formats, selectors
from scraper_service.options.formats import Format
from scraper_service.options.parsing import (
    MAX_PROMPT,
    PROMPT,
    Array,
    Bool,
    Key,
    KeysT,
    Object,
    Schema,
    Text,
    build,
    choice,
    integer,
    need,
)
from scraper_service.options.urls import MAX_SELECTORS

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
    build(formats.Viewport),
)
_ATTRIBUTE_SELECTOR = Object(
    {
        "selector": need(Text(), "selector", A_SELECTOR),
        "attribute": need(
            Text(256, minimum=1), "attribute", "The name of the attribute."
        ),
    },
    build(formats.AttributeSelector),
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
_SELECTORS = Key(selectors.SELECTORS, "selectors", is_own=True,
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
    FormatRow("markdown", formats.Markdown, TEXT, personal_data=REPLACED),
    FormatRow("html", formats.Html, HTML, personal_data=REFUSED),
    FormatRow("rawHtml", formats.RawHtml, HTML, not_of=_OF_PAGE, personal_data=REFUSED),
    FormatRow("links", formats.Links, DATA, not_of=_OF_PAGE),
    FormatRow("images", formats.Images, DATA),
    FormatRow("summary", formats.Summary, TEXT, personal_data=REPLACED),
    FormatRow("branding", formats.Branding, DATA, not_of=_OF_PAGE | {UPLOAD}),
    FormatRow("product", formats.Product, DATA, not_of=_OF_PAGE, personal_data=REPLACED),
    FormatRow("menu", formats.Menu, DATA, not_of=_OF_PAGE, personal_data=REPLACED),
    FormatRow("audio", formats.Audio, DATA, not_of=_FETCHED, missing=_MEDIA),
    FormatRow("video", formats.Video, DATA, not_of=_FETCHED, missing=_MEDIA),
    FormatRow("rawBase64", formats.RawBase64, FILE, not_of=frozenset({BYTES}),
        personal_data=REFUSED),
    FormatRow("content", formats.Markdown, TEXT, key="markdown", versions=("v1",)),
    FormatRow("screenshot", formats.Screenshot, PICTURE, options=SCREENSHOT, **_PICTURE),
    # The Python client's spelling of its screenshot_full_page.
    FormatRow("screenshot@fullPage", formats.Screenshot, PICTURE,
        preset={"full_page": True}, **_PICTURE),
    FormatRow("json", formats.Json, DATA, options=JSON, personal_data=REPLACED),
    FormatRow("extract", formats.Json, DATA, versions=("v1",), preset={"key": "extract"},
        personal_data=REPLACED),
    FormatRow("changeTracking", formats.ChangeTracking, DATA, options=CHANGE_TRACKING,
        not_of=_FETCHED),
    FormatRow("attributes", formats.Attributes, DATA, options=_ATTRIBUTES,
        versions=("v2",), not_of=_OF_PAGE, personal_data=REFUSED),
    FormatRow("question", formats.Question, TEXT, key="answer", **_BY_MODEL,
        options={"question": need(_QUESTION, "question", "The question.")}),
    FormatRow("highlights", formats.Highlights, DATA, **_BY_MODEL,
        options={"query": need(_QUESTION, "query", "What quotations must fit.")}),
    FormatRow("query", formats.Query, TEXT, key="answer", **_BY_MODEL, options=_QUERY),
    # Of monitors; no caller names it.
    FormatRow("comparedText", formats.ComparedText, TEXT, versions=(),
        not_of=frozenset({BYTES}), personal_data=REPLACED),
)
# fmt: on

#: The rows by class, without further names of a class.
ROW_OF: Mapping[type[Format], FormatRow] = {
    row.cls: row for row in FORMATS if row.tag == row.cls.type
}
#: The rows of the names that v2 and the shell know.
NAMED: Mapping[str, FormatRow] = {r.name: r for r in FORMATS if "v2" in r.versions}
