"""Real pages made into one site: each links to some others, and all can be reached.

They are those of the WCXB corpus, if there is a copy of it; else made-up ones. Other
links of a page lead away: relative ones too, by a ``base`` element.
"""

from __future__ import annotations

import itertools
import random
import re
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench import pages

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "/pages/"
BASE = b'<base href="https://elsewhere.example/">'
LINKS = 10  # to other pages, of each page
MAX_BYTES = 2 * 2**20  # larger pages are left out
GENERATED_SIZES = 40  # of the made-up pages, from 3 to 100 kB
_HEAD = re.compile(rb"<head(?:\s[^>]*)?>", re.IGNORECASE)
_END = re.compile(rb"</body\s*>(?!.*</body)", re.IGNORECASE | re.DOTALL)


def site(source: str, count: int, origin: str) -> dict[str, bytes]:
    """Return ``count`` pages by path; ``source`` is a directory, an archive or empty.

    ``origin`` is scheme, host and port: links among the pages are absolute.
    """
    found = _usable(_read(Path(source))) if source else _generated()
    bodies = list(itertools.islice(found, count))
    return {
        path(number): _linked(body, _nav(number, len(bodies), origin))
        for number, body in enumerate(bodies)
    }


def path(number: int) -> str:
    """Return the path of a page; that of the first one is what all begin with."""
    return f"{PREFIX}{number or ''}"


def _read(source: Path) -> Iterator[bytes]:
    if source.is_dir():
        for name in sorted(source.rglob("*.html")):
            yield name.read_bytes()
        return
    with tarfile.open(source) as archive:
        for member in archive:
            if member.name.endswith(".html"):
                content = archive.extractfile(member)
                assert content is not None
                yield content.read()


def _usable(bodies: Iterator[bytes]) -> Iterator[bytes]:
    for body in bodies:
        if len(body) <= MAX_BYTES and _HEAD.search(body) and _END.search(body):
            yield body


def _generated() -> Iterator[bytes]:
    for number in itertools.count():
        yield pages.sized(1 + number % GENERATED_SIZES)


def _nav(number: int, count: int, origin: str) -> bytes:
    """Return links: to two pages of a tree that holds all, and to others at random."""
    tree = [n for n in (2 * number + 1, 2 * number + 2) if n < count]
    rng = random.Random(number)  # seeded: equal bytes on every run
    others = rng.sample(range(count), k=min(count, LINKS - len(tree)))
    links = (
        f'<li><a href="{origin}{path(n)}">Page {n}</a></li>' for n in tree + others
    )
    return f"<nav><ul>{''.join(links)}</ul></nav>".encode()


def _linked(body: bytes, nav: bytes) -> bytes:
    body = _HEAD.sub(lambda found: found[0] + BASE, body, count=1)
    return _END.sub(lambda found: nav + found[0], body, count=1)
