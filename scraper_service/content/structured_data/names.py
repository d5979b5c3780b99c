"""Titles, texts, authors, dates, brands and locations of a page or a record."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.content.structured_data import values
from scraper_service.content.structured_data.requested_fields import words_of
from scraper_service.content.structured_data.scope import (
    Candidate,
    named_candidates,
    one_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.structured_data.scope import Scope

MAX_BYLINE = 160  # characters
BYLINES = 30  # lines of a record that are searched for a byline
MAX_DATED = 200  # characters of a line with a date
MAX_DATE = 80
MAX_YEAR = 25  # characters of a line with a date that has no day
MAX_TITLE = 300
MAX_BOLD = 150
LONG_LINE = 60  # characters from which a line counts as prose
LEAST_SHARE = 0.25  # of a record's text that its body element must hold

_PROFILE = re.compile(
    r"/(?:u|users?|usr|members?|profiles?|authors?|people|~[\w-]+|@[\w-]+)"
    r"(?:[/.?]|$)|[?&](?:mode=viewprofile|u=\d|user=|id=)|/~\w|/user\?id=|/by/",
    re.IGNORECASE,
)
_JOINED = re.compile(
    r"(?:joined|join date|registered|member since|founded|location|posts)\b",
    re.IGNORECASE,
)
_MONTH = (
    r"\b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
# A day with its month, and the weekday and the time beside it.
_DAY = re.compile(
    r"(?:\b(?:mon|tue|wed|thu|fri|sat|sun)(?:[a-z]*day)?\.?,?\s+)?"
    rf"(?:\b(?:19|20)\d\d-\d\d-\d\d|\b\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{2,4}}"
    rf"|{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s+(?:19|20)\d\d\b)?"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th)?[\s-]+{_MONTH},?(?:[\s-]+(?:19|20)\d\d\b)?)"
    r"(?:(?:,|T|\s+at|\s*[-@|\u00b7])?\s*\d{1,2}:\d\d(?::\d\d)?(?:\s*[ap]\.?m\b\.?)?"
    r"(?:\s*(?-i:Z|UTC|[A-Z]{1,3}T)\b)?)?",
    re.IGNORECASE,
)
_BUTTON = re.compile(
    r"^(?:quick (?:view|add|shop)|more info|read more|learn more|view (?:details|all|more|company"
    r"|product|profile)\b.*|add to (?:cart|bag|basket|wish ?list|compare)|compare|share|reply"
    r"|report|details|buy(?: now)?|shop now|see (?:more|all|details)|save|like|follow|edit|hide"
    r"|discuss|past|permalink|link|quote|sign in|log ?in|register|choose options|select options"
    r"|continue reading|next|previous|apply(?: now)?|info|image|photo|sponsor|star|new|sale"
    r"|skip to .*)$",
    re.IGNORECASE,
)
_LETTERS = re.compile(r"[^\W\d_]{2}")
_PERSONAL = frozenset("user username author member company brand vendor".split())


def persons(scope: Scope) -> Iterator[Candidate]:
    """Yield the names of authors."""
    names = "author username user-name byline creator poster hnuser nickname submitter"
    found = list(named_candidates(scope, names, 0.8))
    found += [
        Candidate(one_line(scope, link), "link to a profile", 0.7, link)
        for link in scope.all("a")
        if _PROFILE.search(link.get("href") or "")
    ]
    found += [
        Candidate(line.text, "byline", 0.65, line.block)
        for line in (() if scope.is_page else scope.lines[:BYLINES])
        if len(line.text) <= MAX_BYLINE and values.BY.match(line.text)
    ]
    for each in found:
        if text := values.person_of(each.text):
            yield evolve(each, text=text)


def dates(scope: Scope) -> Iterator[Candidate]:
    """Yield dates, those in ``<time>`` elements first.

    ``parts`` holds the date as the page shows it.
    """
    for element in scope.all("time", "relative-time", "local-time"):
        text = one_line(scope, element)
        parts = (text,) if text else ()
        if value := element.get("datetime") or text:
            yield Candidate(value, "time element", 0.85, element, parts)
    names = "date time posted published timestamp age relativetime"
    for found in named_candidates(scope, names, 0.75):
        value = found.element.get("title") or found.element.get("content")
        for written in (value, found.text):
            if written and len(written) <= MAX_DATE and re.search(r"\d", written):
                yield evolve(
                    found, text=written, parts=tuple(filter(None, [found.text]))
                )
    for line in () if scope.is_page else scope.lines:
        is_dated = len(line.text) <= MAX_DATED and values.DATE.search(line.text)
        if is_dated and not _JOINED.match(line.text):
            shown = _DAY.search(line.text)
            if shown or len(line.text) <= MAX_YEAR:
                parts = (shown[0],) if shown else ()
                yield Candidate(line.text, "text with a date", 0.6, line.block, parts)
    for line in () if scope.is_page else scope.lines:
        for part, element in line.parts:
            text = " ".join(part.split())
            if len(text) <= MAX_DATE and values.AGO.search(text):
                yield Candidate(text, "text", 0.55, element)


def titles(scope: Scope) -> Iterator[Candidate]:
    """Yield possible titles of a record, the most likely title first."""
    headings = scope.all("h1", "h2", "h3", "h4", "h5", "h6")
    for heading in sorted(headings, key=lambda heading: str(heading.tag)):
        text = one_line(scope, heading)
        if text and not _BUTTON.match(text):
            yield Candidate(text, f"heading {heading.tag}", 0.85, heading)
    for found in named_candidates(scope, "title headline name heading subject", 0.8):
        text = _name_line(scope, found.element)
        link = next(found.element.iter("a"), None)
        if link is not None and len(one_line(scope, link)) > 0.5 * len(text):
            text = _name_line(scope, link)
        classes = words_of((found.element.get("class") or "").replace("-", " "))
        if 2 <= len(text) <= MAX_TITLE and _PERSONAL.isdisjoint(classes):
            yield evolve(found, text=text)
    links = [link for link in scope.all("a") if _may_be_title(scope, link)]
    if links:
        best = max(links, key=lambda link: len(one_line(scope, link)))
        yield Candidate(_name_line(scope, best), "link", 0.7, best)
    for bold in scope.all("strong", "b", "dt", "th", "summary"):
        text = one_line(scope, bold)
        if 2 <= len(text) <= MAX_BOLD:
            yield Candidate(text, f"element {bold.tag}", 0.5, bold)
    for line in scope.lines[:2]:
        if 2 <= len(line.text) <= MAX_BOLD and not values.PRICE.fullmatch(line.text):
            yield Candidate(line.text, "first line", 0.35, line.block)


def _may_be_title(scope: Scope, link: Any) -> bool:
    href = link.get("href")
    text = one_line(scope, link)
    return bool(text and href and not _BUTTON.match(text) and not _PROFILE.search(href))


def _name_line(scope: Scope, element: Any) -> str:
    """Return the longest line of an element that may be a name.

    Prices, button labels and lines without letters are left out.
    """
    start, end = scope.reading.span(element)
    texts = [line.text for line in scope.reading.lines[start:end]]
    if end - start <= 1:
        texts = [one_line(scope, element)]
    else:
        texts = [
            t for t in texts if not values.PRICE.search(t) and not _BUTTON.match(t)
        ]
    return max(filter(_LETTERS.search, texts), key=len, default="")


def bodies(scope: Scope) -> Iterator[Candidate]:
    """Yield the text of a record: an element named as a body, then its long lines."""
    names = "post-body comment-content message-content comment-text comment-body body content message description prose text md"
    for name in names.split():
        best = max(
            (
                e
                for e in scope.elements_named(tuple(name.split("-")))
                if e not in scope.elements
            ),
            key=lambda e: len(scope.reading.text(e)),
            default=None,
        )
        text = scope.reading.text(best) if best is not None else ""
        if len(text) > LONG_LINE or len(text) > max(3, LEAST_SHARE * len(scope.text)):
            yield Candidate(text, f"element named {name}", 0.75, best)
            break
    long = [n for n in scope.lines if len(n.text) >= LONG_LINE and not n.heading]
    if not long:
        yield from _rest(scope)
        return
    text = "\n".join(line.text for line in long)
    yield Candidate(text, "text", 0.55, long[0].block)


def _rest(scope: Scope) -> Iterator[Candidate]:
    """Yield the text of a record without its title and its lines of a single word."""
    title = next(titles(scope), None)
    lines = [n for n in scope.lines if title is None or n.text != title.text]
    texts = [line.text for line in lines if " " in line.text]
    if texts:
        yield Candidate("\n".join(texts), "text", 0.5, lines[0].block)


def briefs(scope: Scope) -> Iterator[Candidate]:
    """Yield a few sentences about a record, without its title."""
    title = next(titles(scope), None)
    name = title.text if title else ""
    terms = [e for e in scope.elements if e.tag == "dt"]
    for element in scope.elements if terms else ():
        if element.tag == "dd":
            yield Candidate(scope.reading.text(element), "definition", 0.8, element)
            return
    names = "short-description description summary excerpt teaser snippet intro abstract deck"
    for found in named_candidates(scope, names, 0.75):
        text = scope.reading.text(found.element)
        is_all = found.element in scope.elements or (name and text.startswith(name))
        if not is_all and len(text) >= 3:
            yield evolve(found, text=text)
            return
    for line in scope.lines:
        if len(line.text) >= LONG_LINE and not line.heading and line.text != name:
            yield Candidate(line.text, "text", 0.6, line.block)
            return
    for found in _rest(scope):
        yield evolve(found, text=found.text.split("\n")[0], trust=0.45)
