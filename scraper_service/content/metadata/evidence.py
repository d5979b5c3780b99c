"""Collects the sources of a page's metadata: meta elements, links, headings and JSON-LD.

One walk of the tree finds them. The language of a page is declared or detected. Also parses
meta refreshes, which redirect to another URL.
"""

from __future__ import annotations

import html
import json
import re
from collections import deque
from functools import cached_property
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any

from scraper_service.content.metadata.marks import Marks
from scraper_service.content.page_urls import absolute, has_host, is_web
from scraper_service.content.passes import elements, texts_in
from scraper_service.content.words import main_words
from scraper_service.items import MetaRefresh

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.html.document import Document

MAX_SCRIPTS = 30  # with JSON-LD
MAX_SCRIPT = 1_000_000  # characters
MAX_DATA = 2_000_000  # characters of all that are read
MAX_NODES = 500

NodeT = dict[str, Any]

# Types of subjects, best first; a type matches by its ending.
_SUBJECTS = (
    "Article",
    "Posting",
    "Report",
    "Question",
    "Recipe",
    "Review",
    "HowTo",
    "VideoObject",
    "PodcastEpisode",
    "Course",
    "Book",
    "Event",
    "CreativeWork",
    "WebPage",
    "FAQPage",
    "QAPage",
    "CollectionPage",
)
_NESTED = ("@graph", "mainEntity", "mainEntityOfPage", "hasPart", "itemReviewed")
_WORDS = re.compile(r"[^\W_]+")
# A text of JSON, or what JSON does not allow: comments, marks around the whole, a comma
# before a bracket, a semicolon at the end. A text or comment without an end goes to the
# end of all, as the search would begin again inside it.
_NOT_JSON = re.compile(
    r"(\"(?:[^\"\\]++|\\.)*+(?:\"|\\?\Z))|//[^\r\n]*+|/\*(?:.*?\*/|.*)|<!--[^{]{0,200}?-->"
    r"|<!--|-->|<!\[CDATA\[|\]\]>|,(?=\s*+[}\]])|;\s*+\Z",
    re.DOTALL,
)
_ESCAPE = re.compile(r"(\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4}))|\\")
MAX_LENIENT = 100_000  # characters of a script that is no strict JSON


def parse_json(text: str) -> Any:
    """Parse a script as JSON; None if it has no data.

    Invalid JSON of at most :data:`MAX_LENIENT` characters is read leniently: with
    comments, superfluous commas, wrong escapes, character references, and as a list of
    several values.
    """
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        pass
    if len(text) > MAX_LENIENT:
        return None
    if '"' not in text and "&" in text:
        text = html.unescape(text)
    text = _NOT_JSON.sub(
        lambda match: _ESCAPE.sub(lambda m: m[1] or "", match[1] or ""), text
    ).strip()
    decoder = json.JSONDecoder(strict=False)
    found: list[Any] = []
    try:
        while text and len(found) < MAX_SCRIPTS:
            value, end = decoder.raw_decode(text)
            found.append(value)
            text = text[end:].lstrip()
    except (ValueError, RecursionError):
        return None
    return found[0] if len(found) == 1 else found or None


def text_of(value: Any) -> str:
    """Return a value as text: a node's ``name`` or ``@value``, a list's first item."""
    if isinstance(value, list):
        value = value[0] if value else ""
    if isinstance(value, dict):
        value = value.get("name") or value.get("@value") or ""
        return text_of(value) if isinstance(value, list) else text_of(str(value))
    return " ".join(str(value).split()) if isinstance(value, (str, int)) else ""


def fold_name(name: str) -> str:
    """Return a name for comparison: without case, punctuation and spaces."""
    return "".join(_WORDS.findall(name.lower()))


def _nodes(data: Any) -> Iterator[NodeT]:
    waiting, count = deque([data]), 0
    while waiting and count < MAX_NODES:
        item = waiting.popleft()
        if isinstance(item, list):
            waiting.extendleft(reversed(item[:MAX_NODES]))
        elif isinstance(item, dict):
            count += 1
            yield item
            waiting += [item[name] for name in _NESTED if name in item]


def _types(node: NodeT) -> list[str]:
    kinds = node.get("@type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return [kind for kind in kinds if isinstance(kind, str)]


def _rank(node: NodeT) -> int:
    kinds = _types(node)
    return next(
        (
            rank
            for rank, ending in enumerate(_SUBJECTS)
            if any(kind.endswith(ending) for kind in kinds)
        ),
        len(_SUBJECTS),
    )


# -- all sources -----------------------------------------------------------------------

MAX_METAS = 1000
MAX_VALUE = 20_000  # characters
MAX_HEADINGS = 10

_UNREAD = ("style", "script", "template")


class Evidence:
    """The ``<meta>`` values, links, headings and structured data of a page.

    ``metas`` are pairs of the name as written and the value; ``links`` are attributes.
    All are in document order. Create this before the page is cleaned.
    """

    def __init__(self, document: Document):
        self.document = document
        self.root: Any = document.root
        parts = document.parts
        self.links = parts.links[:MAX_METAS]
        self.scripts = parts.scripts
        self.metas: list[tuple[str, str]] = []
        self._by_name: dict[str, list[str]] = {}
        self._titles = parts.titles
        self._headings = parts.headings[:MAX_HEADINGS]
        self.meta_attributes = parts.metas[:MAX_METAS]
        for attributes in self.meta_attributes:
            self._take(attributes)

    def _take(self, meta: dict[str, str]) -> None:
        value = meta.get("content")
        if value is None:
            return
        value = value.strip()[:MAX_VALUE]
        key = meta.get("name") or meta.get("property") or meta.get("itemprop")
        if key and (key := key.strip()):
            self.metas.append((key, value))
            self._by_name.setdefault(key.lower(), []).append(value)
        elif key := meta.get("http-equiv"):
            self._by_name.setdefault(f"http-equiv {key.strip().lower()}", []).append(
                value
            )

    def all(self, name: str) -> list[str]:
        """Return the non-empty values of ``name`` (lower case)."""
        return [value for value in self._by_name.get(name, ()) if value]

    def first(self, *names: str) -> str:
        """Return the first value of the first of ``names`` with a value; else empty."""
        return next((value for name in names for value in self.all(name)), "")

    def related_links(self, relation: str) -> list[dict[str, str]]:
        """Return the links with a relation."""
        return self._related.get(relation, [])

    @cached_property
    def _related(self) -> dict[str, list[dict[str, str]]]:
        found: dict[str, list[dict[str, str]]] = {}
        for link in self.links:
            for relation in {*link.get("rel", "").lower().split()}:
                found.setdefault(relation, []).append(link)
        return found

    @cached_property
    def title(self) -> str:
        """The text of the first non-empty ``<title>`` outside of SVG drawings."""
        for title in self._titles:
            if next(title.iterancestors("svg"), None) is None and (
                text := _text(title)
            ):
                return text
        return ""

    @property
    def headings(self) -> list[str]:
        """The texts of the first ``<h1>`` elements."""
        return [text for text in map(_text, self._headings) if text]

    @cached_property
    def site_names(self) -> frozenset[str]:
        """Names of the site and its publisher, as :func:`fold_name` returns them."""
        names = [*self.all("og:site_name"), *self.all("application-name")]
        names += [text_of(n.get("publisher")) for n in self.subjects]
        return frozenset(fold_name(name) for name in names) - {""}

    @cached_property
    def json_ld(self) -> list[Any]:
        """The data of the scripts of type JSON-LD; None for invalid JSON."""
        found = [x.text for x in self.scripts if "ld+json" in x.get("type", "").lower()]
        fitting = [x for x in found[:MAX_SCRIPTS] if x and len(x) <= MAX_SCRIPT]
        ends = accumulate(map(len, fitting))
        return [
            parse_json(text)
            for text, end in zip(fitting, ends, strict=True)
            if end <= MAX_DATA
        ]

    @cached_property
    def nodes(self) -> list[NodeT]:
        """The nodes of the page's JSON-LD."""
        return [node for data in self.json_ld for node in _nodes(data)]

    @cached_property
    def subjects(self) -> list[NodeT]:
        """The nodes that the page may be about, best first."""
        found = [node for node in self.nodes if _rank(node) < len(_SUBJECTS)]
        return sorted(found, key=_rank)

    def linked_value(self, *names: str) -> Any:
        """Return the first non-empty value of the first of ``names`` in the JSON-LD."""
        values = (node.get(name) for name in names for node in self.subjects)
        return next(filter(None, values), None)

    def resolve(self, node: Any) -> Any:
        """Return the last named node that a reference points to, or ``node`` itself."""
        if not isinstance(node, dict) or "name" in node or "@id" not in node:
            return node
        same = (n for n in reversed(self.nodes) if "name" in n)
        return next((n for n in same if str(n.get("@id")) == str(node["@id"])), node)

    @cached_property
    def words(self) -> str:
        """The start of the text outside menus and forms."""
        return main_words(self.document)

    @property
    def language(self) -> str | None:
        """The page's language as a tag such as ``en`` or ``de-AT``; None if unknown.

        The ``lang`` of ``<html>`` comes first, as written. Then come other declarations.
        The detection from the words of the page comes last.
        """
        declared = (self.root.get("lang") or self.root.get("xml:lang") or "").strip()
        if declared:
            return declared[:100]
        header = self.first("http-equiv content-language")
        for given in (header.split(",")[0], self.first("og:locale", "dc.language")):
            if _LANGUAGE_TAG.fullmatch(given.strip()):
                return given.strip().replace("_", "-")[:100]
        return detect_language(self.words)

    @cached_property
    def marks(self) -> Marks:
        """Visible marks of the author and the dates; none in home pages, which are lists."""
        return Marks(None if self.document.is_home else self.document.body)


def _text(element: Any) -> str:
    parts = texts_in(element)
    if len(element) and next(element.iterdescendants(*_UNREAD), None) is not None:
        parts = [
            text
            for text in element.xpath(".//text()")
            if not (text.is_text and text.getparent().tag in _UNREAD)
        ]
    text = " ".join("".join(parts).split())[:MAX_VALUE]
    return text.rstrip("¶ ") or text


LEAST_TEXT = 80  # characters for the detection of a language
MAX_TEXT = 5_000
# Below it are most wrong guesses, and those for names, codes and lists of goods.
LEAST_PROBABILITY = 0.99
_CURRENT_TAGS = {"iw": "he"}  # of the detector

_LANGUAGE_TAG = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*")


def detect_language(text: str) -> str | None:
    """Return the detected language of ``text``; None for short or unclear texts."""
    text = " ".join(text[:MAX_TEXT].split())
    if len(text) < LEAST_TEXT:
        return None
    import gcld3  # noqa: PLC0415  # few pages need it

    detector = gcld3.NNetLanguageIdentifier(0, 4 * MAX_TEXT)  # least and most bytes
    found = detector.FindLanguage(text.encode(errors="ignore"))
    if found.probability < LEAST_PROBABILITY:
        return None
    return _CURRENT_TAGS.get(found.language, str(found.language))


_REFRESH = re.compile(
    r"\s*(?P<time>\d+)?(?P<part>[\d.]*)(?:[\s;,]\s*[;,]?\s*(?P<url>.*))?\Z", re.DOTALL
)
_URL_PREFIX = re.compile(r"url\s*=\s*", re.IGNORECASE)


def refresh(evidence: Evidence, url: str) -> MetaRefresh | None:
    """Return the meta refresh of the page ``url`` to an http(s) URL, or None.

    A relative URL is resolved as in browsers, which ignore a ``<base>`` after it.
    """
    for number, meta in enumerate(evidence.meta_attributes):
        if meta.get("http-equiv", "").strip().lower() != "refresh":
            continue
        content = meta.get("content")
        if content is None:
            continue
        element = next(islice(elements(evidence.root, "meta"), number, None))
        if next(element.iterancestors("noscript"), None) is None:
            has_base = element.xpath("boolean(preceding::base[@href])")
            return parse_refresh(content, evidence.document.base if has_base else url)
    return None


def parse_refresh(content: str, base: str) -> MetaRefresh | None:
    """Parse a meta refresh, or the ``Refresh`` header of a response.

    Source: the HTML standard, "shared declarative refresh steps". Returns None without
    an http(s) URL.
    """
    match = _REFRESH.match(content)
    if not match or not match["url"] or not (match["time"] or match["part"]):
        return None
    url = _URL_PREFIX.sub("", match["url"], count=1)
    if url[:1] in {'"', "'"}:
        url = url[1:].split(url[0], 1)[0]
    target = absolute(base, url)
    if target is None or not is_web(target) or not has_host(target):
        return None
    return MetaRefresh(float(int((match["time"] or "0")[:9])), target)
