"""Finds visible marks of author and dates: elements by name, and short texts.

An entry is a part of a page with an author and dates of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property, lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.content.passes import Finder, Surroundings, signs, texts_in
from scraper_service.content.words import AnyCase

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST_ALIKE = 2  # entries of a list
MAX_HEADINGS = 500

_HEADINGS = ("h2", "h3", "h4")
_REVIEWS = frozenset({"review", "reviews"})  # values of ``itemprop``
MAX_ELEMENTS = 3000  # elements that are examined
MAX_AFTER_HEADING = 400  # of these after the first ``h1``
MAX_MARKS = 100
MAX_TEXT = 120  # characters of a byline or of a text with a date
MAX_TEXTS = 40
MAX_SIBLINGS = 20  # after a "by"
MAX_LABEL = 20  # characters of the name of a date
# Parts of names of elements with an author. Searching parts beats an expression.
_AUTHOR = (
    "author byline by-line username user-name writer contributor postedby posted-by "
    "writtenby written-by"
).split()
_AUTHORISED = re.compile(r"authori\w*")
_DATE = "date publish posted created time byline meta".split()
_PARTS = (*_AUTHOR, *_DATE)
# Attributes in which forum software and others give author and date of a post.
_AUTHOR_ATTRIBUTES = ("data-author-username", "data-author", "author")
_DATE_ATTRIBUTES = ("datetime", "content", "created-timestamp", "title")
# Attributes other than ``class`` that may mark any element.
_NAMING = "itemprop rel data-author-username author created-timestamp".split()
_BY = re.compile(
    r"(?:(?:article|story|words|posted|written|published|created|authored)\s+)?"
    r"(?:by|von|par|por|door|di|av)\b[:\s]",
    re.IGNORECASE,
)
# First letters of the words of _BY.
_STARTS = frozenset("by vo pa po do di av ar st wo wr pu cr au".split())
_NEITHER = (False, False)
DATED_TAGS = frozenset({"time", "relative-time", "local-time"})
# Tags with text, but seldom with an ``itemprop``.
_PLAIN_TAGS = frozenset(
    "li ul ol p br img svg path td tr th b i h2 h3 h4 option".split()
)
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_DIGIT = re.compile(r"\d")
MAX_ABOVE = 3  # elements around a date with a text before it
_PARTS_OF_PAGE = frozenset({"body", "main", "article", "section", "footer", "header"})
# The end of a text before the date of a change, with who changed the page.
CHANGED = AnyCase(
    r"\b(?:(?:last\s*)?(?:up-?dated?|modified|edited|changed|revised|revision)|"
    r"(?:zuletzt )?(?:aktualisiert|geändert|bearbeitet)|stand|mise? à jour|modifiée?|"
    r"(?:última )?(?:actualización|modificación|atualização)|actualizad[oa]|atualizad[oa]|"
    r"ultimo aggiornamento|aggiornat[oa]|ultima modifica|bijgewerkt|обновлено)\b"
    r"(?:\s*(?:by|von|par|por|da)\s[^\d:]{1,60})?[\s:,|·(-]*"
    r"(?:on|at|am|le|el|il|date|em|du|the)?[\s:(]*(?:[^\W\d]{3,12}[.,]?\s+)?\Z",
)
# Parts of the words of CHANGED.
_OF_CHANGE = AnyCase(
    r"updat|modif|edit|chang|revis|aktual|geänd|bearb|jour|actual|atual|aggior|bijge|обнов",
)
MAX_BEFORE = 100  # characters before a date
# Words at dates of rights, of users, of things and of offers.
_NO_DATE = AnyCase(
    r"©|copyright|\(c\)|all rights|\b(?:joined|founded|established|registered|built|born|"
    r"since|last (?:visit(?:ed)?|seen|active)|expires?|ends|valid)\b",
)
# Parts of words in sentences about the page.
_OF_PAGE = re.compile(r"post|publi|updat|edit|modif|writ|review", re.IGNORECASE)
# Class names and ids of elements outside the page's main content.
_FOREIGN = AnyCase(
    r"(?:^|[\s_-])(?:comments?|comment-list|commentlist|respond|related|recommended|"
    r"recommendations|sidebar|site-footer|recent-posts|recent|popular|trending|carousel|"
    r"teasers?|newsletter|copyright|latest|reviews|testimonials?)(?=$|[\s_-])"
    # The whole name, because "review-author" is that of an article as well.
    r"|(?:^|[\s_-])review(?:[_-](?:item|card|entry|box|block|row|list))?(?=$|\s)",
)
_OUTSIDE = frozenset({"blockquote", "footer", "nav", "script", "style", "template"})
_has_heading = Finder("h1")
Kind = tuple[bool, bool]  # whether of an author, whether of a date


class Entries:
    """The entries of a page's lists, such as teasers, and its reviews in microdata.

    The first question finds them. A part with an ``h1`` is the page's own.
    """

    def __init__(self, body: Any):
        self._body = body

    @cached_property
    def of_lists(self) -> frozenset[Any]:
        """The elements that are entries of lists."""
        return frozenset(_entries(self._body))

    def contain(self, element: Any) -> bool:
        """Return True for an element of an entry or a review."""
        return any(
            above in self.of_lists or _is_review(above)
            for above in (element, *element.iterancestors())
        )


def _entries(body: Any) -> Iterator[Any]:
    """Yield the largest parts with one heading that links to another page.

    Each stands next to another one with the same tag and class.
    """
    linked = [h for h in body.iter(*_HEADINGS) if _is_linked(h)][:MAX_HEADINGS]
    if len(linked) < LEAST_ALIKE:
        return
    counts = Counter(above for heading in linked for above in heading.iterancestors())
    own = {above for heading in body.iter("h1") for above in heading.iterancestors()}
    alike: dict[Any, list[Any]] = {}
    for heading in linked:
        entry = heading
        for above in heading.iterancestors():
            if counts[above] > 1 or above in own:
                break
            entry = above
        first_class = (entry.get("class") or "").split()[:1]
        sign = (entry.getparent(), entry.tag, *first_class)
        alike.setdefault(sign, []).append(entry)
    for entries in alike.values():
        if len(entries) >= LEAST_ALIKE:
            yield from entries


def _is_linked(heading: Any) -> bool:
    """Return True if a heading contains, or stands in, a link to another page."""
    links = chain(heading.iter("a"), heading.iterancestors("a"))
    hrefs = (link.get("href") or "#" for link in links)
    return any("#" not in href for href in hrefs)


def _is_review(element: Any) -> bool:
    is_review = element.get("itemprop") in _REVIEWS
    return is_review and next(element.iter("h1"), None) is None


_STARTS |= {start.capitalize() for start in _STARTS} | {"BY"}


@frozen
class _Text:
    """A short text with a year, or one that begins like a byline."""

    text: str
    #: The element whose ``text`` or ``tail`` it is.
    element: Any
    #: The element that contains it: this one or its parent.
    parent: Any


class Marks:
    """Elements and texts that may have the author or a date of a page.

    All are in document order; texts before the first ``h1`` come last. One walk of ``body``
    finds them, and each kind is examined when it is needed: most pages name their author
    and date elsewhere. If ``body`` is None, there are none.
    """

    def __init__(self, body: Any):
        self._places = Surroundings(_OUTSIDE, _is_foreign_name, _has_heading)
        self._entries = Entries(body)
        self._elements: list[tuple[Any, Kind]] = []
        self._texts: list[_Text] = []  # after the first h1
        self._early: list[_Text] = []
        if body is not None:
            self._walk(body)

    def _walk(self, body: Any) -> None:
        texts = self._early
        for element, text, tail, kind in signs(
            body,
            kind_of=_kind,
            kind_of_attributes=_kind_of,
            neither=_NEITHER,
            parts=_PARTS,
            author_path="/author",
            dated=DATED_TAGS,
            plain=_PLAIN_TAGS,
            naming=_NAMING,
            starts=_STARTS,
            left=MAX_ELEMENTS,
            after_heading=MAX_AFTER_HEADING,
            longest=MAX_TEXT,
        ):
            if text is not None:
                texts.append(_Text(text, element, element))
            if tail is not None:
                texts.append(_Text(tail, element, element.getparent()))
            if element.tag == "h1":
                texts = self._texts
            if kind is not _NEITHER:
                self._elements.append((element, kind))

    @property
    def authors(self) -> Iterator[Any]:
        """Elements that are marked as author. Each is examined when it is reached."""
        return islice(
            (e for e, kind in self._elements if kind[0] and self._is_of_page(e)),
            MAX_MARKS,
        )

    @cached_property
    def dates(self) -> list[Any]:
        """Elements that are marked as date."""
        own = (e for e, kind in self._elements if kind[1] and self._is_of_page(e))
        return list(islice(own, MAX_MARKS))

    @cached_property
    def bylines(self) -> list[list[str]]:
        """The pieces of short texts that begin like a byline."""
        return [
            pieces
            for texts in (self._texts, self._early)
            for pieces in islice(self._bylines(texts), MAX_TEXTS)
        ]

    def _bylines(self, texts: list[_Text]) -> Iterator[list[str]]:
        for found in texts:
            if _BY.match(f"{found.text.lstrip()} ") and self._is_of_page(found.parent):
                pieces = _pieces_of_byline(found)
                if sum(map(len, pieces)) <= MAX_TEXT:
                    yield pieces

    @cached_property
    def dated(self) -> list[str]:
        """Short texts with a year."""
        return [
            " ".join(found.text.split())
            for texts in (self._texts, self._early)
            for found in islice(filter(self._is_dated, texts), MAX_TEXTS)
        ]

    @property
    def changes(self) -> list[str]:
        """Short texts with a year and a word such as ``updated``, in any part."""
        texts = (
            " ".join(f"{_before(found)} {found.text}".split())
            for found in islice(
                (t for t in (*self._texts, *self._early) if _YEAR.search(t.text)),
                MAX_TEXTS,
            )
        )
        return list(filter(_OF_CHANGE.is_in, texts))

    def _is_dated(self, found: _Text) -> bool:
        return (
            _YEAR.search(found.text) is not None
            and self._is_of_page(found.parent)
            and _is_date_of_page(found.text, _label_of(found))
            and not CHANGED.search(f"{_before(found)} {before_date(found.text)}")
        )

    def _is_of_page(self, element: Any) -> bool:
        """Return False for an element of a foreign part, of an entry or a review."""
        return not (self._places.are_foreign(element) or self._entries.contain(element))


@lru_cache(maxsize=10_000)  # the pages of a site share their names
def _kind(names: str) -> Kind:
    """Return whether a class or similar name marks an author, and whether a date."""
    lower = names.lower()
    is_author = bool([part for part in _AUTHOR if part in lower])
    if is_author and "authori" in lower:  # as in "authorised" or "authority"
        stripped = _AUTHORISED.sub("", lower)
        is_author = any(part in stripped for part in _AUTHOR)
    is_date = bool([part for part in _DATE if part in lower])
    return (is_author, is_date) if is_author or is_date else _NEITHER


def _kind_of(element: Any, kind: Kind) -> Kind:
    names = f"{element.get('itemprop', '')} {element.get('rel', '')}"
    is_author, is_date = kind
    if names != " ":
        more = _kind(names)
        is_author, is_date = is_author or more[0], is_date or more[1]
    if "data-author-username" in element.attrib or "author" in element.attrib:
        is_author = True
    if "created-timestamp" in element.attrib:
        is_date = True
    return (is_author, is_date) if is_author or is_date else _NEITHER


def _before(found: _Text) -> str:
    """Return the end of the text before a text."""
    is_tail = found.parent is not found.element
    return text_of(found.element) if is_tail else text_before(found.element)


def _label_of(found: _Text) -> str:
    is_tail = found.parent is not found.element
    before = found.element if is_tail else found.element.getprevious()
    return "" if before is None else before.text or ""


def _is_date_of_page(text: str, label: str) -> bool:
    """Return True if the date in a text may be that of the page.

    ``label`` is the text of the element before it.
    """
    if len(label) <= MAX_LABEL and not _YEAR.search(label):
        text = f"{label} {text}"
    if _NO_DATE.search(text):
        return False
    return not text.rstrip().endswith(".") or bool(_OF_PAGE.search(text))


def before_date(text: str) -> str:
    """Return what stands before the first number of a text; empty without a number."""
    match = _DIGIT.search(text)
    return text[max(0, match.start() - MAX_BEFORE) : match.start()] if match else ""


def text_before(element: Any) -> str:
    """Return the end of the text before an element, in the elements around it."""
    text = ""
    for above in islice((element, *element.iterancestors()), MAX_ABOVE):
        before, parent = above.getprevious(), above.getparent()
        if parent is None or above.tag in _PARTS_OF_PAGE:
            break
        while before is not None and len(text) < MAX_BEFORE:
            shown = text_of(before) or before.get("title", "")
            text = f"{shown} {before.tail or ''} {text}"
            before = before.getprevious()
        text = f"{parent.text or ''} {text}" if len(text) < MAX_BEFORE else text
        if text.strip():
            break
    return " ".join(text.split())[-MAX_BEFORE:]


def _pieces_of_byline(found: _Text) -> list[str]:
    element, parent = found.element, found.parent
    pieces = pieces_of(parent) if parent is element else pieces_after(element)
    if pieces and _BY.fullmatch(f"{pieces[-1].rstrip(' :')} "):
        pieces += pieces_after(parent)  # they have the name
    return pieces


def date_of(element: Any) -> str:
    """Return the date text of an element, from an attribute or its text."""
    attributes = element.attrib
    for name in _DATE_ATTRIBUTES:
        value = attributes.get(name)
        if value and _YEAR.search(value):
            return str(value)
    return text_of(element)


def timed_text(element: Any, day: str) -> str:
    """Return the date with a time of a ``<time>`` in an element, empty without one.

    ``day`` (ISO 8601) is the date that the element shows.
    """
    for inner in element.iterdescendants(*DATED_TAGS):
        value = date_of(inner)
        if value.startswith(f"{day}T"):
            return value
    return ""


def author_of(element: Any) -> list[str]:
    """Return the pieces of the author text of an element, from an attribute or its text."""
    attributes = element.attrib
    for name in _AUTHOR_ATTRIBUTES:
        if value := attributes.get(name):
            return [str(value)]
    inner = element.find(".//*[@itemprop='name']")
    if inner is not None:
        element = inner
    return pieces_of(element) or [element.get("content") or element.get("alt") or ""]


def pieces_of(element: Any) -> list[str]:
    """Return the texts between the tags of an element that are not blank."""
    return [piece for text in texts_in(element) if (piece := " ".join(text.split()))]


def pieces_after(element: Any) -> list[str]:
    """Return the first texts after an element in its parent."""
    pieces = [" ".join((element.tail or "").split())]
    left = MAX_TEXT
    for sibling in islice(element.itersiblings(), MAX_SIBLINGS):
        more = [*pieces_of(sibling), " ".join((sibling.tail or "").split())]
        pieces += more
        left -= sum(map(len, more))
        if left < 0:
            break
    return [piece for piece in pieces if piece]


def text_of(element: Any) -> str:
    """Return the text of an element, with spaces between its parts."""
    return " ".join(pieces_of(element))


@lru_cache(maxsize=10_000)
def _is_foreign_name(names: str) -> bool:
    return _FOREIGN.is_in(names)
