"""The XML of sitemaps and feeds as a stream of records, damaged or not.

No entity is ever expanded and nothing is fetched: the document is parsed as the content
of an element of ours, where XML has no document type and so no declarations, after all
references but the five of XML itself were replaced by what they stand for. No tree is
built, so memory does not grow with the file.
"""

from __future__ import annotations

import html
import re
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lxml import etree

from scraper_service.content.html.page_urls import absolute
from scraper_service.content.text.xml_repair import FORBIDDEN, repaired, without_prolog

if TYPE_CHECKING:
    from collections.abc import Mapping

# Of < and &: 40 for each of 50,000 entries; parsed in 2 s.
MAX_MARKS = 2_000_000
MAX_TEXT = 1000  # characters of a title or description
MAX_MESSAGE = 100  # characters of what the parser says is wrong

# How a document begins, maybe after a message of the server.
START = re.compile(
    r"<\?xml[\s?]|(?P<html><!doctype\s+html|<html\b)"
    r"|<(?:[\w.-]+:)?(?:urlset|sitemapindex|rss|feed|rdf|url|sitemap)\b",
    re.IGNORECASE,
)
KINDS = {
    "urlset": "urlset",
    "sitemapindex": "index",
    "rss": "rss",
    "rdf": "rss",  # RSS 1.0
    "feed": "atom",
    "html": "html",
}
# Elements with an address, by lower-case name: what of their children is taken.
RECORDS = {
    "url": {"loc": "address", "lastmod": "time"},
    "sitemap": {"loc": "address", "lastmod": "time"},
    "item": {
        "link": "address",
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
_KIND_OF_RECORD = {"url": "urlset", "sitemap": "index", "item": "rss", "entry": "atom"}
_NEWS = "{http://www.google.com/schemas/sitemap-news/0.9"
# What is taken of other vocabularies, anywhere in a record.
_FOREIGN = {
    (_NEWS, "title"): "title",
    (_NEWS, "publication_date"): "published",
    ("{http://purl.org/dc/elements/1.1/", "date"): "time",
}
_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
_BASE = "{http://www.w3.org/XML/1998/namespace}base"

_HARMLESS = frozenset({"ERR_RESERVED_XML_NAME"})
_WRAPPER = "_"
# Entries of a sitemap, some in a row, as nearly all sites write them: without
# attributes, references and anything else that a parser is needed for.
_PLAIN_RECORD = (
    r"<url>\s*+<loc>([^<>&]*+)</loc>\s*+(?:<lastmod>([^<>&]*+)</lastmod>\s*+)?"
    r"(?:<changefreq>[^<>&]*+</changefreq>\s*+)?"
    r"(?:<priority>[^<>&]*+</priority>\s*+)?</url>\s*+"
)
_PLAIN = re.compile(_PLAIN_RECORD)
# Not possessive as a whole: Python 3.11 up to 3.11.4 gives such a group up where the
# last of its turns fails (gh-106052), and would leave out entries.
_PLAIN_RUN = re.compile(f"(?:{_PLAIN_RECORD}){{8,}}".replace("([", "(?:["))
_MARK = "_run"  # an element of ours
_OURS = re.compile(rf'<{_MARK} n="\d*"?/?>?')
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_W3C_TIME = re.compile(
    r"\d{4}(?:-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)? ?"
    r"(?:Z|[+-]\d\d:?\d\d)?)?)?)?",
    re.ASCII,
)


class Found(NamedTuple):
    """An element with an address, which is absolute if its base was.

    ``record`` is its name, one of :data:`RECORDS`. ``time`` is a W3C time; ``title``
    and ``description`` are plain.
    """

    record: str
    address: str
    time: str | None
    title: str | None
    description: str | None


class SitemapParser:
    """Feed it text; it gives back what was found in it.

    Addresses are relative to ``url`` or to the base of the document. ``fault`` says
    why no more is read, as the end of a sentence; None for no reason.
    """

    def __init__(self, url: str):
        self.fault: str | None = None
        # lxml's parsers keep their targets until cycles are collected: it has to be
        # small, and holds what was found in one piece at most.
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
        self._runs = 0

    @property
    def kind(self) -> str:
        """A value of :data:`KINDS`, ``none`` for what has no address either."""
        records = self._records
        return KINDS.get(records.root) or _KIND_OF_RECORD.get(records.last, "none")

    def feed(self, text: str) -> list[Found]:
        """Parse more. ``text`` ends where :func:`.xml_repair.cut_of` says."""
        self._marks += text.count("<") + text.count("&")
        if self._marks > MAX_MARKS:
            self.fault = f"has over {MAX_MARKS} tags and references"
            return []
        if self._is_new:
            text = f"<{_WRAPPER}>{without_prolog(text)}"
            self._is_new = False
        try:
            self._parse(repaired(text))
        except (etree.LxmlError, ValueError) as exc:
            self.fault = f"is not well-formed XML ({str(exc).strip()[:MAX_MESSAGE]})"
        found, self._records.found = self._records.found, []
        return found

    def _parse(self, text: str) -> None:
        """Parse all but plain entries, which are read where they are nothing else."""
        end = 0
        runs = () if "<![CDATA[" in text else _PLAIN_RUN.finditer(text)
        for run in runs:
            self._parser.feed(text[end : run.start()].encode())
            end = run.end()
            if self._is_between_records():
                self._records.take(_PLAIN.findall(run[0]))
                lines = run[0].count("\n")
                self._parser.feed(b"\n" * lines)  # for its count of them
            else:
                self._parser.feed(run[0].encode())
        self._parser.feed(text[end:].encode())

    def _is_between_records(self) -> bool:
        """Tell whether an element would be seen here, and not as part of a record.

        The parser alone knows of open comments and the like: it is given an element.
        """
        self._runs += 1
        self._records.mark = None
        mark = str(self._runs)
        self._parser.feed(f'<{_MARK} n="{mark}"/>'.encode())
        return self._records.mark == mark

    def close(self) -> None:
        """Look at the whole: :attr:`fault` tells of damage, too."""
        if self._records.depth > 1:
            self.fault = self.fault or "ends early"
        for error in self._parser.feed_error_log:
            # Prefixes that are not declared and declarations amid the text do no harm.
            if error.level_name == "FATAL" and error.type_name not in _HARMLESS:
                message = _OURS.sub("", error.message).strip()[:MAX_MESSAGE]
                self.fault = f"is not well-formed XML (line {error.line}: {message})"
                return


class _Records:
    """The parser's target: follows depth, record and field, and nothing else.

    Names are compared without namespace and case, as sites get both wrong; but a
    child is one of its record only if both have the same namespace.
    """

    def __init__(self, url: str):
        self.base = url
        self.found: list[Found] = []
        self.depth = 0
        self.root = ""
        self.last = ""  # the last record's name
        self.mark: str | None = None  # of the last element of ours outside of records
        self._record = self._field = self._namespace = ""
        self._record_depth = self._field_depth = 0
        self._values: dict[str, str] = {}
        self._text: list[str] = []

    def take(self, plain: list[tuple[str, str]]) -> None:
        """Take entries of a sitemap: the texts of their addresses and times."""
        self.last = "url"
        for given, time in plain:
            text = given.strip()
            if text and (address := absolute(self.base, text)):
                found = Found("url", address, _time(time.strip()), None, None)
                self.found.append(found)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.depth += 1
        if self._field:
            return  # markup inside a value
        namespace, name = _split(tag)
        if not self._record:
            if name == _MARK:
                self.mark = attributes.get("n")
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
        """Return nothing: what was found is taken piece by piece."""

    def _outside(
        self, namespace: str, name: str, attributes: Mapping[str, str]
    ) -> None:
        if name in RECORDS:
            self._record = self.last = name
            self._record_depth, self._namespace = self.depth, namespace
        elif self.depth == 2:
            self.root = self.root or name
        if attributes:
            if self._record and (about := attributes.get(_ABOUT)):
                self._values["guid"] = about
            if base := attributes.get(_BASE):
                self.base = absolute(self.base, base) or self.base

    def _link(self, attributes: Mapping[str, str]) -> None:
        """Take the address of an Atom entry (RFC 4287, 4.2.7.2)."""
        if attributes.get("rel", "alternate") == "alternate":
            self._values.setdefault("address", attributes.get("href", ""))

    def _end_record(self) -> None:
        get, record = self._values.get, self._record
        self._values, self._record = {}, ""
        given = get("address") or get("guid")
        address = absolute(self.base, given) if given else None
        if address:
            time = _time(get("time") or get("published") or "")
            about = _plain(get("title")), _plain(get("description"))
            self.found.append(Found(record, address, time, *about))


@lru_cache(maxsize=256)
def _split(tag: str) -> tuple[str, str]:
    namespace, _, name = tag.rpartition("}")
    return namespace, name.lower()


def _is_no_link(attributes: Mapping[str, str]) -> bool:
    return attributes.get("isPermaLink", "true") != "true"


def _time(text: str) -> str | None:
    """Return a W3C time as it is, one of RSS (RFC 822) as W3C time, None else."""
    if not text:
        return None
    if _W3C_TIME.fullmatch(text):
        return text
    try:
        return parsedate_to_datetime(text[:64]).isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _plain(text: str | None) -> str | None:
    """Return a title without the markup that feeds may have in it."""
    if not text:
        return None
    if "<" in text or "&" in text:
        text = html.unescape(_TAG.sub(" ", text))
    return FORBIDDEN.sub("", " ".join(text.split()))[:MAX_TEXT] or None
