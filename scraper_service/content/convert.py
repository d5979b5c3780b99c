"""Converts a response into its formats; the only entry of the converter processes."""

from __future__ import annotations

import base64
import gc
import json
from collections import Counter
from functools import partial
from http import HTTPStatus
from itertools import islice
from subprocess import SubprocessError
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, evolve, field
from lxml import etree

from scraper_service.content.change_tracking.comparison import draft
from scraper_service.content.decode import (
    Unreadable,
    decode_body,
    escape_sections,
    sniff,
    text_of,
    utf8_of,
)
from scraper_service.content.documents.kinds import (
    archive_kind,
    is_rich_text,
    read_document,
    text_kind,
)
from scraper_service.content.formats.answers import Answers, result_name
from scraper_service.content.formats.links_and_images import (
    attribute_values,
    feed_links,
    images,
    json_feed_links,
    links,
    page_links,
)
from scraper_service.content.formats.privacy import Redaction
from scraper_service.content.formats.tokens import beyond, count_and_cut
from scraper_service.content.html.cleaning import (
    clean,
    clean_html,
    preformatted_html,
    without_frames,
)
from scraper_service.content.html.document import exclude, first_heading, include, parse
from scraper_service.content.html.embedded import (
    find_embedded,
    find_players,
    is_player,
    link_players,
    show_form_values,
)
from scraper_service.content.html.pictures import record_drawings
from scraper_service.content.losses import Losses, is_in
from scraper_service.content.markdown import NATIVE
from scraper_service.content.markdown.writer import CONVERTERS
from scraper_service.content.metadata.dates import utc_time
from scraper_service.content.metadata.evidence import Evidence, parse_refresh, refresh
from scraper_service.content.metadata.facts import canonical, metadata, reading
from scraper_service.content.page_status import (
    EMPTY_SHELL,
    NO_BYTES,
    OK,
    TRUNCATED,
    has_no_text,
    page_verdict,
    payment_verdict,
    shell_reason,
    verdict_warning,
)
from scraper_service.content.passes import json_text
from scraper_service.content.search.duplicates import fingerprint, markdown_blocks
from scraper_service.content.search.index_entry import search_entry
from scraper_service.content.search.words import main_words
from scraper_service.content.stored_pages import (
    Unfinished,
    pack_body,
    split_browser_styles,
    wire_from_content,
)
from scraper_service.content.structured_data.merging import join_names
from scraper_service.items import PageContent, PageError, PageSource
from scraper_service.options.availability import RECOGNISER, can_recognise_text
from scraper_service.options.formats import (
    Attributes,
    ChangeTracking,
    ComparedText,
    Markdown,
)
from scraper_service.options.scrape import ScrapeOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.content.decode import Kind
    from scraper_service.content.html.document import Document

BROKEN_OFF = "The site broke off in the middle of its response."
OF_BYTES = "the format rawBase64 returns its bytes"
OF_IMAGES = (
    f'parsers: ["image"] of /v2 reads the text in it, with the program {RECOGNISER};'
    f" {OF_BYTES}"
)
ERROR_STATUS = 400
NAMES_STAY = "Names of people and places were not redacted: rules do not find them."
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
_JSON = json.JSONEncoder(ensure_ascii=False)
_DECLARED_FORMATS = frozenset({"branding", "menu", "product"})
_FORMATS_WITH_LOSSES = frozenset({"markdown", "html", "chunks", "summary", "json"})
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
        conversion.add_compared_text()
        conversion.redact()
        if not conversion.cut:
            conversion.track()
        conversion.count()
    except Unreadable as exc:
        return PageContent(error=exc.error, warnings=tuple(conversion.warnings))
    return conversion.content()


@define
class _Conversion:
    """The conversion of one response."""

    source: PageSource
    options: ScrapeOptions
    #: Time limit for a PDF or an image, in seconds.
    deadline_s: float | None
    #: One of ``MARKDOWN_CONVERTERS``.
    converter: str
    #: Names of the requested values, each once.
    names: tuple[str, ...] = field(init=False)
    #: JSON texts of the values by name.
    values: dict[str, bytes] = field(factory=dict)
    warnings: list[str] = field(factory=list)
    #: The Markdown among the values, None if only the JSON text is at hand.
    markdown: str | None = None
    #: Why the page is incomplete; empty for a complete page.
    cut: str = ""
    #: Further fields of the :class:`PageContent`.
    facts: dict[str, Any] = field(factory=dict)
    #: True for HTML.
    is_page: bool = False
    #: True for HTML without text outside of embedded documents.
    is_without_text: bool = False
    #: Media of such a page, by kind of loss.
    media: Counter[str] = field(factory=Counter)
    #: Markdown without the content of frames; None for a page without frames.
    compared_text: str | None = None
    #: The parts of the page that no format contains.
    losses: Losses = field(factory=Losses)
    answers: Answers = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.names = tuple(dict.fromkeys(map(result_name, self.options.formats)))
        self.answers = Answers(self.source, self.options, self.add, self.facts)

    def add(self, name: str, make: Callable[[], Any]) -> None:
        """Add one value as JSON.

        A failure becomes a warning, unless no other value was requested.
        """
        try:
            made = make()
            if name == "markdown" and self.source.lead and made.strip():
                made = f"{self.source.lead}\n\n{made}"
            self.values[name] = _as_json(made)
            if name == "markdown":
                self.markdown = made
        except Exception as exc:
            message = f"The format {name} could not be made ({type(exc).__name__})."
            if self.names == (name,):
                raise Unreadable(
                    PageError("SCRAPE_ALL_ENGINES_FAILED", message)
                ) from exc
            self.warnings.append(message)

    def decode(self) -> bytes:
        """Return the decoded body; an incomplete body also adds a warning."""
        source = self.source
        body, error = decode_body(
            source.body, source.content_encodings, source.max_bytes
        )
        if source.is_cut:
            self.cut = BROKEN_OFF
        elif error:
            self.cut = f"The page is not complete: what the site sent {error}."
        if source.is_cut and not body:
            raise Unreadable(PageError("SCRAPE_SITE_ERROR", BROKEN_OFF))
        if self.cut:
            self.warnings.append(self.cut)
            self.losses.add("truncated", self.cut)
        return body

    def note_empty(self) -> None:
        """Give a response without bytes, but for white space, its verdict."""
        if self.source.status >= ERROR_STATUS or self.cut:
            return
        known = dict(self.facts.get("known", {}))
        if known.get("verdict", OK) == OK:
            found = {"verdict": EMPTY_SHELL, "verdict_evidence": NO_BYTES}
            self.facts["known"] = {**known, **found}
            self.warnings.append(str(verdict_warning(found)))

    def content(self) -> PageContent:
        """Return the result of the conversion."""
        warnings = (*self.warnings, *self.answers.warnings)
        if len(self.losses) and not _FORMATS_WITH_LOSSES.isdisjoint(self.names):
            rows = self.losses.as_rows()
            if (redaction := self.redaction) is not None:
                rows = tuple(map(redaction.facts, rows))
            self.facts["losses"] = rows
        if moment := utc_time(self.source.last_modified):
            known = self.facts.get("known", {})
            self.facts["known"] = {**known, "last_modified": moment}
        return PageContent(values=self.values, warnings=warnings, **self.facts)

    def convert(self, body: bytes, kind: Kind, mime: str) -> None:
        """Make all formats from a body of a known kind."""
        if self.cut and kind in {"binary", "pdf"}:
            raise Unreadable(PageError("SCRAPE_SITE_ERROR", self.cut))
        if kind == "binary":
            if (found := archive_kind(body)) and self._file(found, body):
                return
            if mime.startswith("image/") and self.options.reads_images:
                self._picture(body)
                return
            way = OF_IMAGES if mime.startswith("image/") else OF_BYTES
            text = f"The page is a file of type {mime[:100]}, which is not supported"
            error = PageError("SCRAPE_UNSUPPORTED_FILE_ERROR", f"{text}: {way}")
            raise Unreadable(error)
        if kind == "pdf":
            self._pdf(body)
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
        if self.source.find_links and (kind == "xml" or found == "feed"):
            read_links = json_feed_links if kind == "json" else feed_links
            self.facts["found"], self.facts["found_times"] = read_links(
                text, self.source.url, self.source.last_modified
            )
        if kind == "json" and self.options.extracts:
            from scraper_service.content.documents.json_data import parse_document  # noqa: PLC0415  # rare

            self.answers.document_data = parse_document(text)
        if found and self._file(found, body, text):
            return
        if kind in {"json", "xml"}:
            self._text(text, _fence(text, kind))
        else:
            self._text(text, text.strip("\n") if kind == "text" else "")

    def _skip_page_formats(self) -> None:
        """Set the formats that only web pages have to null, with a warning each."""
        for name in self.names:
            if name in _DECLARED_FORMATS:
                self.values[name] = b"null"
                self.warnings.append(f"Only a web page has the format {name}.")

    def add_price(self) -> None:
        """Add the verdict of a response that asks for payment, of any kind."""
        if self.source.status == HTTPStatus.PAYMENT_REQUIRED:
            verdict = payment_verdict(self.source.price_headers)
            self.facts["known"] = {**self.facts.get("known", {}), **verdict}
            self.warnings.append(str(verdict_warning(verdict)))

    def track(self) -> None:
        """Add the draft of change tracking, which a later scrape is compared with."""
        options = self.options.format(ChangeTracking)
        if options is None or "markdown" not in self.values:
            return
        text = self.compared_text
        if text is None:
            text = json.loads(self.values["markdown"])
        self.add(
            "change_tracking", lambda: draft(text, options, self.answers.change_data)
        )

    def add_compared_text(self) -> None:
        """Add the Markdown of the parts of a web page that a monitor compares.

        The page is converted once more, since both conversions change the tree.
        """
        parts = self.options.format(ComparedText)
        if parts is None or not self.is_page or "markdown" not in self.values:
            return
        narrow: dict[str, Any] = {
            "formats": (Markdown(),),
            "include_tags": parts.include or self.options.include_tags,
            "exclude_tags": (*self.options.exclude_tags, *parts.exclude),
            "max_tokens": None,
            "page": None,
        }
        options = evolve(self.options, **narrow)
        source = PageSource(
            url=self.source.url,
            status=self.source.status,
            body=self.source.body,
            content_type=self.source.content_type,
            content_encodings=self.source.content_encodings,
            is_cut=self.source.is_cut,
            max_bytes=self.source.max_bytes,
        )
        content = make_content(source, options, self.deadline_s, self.converter)
        if "markdown" in content.values:
            self.values["compared_text"] = content.values["markdown"]

    def _html(self, text: bytes) -> None:
        self.is_page = True
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
        self.answers.find_injection(document)
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
        self._add_search_entry(evidence.words, "html")
        self.is_without_text = has_no_text(evidence, self.source.status)
        if self.is_without_text:
            self._note_shown(document, verdict)
        if self.source.find_links:
            self.facts["found"] = page_links(document)
            canonical_url = self.facts["canonical"] = canonical(evidence)
            is_variant = canonical_url is not None and canonical_url != self.source.url
            if is_variant or self.source.find_words:
                self.facts["fingerprint"] = fingerprint(evidence.words)
        self._add_attributes(document)
        if not _DECLARED_FORMATS.isdisjoint(self.names):
            self._add_declared_formats(evidence, looks)
        if self.answers.needs_tree or not _TREE_FORMATS.isdisjoint(self.names):
            self.answers.read_raw_tree(document, evidence)
            self._tree_formats(document, is_page=True)
            self._add_media()
        self.warnings += document.warnings

    def _verdict(self, text: bytes, evidence: Evidence) -> dict[str, str]:
        if self.source.status == HTTPStatus.PAYMENT_REQUIRED:
            return {}  # add_price() makes it
        return page_verdict(text, self.source.status, evidence, evidence.words)

    def _add_media(self) -> None:
        """Record the media of a page without text that are no losses yet."""
        stays = () if self.options.remove_base64_images else ("image",)
        for kind, count in self.media.items():
            if kind not in stays and not self.losses.has(kind):
                self.losses.add(kind, MEDIA_NOT_READ, count=count)

    def _note_shown(self, document: Document, verdict: dict[str, str]) -> None:
        """Note what a page without text shows: documents that may be its text, and media."""
        if self.answers.needs_tree or not _FORMATS_WITH_LOSSES.isdisjoint(self.names):
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

    def _add_attributes(self, document: Document) -> None:
        if (format_ := self.options.format(Attributes)) is not None:
            self.add("attributes", partial(self._attributes, document, format_))

    def _attributes(self, document: Document, format_: Attributes) -> Any:
        found = attribute_values(document, format_.selectors)
        empty = (pair for pair in found if not pair["values"])
        named = (f"{pair['selector'][:100]} ({pair['attribute']})" for pair in empty)
        if names := join_names(tuple(named)):
            self.warnings.append(f"No value found by attributes: {names}.")
        return found

    def _add_declared_formats(self, evidence: Evidence, looks: str) -> None:
        """Make the formats that rest on the page's structured data and styles."""
        from scraper_service.content.formats.branding import Declared  # noqa: PLC0415  # rare

        formats = Declared(evidence, self.source.shown_url, looks)
        for name in self.names:
            if name in _DECLARED_FORMATS:
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
            self._add_search_entry(main_words(document), kind)
        if self.source.find_links and "found" not in self.facts:
            self.facts["found"] = page_links(document)
        self._add_attributes(document)
        self.answers.find_injection(document)
        self.answers.read_raw_tree(document)
        self._tree_formats(document, is_page=False)
        is_whole = not (self.options.include_tags or self.options.exclude_tags)
        if draft.text is not None and is_whole and "markdown" in self.names:
            self.add("markdown", lambda: draft.text)
        self.warnings += [*draft.warnings, *document.warnings]
        self.losses.extend(draft.losses)
        self._skip_page_formats()
        return True

    def _tree_formats(self, document: Document, *, is_page: bool) -> None:
        """Make the formats from the tree; only web pages have boilerplate to remove."""
        options = self.options
        only_main = is_page and options.only_main_content and not options.include_tags
        if only_main:  # only converter processes load numpy and the weights
            from scraper_service.content.main_content import reduction  # noqa: PLC0415

            page = reduction.read_declarations(document)
        # Make all URLs absolute first, unless only links are requested: links() does so
        # itself. Selectors may match any URL.
        chooses = bool(options.include_tags or options.exclude_tags)
        is_list = self.names == ("links",) and not self.answers.needs_tree
        clean(document, complete=chooses or not is_list)
        exclude(document, options.exclude_tags)
        if options.include_tags:
            include(document, options.include_tags)
        record_drawings(document)
        players = find_players(document)
        self.answers.extract()
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
        self.answers.read_markdown(self.values.get("markdown"), makers["markdown"])
        self.losses.extend(document.losses)

    def redact(self) -> None:
        """Replace personal data in the texts of the page, if that was asked for."""
        redaction = self.redaction
        if redaction is None:
            return
        self.values = redaction.values(self.values)
        self.markdown = None
        for name in ("known", "other"):
            if name in self.facts:
                self.facts[name] = redaction.facts(self.facts[name])
        if self.facts.get("text"):
            self.facts["text"] = redaction.facts({"": self.facts["text"]})[""]
        if self.compared_text is not None:
            self.compared_text = redaction.facts({"": self.compared_text})[""]
        if self.answers.change_data is not None:
            changes = {"": self.answers.change_data}
            self.answers.change_data = redaction.facts(changes)[""]
        if self.source.find_blocks and "markdown" in self.values:
            self.facts["blocks"] = markdown_blocks(json.loads(self.values["markdown"]))
        self.facts["redacted"] = dict(redaction.counts)
        if redaction.options.entities is None:
            self.warnings.append(NAMES_STAY)

    @property
    def redaction(self) -> Redaction | None:
        """What replaces personal data, None if it may stay."""
        if self.options.redact_pii is None:
            return None
        language = self.facts.get("known", {}).get("language")
        return Redaction(
            self.options.redact_pii, language if isinstance(language, str) else None
        )

    def count(self) -> None:
        """Count the tokens of the Markdown, and add the requested part of it."""
        if "markdown" not in self.values:
            return
        text = self.markdown
        if text is None:
            text = json.loads(self.values["markdown"])
        count, part = count_and_cut(text, self.options)
        self.facts["token_count"] = count
        if part is not None:
            self.values["part"] = part.as_json
            self.facts["chunk"] = part.chunk
            if part.is_beyond:
                self.warnings.append(beyond(part))

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

    def _add_search_entry(self, text: str, kind: str) -> None:
        """Add the page's entry for the team's search index, if requested."""
        if not self.source.find_search:
            return
        known, other = self.facts.get("known", {}), self.facts.get("other", {})
        if (redaction := self.redaction) is not None:
            text = redaction.text(text)
            known, other = redaction.facts(known), redaction.facts(other)
        url = self.source.url

        def make() -> bytes:
            entry = search_entry(url, text, known, other, kind)
            return b"" if entry is None else entry.pack()

        # The caller of a single page does not wait for its entry.
        self.facts["search"] = make if self.source.finds_search_later else make()

    def _text(self, text: str, as_markdown: str) -> None:
        self._add_search_entry(text, "")
        page = preformatted_html(text) if text.strip() else ""
        values = {
            "markdown": as_markdown,
            "html": page,
            "raw_html": text,
            "links": [],
            "images": [],
        }
        self._plain(values)
        self.answers.read_plain(as_markdown, lambda: page)

    def _picture(self, body: bytes) -> None:
        """Make all formats from the text that OCR recognises in an image."""
        from scraper_service.content.pdf import ocr  # noqa: PLC0415  # rare

        try:
            text = ocr.recognise_text(body, self.deadline_s).strip()
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
        self.losses.extend(result.losses)
        self.facts.update(
            known=result.known,
            other=result.other,
            found=tuple(u for u in result.links if u.startswith("http")),
            num_pages=result.num_pages,
            total_pages=result.total_pages,
        )
        self._add_search_entry(result.markdown, "pdf")
        self.answers.read_plain(result.markdown, lambda: result.html)

    def _plain(self, values: dict[str, Any]) -> None:
        attributes = self.options.format(Attributes)
        if attributes is not None:
            pairs = [asdict(pair) | {"values": []} for pair in attributes.selectors]
            values = {**values, "attributes": pairs}
        for name in self.names:
            if name in values:
                self.add(name, partial(values.__getitem__, name))
        self._skip_page_formats()


def _as_json(value: Any) -> bytes:
    """Return a value as JSON in UTF-8."""
    if type(value) is str:
        return json_text(value)
    if type(value) is list and set(map(type, value)) == {str}:  # such as links
        return b"[%s]" % b", ".join(map(json_text, value))
    return _JSON.encode(value).encode()


def _fence(text: str, language: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.strip()}\n{fence}" if text.strip() else ""
