"""Generates the sitemaps of a site: an index, and files of a given number of URLs."""

from __future__ import annotations

import gzip

INDEX = {"xml": "/sitemap.xml", "gzip": "/sitemap-gzip.xml"}
NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>'


def site(files: int, urls: int, origin: str) -> dict[str, bytes]:
    """Return ``files`` sitemaps of ``urls`` pages each, and their indexes, by path.

    Each sitemap exists twice: as XML and compressed. ``origin`` is scheme, host and port.
    """
    found = {}
    for number in range(files):
        body = _sitemap(number * urls, urls, origin)
        found[_path("xml", number)] = body
        found[_path("gzip", number)] = gzip.compress(body, 6)
    for kind, path in INDEX.items():
        found[path] = _index([f"{origin}{_path(kind, n)}" for n in range(files)])
    return found


def _path(kind: str, number: int) -> str:
    return f"/sitemaps/{number}.xml{'.gz' if kind == 'gzip' else ''}"


def _index(urls: list[str]) -> bytes:
    inside = "".join(f"<sitemap><loc>{url}</loc></sitemap>\n" for url in urls)
    text = f"{DECLARATION}\n<sitemapindex {NAMESPACE}>\n{inside}</sitemapindex>\n"
    return text.encode()


def _sitemap(first: int, count: int, origin: str) -> bytes:
    inside = "".join(
        f"<url><loc>{origin}/section-{n % 97}/a-page-with-a-usual-address-{n}</loc>"
        f"<lastmod>2024-05-{n % 28 + 1:02}T10:00:00+00:00</lastmod>"
        "<changefreq>weekly</changefreq><priority>0.5</priority></url>\n"
        for n in range(first, first + count)
    )
    return f"{DECLARATION}\n<urlset {NAMESPACE}>\n{inside}</urlset>\n".encode()
