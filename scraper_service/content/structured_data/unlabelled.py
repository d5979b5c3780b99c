"""Values that need no label on a page: names, dates, texts, numbers and ways of contact.

These are titles, authors, dates, brands and locations; prices, availability, salaries,
ratings, ranks and counts; links, images, postal addresses, phone numbers and opening hours.
"""

from __future__ import annotations

import itertools
import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from attrs import evolve

from scraper_service.content.page_urls import best_candidate
from scraper_service.content.structured_data import values
from scraper_service.content.structured_data.page import (
    Candidate,
    Scope,
    is_foreign,
    main_heading,
    named_candidates,
    one_line,
)
from scraper_service.content.structured_data.requested_fields import singular, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.structured_data.reading import TextLine

MAX_BYLINE = 160  # characters
BYLINES = 30  # lines of a record that are searched for a byline
MAX_DATED = 200  # characters of a line with a date
MAX_DATE = 80
MAX_YEAR = 25  # characters of a line with a date that has no day
MAX_TITLE = 300
MAX_BOLD = 150
LONG_LINE = 60  # characters from which a line counts as prose
LEAST_SHARE = 0.25  # of a record's text that its body element must contain

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
# A day with its month, and the weekday and the time next to it.
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
NEAR_TITLE = 45  # lines after the main heading that may contain the product's price
MAX_PRICED = 300  # characters of a line with prices
MAX_COUNTED = 200  # characters of a text with a count or a rating
MAX_NOTE = 80  # characters of a line about stock or pay
MAX_BUTTON = 40
RATIO = 5  # highest ratio of the old price to the current price

_STRUCK = frozenset({"del", "s", "strike"})
_BEFORE = re.compile(
    r"\b(?:was|list|rrp|msrp|reg(?:ular)?|orig(?:inal)?|before)\b[^.]{0,20}$"
)
_PAID = re.compile(
    r"salary|\bpay\b|per (?:year|hour|month|annum)|/\s?(?:yr|hr|year|hour|month)|\ba year\b|or more"
    r"|\d[kK]?\s*(?:-|\u2013|to)\s*[^\s\d]?\d",
    re.IGNORECASE,
)
_EMPLOYED = re.compile(
    r"full[- ]?time|part[- ]?time|contract(?:or)?|freelance|internship|temporary|permanent",
    re.IGNORECASE,
)
_CART = re.compile(
    r"\b(?:add(?:ed)? to (?:my )?(?:cart|bag|basket|trolley)|buy now|pre-?order)\b",
    re.IGNORECASE,
)
_REVIEWS = re.compile(
    r"(?P<n>\d[\d.,\u00a0]*[kKmM]?)\+?\s*(?:customer |verified |user |global )?"
    r"(?:reviews?|ratings?|votes?)\b|\((?P<m>\d[\d,]*[kK]?)\)",
    re.IGNORECASE,
)
_NUMBER = r"(\d(?:[.,]\d{1,2})?)"
_STARS = re.compile(
    rf"{_NUMBER}\s*(?:/\s*(?:5|10)\b|out of (?:5|10)\b|of 5\b|stars?\b|avg rating"
    rf"|average rating|★|from [\d.,]+ (?:votes?|ratings?|reviews?)\b)"
    rf"|rating of {_NUMBER}|rated {_NUMBER}",
    re.IGNORECASE,
)
_RATED = re.compile(
    r"star|rating|rated|review|vote|★|avg|average|score|out of 5", re.IGNORECASE
)
_RATE_IT = re.compile(r"\s*rate\b", re.IGNORECASE)  # a control that asks for a rating
_CONTROLS = frozenset({"input", "label", "select", "option", "textarea"})
# Words in the names of elements with an end of the scale of ratings.
_ENDS = frozenset("max maximum min minimum best worst".split())
_READING = re.compile(
    r"(\d{1,3}[ -]?min(?:ute)?s?)\.?\s*(?:to )?read(?:ing)?\b", re.IGNORECASE
)
_COUNT = re.compile(r"[-+]?\d[\d.,]*[kK]?")
MAX_ADDRESS = 200  # characters of a line with a phone number or a postal address
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


# -- names and texts -------------------------------------------------------------------


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

    ``parts`` contains the date as the page shows it.
    """
    for element in scope.all("time", "relative-time", "local-time"):
        text = one_line(scope, element)
        parts = (text,) if text else ()
        if value := element.get("datetime") or text:
            yield Candidate(value, "time element", 0.85, element, parts)
    names = "date time posted published timestamp age relativetime"
    for found in named_candidates(scope, names, 0.75):
        value = found.element.get("title") or found.element.get("content")
        parts = (found.text,) if found.text else ()
        for written in (value, found.text):
            if written and len(written) <= MAX_DATE and re.search(r"\d", written):
                yield evolve(found, text=written, parts=parts)
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
        named = scope.elements_named(tuple(name.split("-")))
        inner = (element for element in named if element not in scope.elements)
        best = max(inner, key=lambda e: len(scope.reading.text(e)), default=None)
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


# -- numbers ---------------------------------------------------------------------------


def current_price(scope: Scope) -> Iterator[Candidate]:
    """Yield the current price: the first price that is not an old price.

    Of two adjacent prices without an old price, the lower price is the current price.
    """
    found = _prices(scope)
    now = [price for price, is_old in found if not is_old][:2]
    if len(now) == 2 and not any(is_old for _, is_old in found):
        one, other = now
        if _are_beside(one.element, other.element) and (
            _amount(one) / RATIO < _amount(other) < _amount(one)
        ):
            now = [other]
    yield from now[:1]


def old_price(scope: Scope) -> Iterator[Candidate]:
    """Yield the price before the discount, which is above the current price."""
    for current in current_price(scope):
        least = _amount(current)
        for price, is_old in _prices(scope):
            near = is_old or _are_beside(price.element, current.element)
            if near and least < _amount(price) < RATIO * least:
                yield price
                return


def _prices(scope: Scope) -> list[tuple[Candidate, bool]]:
    """Return prices in document order, each with True if it is an old price.

    On a whole page, these are the prices after the main heading of an item for sale.
    """
    lines = _lines_near_title(scope)
    if scope.is_page and (main_heading(scope) is None or not has_cart_button(scope)):
        return []
    return [pair for line in lines for pair in _prices_of(line)]


def _lines_near_title(scope: Scope) -> list[TextLine]:
    """Return the lines of a record, or the lines of a page after its heading."""
    if not scope.is_page:
        return scope.lines
    start = scope.reading.span(main_heading(scope))[0]
    lines = scope.lines[start : start + NEAR_TITLE]
    return [line for line in lines if not is_foreign(line.block)]


def _prices_of(line: TextLine) -> Iterator[tuple[Candidate, bool]]:
    start = 0
    has_price = line.has_digits and len(line.text) <= MAX_PRICED
    for match in values.PRICE.finditer(line.text) if has_price else ():
        before = line.text[start : match.start()].lower()
        start = match.end()
        holders = (e for part, e in line.parts if match[0] in " ".join(part.split()))
        element = next(holders, line.parts[0][1])
        is_old = _is_old(element) or _BEFORE.search(before) is not None
        yield Candidate(match[0], "text with a price", 0.7, element), is_old


def _is_old(element: Any) -> bool:
    above = (element, *islice(element.iterancestors(), 3))
    return any(parent.tag in _STRUCK for parent in above)


def _amount(found: Candidate) -> float:
    price = values.price_of(found.text)
    return float(price[0]) if price else 0.0


def _are_beside(one: Any, other: Any) -> bool:
    above = [one, *one.iterancestors()][:4]
    return any(element in above for element in [other, *other.iterancestors()][:4])


def has_cart_button(scope: Scope) -> bool:
    """Return True if a text or a button offers to add something to a cart."""
    texts = [line.text for line in scope.lines if len(line.text) < MAX_NOTE]
    texts += [e.get("value") or "" for e in scope.all("input", "button")]
    return any(map(_CART.search, texts))


def salaries(scope: Scope) -> Iterator[Candidate]:
    """Yield lines with a salary: a price with a range, a period or a word for pay."""
    for line in scope.lines:
        if len(line.text) > MAX_NOTE:
            continue
        if values.PRICE.search(line.text) and _PAID.search(line.text):
            yield Candidate(line.text, "text with a salary", 0.65, line.block)


def job_types(scope: Scope) -> Iterator[Candidate]:
    """Yield employment types from lines that contain nothing else."""
    for line in scope.lines:
        if _EMPLOYED.fullmatch(line.text):
            yield Candidate(line.text, "text", 0.65, line.block)


def stock(scope: Scope) -> Iterator[Candidate]:
    """Yield texts about availability."""
    lines = [n for n in _lines_near_title(scope) if len(n.text) <= MAX_NOTE]
    for line in lines:
        if values.stock_of(line.text) is not None and not _CART.search(line.text):
            yield Candidate(line.text, "text", 0.7, line.block)
    for line in lines:
        if len(line.text) <= MAX_BUTTON and _CART.search(line.text):
            yield Candidate("in stock", f'button "{line.text}"', 0.5, line.block)


def digit_texts(scope: Scope) -> list[tuple[str, Any]]:
    """Return texts with digits: lines, ARIA labels, titles and alternative texts.

    Labels of form controls say what a visitor may enter, and are left out.
    """
    if scope.digit_texts is None:
        scope.digit_texts = [
            (line.text, line.block)
            for line in scope.lines
            if line.has_digits and len(line.text) <= MAX_COUNTED
        ]
        for element in (x for holder in scope.elements for x in holder.iter()):
            if element.tag in _CONTROLS:
                continue
            label = element.get("aria-label") or element.get("title")
            if label is None and element.tag == "img":
                label = element.get("alt")
            if label and len(label) <= MAX_COUNTED and re.search(r"\d", label):
                scope.digit_texts.append((label, element))
    return scope.digit_texts


def ratings(scope: Scope) -> Iterator[Candidate]:
    """Yield ratings."""
    for text, element in digit_texts(scope):
        match = None if _RATE_IT.match(text) else _STARS.search(text)
        if match and (
            not scope.is_page or (_RATED.search(text) and not is_foreign(element))
        ):
            found = match[1] or match[2] or match[3]
            yield Candidate(found, "text with a rating", 0.7, element)


def is_end_of_scale(element: Any) -> bool:
    """Return True if an element is named as the best or the worst possible rating."""
    names = f"{element.get('class') or ''} {element.get('itemprop') or ''}"[:MAX_PRICED]
    return not _ENDS.isdisjoint(words_of(names.replace("-", " ")))


def review_counts(scope: Scope) -> Iterator[Candidate]:
    """Yield the numbers of reviews or ratings."""
    for text, element in digit_texts(scope):
        match = _REVIEWS.search(text)
        if match is None or (scope.is_page and is_foreign(element)):
            continue
        if match["n"]:
            yield Candidate(match["n"], "text with a count", 0.65, element)
        elif not scope.is_page or _STARS.search(text):
            yield Candidate(match["m"], "text with a count", 0.5, element)


def counts(scope: Scope, words: tuple[str, ...]) -> Iterator[Candidate]:
    """Yield numbers before the given words, as in ``137 Steam Achievements``."""
    pattern = _count_of(words)
    for text, element in digit_texts(scope):
        for match in pattern.finditer(text):
            yield Candidate(match["n"], f'text "{match[0][:60]}"', 0.65, element)


@lru_cache(maxsize=512)
def _count_of(words: tuple[str, ...]) -> re.Pattern[str]:
    between = r"\W+(?:(?!(?:am|pm|of|to)\b)[^\W\d]+\W+)?"
    stems = (re.escape(singular(word).removesuffix("y")) for word in words)
    counted = r"\W+".join(rf"{stem}\w{{0,4}}" for stem in stems)
    number = r"(?P<n>\d[\d.,\u00a0\u202f]*\s?(?:[kKmM]\b)?)\+?"
    return re.compile(rf"{number}{between}{counted}(?!\w)", re.IGNORECASE)


def linked_counts(scope: Scope, words: frozenset[str]) -> Iterator[Candidate]:
    """Yield numbers in links whose URL ends with a word, as in ``/forks``."""
    for link in scope.all("a"):
        end = (link.get("href") or "").split("?")[0].rstrip("/").rsplit("/", 1)[-1]
        text = one_line(scope, link)
        if end.lower() in words and _COUNT.fullmatch(text):
            yield Candidate(text, f"link to {end[:40]}", 0.7, link)


def reading_times(scope: Scope) -> Iterator[Candidate]:
    """Yield reading times, as in ``6 min read``."""
    for text, element in digit_texts(scope):
        if match := _READING.search(text):
            yield Candidate(match[1], "text with a time to read", 0.7, element)


# -- contact ---------------------------------------------------------------------------


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
        if line.has_digits and len(line.text) <= MAX_ADDRESS:
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
        if re.search(r"\d", text) and 10 <= len(text) <= MAX_ADDRESS:
            yield Candidate(text, "address element", 0.75, element)
    lines = [line for line in scope.lines if len(line.text) <= MAX_ADDRESS]
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
