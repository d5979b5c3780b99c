"""Links, images, email and postal addresses, phone numbers and opening hours."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from scraper_service.content.page_urls import best_candidate
from scraper_service.content.structured_data import values
from scraper_service.content.structured_data.scope import Candidate, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.structured_data.scope import Scope

MAX_LINE = 200  # characters of a line with a phone number or an address
MAX_HOURS = 120

_NO_PAGE = ("#", "javascript:", "mailto:", "tel:")
# Texts of links from the end of a teaser to the whole text.
_WHOLE = re.compile(
    r"(?:full (?:story|article|text)|(?:read|continue reading|view|see)\b.{0,20}"
    r"\b(?:more|full|story|article|post)\b|read more|continue reading)",
    re.IGNORECASE,
)
_CALL = re.compile(r"\b(?:call|phone|tel|telephone|contact)\b", re.IGNORECASE)
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
    r"(?:[ap]\.?m\.?|h)|closed|24 hours|24/7)",
    re.IGNORECASE,
)


def links(scope: Scope, title: Any = None) -> Iterator[Candidate]:
    """Yield the URLs of links, those of the title first.

    Below a title without a link, the link to the whole text comes first.
    """
    first: list[Any] = []
    if title is not None:
        around = (title, *list(title.iterancestors("a"))[:1], *title.iter("a"))
        first = [e for e in around if e.tag == "a"]
        hrefs = [(link.get("href") or "").rstrip("/") for link in first]
        if len(first) > 1 and hrefs[-1].startswith(f"{hrefs[0]}/"):
            first.reverse()  # the first link leads to the owner, the last to the thing
        first = first or [e for e in scope.all("a") if _WHOLE.match(one_line(scope, e))]
    best = set(first)
    for link in [*first, *scope.all("a", "area")]:
        href = (link.get("href") or "").strip()
        if href and not href.startswith(_NO_PAGE):
            yield Candidate(href, "link", 0.75 if link in best else 0.6, link)


def images(scope: Scope) -> Iterator[Candidate]:
    """Yield the URLs of images."""
    for image in scope.all("img", "source", "image"):
        url = image.get("src") or image.get("data-src")
        url = url or best_candidate(image.get("srcset") or "")
        if url and not url.startswith("data:"):
            yield Candidate(url, "image", 0.6, image)


def social(scope: Scope) -> Iterator[Candidate]:
    """Yield links to profiles in social networks."""
    for found in links(scope):
        if _SOCIAL.match(found.text):
            yield Candidate(found.text, "link", 0.8, found.element)


def emails(scope: Scope) -> Iterator[Candidate]:
    """Yield email addresses."""
    for link in scope.all("a"):
        href = link.get("href") or ""
        if href.lower().startswith("mailto:") and (found := values.email_of(href)):
            yield Candidate(found, "mailto link", 0.9, link)
    for line in scope.lines:
        if "@" in line.text and (found := values.email_of(line.text)):
            yield Candidate(found, "text", 0.7, line.block)


def phones(scope: Scope) -> Iterator[Candidate]:
    """Yield phone numbers as the page writes them."""
    for link in scope.all("a"):
        scheme, _, number = unquote(link.get("href") or "").partition(":")
        if scheme.lower() in {"tel", "callto"}:
            text = values.phone_of(one_line(scope, link)) or values.phone_of(number)
            digits = re.sub(r"[^\d+]", "", number)
            if text or len(digits) >= 7:
                yield Candidate(text or digits, "tel link", 0.9, link)
    for line in scope.lines:
        if line.has_digits and len(line.text) <= MAX_LINE:
            match = _AMERICAN.search(line.text)
            found = values.phone_of(line.text) if _CALL.search(line.text) else None
            if shown := found or (match and match[0]):
                yield Candidate(shown, "text with a phone number", 0.65, line.block)


def postal_addresses(scope: Scope) -> Iterator[Candidate]:
    """Yield postal addresses, those in ``<address>`` elements first."""
    for element in scope.all("address"):
        start, end = scope.reading.span(element)
        lines = scope.reading.lines[start:end]
        text = ", ".join(line.text.strip(" ,") for line in lines)
        if re.search(r"\d", text) and 10 <= len(text) <= MAX_LINE:
            yield Candidate(text, "address element", 0.75, element)
    lines = [line for line in scope.lines if len(line.text) <= MAX_LINE]
    texts = [(line.text, line.block) for line in lines if line.has_digits]
    texts += [
        (f"{one.text}, {other.text}", one.block)
        for one, other in itertools.pairwise(lines)
        if one.text[0].isdigit()
    ]
    for text, block in texts:
        if match := _STREET.search(text):
            yield Candidate(match[0].strip(), "text with an address", 0.65, block)


def hours(scope: Scope) -> Iterator[Candidate]:
    """Yield lines with opening hours."""
    for line in scope.lines:
        if len(line.text) <= MAX_HOURS and _HOURS.search(line.text):
            yield Candidate(line.text, "text with opening hours", 0.6, line.block)
