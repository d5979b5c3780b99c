"""Who wrote or posted something, and when."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scraper_service.content.structured_data.sources.places.around import one_line
from scraper_service.content.structured_data.sources.scope import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.structured_data.sources.scope import Scope

MAX_NAME = 80  # characters of a person's name
MAX_NAME_WORDS = 8
MAX_BYLINE = 160  # characters
BYLINES = 30  # lines of a record in which one is looked for
MAX_DATED = 200  # characters of a line with a date
MAX_DATE = 80

_AUTHORS = (
    ("author",),
    ("username",),
    ("user", "name"),
    ("byline",),
    ("creator",),
    ("poster",),
    ("hnuser",),
    ("nickname",),
    ("submitter",),
)
_DATES = ("date", "time", "posted", "published", "timestamp", "age", "relativetime")
_PROFILE = re.compile(
    r"/(?:u|user|users|usr|member|members|profile|profiles|author|authors|people|~[\w-]+|@[\w-]+)"
    r"(?:[/.?]|$)|[?&](?:mode=viewprofile|u=\d|user=|id=)|/~\w|/user\?id=|/by/",
    re.IGNORECASE,
)
_BY = re.compile(
    r"^(?:(?:written|posted|asked|answered|started|submitted|published|created|recipe|story|words|"
    r"article|text|photos?) )?(?:by|via|von|par|por|di|av)\b[:\s]\s*(?P<name>.+)$",
    re.IGNORECASE,
)
_BEHIND = re.compile(r"\s[|·•»]\s|\n|,? on behalf of\b|, for the\b|\s\(")
_NO_NAME = re.compile(
    r"(?:view|see|reply|follow|login|sign|original poster|topic author|about|all|more|posts?|"
    r"joined|author|sold|read|share|comments?|guest)\b",
    re.IGNORECASE,
)
_AGO = re.compile(
    r"\b(?:an?|\d+)\+?\s*(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?|"
    r"mo|[smhdwy])\s+ago\b|\byesterday\b|\bjust now\b|\btoday at\b",
    re.IGNORECASE,
)
_AGE = re.compile(r"^\d{1,3}\s?(?:[smhdwy]|mo|hr|min)$")
_JOINED = re.compile(
    r"(?:joined|join date|registered|member since|location|posts)\b", re.IGNORECASE
)
_DATE = re.compile(
    r"\b(?:19|20)\d\d\b|\b\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep"
    r"|oct|nov|dec)[a-z]*\.? \d{1,2}\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\btomorrow\b",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")


def is_profile(address: str) -> bool:
    """Tell whether an address looks like that of a person's page."""
    return _PROFILE.search(address) is not None


def persons(scope: Scope) -> Iterator[Found]:
    """Yield names of who wrote or posted something."""
    for words in _AUTHORS:
        for element in scope.named(words):
            if text := person(one_line(scope, element)):
                yield Found(text, f"element named {' '.join(words)}", 0.8, element)
    for link in scope.all("a"):
        text = person(one_line(scope, link))
        if text and is_profile(link.get("href") or ""):
            yield Found(text, "link to a profile", 0.7, link)
    for line in scope.lines[:BYLINES] if not scope.is_page else ():
        is_byline = len(line.text) <= MAX_BYLINE and _BY.match(line.text)
        if is_byline and (text := person(line.text)):
            yield Found(text, "byline", 0.65, line.block)


def person(text: str) -> str:
    """Return a name without what stands around it in a byline; empty if it is none."""
    if match := _BY.match(text):
        text = match["name"]
    text = re.sub(r"^author\b[:\s]+", "", text, flags=re.IGNORECASE)
    text = _BEHIND.split(text)[0].strip(" ,:·|-\u2013@")
    if not 1 < len(text) <= MAX_NAME or len(text.split()) > MAX_NAME_WORDS:
        return ""
    if (
        "://" in text
        or not re.search(r"[^\W\d_]", text)
        or _NO_NAME.match(text)
        or _AGO.search(text)
    ):
        return ""
    return "" if _has_date(text) else text


def dates(scope: Scope) -> Iterator[Found]:
    """Yield times, those of elements made for it first; ``parts`` is what is shown."""
    for element in scope.all("time", "relative-time", "local-time"):
        text = one_line(scope, element)
        if told := element.get("datetime") or text:
            yield Found(told, "time element", 0.85, element, (text,) if text else ())
    for word in _DATES:
        for element in scope.named((word,)):
            text = one_line(scope, element)
            told = (
                element.get("title")
                or element.get("data-time-string")
                or element.get("content")
            )
            for one in (told, text):
                if one and len(one) <= MAX_DATE and _DIGIT.search(one):
                    shown = (text,) if text else ()
                    yield Found(one, f"element named {word}", 0.75, element, shown)
    if scope.is_page:
        return
    for line in scope.lines:
        if (
            len(line.text) <= MAX_DATED
            and _has_date(line.text)
            and not _JOINED.match(line.text)
        ):
            yield Found(line.text, "text with a date", 0.6, line.block)
    for line in scope.lines:
        for part, element in line.parts:
            plain = " ".join(part.split())
            if len(plain) <= MAX_DATE and (_AGO.search(plain) or _AGE.match(plain)):
                yield Found(plain, "text", 0.55, element)


def _has_date(text: str) -> bool:
    return bool(_DATE.search(text) and _DIGIT.search(text))
