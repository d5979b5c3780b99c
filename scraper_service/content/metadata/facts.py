"""Makes the metadata of a page: the authors, dates and other facts, each of one source.

The surest source with a result wins. The reading time follows from the Markdown.
"""

from __future__ import annotations

import re
from html import unescape
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from scraper_service.content.html.cleaning import CHANGES, special_elements
from scraper_service.content.metadata.dates import iso_date, url_date
from scraper_service.content.metadata.evidence import MAX_VALUE, fold_name, text_of
from scraper_service.content.metadata.marks import (
    CHANGED,
    author_of,
    before_date,
    date_of,
    text_before,
    timed_text,
)
from scraper_service.content.page_urls import absolute, is_web
from scraper_service.content.passes import texts_in, word_counts
from scraper_service.content.words import (
    AnyCase,
    distinct_words,
    likeness,
    word_overlap,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scraper_service.content.metadata.evidence import Evidence


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
        if named := _NAMED.get(lower):
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
    language = evidence.language
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
        "published_time": _first_date(PUBLISHED, evidence, language)
        or named.get("published_time"),
        "modified_time": _first_date(MODIFIED, evidence, language)
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
    headline = named or text_of(evidence.linked_value("headline")) or evidence.title
    return " ".join(_plain(headline).split()) or next(iter(evidence.headings), "")


def canonical(evidence: Evidence) -> str | None:
    """Return the page's canonical URL, absolute; None without an http(s) URL."""
    url = next(iter(_linked_urls(evidence, "canonical")), None)
    return url if url and is_web(url) else None


def _linked_urls(
    evidence: Evidence, relation: str, types: frozenset[str] = frozenset()
) -> list[str]:
    found = []
    base = evidence.document.base
    for link in evidence.related_links(relation):
        if types and (link.get("type") or "").strip().lower() not in types:
            continue
        href = link.get("href")
        if href and (url := absolute(base, href)):
            found.append(url)
    return list(dict.fromkeys(found))


# -- authors and dates -----------------------------------------------------------------

MAX_NAME = 120  # characters
MAX_NAMES = 10
MAX_BYLINE = 600  # characters
MAX_DATES = 20  # that are compared
LEAST_ENTRIES = 6  # of a list
MAX_BYLINES = 3  # with different names on a page with one author

_AUTHOR_METAS = (
    "author article:author article:author_name dc.creator dcterms.creator byl byline "
    "parsely-author sailthru.author citation_author article.author rbauthors "
    "cxenseparse:author twitter:creator:name"
).split()
_PUBLISHED_METAS = (
    "article:published_time datepublished og:published_time og:article:published_time "
    "article.published parsely-pub-date sailthru.date publish-date publish_date "
    "publishdate publication_date pubdate published_time date dc.date.issued "
    "dcterms.issued dc.date dcterms.date dc.date.created dcterms.created "
    "citation_publication_date citation_date ms.date cxenseparse:recs:publishtime "
    "datecreated release_date"
).split()
_MODIFIED_METAS = (
    "article:modified_time datemodified og:updated_time og:modified_time last-modified "
    "article.updated dcterms.modified dc.date.modified lastmod updated_at updated "
    "last_modified last_updated revised"
).split()

_BY = re.compile(
    r"^(?:(?:article|story|words|posted|written|reviewed|published|created|authored|recipe|text|"
    r"(?:view |see )?(?:all |more )?(?:articles|posts|stories)|this \w+ was written)\s+)?"
    r"(?:by|via|author|authors|von|par|por|di|door|av|autor|autore|auteur|written by|"
    r"автор|著者|作者)\b\s*[:\uff1a]?\s*|^(?:author|written by)\s*[:\uff1a]\s*",
    re.IGNORECASE,
)
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec"
_END = re.compile(
    r"\s*(?:[\u2013—]|\s-\s|\bon\b|\bupdated\b|\bpublished\b|\blast\b|[\s,]\s*\d"
    rf"|\b(?:{_MONTHS})[a-z]{{0,6}}\.?\s+\d).*",
    re.IGNORECASE | re.DOTALL,
)
_DIVIDER = re.compile(r"\s*[|•·»]\s*")
_LEAD = re.compile(
    r"(?!review)(?:\w+\s+)?(?:by|von|par|por|di|via|authors?)\s*:?", re.IGNORECASE
)
_PLACE = re.compile(r"\s+(?:in|at)\b.*", re.IGNORECASE)  # the category of a post
_OFFICE = re.compile(
    r",[^,]*\b(?:editor|writer|reporter|columnist|correspondent|journalist|contributor|manager|"
    r"director|head|chief|founder|ceo|cto|president|expert|specialist|attorney|analyst|staff)\b.*",
    re.IGNORECASE,
)
_AND = re.compile(r",|&|(?:,\s*)?(?:and|und|et|y|e|en|og|och|i)\b", re.IGNORECASE)
_MARKS = " ,.:;-\u2013—|\"'&"
_NO_NAME = re.compile(
    r"https?:|www\.|@|[{}<>=\[\]#$]|^(?:(?:\w+\.)+(?:author|name)|about|admin|administrator|none|null|undefined|"
    r"anonymous|guest|author|authors|the author|by|share|follow|read more|unknown|"
    r"view all posts|posts?|n/a|staff|user|webmaster|editor|contributors?|[\d/.:-]+|\d+ min.*|stories|"
    r"topic author|staff writer|original poster|"
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?|"
    r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?|"
    # Words after "by" in menus, and labels of controls.
    r"brand|category|collection|colou?r|date|feature|gender|industry|manufacturer|material|popularity|"
    r"price|rating|relevance|reviews?|room|size|style|topic|type|use|weight|"
    r"account|home|log ?in|my account|register|search|sign(?: in| up)?|unlock|view|the|"
    r"(?:this|follow|(?:photo|picture|image|headshot)s? (?:of|by)) .+|insights from|"
    r"meet the author|about the authors?|default|root|wordpress|test)$",
    re.IGNORECASE,
)
MAX_CHANGES = 20  # elements that may have the date of a change
MAX_CHANGE_TEXT = 2000  # characters of a footer that are searched for one
MAX_DATE = 40  # characters
_CHANGE_NAMES = re.compile(
    r"last-?(?:modified|updated|mod)|dateModified", re.IGNORECASE
)
# What stands between the words and the date: who made the change, and a preposition.
_CHANGED_IN = AnyCase(
    r"\b(?:last (?:updated?|modified|edited|changed|revised)|page updated|"
    r"(?<=[·•|(] )updated|"
    r"zuletzt (?:aktualisiert|geändert|bearbeitet)|letzte (?:änderung|aktualisierung)|"
    r"dernière (?:mise à jour|modification)|última (?:actualización|modificación|"
    r"atualização)|ultim[oa] (?:aggiornamento|modifica)|laatst bijgewerkt)\b"
    r"(?: (?:by|von|par|por|da) [^\d:.]{1,60}?)?[\s:,(]*"
    r"(?:on|at|am|le|el|il|date|em|du)?[\s:(]*(?=[^\W\d]{0,12}[.,]?\s*\d)",
)
_UPDATED = re.compile(r"modif|updat|review|revis|edited", re.IGNORECASE)
_PUBLISHED = re.compile(
    r"publish|posted|entry-date|post-date|created|pubdate", re.IGNORECASE
)


def authors(evidence: Evidence) -> list[str]:
    """Return the names of the page's authors, from the first source with any.

    The name of the site counts only if no source has another name.
    """
    publisher: list[str] = []
    site = evidence.site_names
    for source in AUTHORS:
        names = list(dict.fromkeys(n for n in map(_name, source(evidence)) if n))
        people = [name for name in names if fold_name(name) not in site]
        if people:
            return people[:MAX_NAMES]
        publisher = publisher or names[:1]
    return publisher


def _first_date(
    sources: tuple[Callable[[Evidence], Iterator[str]], ...],
    evidence: Evidence,
    language: str | None,
) -> str | None:
    return next(
        (
            date
            for source in sources
            for text in source(evidence)
            if (date := iso_date(text, language or ""))
        ),
        None,
    )


def _name(text: str) -> str | None:
    """Return ``text`` as a name without surrounding words; None if it is no name."""
    name = _BY.sub("", " ".join(text.split())[:MAX_BYLINE]).strip(_MARKS)
    if not 1 < len(name) <= MAX_NAME or _NO_NAME.search(name):
        return None
    return name if len(name.split()) <= 16 else None


# -- authors -------------------------------------------------------------------------


def _meta_authors(evidence: Evidence) -> Iterator[str]:
    for name in _AUTHOR_METAS:
        yield from (values := evidence.all(name))
        if any(map(_name, values)):
            return


def _linked_authors(evidence: Evidence) -> Iterator[str]:
    for node in evidence.subjects:
        given = node.get("author") or node.get("creator")
        for author in given[: 5 * MAX_NAMES] if isinstance(given, list) else [given]:
            yield text_of(evidence.resolve(author))
        if given:
            return


def _labelled_authors(evidence: Evidence) -> Iterator[str]:
    for number in "12":
        label = evidence.first(f"twitter:label{number}").lower()
        if label.endswith(" by") or label.startswith(
            ("written", "by", "author", "geschrieben", "écrit", "escrito")
        ):
            yield evidence.first(f"twitter:data{number}")


def _marked_authors(evidence: Evidence) -> Iterator[str]:
    """Yield the names in the first element that is marked as author and has a name."""
    for element in evidence.marks.authors:
        names = _names(author_of(element))
        if any(map(_name, names)):
            if not _is_list(evidence):
                yield from names
            return


def _bylines(evidence: Evidence) -> Iterator[str]:
    """Yield the names of the first ``by``; all their long words have capitals.

    Pages with several others are lists.
    """
    found: list[list[str]] = []
    for pieces in evidence.marks.bylines:
        names = [name for name in map(_name, _names(pieces)) if name]
        words = [word for name in names for word in name.split()]
        are_capitals = [word[0].isupper() for word in words if len(word) > 3]
        if (
            words
            and all(are_capitals or [words[0][0].isupper()])
            and names not in found
        ):
            found.append(names)
    if 0 < len(found) <= MAX_BYLINES and not _is_list(evidence):
        yield from found[0]


def _names(pieces: list[str]) -> list[str]:
    """Return the names at the start of texts between tags, or after a ``by``.

    A name ends with its text, as what is after the next tag is a date or an office.
    """
    if sum(map(len, pieces)) > MAX_BYLINE:
        return []
    pieces = [part for piece in pieces for part in _DIVIDER.split(piece) if part]
    leads = (n for n, piece in enumerate(pieces) if _LEAD.fullmatch(piece))
    names: list[str] = []
    is_expected = True
    for piece in pieces[next(leads, -1) + 1 :]:
        if is_expected:
            if names and _OFFICE.match(f", {piece}"):
                break
            if name := _from_byline(piece):
                names.append(name)
                is_expected = False
            elif piece.strip(_MARKS) and not _END.match(piece):
                break
        elif piece.startswith("."):
            return []  # of a sentence
        elif not (is_expected := bool(_AND.fullmatch(piece))):
            break
    return names


def _from_byline(text: str) -> str:
    name = _END.sub("", after := _BY.sub("", text))
    if after != text:
        name = _PLACE.sub("", name)
        if not _is_short(name):
            name = name.partition(",")[0]  # after it is an office
    name = _OFFICE.sub("", name).strip(_MARKS)
    return name if _is_short(name) else ""


def _is_short(name: str) -> bool:
    return len(name) <= 60 and len(name.split()) <= 6


# -- dates ---------------------------------------------------------------------------


def _declared_publication(evidence: Evidence) -> Iterator[str]:
    for name in _PUBLISHED_METAS:
        yield from evidence.all(name)
    yield text_of(evidence.linked_value("datePublished"))
    yield text_of(evidence.linked_value("uploadDate", "dateCreated"))


def _declared_modification(evidence: Evidence) -> Iterator[str]:
    for name in _MODIFIED_METAS:
        yield from evidence.all(name)
    yield text_of(evidence.linked_value("dateModified"))


def _marked_dates(evidence: Evidence) -> Iterator[str]:
    """Yield the date of an element that is marked as date, best as one of publication."""
    texts = _similar_marked_dates(evidence)
    if not _are_of_list(texts):
        yield from texts[:1]


def _similar_marked_dates(evidence: Evidence) -> list[str]:
    """Return the text of the element for :func:`_marked_dates`, and of those alike."""
    sure: list[Any] = []
    others: list[Any] = []
    for element in evidence.marks.dates:
        names = f"{element.get('class', '')} {element.get('itemprop', '')}"
        if not _UPDATED.search(names):
            (sure if _PUBLISHED.search(names) else others).append(element)
    marked = sure + others
    for element in marked:
        text = date_of(element)
        day = iso_date(text) if len(text) <= MAX_BYLINE else None
        if day and not _is_change(element):
            text = timed_text(element, day) or text
            kind = element.tag, element.get("class")
            alike = (
                other for other in marked if (other.tag, other.get("class")) == kind
            )
            return [text, *map(date_of, islice(alike, 1, MAX_DATES))]
    return []


def _dated_texts(evidence: Evidence) -> Iterator[str]:
    """Yield short texts with a date, texts after the heading first."""
    texts = evidence.marks.dated
    if not _are_of_list(texts):
        yield from texts


def _is_list(evidence: Evidence) -> bool:
    """Return True if the visible dates are those of the entries of a list."""
    return _are_of_list(_similar_marked_dates(evidence) or evidence.marks.dated)


def _are_of_list(texts: Iterable[str]) -> bool:
    """Return True for dates of the entries of a list: the newest ones come first.

    Threads have the oldest post first, and articles have few dates.
    """
    dates = [date[:10] for text in texts if (date := iso_date(text))]
    if len(dates) < LEAST_ENTRIES or dates[0] == min(dates):
        return False
    return sum(later > date for date, later in pairwise(dates)) <= 1


def _is_change(element: Any) -> bool:
    """Return True if an element with a date is labelled as the date of a change."""
    title = element.get("title") or ""
    label = f"{text_before(element)} {before_date(date_of(element))}"
    return CHANGED.search(label) is not None or CHANGED.search(title) is not None


def _marked_changes(evidence: Evidence) -> Iterator[str]:
    """Yield the dates of elements that are named or labelled as dates of a change.

    Tools for documentation write them into the footer, where no other date is read.
    """
    for element in _changes(evidence):
        names = f"{element.get('class', '')} {element.get('itemprop', '')}"
        is_named = _CHANGE_NAMES.search(names) is not None
        is_time = element.tag == "time" or "git-revision-date" in names
        if is_named or (is_time and _is_change(element)):
            inner = next(element.iter("time"), element)
            yield date_of(inner)


def _stated_changes(evidence: Evidence) -> Iterator[str]:
    """Yield the date after words such as ``Last updated``, if it is the only one."""
    texts = evidence.marks.changes
    for element in _changes(evidence):
        if element.tag == "footer" or "footer" in element.get("class", ""):
            text = " ".join(texts_in(element))[-MAX_CHANGE_TEXT:]
            texts.append(" ".join(text.split()))
    found = [
        text[match.end() : match.end() + MAX_DATE]
        for text in texts
        for match in _CHANGED_IN.finditer(text)
    ]
    if len({text.strip()[:10] for text in found}) == 1:
        yield found[0]


def _changes(evidence: Evidence) -> list[Any]:
    document = evidence.document
    return [] if document.is_home else special_elements(document)[CHANGES][:MAX_CHANGES]


def _url_dates(evidence: Evidence) -> Iterator[str]:
    if found := url_date(evidence.document.base):
        yield found


# Sources in order; the first source with a result wins.
AUTHORS = (
    _meta_authors,
    _linked_authors,
    _labelled_authors,
    _marked_authors,
    _bylines,
)
PUBLISHED = (
    _declared_publication,
    _marked_dates,
    _dated_texts,
    _url_dates,
)
MODIFIED = (_declared_modification, _marked_changes, _stated_changes)
