"""How bodies of v2 spell formats and parsers: the interface document, parts 4 and 6."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.api.fields import common
from scraper_service.api.fields.common import build, need
from scraper_service.options import formats
from scraper_service.options.scrape import MAX_PDF_PAGES, ImageParser, PdfParser
from scraper_service.options.structure import Array, Field, Kind, Object, Tagged
from scraper_service.options.urls import MAX_SELECTORS
from scraper_service.options.values import Bool, Schema, Text, choice, integer

if TYPE_CHECKING:
    from collections.abc import Mapping

PROMPT = Text(common.MAX_PROMPT)
_QUESTION = Text(common.MAX_PROMPT, minimum=1)

_ATTRIBUTE_SELECTOR = Object(
    {
        "selector": need(Text(), "selector"),
        "attribute": need(Text(256, minimum=1), "attribute"),
    },
    build(formats.AttributeSelector),
)

_OBJECT_FORMATS: Mapping[str, Kind] = {
    "screenshot": Object(common.SCREENSHOT_FIELDS, build(formats.Screenshot)),
    # The Python client's spelling of its screenshot_full_page.
    "screenshot@fullPage": Object({}, build(formats.Screenshot, full_page=True)),
    "json": Object(
        {
            "prompt": Field(PROMPT, "prompt"),
            "schema": Field(Schema(), "schema"),
            "checkPromptInjection": Field(Bool(), "check_prompt_injection"),
        },
        build(formats.Json),
    ),
    "changeTracking": Object(
        {
            "modes": Field(Array(choice("git-diff", "json"), 10), "modes"),
            "schema": Field(Schema(), "schema"),
            "prompt": Field(PROMPT, "prompt"),
            "tag": Field(Text(256), "tag"),
        },
        build(formats.ChangeTracking),
    ),
    "attributes": Object(
        {"selectors": need(Array(_ATTRIBUTE_SELECTOR, MAX_SELECTORS), "selectors")},
        build(formats.Attributes),
    ),
    "question": Object(
        {"question": need(_QUESTION, "question")},
        build(formats.Question),
    ),
    "highlights": Object(
        {"query": need(_QUESTION, "query")}, build(formats.Highlights)
    ),
    "query": Object(
        {
            "prompt": need(_QUESTION, "prompt"),
            "mode": Field(choice("freeform", "directQuote"), "mode"),
        },
        build(formats.Query),
    ),
}

FORMATS = Tagged(
    {
        **{
            name: Object({}, build(type(f))) for name, f in common.PLAIN_FORMATS.items()
        },
        **_OBJECT_FORMATS,
    }
)

PARSERS = Tagged(
    {
        "pdf": Object(
            {
                "mode": Field(choice("auto", "fast", "ocr"), "mode"),
                "maxPages": Field(integer(1, MAX_PDF_PAGES), "max_pages"),
                "pages": Field(Bool(), "pages"),
                "pageMarkdown": Field(Bool(), "pages", alias=True),
                "blocks": Field(Bool(), "blocks"),
                "pageMarkers": Field(Bool(), "page_markers"),
            },
            build(PdfParser),
        ),
        "image": Object({}, build(ImageParser)),
    }
)
