"""Real pages made into one site: each links to some others, and all can be reached.

They are those of the WCXB corpus, if there is a copy of it; else made-up ones. What a page
links to on its own site leads to pages of this one, the same address always to the same
page; its links to other sites lead away, and so does all else that is relative, by a
``base`` element.
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
LINKS = 10  # to other pages, of each page, besides its own
OWN_LINKS = 66  # of a page of WCXB to its own site, on average; made-up ones have none
MAX_BYTES = 2 * 2**20  # larger pages are left out
GENERATED_SIZES = 40  # of the made-up pages, from 3 to 100 kB
_HEAD = re.compile(rb"<head(?:\s[^>]*)?>", re.IGNORECASE)
_LINK = re.compile(
    rb"(<a\s[^>]*?\bhref\s*=\s*)(\"[^\"]*\"|'[^']*'|[^\s>\"']+)", re.IGNORECASE
)
_END = re.compile(rb"</body\s*>(?!.*</body)", re.IGNORECASE | re.DOTALL)


def site(source: str, count: int, origin: str) -> dict[str, bytes]:
    """Return ``count`` pages by path; ``source`` is a directory, an archive or empty.

    ``origin`` is scheme, host and port: links among the pages are absolute.
    """
    found = _usable(_read(Path(source))) if source else _generated()
    known = list(itertools.islice(found, count))
    targets = [origin + path(number) for number in range(len(known))]
    return {
        path(number): _linked(
            _at_home(body, url, number, targets),
            _nav(number, targets, LINKS if url else OWN_LINKS),
        )
        for number, (body, url) in enumerate(known)
    }


def path(number: int) -> str:
    """Return the path of a page; that of the first one is what all begin with."""
    return f"{PREFIX}{number or ''}"


def _read(source: Path) -> Iterator[tuple[bytes, str]]:
    """Yield the pages with their addresses, empty where those are not known."""
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


def _usable(found: Iterator[tuple[bytes, str]]) -> Iterator[tuple[bytes, str]]:
    for body, url in found:
        if len(body) <= MAX_BYTES and _HEAD.search(body) and _END.search(body):
            yield body, url


def _generated() -> Iterator[tuple[bytes, str]]:
    for number in itertools.count():
        body = pages.sized(1 + number % GENERATED_SIZES)
        yield body.replace(pages.CANONICAL, b""), ""  # or they would be one another


def _at_home(body: bytes, url: str, number: int, targets: list[str]) -> bytes:
    """Return a page whose links to its own site, at ``url``, lead to ``targets``."""
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
    """Return links: to two pages of a tree that holds all, and to others at random."""
    count = len(targets)
    tree = [n for n in (2 * number + 1, 2 * number + 2) if n < count]
    rng = random.Random(number)  # seeded: equal bytes on every run
    others = rng.sample(range(count), k=min(count, most - len(tree)))
    links = (f'<li><a href="{targets[n]}">Page {n}</a></li>' for n in tree + others)
    return f"<nav><ul>{''.join(links)}</ul></nav>".encode()


def _linked(body: bytes, nav: bytes) -> bytes:
    body = _HEAD.sub(lambda found: found[0] + BASE, body, count=1)
    return _END.sub(lambda found: nav + found[0], body, count=1)
