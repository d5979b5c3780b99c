"""Conversion as a function call, without service, reactor or network.

The public name is ``from scraper_service import convert``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.errors import ConversionFailed, InvalidOptions, Issue
from scraper_service.items import UPLOADED, PageSource
from scraper_service.options import catalogue
from scraper_service.options.formats import BYTES, ROW_OF
from scraper_service.options.jobs import PageOptions
from scraper_service.options.spider_arguments import scrape_options
from scraper_service.options.urls import caller_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from parsel import Selector

    from scraper_service.items import PageContent

# Formats that need only the bytes of a page.
FORMATS = {each: row.tag for each, row in ROW_OF.items() if BYTES not in row.not_of}
DEFAULT_FORMATS = ("markdown", "links")
OPTIONS = frozenset(row.attribute for row in catalogue.SCRAPE if row.is_of_library)


@frozen(kw_only=True)
class Converted:
    """A document in the requested formats. Other formats are None."""

    #: CommonMark with GFM tables; links and images have absolute URLs.
    markdown: str | None = None
    #: The cleaned HTML.
    html: str | None = None
    #: Absolute URLs of http(s) and mailto in document order, each once. They are those of
    #: the main content, unless ``only_main_content`` is False.
    links: list[str] | None = None
    #: Absolute http(s) URLs of images, in the same way.
    images: list[str] | None = None
    #: The data for ``schema`` and ``prompt``, extracted by rules. Missing values are None.
    data: Any = None
    #: Facts such as ``title``, ``author`` and ``published_time``, and the meta tags.
    metadata: Mapping[str, Any]
    #: Every requested format by its name, also formats without an attribute here.
    values: Mapping[str, Any]
    #: Sentences about missing parts and missing data.
    warnings: tuple[str, ...] = ()

    @cached_property
    def selector(self) -> Selector:
        """A parsel selector, as ``response.selector`` of Scrapy.

        It selects in the format ``raw_html`` if that was requested, else in ``html``. Raises
        :exc:`LookupError` if neither was.
        """
        from parsel import Selector  # noqa: PLC0415  # few callers select

        text = self.values.get("raw_html", self.html)
        if text is None:
            raise LookupError("selector needs the format html or raw_html")
        return Selector(text=text, type="html")


def convert(
    content: bytes | str,
    *,
    url: str = "",
    content_type: str = "",
    formats: Sequence[str | Mapping[str, Any]] = DEFAULT_FORMATS,
    schema: Mapping[str, Any] | None = None,
    prompt: str | None = None,
    **options: Any,
) -> Converted:
    """Convert a document: HTML, PDF, Office files and the other kinds of the service.

    ``content`` is the body as received, or HTML as text. ``url`` makes relative links
    absolute. Without ``url``, ``links`` and ``images`` omit relative links.
    ``content_type`` is the ``Content-Type`` header. It helps if the bytes alone are
    ambiguous. ``formats`` are names as in the API, in snake_case or camelCase, or
    mappings with ``type``. ``schema``, ``prompt`` or both add the format ``json``.
    ``options`` are ``only_main_content`` (True), ``include_tags``, ``exclude_tags`` (CSS
    selectors), ``remove_base64_images`` (True) and ``parsers``.

    The call blocks for some milliseconds, longer for a long PDF. A malicious document
    may take minutes or gigabytes. The service converts in processes with limits; this
    function has no limits.

    Raises :exc:`InvalidOptions` for an argument of another type, and for an option that is
    unknown or has no effect here. Raises :exc:`ConversionFailed` for a document that cannot be read.
    """
    if not isinstance(content, (bytes, bytearray, memoryview, str)):
        raise _invalid(f"must be bytes or str, got {_text_of(content)}", "content")
    if not isinstance(content_type, str):
        raise _invalid(f"must be a str, got {_text_of(content_type)}", "content_type")
    page = conversion_options(url, formats, schema, prompt, options)
    if isinstance(content, str):
        content = content.encode("utf-8", "replace")
        content_type = "text/html; charset=utf-8"
    source = PageSource(
        url=page.url, status=200, body=bytes(content), content_type=content_type
    )
    # Imported here, since the add-ons of crawls import this module, and convert nothing.
    from scraper_service.content.convert import make_content  # noqa: PLC0415

    return make_result(make_content(source, page.scrape))


def conversion_options(
    url: str,
    formats: Sequence[str | Mapping[str, Any]],
    schema: Mapping[str, Any] | None,
    prompt: str | None,
    options: Mapping[str, Any],
) -> PageOptions:
    """Return the options of a call to :func:`convert`.

    Raises :exc:`InvalidOptions`.
    """
    if unknown := sorted(options.keys() - OPTIONS):
        known = ", ".join(sorted({*OPTIONS, "formats", "prompt", "schema"}))
        text = f"is no option; options are {known}"
        raise _invalid(text, unknown[0], code="unrecognized_keys")
    if schema is not None and not isinstance(schema, Mapping):
        raise _invalid(
            f"must be a JSON Schema as a mapping, got {_text_of(schema)}", "schema"
        )
    if not isinstance(url, str):
        raise _invalid(f"must be a str, got {_text_of(url)}", "url")
    if isinstance(formats, (str, Mapping)) or not isinstance(formats, Iterable):
        raise _invalid(
            f"must be a list such as ['markdown'], got {_text_of(formats)}", "formats"
        )
    try:
        base = caller_url(url) if url else UPLOADED
    except ValueError as error:
        raise _invalid(str(error), "url") from None
    wanted = [dict(x) if isinstance(x, Mapping) else x for x in formats]
    if schema is not None or prompt is not None:
        schema = None if schema is None else dict(schema)
        wanted.append({"type": "json", "schema": schema, "prompt": prompt})
    page = PageOptions(url=base, scrape=scrape_options({"formats": wanted, **options}))
    for index, kind in enumerate(page.scrape.formats):
        if type(kind) not in FORMATS:
            named = ", ".join(FORMATS.values())
            text = f"{kind.type} needs the service; without it: {named}"
            raise _invalid(text, "formats", index)
    return page


def _text_of(value: Any) -> str:
    try:
        return f"{value!r:.60}"
    except Exception:  # a deep value, a long number, or an object of the caller
        return f"a {type(value).__name__}"


def _invalid(text: str, *path: str | int, code: str = "custom") -> InvalidOptions:
    return InvalidOptions([Issue(code, path, text)])


def make_result(found: PageContent) -> Converted:
    """Return the result of a conversion.

    Raises :exc:`ConversionFailed` for a failed page.
    """
    if found.error is not None:
        raise ConversionFailed(found.error.code, found.error.message)
    values = {name: json.loads(text) for name, text in found.values.items()}
    if "part" in values:
        values["markdown"] = values.pop("part")
    metadata: dict[str, Any] = {**found.other, **found.known}
    for name in ("num_pages", "total_pages", "token_count", "chunk", "redacted"):
        if (fact := getattr(found, name)) is not None:
            metadata[name] = fact
    if found.losses:
        metadata["losses"] = list(found.losses)
    by_rule = (text for texts in found.rule_warnings.values() for text in texts)
    return Converted(
        markdown=values.get("markdown"),
        html=values.get("html"),
        links=values.get("links"),
        images=values.get("images"),
        data=values.get("json"),
        metadata=metadata,
        values=values,
        warnings=(*found.warnings, *by_rule),
    )
