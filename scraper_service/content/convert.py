"""Converts a response into its formats; the only entry of the converter processes.

Web pages, and files that become HTML, have a tree: all of their formats are made of it. What
other documents need stands in ``conversion.py``.
"""

from __future__ import annotations

import base64
import gc
from collections import Counter
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field
from lxml import etree

from scraper_service.content.conversion import (
    DECLARED_FORMATS,
    FORMATS_WITH_LOSSES,
    Conversion,
)
from scraper_service.content.decode import (
    Unreadable,
    escape_sections,
    is_rich_text,
    sniff,
    text_of,
    utf8_of,
)
from scraper_service.content.documents.files import (
    archive_kind,
    read_document,
    text_kind,
)
from scraper_service.content.formats.links_and_images import (
    LINKS_LEFT_OUT,
    feed_links,
    has_links,
    images,
    links,
    page_links,
)
from scraper_service.content.formats.summary_and_tokens import markdown_blocks
from scraper_service.content.html.cleaning import clean, clean_html, without_frames
from scraper_service.content.html.document import exclude, first_heading, include, parse
from scraper_service.content.html.embedded import (
    find_embedded,
    find_players,
    is_player,
    link_players,
    show_form_values,
)
from scraper_service.content.html.pictures import record_drawings
from scraper_service.content.losses import is_in
from scraper_service.content.markdown import NATIVE
from scraper_service.content.markdown.writer import CONVERTERS
from scraper_service.content.metadata.evidence import Evidence, parse_refresh, refresh
from scraper_service.content.metadata.facts import canonical, metadata, reading
from scraper_service.content.page_status import (
    EMPTY_SHELL,
    OK,
    TRUNCATED,
    has_no_text,
    page_verdict,
    shell_reason,
    verdict_warning,
)
from scraper_service.content.stored_pages import (
    Unfinished,
    pack_body,
    split_browser_styles,
    wire_from_content,
)
from scraper_service.content.words import fingerprint, main_words
from scraper_service.items import PageContent, PageError, PageSource
from scraper_service.options.formats import ChangeTracking
from scraper_service.options.limits import RECOGNISER

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.content.decode import Kind
    from scraper_service.content.html.document import Document
    from scraper_service.options.scrape import ScrapeOptions


OF_BYTES = "the format rawBase64 returns its bytes"
OF_IMAGES = (
    f'parsers: ["image"] of /v2 reads the text in it, with the program {RECOGNISER};'
    f" {OF_BYTES}"
)
NOT_READ = "The document is not part of the page: a scrape of its URL returns its text."
MEDIA_NOT_READ = "The page has no text, and this is no text either."
MAX_MEDIA = 1000  # elements of a kind that are counted
_MEDIA_LOSSES = {
    "audio": "audio",
    "canvas": "chart",
    "iframe": "video",
    "img": "image",
    "video": "video",
}
LEAST_COMPARED = 30  # words; shorter pages are not compared as duplicates
_TREE_FORMATS = frozenset({"markdown", "html", "links", "images"})


def render(
    source: PageSource,
    options: ScrapeOptions,
    deadline_s: float | None = None,
    converter: str = NATIVE,
) -> tuple[dict[str, Any], dict[str, bytes], tuple[bytes, ...]] | Unfinished:
    """Return the result of :func:`make_content` for another process.

    It is unfinished if the entry for the search index comes later.
    """
    content = make_content(source, options, deadline_s, converter)
    find_search = content.search
    if callable(find_search):
        content = evolve(content, search=b"")
    if source.check_links is not None:
        links = source.check_links(
            content.found, source.link_depth, source.url, content.found_times
        )
        content = evolve(content, found=(), found_times={}, links=links)
    if source.pack_body and content.error is None:
        content = evolve(content, packed=pack_body(source))
    wire = wire_from_content(content)
    return Unfinished(wire, find_search) if callable(find_search) else wire


def prepare() -> None:
    """Load the main content model, so that a process's first page need not wait."""
    from scraper_service.content.main_content.model import model  # noqa: PLC0415

    model()


def make_content(
    source: PageSource,
    options: ScrapeOptions,
    deadline_s: float | None = None,
    converter: str = NATIVE,
) -> PageContent:
    """Convert a response into the requested formats.

    ``deadline_s`` is the time limit for a PDF or an image, in seconds. ``converter`` is
    one of ``MARKDOWN_CONVERTERS``. A bad document raises nothing: the result has
    ``error`` instead of values.

    The garbage collector is paused while a page is converted.
    """
    was_enabled = gc.isenabled()
    try:
        return _make_content(source, options, deadline_s, converter)
    finally:  # the elements of the page are freed by now
        if was_enabled:
            gc.enable()


def _make_content(
    source: PageSource,
    options: ScrapeOptions,
    deadline_s: float | None,
    converter: str,
) -> PageContent:
    conversion = _Conversion(source, options, deadline_s, converter)
    try:
        body = conversion.decode()
        if "raw_base64" in conversion.names:
            conversion.add("raw_base64", lambda: base64.b64encode(body).decode())
            return conversion.content()
        if source.refresh:
            conversion.facts["refresh"] = parse_refresh(source.refresh, source.url)
        kind, mime = sniff(body, source.content_type)
        conversion.convert(body, kind, mime)
        conversion.add_price()
        if not body or body.isspace():
            conversion.note_empty()
        conversion.redact()
        if not conversion.cut:
            conversion.track()
        conversion.count()
    except Unreadable as exc:
        return PageContent(error=exc.error, warnings=tuple(conversion.warnings))
    return conversion.content()


@define
class _Conversion(Conversion):
    """The conversion of one response of any kind; a web page and many files have a tree."""

    #: True for HTML without text outside of embedded documents.
    is_without_text: bool = False
    #: Media of such a page, by kind of loss.
    media: Counter[str] = field(factory=Counter)

    def convert(self, body: bytes, kind: Kind, mime: str) -> None:
        """Make all formats from a body of a known kind."""
        if self.cut and kind in {"binary", "pdf"}:
            raise Unreadable(PageError("SCRAPE_SITE_ERROR", self.cut))
        if kind == "binary":
            if (found := archive_kind(body)) and self._file(found, body):
                return
            if mime.startswith("image/") and self.options.reads_images:
                self.convert_picture(body)
                return
            way = OF_IMAGES if mime.startswith("image/") else OF_BYTES
            text = f"The page is a file of type {mime[:100]}, which is not supported"
            error = PageError("SCRAPE_UNSUPPORTED_FILE_ERROR", f"{text}: {way}")
            raise Unreadable(error)
        if kind == "pdf":
            self.convert_pdf(body)
            return
        if kind == "html" and not is_rich_text(body):
            # A collection would visit the elements of the page, and all are in use.
            gc.disable()
            self._html(utf8_of(body, self.source.content_type))
            return
        self._plain_file(body, kind, mime)

    def _plain_file(self, body: bytes, kind: Kind, mime: str) -> None:
        """Make all formats of a text: XML, JSON, a table, Markdown and so on."""
        text = text_of(body, self.source.content_type, kind)
        found = text_kind(text, kind, mime, self.source.url)
        if self.source.find_links and kind == "xml":
            self.facts["found"], self.facts["found_times"] = feed_links(
                text, self.source.url, self.source.last_modified
            )
        if kind == "json" and self.options.extracts:
            from scraper_service.content.documents.json_data import parse_document  # noqa: PLC0415  # rare

            self.document_data = parse_document(text)
        if found and self._file(found, body, text):
            return
        if kind in {"json", "xml"}:
            self.convert_text(text, _fence(text, kind))
        else:
            self.convert_text(text, text.strip("\n") if kind == "text" else "")

    def _html(self, text: bytes) -> None:
        text, looks = split_browser_styles(text)
        if "raw_html" in self.names:
            self.add("raw_html", text.decode)
        if b"<![CDATA[" in text and "xhtml+xml" in self.source.content_type.lower():
            text = escape_sections(text)
        try:
            document = parse(text, self.source.url)
        except (etree.LxmlError, ValueError) as exc:
            message = f"The page cannot be parsed ({type(exc).__name__})"
            raise Unreadable(PageError("SCRAPE_ALL_ENGINES_FAILED", message)) from exc
        document.embedded = find_embedded(document)
        self.find_injection(document)
        evidence = Evidence(document)
        known, other = metadata(evidence)
        verdict = self._verdict(text, evidence)
        if redirect := refresh(evidence, self.source.url):
            self.facts["refresh"] = redirect
        if self.source.find_shell:
            name, redirect = verdict.get("verdict", OK), self.facts.get("refresh")
            self.facts["shell"] = shell_reason(
                document, name, self.source.url, redirect
            )
        if self.cut:
            verdict = {"verdict": TRUNCATED, "verdict_evidence": self.cut}
        elif warning := verdict_warning(verdict):
            self.warnings.append(warning)
        self.facts.update(known={**known, **verdict}, other=other)
        self.add_search_entry(evidence.words, "html")
        self.is_without_text = has_no_text(evidence, self.source.status)
        if self.is_without_text:
            self._note_shown(document, verdict)
        if self.source.find_links:
            self.facts["found"] = page_links(document)
            canonical_url = self.facts["canonical"] = canonical(evidence)
            is_variant = canonical_url is not None and canonical_url != self.source.url
            if is_variant or self.source.find_words:
                self.facts["fingerprint"] = fingerprint(evidence.words)
        self.add_attributes(document)
        if not DECLARED_FORMATS.isdisjoint(self.names):
            self._add_declared_formats(evidence, looks)
        if self.needs_tree or not _TREE_FORMATS.isdisjoint(self.names):
            self.read_raw_tree(document, evidence)
            self._tree_formats(document, is_page=True)
            self._add_media()
        self.warnings += document.warnings

    def _verdict(self, text: bytes, evidence: Evidence) -> dict[str, str]:
        if self.source.status == HTTPStatus.PAYMENT_REQUIRED:
            return {}  # add_price() makes it
        return page_verdict(text, self.source.status, evidence)

    def _add_media(self) -> None:
        """Record the media of a page without text that are no losses yet."""
        stays = () if self.options.remove_base64_images else ("image",)
        for kind, count in self.media.items():
            if kind not in stays and not self.losses.has(kind):
                self.losses.add(kind, MEDIA_NOT_READ, count=count)

    def _note_shown(self, document: Document, verdict: dict[str, str]) -> None:
        """Note what a page without text shows: documents that may be its text, and media."""
        if self.needs_tree or not FORMATS_WITH_LOSSES.isdisjoint(self.names):
            found = document.embedded
            targets = tuple((x.target, x.is_file) for x in found if x.target)
            self.facts["embedded"] = targets
        if verdict.get("verdict") != EMPTY_SHELL:
            return
        shown = islice(document.body.iter(*_MEDIA_LOSSES), MAX_MEDIA)
        self.media = Counter(
            _MEDIA_LOSSES[each.tag]
            for each in shown
            if each.tag != "iframe" or is_player(each.get("src", "").strip())
        )

    def _add_embedded(self, document: Document) -> None:
        """Record the embedded documents whose text stands nowhere.

        On pages with text these are files without a link; frames have a URL in ``links``.
        """
        linked = set(links(evolve(document, embedded=[])))
        for each in document.embedded:
            if each.target not in linked and (each.is_file or self.is_without_text):
                document.losses.add("embeddedDocument", NOT_READ, url=each.target)

    def _add_declared_formats(self, evidence: Evidence, looks: str) -> None:
        """Make the formats that depend on the page's structured data and styles."""
        from scraper_service.content.formats.branding import Declared  # noqa: PLC0415  # rare

        formats = Declared(evidence, self.source.shown_url, looks)
        for name in self.names:
            if name in DECLARED_FORMATS:
                self.add(name, partial(formats.make, name))
        self.warnings += formats.warnings

    def _file(self, kind: str, body: bytes, text: str = "") -> bool:
        """Make all formats of a file of ``kind``; return False if it is no such file."""
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
        known = dict(draft.known)
        if not known.get("title") and (heading := first_heading(document)):
            known["title"] = heading
        self.facts.update(known=known, other=dict(draft.other))
        if self.source.find_search:
            self.add_search_entry(main_words(document), kind)
        if self.source.find_links and "found" not in self.facts:
            self.facts["found"] = page_links(document)
        self.add_attributes(document)
        self.find_injection(document)
        self.read_raw_tree(document)
        self._tree_formats(document, is_page=False)
        is_whole = not (self.options.include_tags or self.options.exclude_tags)
        if draft.text is not None and is_whole and "markdown" in self.names:
            self.add("markdown", lambda: draft.text)
        self.warnings += [*draft.warnings, *document.warnings]
        self.losses.extend(draft.losses)
        self.skip_page_formats()
        return True

    def _tree_formats(self, document: Document, *, is_page: bool) -> None:
        """Make the formats from the tree; only web pages have boilerplate to remove."""
        options = self.options
        only_main = is_page and options.only_main_content and not options.include_tags
        if only_main:  # only converter processes load numpy and the weights
            from scraper_service.content.main_content import model, reduction  # noqa: PLC0415

            page = model.read_declarations(document)
        # Make all URLs absolute first, unless only links are requested: links() does so
        # itself. Selectors may match any URL.
        chooses = bool(options.include_tags or options.exclude_tags)
        is_list = self.names == ("links",) and not self.needs_tree
        clean(document, complete=chooses or not is_list)
        exclude(document, options.exclude_tags)
        if options.include_tags:
            include(document, options.include_tags)
        record_drawings(document)
        players = find_players(document)
        self.extract()
        had_links = only_main and "links" in self.names and has_links(document)
        if only_main:
            reduction.keep_main_content(document, page)
        document.losses.settle(document.root)
        if document.embedded:
            root = document.root
            document.embedded = [x for x in document.embedded if is_in(x.anchor, root)]
            self._add_embedded(document)
        link_players(document, players)
        # Markdown comes last, because its conversion may change the tree.
        makers: dict[str, Callable[[], Any]] = {
            "html": lambda: clean_html(document),
            "links": lambda: links(document),
            "images": lambda: images(document),
            "markdown": partial(self._markdown, document),
        }
        for name, make in makers.items():
            if name in self.names:
                self.add(name, make)
        if only_main and self.values.get("links") == b"[]" and had_links:
            self.warnings.append(LINKS_LEFT_OUT)
        self.read_markdown(self.values.get("markdown"), makers["markdown"])
        self.losses.extend(document.losses)

    def _markdown(self, document: Document) -> str:
        convert = CONVERTERS[self.converter]
        show_form_values(document)
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


def _fence(text: str, language: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.strip()}\n{fence}" if text.strip() else ""
