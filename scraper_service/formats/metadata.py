"""What a page says of itself in its head (interface document, 8.2)."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from scraper_service.formats.urls import absolute, is_web
from scraper_service.items import MetaRefresh

if TYPE_CHECKING:
    from scraper_service.formats.document import Document

MAX_METAS = 1000
MAX_VALUE = 20_000  # characters

_NAMED = {
    "description": "description",
    "keywords": "keywords",
    "robots": "robots",
    "og:title": "og_title",
    "og:description": "og_description",
    "og:url": "og_url",
    "og:image": "og_image",
    "og:audio": "og_audio",
    "og:determiner": "og_determiner",
    "og:locale": "og_locale",
    "og:locale:alternate": "og_locale_alternate",
    "og:site_name": "og_site_name",
    "og:video": "og_video",
    "article:section": "article_section",
    "article:tag": "article_tag",
    "article:published_time": "published_time",
    "article:modified_time": "modified_time",
    "dcterms.created": "dc_terms_created",
    "dc.date.created": "dc_date_created",
    "dc.date": "dc_date",
    "dcterms.type": "dc_terms_type",
    "dc.type": "dc_type",
    "dcterms.audience": "dc_terms_audience",
    "dcterms.subject": "dc_terms_subject",
    "dc.subject": "dc_subject",
    "dc.description": "dc_description",
    "dcterms.keywords": "dc_terms_keywords",
}
_LISTS = frozenset({"keywords", "article_tag"})
_JOINED = frozenset({"description", "robots"})  # rules for robots add up
# Keys of the page object which a page must not be able to set.
_RESERVED = frozenset({"title", "language", "favicon"}) | frozenset(
    {"description", "keywords", "robots"}
)
_REFRESH = re.compile(
    r"\s*(?P<time>\d+)?(?P<rest>[\d.]*)(?:[\s;,]\s*[;,]?\s*(?P<url>.*))?\Z", re.DOTALL
)
_LD_TYPE = re.compile(r"\"@type\"\s*:\s*\[?\s*\"(\w{1,60})\"")
_URL_PREFIX = re.compile(r"url\s*=\s*", re.IGNORECASE)

Facts = dict[str, "str | list[str]"]


def metadata(document: Document) -> tuple[Facts, Facts]:
    """Return the facts with names of their own and all other ``<meta>`` values."""
    known: dict[str, list[str]] = {}
    other: dict[str, list[str]] = {}
    for meta in document.root.xpath(f"(//meta[@content])[position() <= {MAX_METAS}]"):
        key = meta.get("name") or meta.get("property") or meta.get("itemprop")
        if not key or not key.strip():
            continue
        value = meta.get("content").strip()[:MAX_VALUE]
        named = _NAMED.get(key.strip().lower())
        if named:
            known.setdefault(named, []).append(value)
        if key.strip().lower() not in _RESERVED:
            other.setdefault(key.strip(), []).append(value)
    facts = {name: _merged(name, values) for name, values in known.items()}
    facts.update(_head_facts(document))
    return facts, {name: v[0] if len(v) == 1 else v for name, v in other.items()}


def refresh(document: Document) -> MetaRefresh | None:
    """Return the page's first usable meta refresh to another http(s) address."""
    for meta in document.root.iter("meta"):
        if (meta.get("http-equiv") or "").strip().lower() != "refresh":
            continue
        content = meta.get("content")
        if content is not None and next(meta.iterancestors("noscript"), None) is None:
            return parse_refresh(content, document.base)
    return None


def parse_refresh(content: str, base: str) -> MetaRefresh | None:
    """Parse as the HTML standard, "shared declarative refresh steps".

    The ``Refresh`` header of an answer has the same form.
    """
    match = _REFRESH.match(content)
    if not match or not match["url"] or not (match["time"] or match["rest"]):
        return None
    url = _URL_PREFIX.sub("", match["url"], count=1)
    if url[:1] in {'"', "'"}:
        url = url[1:].split(url[0], 1)[0]
    address = absolute(base, url)
    if address is None or not is_web(address):
        return None
    return MetaRefresh(float(int((match["time"] or "0")[:9])), address)


def _merged(name: str, values: list[str]) -> str | list[str]:
    if name == "og_locale_alternate":
        return values
    if name in _JOINED:
        return ", ".join(values)
    if name in _LISTS and len(values) > 1:
        return values
    return values[0]


def _head_facts(document: Document) -> dict[str, str]:
    root, facts = document.root, {}
    title = root.xpath("string((//title[not(ancestor::svg)])[1])")
    if title.strip():
        facts["title"] = " ".join(title.split())[:MAX_VALUE]
    language = (root.get("lang") or root.get("xml:lang") or "").strip()
    if language:
        facts["language"] = language[:100]
    if address := _linked(document, "icon"):
        facts["favicon"] = address
    return facts


def canonical(document: Document) -> str | None:
    """Return the address that the page names as its own, absolute."""
    address = _linked(document, "canonical")
    return address if address and is_web(address) else None


def _linked(document: Document, relation: str) -> str | None:
    for link in islice(document.root.iter("link"), MAX_METAS):
        if relation in (link.get("rel") or "").lower().split() and link.get("href"):
            address = absolute(document.base, link.get("href"))
            if address:
                return address
    return None


def kind_hint(document: Document) -> str:
    """Return what tells the kind of page: declared types, generator, body classes."""
    root = document.root
    parts = root.xpath(
        "//meta[@property='og:type' or @name='generator']/@content | //body/@class"
    )
    for data in root.xpath("//script[@type='application/ld+json']/text()")[:20]:
        parts += _LD_TYPE.findall(data[:50_000])
    return " ".join(str(part)[:300] for part in parts[:100])
