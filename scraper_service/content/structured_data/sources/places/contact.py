"""Addresses of all kinds: links, pictures, mail, phones, streets, hours."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from scraper_service.content.html.page_urls import best_candidate
from scraper_service.content.structured_data import values
from scraper_service.content.structured_data.sources.places.around import one_line
from scraper_service.content.structured_data.sources.scope import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.structured_data.sources.scope import Scope

MAX_LINE = 200  # characters of a line with a phone number
MAX_STREET = 250  # characters of a postal address
MAX_HOURS = 120

_NO_PAGE = ("#", "javascript:", "mailto:", "tel:")
_CALL = re.compile(
    r"\b(?:call|phone|tel|telephone|telefon|téléphone|contact)\b", re.IGNORECASE
)
_AMERICAN = re.compile(r"\(?\b\d{3}\)?[ .-](?!555[ .-])\d{3}[ .-]\d{4}\b")
_STREET = re.compile(
    r"\b\d{1,6}[A-Z]?\s+(?:[NSEW]\.?\s+)?[\w.' -]{2,40}?\s(?:street|st|avenue|ave|road|rd|drive|dr|"
    r"boulevard|blvd|lane|ln|way|place|pl|court|ct|highway|hwy|parkway|pkwy|square|sq|terrace"
    r"|suite)\b\.?[^\n|]{0,60}?(?:\b[A-Z]{2}\b\.?,?\s+\d{5}(?:-\d{4})?"
    r"|\b[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}\b)",
    re.IGNORECASE,
)
_SOCIAL = re.compile(
    r"https?://(?:[\w-]+\.)?(?:facebook|twitter|x|instagram|linkedin|youtube|tiktok|pinterest|"
    r"threads|bsky|vimeo|xing|mastodon)\.(?:com|net|app|social|de)/(?!share|sharer|intent|uas/)",
    re.IGNORECASE,
)
_HOURS = re.compile(
    r"(?:mon|tue|wed|thu|fri|sat|sun|daily|weekdays?|24 hours|24/7)\w*.*?(?:\d{1,2}(?::\d\d)?\s*"
    r"(?:[ap]\.?m\.?|h|uhr)|closed|24 hours|24/7)",
    re.IGNORECASE,
)


def links(scope: Scope, title: Any = None) -> Iterator[Found]:
    """Yield addresses of links, that of the title first."""
    first: list[Any] = []
    if title is not None:
        around = (title, *list(title.iterancestors("a"))[:1], *title.iter("a"))
        first = [e for e in around if e.tag == "a"]
        hrefs = [(link.get("href") or "").rstrip("/") for link in first]
        if len(first) > 1 and hrefs[-1].startswith(f"{hrefs[0]}/"):
            first.reverse()  # the thing is below its owner
    for link in [*first, *scope.all("a"), *scope.all("area")]:
        href = (link.get("href") or "").strip()
        if href and not href.startswith(_NO_PAGE):
            yield Found(href, "link", 0.75 if link in first else 0.6, link)


def named_links(scope: Scope, words: frozenset[str]) -> Iterator[Found]:
    """Yield links that have one of these words as their text or in their host."""
    for link in scope.all("a"):
        href = link.get("href") or ""
        if href.startswith(_NO_PAGE):
            continue
        host = href.split("//", 1)[-1].split("/", 1)[0].lower() if "//" in href else ""
        labels = set(host.split("."))
        if labels & words or set(one_line(scope, link).lower().split()) == words:
            yield Found(href, "link", 0.7, link)


def images(scope: Scope) -> Iterator[Found]:
    """Yield addresses of pictures."""
    for image in scope.all("img", "source", "image"):
        address = image.get("src") or image.get("data-src")
        address = address or best_candidate(image.get("srcset") or "")
        if address and not address.startswith("data:"):
            yield Found(address, "image", 0.6, image)


def social(scope: Scope) -> Iterator[Found]:
    """Yield links to the page's owner in social networks."""
    for link in scope.all("a"):
        if _SOCIAL.match(link.get("href") or ""):
            yield Found(link.get("href"), "link", 0.8, link)


def emails(scope: Scope) -> Iterator[Found]:
    """Yield addresses of mail."""
    for link in scope.all("a"):
        href = link.get("href") or ""
        if href.lower().startswith("mailto:") and (found := values.email_of(href)):
            yield Found(found, "mailto link", 0.9, link)
    for line in scope.lines:
        if "@" in line.text and (found := values.email_of(line.text)):
            yield Found(found, "text", 0.7, line.block)


def phones(scope: Scope) -> Iterator[Found]:
    """Yield phone numbers as they are written."""
    for link in scope.all("a"):
        href = link.get("href") or ""
        if href.lower().startswith(("tel:", "callto:")):
            number = unquote(href.split(":", 1)[1])
            shown = values.phone_of(one_line(scope, link)) or values.phone_of(number)
            digits = re.sub(r"[^\d+]", "", number)
            if shown or len(digits) >= 7:
                yield Found(shown or digits, "tel link", 0.9, link)
    for line in scope.lines:
        if len(line.text) > MAX_LINE or not line.has_digits:
            continue
        if _CALL.search(line.text) and (found := values.phone_of(line.text)):
            yield Found(found, "text with a phone number", 0.65, line.block)
        elif match := _AMERICAN.search(line.text):
            yield Found(match[0], "text with a phone number", 0.65, line.block)


def postal_addresses(scope: Scope) -> Iterator[Found]:
    """Yield postal addresses, those of elements made for it first."""
    for element in scope.all("address"):
        start, end = scope.reading.span(element)
        lines = scope.reading.lines[start:end]
        text = ", ".join(line.text.strip(" ,") for line in lines)
        if re.search(r"\d", text) and 10 <= len(text) <= MAX_STREET:
            yield Found(text, "address element", 0.75, element)
    for line in scope.lines:
        fits = line.has_digits and len(line.text) <= MAX_STREET
        if fits and (match := _STREET.search(line.text)):
            yield Found(match[0].strip(), "text with an address", 0.65, line.block)
    for one, other in itertools.pairwise(scope.lines):
        fits = one.text[0].isdigit() and len(one.text) + len(other.text) < MAX_LINE
        if fits and (match := _STREET.search(f"{one.text}, {other.text}")):
            yield Found(match[0].strip(), "text with an address", 0.65, one.block)


def hours(scope: Scope) -> Iterator[Found]:
    """Yield lines that say when something is open."""
    for line in scope.lines:
        if len(line.text) <= MAX_HOURS and _HOURS.search(line.text):
            yield Found(line.text, "text with opening hours", 0.6, line.block)
