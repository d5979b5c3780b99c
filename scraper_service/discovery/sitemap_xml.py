"""Parses the XML of sitemaps and feeds, also damaged XML, into a stream of records.

Entities are neither expanded nor fetched. The parser gets the document as the content of a
wrapper element: XML allows no document type there, so no declarations. Before parsing, all
references except the five of XML are replaced by their text. The parser builds no tree, so
memory does not grow with the file.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache
from html.entities import html5
from typing import TYPE_CHECKING, NamedTuple

from lxml import etree

from scraper_service.content.metadata.dates import w3c_time
from scraper_service.content.page_urls import absolute

if TYPE_CHECKING:
    from collections.abc import Mapping

_DECLARATION = re.compile(r"\s*<\?xml.*?\?>", re.DOTALL | re.IGNORECASE)
_DOCTYPE = re.compile(r"<!DOCTYPE", re.IGNORECASE)
_END_OF_DOCTYPE = re.compile(r"[^\[>]*(?:\[.*?\]\s*)?>", re.DOTALL)
_REFERENCE = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|&(?!(?:amp|lt|gt|quot|apos);)(#?\w{1,32};)?", re.DOTALL
)
FORBIDDEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
# The characters < and &: 40 for each of 50,000 entries, parsed in 2 s.
MAX_MARKS = 2_000_000
MAX_TEXT = 1000  # characters of a title or description
MAX_MESSAGE = 100  # characters of a parser message
# The start of a document, which may follow a message of the server.
START = re.compile(
    r"<\?xml[\s?]|(?P<html><!doctype\s+html|<html\b)"
    r"|<(?:[\w.-]+:)?(?:urlset|sitemapindex|rss|feed|rdf|url|sitemap)\b",
    re.IGNORECASE,
)
ROOTS = frozenset({"urlset", "sitemapindex", "rss", "rdf", "feed"})  # rdf: RSS 1.0
# The elements with a URL, by lower-case name, and the children that are read.
RECORDS = {
    "url": {"loc": "target", "lastmod": "time"},
    "sitemap": {"loc": "target", "lastmod": "time"},
    "item": {
        "link": "target",
        "guid": "guid",
        "title": "title",
        "description": "description",
        "pubdate": "time",
    },
    "entry": {
        "link": "link",
        "title": "title",
        "summary": "description",
        "updated": "time",
        "published": "published",
    },
}
_NEWS = "{http://www.google.com/schemas/sitemap-news/0.9"
# Elements of other vocabularies, read anywhere in a record.
_FOREIGN = {
    (_NEWS, "title"): "title",
    (_NEWS, "publication_date"): "published",
    ("{http://purl.org/dc/elements/1.1/", "date"): "time",
}
_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_HARMLESS = frozenset({"ERR_RESERVED_XML_NAME"})
_WRAPPER = "_"
# Entries of a sitemap as nearly all sites write them. They have no attributes and no
# references, so they need no parser.
_PLAIN_RECORD = (
    r"<url>\s*+<loc>([^<>&]*+)</loc>\s*+(?:<lastmod>([^<>&]*+)</lastmod>\s*+)?"
    r"(?:<changefreq>[^<>&]*+</changefreq>\s*+)?"
    r"(?:<priority>[^<>&]*+</priority>\s*+)?</url>\s*+"
)
_PLAIN = re.compile(_PLAIN_RECORD)
# Not possessive as a whole: Python 3.11.0 to 3.11.4 gives up such a group if its last
# repetition fails (gh-106052), which would lose entries.
_PLAIN_RUN = re.compile(f"(?:{_PLAIN_RECORD}){{8,}}".replace("([", "(?:["))
_MARK = "_run"  # the name of the marker element
_OURS = re.compile(rf"<{_MARK}/?>?")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")


def cut_of(text: str) -> int:
    """Return how many characters of ``text`` can be parsed before more text comes.

    The cut keeps references and CDATA sections whole for :func:`repair_text`.
    """
    end = text.rfind(">") + 1
    section = text.rfind("<![CDATA[", 0, end)
    return section if section > text.rfind("]]>", 0, end) else end


def without_prolog(text: str) -> str:
    """Remove XML declaration and document type; line numbers stay the same."""
    if part := _DECLARATION.match(text):
        text = "\n" * part[0].count("\n") + text[part.end() :]
    begin = _DOCTYPE.search(text)
    if begin and (part := _END_OF_DOCTYPE.match(text, begin.end())):
        lines = "\n" * part[0].count("\n")
        text = text[: begin.start()] + lines + text[part.end() :]
    return text


def repair_text(text: str) -> str:
    """Replace references unknown to XML, and remove forbidden characters."""
    text = FORBIDDEN.sub("", text)
    return _REFERENCE.sub(_replacement, text) if "&" in text else text


def _replacement(match: re.Match[str]) -> str:
    if match[0][0] == "<":
        return match[0]
    if not match[1]:
        return "&amp;"  # unescaped, as in a URL with a query
    return _resolve_reference(match[0])


@lru_cache(maxsize=256)
def _resolve_reference(reference: str) -> str:
    name = reference[1:]
    text = html.unescape(reference) if name[0] == "#" else html5.get(name, reference)
    return html.escape(FORBIDDEN.sub("", text))


class SitemapEntry(NamedTuple):
    """One URL of a sitemap or feed."""

    #: Absolute if the base URL is.
    url: str
    #: A W3C date or time (ISO 8601).
    lastmod: str | None = None
    #: Plain text; only in news sitemaps and feeds.
    title: str | None = None
    #: Plain text; only in news sitemaps and feeds.
    description: str | None = None


class SitemapParser:
    """A parser that returns the entries of each piece of text it is fed.

    Relative URLs are completed by ``url`` or the base of the document.
    """

    def __init__(self, url: str):
        #: Why parsing stopped, as the end of a sentence; or None.
        self.error: str | None = None
        # lxml's parsers keep their targets until cycles are collected. The target is
        # small: it holds the records of one piece at most.
        self._records = _Records(url)
        self._parser = etree.XMLParser(
            target=self._records,
            encoding="utf-8",
            recover=True,
            resolve_entities=False,
            load_dtd=False,
            no_network=True,
            huge_tree=False,
        )
        self._is_new = True
        self._marks = 0

    @property
    def root(self) -> str:
        """The name of the root in lower case; empty before the root."""
        return self._records.root

    def feed(self, text: str) -> list[tuple[str, SitemapEntry]]:
        """Parse the next piece, which must end at a cut of :func:`.xml_repair.cut_of`.

        Return the new entries with their keys of :data:`RECORDS`.
        """
        self._marks += text.count("<") + text.count("&")
        if self._marks > MAX_MARKS:
            self.error = f"has over {MAX_MARKS} tags and references"
            return []
        if self._is_new:
            text = f"<{_WRAPPER}>{without_prolog(text)}"
            self._is_new = False
        try:
            self._parse(repair_text(text))
        except (etree.LxmlError, ValueError) as exc:
            self.error = f"is not well-formed XML ({str(exc).strip()[:MAX_MESSAGE]})"
        found, self._records.found = self._records.found, []
        return found

    def _parse(self, text: str) -> None:
        """Parse ``text``; runs of plain entries between records bypass the parser."""
        end = 0
        runs = () if "<![CDATA[" in text else _PLAIN_RUN.finditer(text)
        for run in runs:
            self._parser.feed(text[end : run.start()].encode())
            end = run.end()
            if self._find_marker():
                self._records.take(_PLAIN.findall(run[0]))
                lines = run[0].count("\n")
                self._parser.feed(b"\n" * lines)  # keeps the parser's line numbers
            else:
                self._parser.feed(run[0].encode())
        self._parser.feed(text[end:].encode())

    def _find_marker(self) -> bool:
        """Feed the parser a marker element. Return True if the parser has seen it.

        Then the parser is outside of records. An open comment hides the marker.
        """
        self._records.is_marked = False
        self._parser.feed(f"<{_MARK}/>".encode())
        return self._records.is_marked

    def close(self) -> None:
        """End parsing and set :attr:`error` if the document is damaged."""
        if self._records.depth > 1:
            self.error = self.error or "ends early"
        for error in self._parser.feed_error_log:
            # Undeclared prefixes and XML declarations inside the text are harmless.
            if error.level_name == "FATAL" and error.type_name not in _HARMLESS:
                message = _OURS.sub("", error.message).strip()[:MAX_MESSAGE]
                self.error = f"is not well-formed XML (line {error.line}: {message})"
                return


class _Records:
    """The target of the parser, which tracks the depth, the record and the field.

    Names are compared without namespace and case, since sites get both wrong. A child
    belongs to its record only if its namespace is the same or empty.
    """

    def __init__(self, url: str):
        self.base = url
        self.found: list[tuple[str, SitemapEntry]] = []
        self.depth = 0
        self.root = ""
        self.is_marked = False  # a marker came outside of records
        self._record = self._field = self._namespace = ""
        self._record_depth = self._field_depth = 0
        self._values: dict[str, str] = {}
        self._text: list[str] = []

    def take(self, plain: list[tuple[str, str]]) -> None:
        """Add plain entries, given as the texts of ``loc`` and ``lastmod``."""
        for given, time in plain:
            text = given.strip()
            if text and (url := absolute(self.base, text)):
                self.found.append(("url", SitemapEntry(url, w3c_time(time.strip()))))

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.depth += 1
        if self._field:
            return  # markup inside a value
        namespace, name = _split(tag)
        if not self._record:
            if name == _MARK:
                self.is_marked = True
                return
            self._outside(namespace, name, attributes)
            return
        wanted = _FOREIGN.get((namespace, name))
        is_child = self.depth == self._record_depth + 1
        if is_child and not wanted and namespace in {self._namespace, ""}:
            wanted = RECORDS[self._record].get(name)
        if wanted == "link":
            self._link(attributes)
        elif wanted and not (wanted == "guid" and _is_no_link(attributes)):
            self._field, self._field_depth = wanted, self.depth

    def end(self, _tag: str) -> None:
        if self._field:
            if self.depth == self._field_depth:
                self._values.setdefault(self._field, "".join(self._text).strip())
                self._text.clear()
                self._field = ""
        elif self._record and self.depth == self._record_depth:
            self._end_record()
        self.depth -= 1

    def data(self, text: str) -> None:
        if self._field:
            self._text.append(text)

    def close(self) -> None:
        """Do nothing: the records are taken after each piece."""

    def _outside(
        self, namespace: str, name: str, attributes: Mapping[str, str]
    ) -> None:
        if name in RECORDS:
            self._record = name
            self._record_depth, self._namespace = self.depth, namespace
        elif self.depth == 2:
            self.root = self.root or name
        if attributes:
            if self._record and (about := attributes.get(_ABOUT)):
                self._values["guid"] = about
            if base := attributes.get(_BASE):
                self.base = absolute(self.base, base) or self.base

    def _link(self, attributes: Mapping[str, str]) -> None:
        """Store the URL of an Atom entry (RFC 4287, 4.2.7.2)."""
        if attributes.get("rel", "alternate") == "alternate":
            self._values.setdefault("target", attributes.get("href", ""))

    def _end_record(self) -> None:
        get, record = self._values.get, self._record
        self._values, self._record = {}, ""
        given = get("target") or get("guid")
        if given and (url := absolute(self.base, given)):
            time = w3c_time(get("time") or get("published") or "")
            about = _plain(get("title")), _plain(get("description"))
            self.found.append((record, SitemapEntry(url, time, *about)))


@lru_cache(maxsize=256)
def _split(tag: str) -> tuple[str, str]:
    namespace, _, name = tag.rpartition("}")
    return namespace, name.lower()


def _is_no_link(attributes: Mapping[str, str]) -> bool:
    return attributes.get("isPermaLink", "true") != "true"


def _plain(text: str | None) -> str | None:
    """Return a title or description without markup."""
    if not text:
        return None
    if "<" in text or "&" in text:
        text = html.unescape(_TAG.sub(" ", text))
    return FORBIDDEN.sub("", " ".join(text.split()))[:MAX_TEXT] or None
