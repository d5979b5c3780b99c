"""Turns separate pages into one site, in which links reach all pages.

The pages come from a copy of the WCXB corpus, or are generated. :func:`site` makes one of
three sites:

``relinked``  Links of a page to its own site are rewritten to pages of this site; the same
              URL always leads to the same page. Links to other sites stay. A ``base``
              element points all other relative URLs to another host.
``mixed``     Pages of all sizes, in random order. Each page has a footer with 12 links to
              pages of the site. Its own links lead to a host of its own.
``small``     The same with the smallest pages from 20 kB.
"""

from __future__ import annotations

import html
import itertools
import json
import random
import re
import tarfile
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import urldefrag, urljoin, urlsplit

from tools.bench import pages

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "/pages/"
BASE = b'<base href="https://elsewhere.example/">'
LINKS = 10  # links added to each real page of a relinked site
FOOTER_LINKS = 12
SITES = ("relinked", "mixed", "small")
LEAST_BYTES = 20_000  # of a page of the small site
ORDER = 3  # seed of the random order of a mixed site
OWN_LINKS = 66  # links added to each generated page: the mean of WCXB pages
MAX_BYTES = 2 * 2**20  # larger pages are skipped
GENERATED_SIZES = 40  # distinct sizes of generated pages, from 3 to 100 kB
_HEAD = re.compile(rb"<head(?:\s[^>]*)?>", re.IGNORECASE)
_BASE = re.compile(rb"<base(?=\s)", re.IGNORECASE)
_LINK = re.compile(
    rb"(<a\s[^>]*?\bhref\s*=\s*)(\"[^\"]*\"|'[^']*'|[^\s>\"']+)", re.IGNORECASE
)
_END = re.compile(rb"</body\s*>(?!.*</body)", re.IGNORECASE | re.DOTALL)


def site(
    source: str, count: int, origin: str, kind: str = "relinked"
) -> dict[str, bytes]:
    """Return ``count`` pages by path; ``source`` is a directory, an archive or empty.

    ``origin`` is scheme, host and port: links among the pages are absolute. ``kind`` is
    one of :data:`SITES`.
    """
    found = _usable_pages(_read(Path(source))) if source else _generate_pages()
    if kind == "relinked":
        return _relinked(list(itertools.islice(found, count)), origin)
    if not source:
        bodies = [body for body, _ in itertools.islice(found, count)]
    elif kind == "small":
        bodies = sorted((b for b, _ in found if len(b) >= LEAST_BYTES), key=len)[:count]
    else:
        bodies = [body for body, _ in found]
        random.Random(ORDER).shuffle(bodies)
    return _with_footers(bodies[:count], origin)


def _with_footers(bodies: list[bytes], origin: str) -> dict[str, bytes]:
    count = len(bodies)
    targets = [origin + path(number) for number in range(count)]
    return {
        path(number): _add_nav(
            _BASE.sub(b"<xbase", body),
            _footer(number, targets),
            f'<base href="https://site{number}.example/">'.encode(),
        )
        for number, body in enumerate(bodies)
    }


def _footer(number: int, targets: list[str]) -> bytes:
    """Return links to the next page and to 11 others, and a text that no page shares."""
    count = len(targets)
    others = [(number * 5 + n * 37 + 1) % count for n in range(FOOTER_LINKS - 1)]
    links = " ".join(
        f'<a href="{targets[n]}">Page {n}</a>' for n in ((number + 1) % count, *others)
    )
    return f"<footer>{links} copy {number}</footer>".encode()


def _relinked(known: list[tuple[bytes, str]], origin: str) -> dict[str, bytes]:
    targets = [origin + path(number) for number in range(len(known))]
    return {
        path(number): _add_nav(
            _relink(body, url, number, targets),
            _nav(number, targets, LINKS if url else OWN_LINKS),
        )
        for number, (body, url) in enumerate(known)
    }


def path(number: int) -> str:
    """Return the path of a page; the path of page 0 is a prefix of all paths."""
    return f"{PREFIX}{number or ''}"


def _read(source: Path) -> Iterator[tuple[bytes, str]]:
    """Yield the pages with their URLs; an unknown URL is empty."""
    if source.is_dir():
        truth = source / "truth.jsonl"
        urls = _urls(truth.open("rb")) if truth.exists() else {}
        for name in sorted(source.rglob("*.html")):
            yield name.read_bytes(), urls.get(name.stem, "")
        return
    with tarfile.open(source) as archive:
        urls = _urls(_member(archive, "truth.jsonl"))
    with tarfile.open(source) as archive:
        for member in archive:
            if member.name.endswith(".html"):
                content = archive.extractfile(member)
                assert content is not None
                yield content.read(), urls.get(Path(member.name).stem, "")


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    found = next(member for member in archive if member.name.endswith(name))
    content = archive.extractfile(found)
    assert content is not None
    return content


def _urls(truth: IO[bytes]) -> dict[str, str]:
    with truth:
        return {page["id"]: page["url"] for page in map(json.loads, truth)}


def _usable_pages(found: Iterator[tuple[bytes, str]]) -> Iterator[tuple[bytes, str]]:
    for body, url in found:
        if len(body) <= MAX_BYTES and _HEAD.search(body) and _END.search(body):
            yield body, url


def _generate_pages() -> Iterator[tuple[bytes, str]]:
    for number in itertools.count():
        body = pages.sized(1 + number % GENERATED_SIZES)
        # With the same canonical URL, all pages would be duplicates.
        yield body.replace(pages.CANONICAL, b""), ""


def _relink(body: bytes, url: str, number: int, targets: list[str]) -> bytes:
    """Return a page with the links to its own site replaced by ``targets``."""
    own = urldefrag(url).url

    def lead(match: re.Match[bytes]) -> bytes:
        href = html.unescape(match[2].strip(b"\"'").decode(errors="replace")).strip()
        try:
            target = urldefrag(urljoin(url, href)).url
            is_own = _site(target) == _site(url)
        except ValueError:
            return match[0]
        if not is_own:
            return match[0]
        place = number if target == own else zlib.crc32(target.encode()) % len(targets)
        return match[1] + f'"{targets[place]}"'.encode()

    return _LINK.sub(lead, body) if url else body


def _site(url: str) -> str:
    return (urlsplit(url).hostname or "").removeprefix("www.")


def _nav(number: int, targets: list[str], most: int) -> bytes:
    """Return up to ``most`` links: two to children in a tree of all pages, others random."""
    count = len(targets)
    tree = [n for n in (2 * number + 1, 2 * number + 2) if n < count]
    rng = random.Random(number)  # seeded: equal bytes on every run
    others = rng.sample(range(count), k=min(count, most - len(tree)))
    links = (f'<li><a href="{targets[n]}">Page {n}</a></li>' for n in tree + others)
    return f"<nav><ul>{''.join(links)}</ul></nav>".encode()


def _add_nav(body: bytes, nav: bytes, base: bytes = BASE) -> bytes:
    body = _HEAD.sub(lambda found: found[0] + base, body, count=1)
    return _END.sub(lambda found: nav + found[0], body, count=1)
