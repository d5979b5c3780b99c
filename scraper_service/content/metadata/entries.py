"""Finds the parts of a page that have authors and dates of their own."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST_ALIKE = 2  # entries of a list
MAX_HEADINGS = 500

_HEADINGS = ("h2", "h3", "h4")
_REVIEWS = frozenset({"review", "reviews"})  # values of ``itemprop``


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

    def hold(self, element: Any) -> bool:
        """Return True for an element of an entry or a review."""
        return any(
            above in self.of_lists or _is_review(above)
            for above in (element, *element.iterancestors())
        )


def _entries(body: Any) -> Iterator[Any]:
    """Yield the largest parts with one heading that links to another page.

    Each stands beside another one with the same tag and class.
    """
    linked = [h for h in body.iter(*_HEADINGS) if _is_linked(h)][:MAX_HEADINGS]
    if len(linked) < LEAST_ALIKE:
        return
    held = Counter(above for heading in linked for above in heading.iterancestors())
    own = {above for heading in body.iter("h1") for above in heading.iterancestors()}
    alike: dict[Any, list[Any]] = {}
    for heading in linked:
        entry = heading
        for above in heading.iterancestors():
            if held[above] > 1 or above in own:
                break
            entry = above
        first_class = (entry.get("class") or "").split()[:1]
        sign = (entry.getparent(), entry.tag, *first_class)
        alike.setdefault(sign, []).append(entry)
    for entries in alike.values():
        if len(entries) >= LEAST_ALIKE:
            yield from entries


def _is_linked(heading: Any) -> bool:
    """Return True if a heading holds, or stands in, a link to another page."""
    links = chain(heading.iter("a"), heading.iterancestors("a"))
    hrefs = (link.get("href") or "#" for link in links)
    return any("#" not in href for href in hrefs)


def _is_review(element: Any) -> bool:
    is_review = element.get("itemprop") in _REVIEWS
    return is_review and next(element.iter("h1"), None) is None
