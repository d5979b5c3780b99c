"""The conversion of one response: its values, its facts, and what is common to all kinds.

Documents without a tree are converted here: texts, pictures and PDF files. The rules for
extracted data and summaries run in the same pass as the other formats.
"""

from __future__ import annotations

import base64
import json
from functools import partial
from http import HTTPStatus
from subprocess import SubprocessError
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field

from scraper_service.content.decode import Unreadable, decode_body
from scraper_service.content.formats.change_tracking import draft
from scraper_service.content.formats.links_and_images import attribute_values
from scraper_service.content.formats.privacy import Redaction
from scraper_service.content.formats.summary_and_tokens import (
    beyond,
    count_and_cut,
    markdown_blocks,
)
from scraper_service.content.html.cleaning import preformatted_html
from scraper_service.content.html.document import Document, parse
from scraper_service.content.losses import Losses
from scraper_service.content.metadata.dates import utc_time
from scraper_service.content.page_status import (
    BLOCK_PAGE,
    EMPTY_SHELL,
    NO_BYTES,
    OK,
    verdict_warning,
)
from scraper_service.content.search import search_entry
from scraper_service.content.structured_data.merging import join_names, not_found
from scraper_service.content.words import instruction_in
from scraper_service.items import PageContent, PageError, PageSource
from scraper_service.options.formats import (
    Attributes,
    ChangeTracking,
    Json,
    Summary,
    result_name,
)
from scraper_service.options.limits import can_recognise_text
from scraper_service.options.scrape import ScrapeOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.content.metadata.evidence import Evidence
    from scraper_service.content.structured_data.page import ExtractionPage


BROKEN_OFF = "The site broke off in the middle of its response."
ERROR_STATUS = 400
MAX_PRICE = 200  # characters
NAMES_STAY = "Names of people and places were not redacted: rules do not find them."
_JSON = json.JSONEncoder(ensure_ascii=False)
#: Formats that only web pages have.
DECLARED_FORMATS = frozenset({"branding", "menu", "product"})
#: Formats whose results come with the parts of a page that they lack.
FORMATS_WITH_LOSSES = frozenset({"markdown", "html", "chunks", "summary", "json"})


@define
class Conversion:
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
    #: Markdown without the content of frames; None for a page without frames.
    compared_text: str | None = None
    #: The parts of the page that no format contains.
    losses: Losses = field(factory=Losses)
    #: Data that change tracking compares in its mode ``json``.
    change_data: Any = None
    #: The data of a JSON document, None for other documents.
    document_data: Any = None
    #: The page for extraction, an ``ExtractionPage``; None before it is read.
    _page: Any = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.names = tuple(dict.fromkeys(map(result_name, self.options.formats)))

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

    def content(self) -> PageContent:
        """Return the result of the conversion."""
        if len(self.losses) and not FORMATS_WITH_LOSSES.isdisjoint(self.names):
            rows = self.losses.as_rows()
            if (redaction := self.redaction) is not None:
                rows = tuple(map(redaction.facts, rows))
            self.facts["losses"] = rows
        if moment := utc_time(self.source.last_modified):
            known = self.facts.get("known", {})
            self.facts["known"] = {**known, "last_modified": moment}
        return PageContent(
            values=self.values, warnings=tuple(self.warnings), **self.facts
        )

    def note_empty(self) -> None:
        """Give a response without bytes, but for white space, its verdict."""
        if self.source.status >= ERROR_STATUS or self.cut:
            return
        known = dict(self.facts.get("known", {}))
        if known.get("verdict", OK) == OK:
            found = {"verdict": EMPTY_SHELL, "verdict_evidence": NO_BYTES}
            self.facts["known"] = {**known, **found}
            self.warnings.append(str(verdict_warning(found)))

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
        self.add("change_tracking", lambda: draft(text, options, self.change_data))

    def redact(self) -> None:
        """Replace personal data in the texts of the page, with ``redactPII``."""
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
        if self.change_data is not None:
            changes = {"": self.change_data}
            self.change_data = redaction.facts(changes)[""]
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

    def add_search_entry(self, text: str, kind: str) -> None:
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

    def add_attributes(self, document: Document) -> None:
        if (format_ := self.options.format(Attributes)) is not None:
            self.add("attributes", partial(self._attributes, document, format_))

    def _attributes(self, document: Document, format_: Attributes) -> Any:
        found = attribute_values(document, format_.selectors)
        empty = (pair for pair in found if not pair["values"])
        named = (f"{pair['selector'][:100]} ({pair['attribute']})" for pair in empty)
        if names := join_names(tuple(named)):
            self.warnings.append(f"No value found by attributes: {names}.")
        return found

    def skip_page_formats(self) -> None:
        """Set the formats that only web pages have to null, with a warning each."""
        for name in self.names:
            if name in DECLARED_FORMATS:
                self.values[name] = b"null"
                self.warnings.append(f"Only a web page has the format {name}.")

    def _plain(self, values: dict[str, Any]) -> None:
        attributes = self.options.format(Attributes)
        if attributes is not None:
            pairs = [asdict(pair) | {"values": []} for pair in attributes.selectors]
            values = {**values, "attributes": pairs}
        for name in self.names:
            if name in values:
                self.add(name, partial(values.__getitem__, name))
        self.skip_page_formats()

    def convert_text(self, text: str, as_markdown: str) -> None:
        self.add_search_entry(text, "")
        page = preformatted_html(text) if text.strip() else ""
        values = {
            "markdown": as_markdown,
            "html": page,
            "raw_html": text,
            "links": [],
            "images": [],
        }
        self._plain(values)
        self.read_plain(as_markdown, lambda: page)

    def convert_picture(self, body: bytes) -> None:
        """Make all formats from the text that OCR recognises in an image."""
        from scraper_service.content.pdf.content import recognise_text  # noqa: PLC0415  # rare, big

        try:
            text = recognise_text(body, self.deadline_s).strip()
        except (OSError, SubprocessError) as exc:
            message = "No text could be recognised in the image"
            if not can_recognise_text():
                message = "Text in images needs the program tesseract on the server"
            error = PageError("SCRAPE_UNSUPPORTED_FILE_ERROR", message)
            raise Unreadable(error) from exc
        if not text:
            self.warnings.append("There is no text in the image.")
        self.convert_text(text, text)

    def convert_pdf(self, body: bytes) -> None:
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
        self.add_search_entry(result.markdown, "pdf")
        self.read_plain(result.markdown, lambda: result.html)

    # -- answers to the questions about the page -------------------------------------

    @property
    def needs_tree(self) -> bool:
        """Whether any answer needs the tree."""
        options = self.options
        return options.extracts or options.selects or self._reads_text

    @property
    def _has_summary(self) -> bool:
        return self.options.format(Summary) is not None

    def _json_formats(self) -> list[Json]:
        return [each for each in self.options.formats if isinstance(each, Json)]

    @property
    def _reads_text(self) -> bool:
        return self._has_summary or self.source.find_text > 0

    def find_injection(self, document: Document) -> None:
        """Search the whole page, hidden text included, for prompt injection."""
        if self.options.checks_injection:
            texts = document.root.xpath(
                "//text()[not(parent::script or parent::style)] | //@alt | //@title"
            )
            self.facts["injection"] = instruction_in(" ".join(texts))

    def read_raw_tree(
        self, document: Document, evidence: Evidence | None = None
    ) -> None:
        """Read the parts of the tree that cleaning removes, and what selectors name."""
        if self.options.selects:
            self._select(document)
        if self.options.extracts:
            from scraper_service.content.structured_data.page import (  # noqa: PLC0415  # rare, big
                ExtractionPage,
            )

            known = self.facts.get("known", {})
            self._page = ExtractionPage(document, evidence, known)

    def extract(self) -> None:
        """Extract data from the cleaned tree, before its reduction to main content."""
        if self._page is None:
            return
        self.facts["answered_by"] = "rules"
        for item in self._json_formats():
            if item.selectors is None:
                self.add(item.key, partial(self._data, self._page, item))
        changes = self.options.format(ChangeTracking)
        if changes and "json" in changes.modes and changes.selectors is None:
            self.change_data = self._data(self._page, changes)

    def _select(self, document: Document) -> None:
        """Add the data that selectors name, from the whole page."""
        self.facts["answered_by"] = "selectors"
        for item in self._json_formats():
            if item.selectors is not None:
                self.add(item.key, partial(self._select_data, document, item))
        changes = self.options.format(ChangeTracking)
        if changes and changes.selectors is not None:
            self.change_data = self._select_data(document, changes)

    def _select_data(self, document: Document, item: Json | ChangeTracking) -> Any:
        from scraper_service.content.structured_data.selectors import (  # noqa: PLC0415  # rare
            read_selectors,
        )

        assert item.selectors is not None
        data, warnings = read_selectors(document, item.selectors, item.schema)
        self.warnings += warnings
        return data

    def _data(self, page: ExtractionPage, item: Json | ChangeTracking) -> Any:
        from scraper_service.content.structured_data.extract import extract  # noqa: PLC0415  # as above

        found = None
        if self.document_data is not None:
            from scraper_service.content.documents.json_data import extract_json  # noqa: PLC0415  # rare

            found = extract_json(
                self.document_data, page.base_url, item.schema, item.prompt
            )
        found = found or extract(page, item.schema, item.prompt)
        warnings = list(found.warnings)
        if found.missing:
            warnings.append(not_found(found.missing))
        if found.unfound:
            warnings.append(f"Not found: {join_names(found.unfound)}.")
        self.facts.setdefault("rule_warnings", {})[result_name(item)] = tuple(warnings)
        return found.data

    def read_markdown(self, value: bytes | None, make: Callable[[], str]) -> None:
        """Add the summary and the text for a model.

        ``value`` is the JSON text of the Markdown; ``make`` makes the Markdown if
        ``value`` is None.
        """
        if self._reads_text:
            self._add_text_answers(json.loads(value) if value is not None else make())

    def read_plain(self, markdown: str, make_html: Callable[[], str]) -> None:
        """Make all answers for a document that is not a web page."""
        if self.options.extracts or self.options.selects:
            self.read_raw_tree(parse(make_html(), self.source.url))
            self.extract()
        if self.options.checks_injection:
            self.facts["injection"] = instruction_in(markdown)
        if self._reads_text:
            self._add_text_answers(markdown)

    def _add_text_answers(self, markdown: str) -> None:
        self.facts["text"] = markdown[: self.source.find_text]
        if self._has_summary:
            self.add("summary", partial(self._summary, markdown))
            self.facts["answered_by"] = "rules"

    def _summary(self, markdown: str) -> str:
        from scraper_service.content.formats.summary_and_tokens import summary  # noqa: PLC0415  # loads numpy

        known = self.facts.get("known", {})
        title, description = (str(known.get(k, "")) for k in ("title", "description"))
        return summary(markdown, title, description)


def _as_json(value: Any) -> bytes:
    return _JSON.encode(value).encode()


def payment_verdict(headers: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return the verdict of a response with the status 402, as metadata.

    The evidence quotes the first of ``headers``, which names the price.
    """
    why = "The site answered 402: it asks for payment."
    for name, value in headers[:1]:
        price = " ".join(_price(value).split())[:MAX_PRICE]
        why = f'{why} Its header {name} says "{price}".'
    return {"verdict": BLOCK_PAGE, "verdict_evidence": why}


def _price(value: str) -> str:
    """Return a price as its header says it; x402 encodes it in base64."""
    try:
        offer = json.loads(base64.b64decode(value, validate=True))["accepts"][0]
        amount = offer.get("amount") or offer["maxAmountRequired"]
        asset = (offer.get("extra") or {}).get("name") or offer.get("asset")
        return f"{amount} of {asset} on {offer.get('network')}"
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return value
