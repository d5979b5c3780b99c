"""Makes the metadata of a page: selects the winning source of each fact.

The language is declared or detected. The reading time follows from the language.
"""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING

from scraper_service.content.metadata.evidence import MAX_VALUE, fold_name, text_of
from scraper_service.content.metadata.sources import (
    authors,
    modification_date,
    publication_date,
)
from scraper_service.content.page_urls import absolute, is_web
from scraper_service.content.passes import word_counts
from scraper_service.content.words import distinct_words, likeness, word_overlap

if TYPE_CHECKING:
    from scraper_service.content.metadata.evidence import Evidence

LEAST_TEXT = 80  # characters for the detection of a language
MAX_TEXT = 5_000
# Below it are most wrong guesses, and those for names, codes and lists of goods.
LEAST_PROBABILITY = 0.99
_CURRENT_TAGS = {"iw": "he"}  # of the detector

_LANGUAGE_TAG = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*")
# Silent reading of English; Brysbaert, How many words do we read per minute?, 2019.
WORDS_PER_MINUTE = 238
# About right for Chinese; Japanese is read a little faster.
CHARACTERS_PER_MINUTE = 500
MAX_FEEDS = 20
LEAST_HEADLINE = 3  # words
LEAST_LIKE = 0.6  # similarity of a heading to a title
LEAST_SHARED = 0.5  # share of the words of the shorter text
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
_PLAIN = frozenset({"description", "og_title", "og_description"})
_CUT_MARKS = " .\u2026"
_REFERENCE = re.compile(r"&(?:#\d{1,6}|#[xX][0-9a-fA-F]{1,5}|[a-zA-Z]{2,8}\d{0,2});")
_HAS_TAGS = re.compile(r"</(?:a|b|div|em|h\d|i|li|p|span|strong|ul)>")
_TAG = re.compile(r"</?(?:(a|b|em|i|span|strong)\b|[a-zA-Z])[^<>]*>")
# Keys of the page object that a page must not set.
_RESERVED = frozenset("title language favicon description keywords robots".split())
_FEED_TYPES = frozenset(
    {"application/rss+xml", "application/atom+xml", "application/feed+json"}
)
Facts = dict[str, "str | list[str]"]


def language_of(evidence: Evidence) -> str | None:
    """Return the page's language as a tag such as ``en`` or ``de-AT``; None if unknown.

    The ``lang`` of ``<html>`` comes first, as written. Then come other declarations.
    The detection from the words of the page comes last.
    """
    root = evidence.root
    declared = (root.get("lang") or root.get("xml:lang") or "").strip()
    if declared:
        return declared[:100]
    header = evidence.first("http-equiv content-language")
    for given in (header.split(",")[0], evidence.first("og:locale", "dc.language")):
        if _LANGUAGE_TAG.fullmatch(given.strip()):
            return given.strip().replace("_", "-")[:100]
    return detect_language(evidence.words)


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


def reading(text: str) -> dict[str, str]:
    """Return ``word_count`` and ``reading_time`` (ISO 8601); empty without words.

    Both values are strings, as all metadata. In scripts without spaces, each character
    counts as a word.
    """
    count, characters = word_counts(text)
    minutes = count / WORDS_PER_MINUTE + characters / CHARACTERS_PER_MINUTE
    if not count + characters:
        return {}
    return {
        "word_count": str(count + characters),
        "reading_time": f"PT{max(1, round(minutes))}M",
    }


def metadata(evidence: Evidence) -> tuple[Facts, Facts]:
    """Return the named facts, and the ``<meta>`` values by their names as written."""
    known: dict[str, list[str]] = {}
    other: dict[str, list[str]] = {}
    for key, value in evidence.metas:
        lower = key.lower()
        named = _NAMED.get(lower)
        if named:
            known.setdefault(named, []).append(value)
        if lower not in _RESERVED:
            other.setdefault(key, []).append(value)
    if "description" in known:
        known["description"] = _descriptions(evidence)
    facts = {name: _join_values(name, values) for name, values in known.items()}
    facts |= _sourced_facts(evidence, facts)
    return facts, {name: v[0] if len(v) == 1 else v for name, v in other.items()}


def _descriptions(evidence: Evidence) -> list[str]:
    """Return the descriptions, each once.

    Pages repeat the description as microdata, whole or cut. An ``itemprop`` therefore
    counts only without a ``name``, and a text that starts another text does not count.
    """
    given: list[str] = []
    for attribute in ("name", "property", "itemprop"):
        given = [
            meta.get("content", "").strip()[:MAX_VALUE]
            for meta in evidence.meta_attributes
            if meta.get(attribute, "").strip().lower() == "description"
        ]
        if any(given):
            break
    texts: dict[str, str] = {}  # by the text for comparison
    for text in given:
        start = " ".join(_plain(text).split()).rstrip(_CUT_MARKS)
        if not any(other.startswith(start) for other in texts):
            for other in [other for other in texts if start.startswith(other)]:
                del texts[other]
            texts[start] = text
    return list(texts.values())


def _join_values(name: str, values: list[str]) -> str | list[str]:
    if name == "og_locale_alternate":
        return values
    values = list(filter(str.strip, values)) or [""]
    if name in _PLAIN:
        values = [_plain(value) for value in values]
    if name in _JOINED:
        return ", ".join(values)
    if name in _LISTS and len(values) > 1:
        return values
    return values[0]


def _plain(text: str) -> str:
    """Return a text without tags, and with references that are left resolved."""
    if "<" in text and _HAS_TAGS.search(text):
        text = " ".join(_TAG.sub(lambda tag: "" if tag[1] else " ", text).split())
    if "&" in text:
        text = _REFERENCE.sub(lambda reference: unescape(reference[0]), text)
        text = text.replace("\xa0", " ")
    return text


def _sourced_facts(evidence: Evidence, named: Facts) -> Facts:
    """Return the facts with several sources; facts without a value are left out."""
    language = language_of(evidence)
    headline = _headline(evidence)
    title = evidence.title or headline
    names = authors(evidence)
    feeds = _linked_urls(evidence, "alternate", _FEED_TYPES)
    facts: dict[str, str | list[str] | None] = {
        "title": title,
        "headline": headline if headline != title else "",
        "description": named.get("description")
        or _plain(
            evidence.first("og:description", "twitter:description", "dc.description")
        ),
        "language": language,
        "favicon": next(iter(_linked_urls(evidence, "icon")), None),
        "canonical_url": canonical(evidence),
        "feeds": feeds[:MAX_FEEDS],
        "author": names if len(names) > 1 else "".join(names),
        "published_time": publication_date(evidence, language or "")
        or named.get("published_time"),
        "modified_time": modification_date(evidence, language or "")
        or named.get("modified_time"),
    }
    return {name: value for name, value in facts.items() if value}


def _headline(evidence: Evidence) -> str:
    """Return the heading that matches the page's title or ``og:title``.

    Headings with a site's name or of a part of the page share few words with a title.
    """
    named = evidence.first("og:title", "twitter:title")
    titles = [distinct_words(text) for text in (evidence.title, named) if text]
    headings = [h for h in evidence.headings if len(h.split()) >= LEAST_HEADLINE]
    words = [distinct_words(heading) for heading in headings]
    alike = [max((likeness(w, t) for t in titles), default=0.0) for w in words]
    if alike and max(alike) >= LEAST_LIKE:
        return headings[alike.index(max(alike))]
    for heading, own in zip(headings, words, strict=True):
        if fold_name(heading) in evidence.site_names:
            continue
        if any(word_overlap(own, title) >= LEAST_SHARED for title in titles):
            return heading
    headline = named or text_of(evidence.linked.first("headline")) or evidence.title
    return " ".join(_plain(headline).split()) or next(iter(evidence.headings), "")


def canonical(evidence: Evidence) -> str | None:
    """Return the page's canonical URL, absolute; None without an http(s) URL."""
    address = next(iter(_linked_urls(evidence, "canonical")), None)
    return address if address and is_web(address) else None


def _linked_urls(
    evidence: Evidence, relation: str, types: frozenset[str] = frozenset()
) -> list[str]:
    """Return the URLs of ``<link>`` with a relation and, if given, one of ``types``."""
    found = []
    base = evidence.document.base
    for link in evidence.related_links(relation):
        if types and (link.get("type") or "").strip().lower() not in types:
            continue
        href = link.get("href")
        if href and (address := absolute(base, href)):
            found.append(address)
    return list(dict.fromkeys(found))
