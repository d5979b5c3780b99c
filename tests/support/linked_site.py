"""A site of N pages that link to each other, the same on every run.

A site's name is ``N`` with optional parts after dashes. ``500-slow20-flaky10`` has 500
pages, waits 20 ms before each page and always resets the connection of every tenth page.
Other parts only make the name different. Page 0, ``/site/NAME/p/``, is never flaky, and
every page can be reached from page 0 without flaky pages.
"""

from __future__ import annotations

import random
import re
import urllib.parse
from functools import cache
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Collection

EXTRA_LINKS = 4


@frozen
class LinkedSite:
    """A site, described by its name."""

    name: str
    size: int
    delay_s: float
    flaky: int  # every page of this number fails; 0 for no failures

    @classmethod
    def named(cls, name: str) -> LinkedSite:
        """Parse a name; raise :exc:`ValueError` if it does not begin with a size."""
        size, *parts = name.split("-")
        found = dict(re.findall(r"(slow|flaky)(\d+)", "-".join(parts)))
        delay_s = int(found.get("slow", 0)) / 1000
        return cls(name, int(size), delay_s, int(found.get("flaky", 0)))

    def is_flaky(self, number: int) -> bool:
        return bool(self.flaky) and number % self.flaky == self.flaky - 1

    def path(self, number: int) -> str:
        """Return the path of a page; the path of page 0 is a prefix of all others."""
        return f"/site/{self.name}/p/{number or ''}"

    def page(self, number: int, base: str) -> bytes:
        """Return a page; ``base`` is the prefix of its relative links.

        The page has each link in two spellings of the same URL.
        """
        items = "".join(
            f'<li><a href="{spelling}">Page {target}</a></li>'
            for target in self.links(number)
            for spelling in self._spellings(number, target, base)
        )
        return (
            f"<!doctype html><title>Page {number}</title><h1>Page {number}</h1>"
            f"<p>Page {number} of {self.size} in {self.name}.</p><ul>{items}</ul>"
        ).encode()

    def _spellings(self, number: int, target: int, base: str) -> tuple[str, str]:
        path, last = self.path(target), str(target or "")
        one = (
            path,
            path.removesuffix("/") if path.endswith("/") else f"{path}/",
            f"{base}p/{last}",
            f"{path}#part",
            f"{base}x/../p/{last}",
        )
        other = (path, f"{path}#top", f"{base}p/{last}#end")
        return one[(number + target) % len(one)], other[target % len(other)]

    def links(self, number: int) -> tuple[int, ...]:
        """Return the numbers of the pages that a page links to.

        These are its two children in a tree, its two successors (two neighbours are never
        both flaky), page 0, the page itself and some random pages.
        """
        rng = random.Random(f"{self.size}/{number}")
        near = (2 * number + 1, 2 * number + 2, number + 1, number + 2, 0, number)
        extra = (rng.randrange(self.size) for _ in range(EXTRA_LINKS))
        return tuple(target for target in (*near, *extra) if target < self.size)

    def reachable(self, dead: Collection[int] = ()) -> frozenset[int]:
        """Return the pages found from page 0 if pages in ``dead`` have no links."""
        found, todo = {0}, [0]
        while todo:
            number = todo.pop()
            if number in dead or self.is_flaky(number):
                continue
            new = set(self.links(number)) - found
            found |= new
            todo += new
        return frozenset(found)

    def flaky_pages(self) -> frozenset[int]:
        return frozenset(filter(self.is_flaky, range(self.size)))


named = cache(LinkedSite.named)


def page_number(url: str) -> int:
    """Return the number of the page with a URL in any spelling."""
    name = urllib.parse.urlsplit(url).path.rstrip("/").rpartition("/")[2]
    return 0 if name == "p" else int(name)
