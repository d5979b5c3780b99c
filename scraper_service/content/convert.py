"""The one entry of the converter pool: an answer in, its formats out."""

from __future__ import annotations

import base64
import gc
import json
from contextlib import contextmanager
from functools import partial
from subprocess import SubprocessError
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field
from lxml import etree

from scraper_service.content.answering import Answering, result_name
from scraper_service.content.change_tracking import draft
from scraper_service.content.decode import Unreadable, decode_body, text_of, utf8_of
from scraper_service.content.detect_type import sniff
from scraper_service.content.documents.kinds import (
    archive_kind,
    is_rich_text,
    read_document,
    text_kind,
)
from scraper_service.content.html.browser_styles import without_looks
from scraper_service.content.html.cleaned_html import cleaned_html, preformatted
from scraper_service.content.html.cleaning import clean, without_frames
from scraper_service.content.html.copies import (
    drop_copies,
    drop_repeated_pictures,
    drop_twins,
)
from scraper_service.content.html.document import exclude, include, parse
from scraper_service.content.html.logos import drop_logos
from scraper_service.content.html.toolbars import drop_toolbars
from scraper_service.content.images import attribute_values, images
from scraper_service.content.links import feed_links, found_links, links
from scraper_service.content.markdown.converters import MARKDOWN_CONVERTERS, NATIVE
from scraper_service.content.metadata import (
    Evidence,
    canonical,
    metadata,
    parse_refresh,
    reading,
    refresh,
)
from scraper_service.content.page_status.page_facts import judged, remark
from scraper_service.content.page_status.shell import shell_reason
from scraper_service.content.page_status.verdicts import TRUNCATED
from scraper_service.content.text.fingerprint import fingerprint
from scraper_service.content.text.markdown_blocks import markdown_blocks
from scraper_service.content.text.words import main_words
from scraper_service.content.wire import wire_from_content
from scraper_service.items import PageContent, PageError, PageSource
from scraper_service.options.available import can_recognise_text
from scraper_service.options.formats import Attributes, ChangeTracking
from scraper_service.options.scrape import ScrapeOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scraper_service.content.html.document import Document

BROKEN_OFF = "The site broke off in the middle of its answer."
LEAST_COMPARED = 30  # words of a page that may repeat another one
_DECLARED = frozenset({"branding", "menu", "product"})
_OF_THE_TREE = frozenset({"markdown", "html", "links", "images"})


def render(
    source: PageSource,
    options: ScrapeOptions,
    deadline_s: float | None = None,
    converter: str = NATIVE,
) -> tuple[bytes, dict[str, bytes]]:
    """Return :func:`make_content` as plain bytes, which travel between processes."""
    return wire_from_content(make_content(source, options, deadline_s, converter))


def prepare() -> None:
    """Load what the first page of a converter process would wait for."""
    from scraper_service.content.main_content.model import model  # noqa: PLC0415

    model()


def make_content(
    source: PageSource,
    options: ScrapeOptions,
    deadline_s: float | None = None,
    converter: str = NATIVE,
) -> PageContent:
    """Convert one answer into the formats asked for.

    ``deadline_s`` are the seconds a PDF may take, ``converter`` is one of
    ``MARKDOWN_CONVERTERS``. Nothing is raised for a bad document: ``error`` says what
    is wrong with it.
    """
    making = _Making(source, options, deadline_s, converter)
    try:
        body = making.decoded()
        if "raw_base64" in making.names:
            making.add("raw_base64", lambda: base64.b64encode(body).decode())
            return making.content()
        if source.refresh:
            making.facts["refresh"] = parse_refresh(source.refresh, source.url)
        kind, mime = sniff(body, source.content_type)
        making.convert(body, kind, mime)
        if not making.cut:
            making.track()
    except Unreadable as exc:
        return PageContent(error=exc.error, warnings=tuple(making.warnings))
    return making.content()


@define
class _Making:
    """One answer on its way; ``facts`` are the fields of the content besides values."""

    source: PageSource
    options: ScrapeOptions
    deadline_s: float | None
    converter: str
    names: tuple[str, ...] = field(init=False)
    values: dict[str, bytes] = field(factory=dict)
    warnings: list[str] = field(factory=list)
    cut: str = ""  # the sentence why the page is not whole, empty if it is
    facts: dict[str, Any] = field(factory=dict)
    compared_text: str | None = None  # the Markdown without frames, where there are any
    answering: Answering = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.names = tuple(dict.fromkeys(map(result_name, self.options.formats)))
        self.answering = Answering(self.source, self.options, self.add, self.facts)

    def add(self, name: str, make: Callable[[], Any]) -> None:
        """Make one format; a failure costs this format only, unless it stands alone."""
        try:
            self.values[name] = json.dumps(make(), ensure_ascii=False).encode()
        except Exception as exc:
            message = f"The format {name} could not be made ({type(exc).__name__})."
            if self.names == (name,):
                raise Unreadable(
                    PageError("SCRAPE_ALL_ENGINES_FAILED", message)
                ) from exc
            self.warnings.append(message)

    def decoded(self) -> bytes:
        """Return the body; a part of it with a warning, if the rest is not to be had."""
        source = self.source
        body, fault = decode_body(
            source.body, source.content_encodings, source.max_bytes
        )
        if source.is_cut:
            self.cut = BROKEN_OFF
        elif fault:
            self.cut = f"The page is not complete: what the site sent {fault}."
        if source.is_cut and not body:
            raise Unreadable(PageError("SCRAPE_SITE_ERROR", BROKEN_OFF))
        if self.cut:
            self.warnings.append(self.cut)
        return body

    def content(self) -> PageContent:
        """Return what has been made."""
        return PageContent(
            values=self.values, warnings=tuple(self.warnings), **self.facts
        )

    def convert(self, body: bytes, kind: str, mime: str) -> None:
        """Make all formats according to what the answer is."""
        if self.cut and kind in {"binary", "pdf"}:
            raise Unreadable(PageError("SCRAPE_SITE_ERROR", self.cut))
        if kind == "binary":
            if (found := archive_kind(body)) and self._document(found, body):
                return
            if mime.startswith("image/") and self.options.reads_images:
                self._picture(body)
                return
            raise Unreadable(
                PageError(
                    "SCRAPE_UNSUPPORTED_FILE_ERROR",
                    f"The page is a file of type {mime[:100]}, which is not supported",
                )
            )
        if kind == "pdf":
            self._pdf(body)
            return
        if kind == "html" and not is_rich_text(body):
            with _collector_paused():
                self._html(utf8_of(body, self.source.content_type))
            return
        text = text_of(body, self.source.content_type, xml=kind == "xml")
        if kind == "xml" and self.source.find_links:
            self.facts["found"] = feed_links(text, self.source.url)
        found = text_kind(text, kind, mime, self.source.url)
        if found and self._document(found, body, text):
            return
        if kind == "json":
            self._text(text, _fenced(text, "json"))
        elif kind == "xml":
            self._text(text, _fenced(text, "xml"))
        else:
            self._text(text, text.strip("\n") if kind == "text" else "")

    def _excuse(self) -> None:
        """Say why a file has none of the formats that only web pages have."""
        for name in self.names:
            if name in _DECLARED:
                self.values[name] = b"null"
                self.warnings.append(f"Only a web page has the format {name}.")

    def track(self) -> None:
        """Make what a later scrape is compared with, of what has been made."""
        options = self.options.format(ChangeTracking)
        if options is None or "markdown" not in self.values:
            return
        text = self.compared_text
        if text is None:
            text = json.loads(self.values["markdown"])
        self.add(
            "change_tracking", lambda: draft(text, options, self.answering.change_data)
        )

    def _html(self, text: bytes) -> None:
        text, looks = without_looks(text)
        if "raw_html" in self.names:
            self.add("raw_html", text.decode)
        try:
            document = parse(text, self.source.url)
        except (etree.LxmlError, ValueError) as exc:
            message = f"The page cannot be parsed ({type(exc).__name__})"
            raise Unreadable(PageError("SCRAPE_ALL_ENGINES_FAILED", message)) from exc
        if self.source.find_shell:
            self.facts["shell"] = shell_reason(document)
        self.answering.suspect(document)
        evidence = Evidence(document)
        known, other = metadata(evidence)
        opinion = judged(text, self.source.status, evidence, evidence.words)
        if self.cut:
            opinion = {"verdict": TRUNCATED, "verdict_evidence": self.cut}
        elif doubt := remark(opinion):
            self.warnings.append(doubt)
        self.facts.update(known={**known, **opinion}, other=other)
        self._keep(evidence.words, "html")
        if asked := refresh(evidence):
            self.facts["refresh"] = asked
        if self.source.find_links:
            self.facts["found"] = found_links(document)
            named = self.facts["canonical"] = canonical(evidence)
            is_variant = named is not None and named != self.source.url
            if is_variant or self.source.find_words:
                self.facts["fingerprint"] = fingerprint(evidence.words)
        attributes = self.options.format(Attributes)
        if attributes is not None:
            selectors = attributes.selectors
            self.add("attributes", lambda: attribute_values(document, selectors))
        if not _DECLARED.isdisjoint(self.names):
            self._declared(evidence, looks)
        if self.answering.is_wanted or not _OF_THE_TREE.isdisjoint(self.names):
            self.answering.look(document, evidence)
            self._of_the_tree(document, is_page=True)
        self.warnings += document.warnings

    def _declared(self, evidence: Evidence, looks: str) -> None:
        """Make what rests on the page's own declarations and styles."""
        from scraper_service.content import declared_formats  # noqa: PLC0415  # rare

        making = declared_formats.Declared(evidence, self.source.shown_url, looks)
        for name in self.names:
            if name in _DECLARED:
                self.add(name, partial(making.make, name))
        self.warnings += making.warnings

    def _document(self, kind: str, body: bytes, text: str = "") -> bool:
        """Make all formats of a file of ``kind``; False if it is none."""
        draft = read_document(
            kind,
            body,
            text,
            self.source.url,
            embed_images=not self.options.remove_base64_images,
        )
        if draft is None:
            return False
        if "raw_html" in self.names:
            raw = draft.html if draft.raw is None else draft.raw
            self.add("raw_html", lambda: raw)
        document = parse(draft.html, self.source.url)
        self.facts.update(known=dict(draft.known), other=dict(draft.other))
        if self.source.find_search:
            self._keep(main_words(document), kind)
        if self.source.find_links and "found" not in self.facts:
            self.facts["found"] = found_links(document)
        attributes = self.options.format(Attributes)
        if attributes is not None:
            selectors = attributes.selectors
            self.add("attributes", lambda: attribute_values(document, selectors))
        self.answering.suspect(document)
        self.answering.look(document)
        self._of_the_tree(document, is_page=False)
        is_whole = not (self.options.include_tags or self.options.exclude_tags)
        if draft.text is not None and is_whole and "markdown" in self.names:
            self.add("markdown", lambda: draft.text)
        self.warnings += [*draft.warnings, *document.warnings]
        self._excuse()
        return True

    def _of_the_tree(self, document: Document, *, is_page: bool) -> None:
        """Make what comes of the tree; only a web page has chrome to leave out."""
        options = self.options
        wants_main = is_page and options.only_main_content and not options.include_tags
        if wants_main:  # only converter processes load numpy and the weights
            from scraper_service.content import main_content  # noqa: PLC0415

            page = main_content.declared(document)
        # Links alone are completed as they are listed; selectors may ask for any address.
        chooses = bool(options.include_tags or options.exclude_tags)
        is_list = self.names == ("links",) and not self.answering.is_wanted
        clean(document, complete=chooses or not is_list)
        exclude(document, options.exclude_tags)
        if options.include_tags:
            include(document, options.include_tags)
        self.answering.extract()
        if wants_main:
            drop_copies(document.body)
            main_content.keep_main_content(document, page)
            document.is_main = True
            drop_twins(document.body)
            drop_repeated_pictures(document.body)
            drop_toolbars(document.body)
            drop_logos(document.body, document.base)
        # The order matters: Markdown is made last, for what it may do to the tree.
        makers: dict[str, Callable[[], Any]] = {
            "html": lambda: cleaned_html(document),
            "links": lambda: links(document),
            "images": lambda: images(document),
            "markdown": partial(self._markdown, document),
        }
        for name, make in makers.items():
            if name in self.names:
                self.add(name, make)
        self.answering.read(self.values.get("markdown"), makers["markdown"])

    def _markdown(self, document: Document) -> str:
        convert = MARKDOWN_CONVERTERS[self.converter]
        base64_too = self.options.remove_base64_images
        if self.options.format(ChangeTracking) and (bare := without_frames(document)):
            self.compared_text = convert(bare, remove_base64_images=base64_too)
        markdown = convert(document, remove_base64_images=base64_too)
        self.facts["known"].update(reading(markdown))
        if self.source.find_blocks:
            self.facts["blocks"] = markdown_blocks(markdown)
            if len(markdown.split()) >= LEAST_COMPARED:
                self.facts["text_print"] = fingerprint(markdown)
        return markdown

    def _keep(self, text: str, kind: str) -> None:
        """Make what the index of the team keeps of a page, if it is to be there."""
        if not self.source.find_search:
            return
        # Only converter processes load numpy.
        from scraper_service.content.text.search_entry import search_entry  # noqa: PLC0415

        known, other = self.facts.get("known", {}), self.facts.get("other", {})
        entry = search_entry(self.source.url, text, known, other, kind)
        if entry is not None:
            self.facts["search"] = entry.packed()

    def _text(self, text: str, as_markdown: str) -> None:
        self._keep(text, "")
        page = preformatted(text) if text.strip() else ""
        values = {
            "markdown": as_markdown,
            "html": page,
            "raw_html": text,
            "links": [],
            "images": [],
        }
        self._plain(values)
        self.answering.read_plain(as_markdown, lambda: page)

    def _picture(self, body: bytes) -> None:
        """Take the text that is recognised in an image."""
        from scraper_service.content.pdf import ocr  # noqa: PLC0415  # rare

        try:
            text = ocr.recognised(body, self.deadline_s).strip()
        except (OSError, SubprocessError) as exc:
            message = "No text could be recognised in the image"
            if not can_recognise_text():
                message = "Text in images needs the program tesseract on the server"
            error = PageError("SCRAPE_UNSUPPORTED_FILE_ERROR", message)
            raise Unreadable(error) from exc
        if not text:
            self.warnings.append("There is no text in the image.")
        self._text(text, text)

    def _pdf(self, body: bytes) -> None:
        from scraper_service.content.pdf.content import pdf_content  # noqa: PLC0415  # rare, big

        parser = self.options.pdf_parser
        if parser is None:
            encoded = base64.b64encode(body).decode()
            self._plain(dict.fromkeys(("markdown", "html", "raw_html"), encoded))
            return
        result = pdf_content(body, parser, self.deadline_s)
        page = result.html if {"html", "raw_html"} & set(self.names) else ""
        values = {
            "markdown": result.markdown,
            "html": page,
            "raw_html": page,
            "links": result.links,
            "images": [],
        }
        self._plain(values)
        for name, wanted in (("pages", parser.pages), ("blocks", parser.blocks)):
            if wanted:
                self.add(name, partial(getattr, result, name))
        self.warnings += result.warnings
        self.facts.update(
            known=result.known,
            other=result.other,
            found=tuple(u for u in result.links if u.startswith("http")),
            num_pages=result.num_pages,
            total_pages=result.total_pages,
        )
        self._keep(result.markdown, "pdf")
        self.answering.read_plain(result.markdown, lambda: result.html)

    def _plain(self, values: dict[str, Any]) -> None:
        attributes = self.options.format(Attributes)
        if attributes is not None:
            pairs = [asdict(pair) | {"values": []} for pair in attributes.selectors]
            values = {**values, "attributes": pairs}
        for name in self.names:
            if name in values:
                self.add(name, partial(values.__getitem__, name))
        self._excuse()


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Have no search for unused objects while a page is made.

    It would walk the elements of the page again and again, all of which are in use.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _fenced(text: str, language: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.strip()}\n{fence}" if text.strip() else ""
