"""The page cache: raw responses of sites, per team, for later scrapes.

Entries outlive their jobs. The key has each option that changes the response of a site.
Formats and tag filters are not part of the key, since pages are converted again.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from attrs import asdict, frozen
from sqlalchemy import select

from scraper_service.content.page_urls import is_route
from scraper_service.content.stored_pages import compress, decompress
from scraper_service.options.catalogue import cache_facts
from scraper_service.options.urls import url_parts
from scraper_service.storage.schema import source
from scraper_service.storage.transactions import now_of, transaction, upsert

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from scraper_service.options.scrape import ScrapeOptions

DEFAULT_PORTS = {"http": ":80", "https": ":443"}


@frozen(kw_only=True)
class StoredSource:
    """A response of a site."""

    #: The final URL.
    url: str
    status: int
    content_type: str
    content_encoding: str
    refresh: str
    body: bytes
    #: ``X-Robots-Tag`` header.
    robots_tag: str = ""
    #: ``Last-Modified`` header.
    last_modified: str = ""
    #: ``ETag`` header.
    etag: str = ""
    engine: str = "http"
    #: Name of the screenshot's file.
    screenshot: str | None = None
    #: Seconds since 1970.
    fetched_at: float = 0.0


def page_address(url: str) -> str:
    """Return the part of ``url`` that identifies a page, for keys."""
    parts = url_parts(url)
    host = parts.netloc.lower().removesuffix(DEFAULT_PORTS.get(parts.scheme, ":"))
    host = host.removesuffix(".")
    route = script_route(parts.fragment)
    return f"{parts.scheme}://{host}{parts.path or '/'}?{parts.query}{route}"


def script_route(fragment: str) -> str:
    """Return the fragment with its ``#`` if it is a route of a script, else ""."""
    return f"#{fragment}" if is_route(fragment) else ""


def source_key(url: str, options: ScrapeOptions) -> str:
    """Return the key of the page at ``url`` with ``options``."""
    facts = [page_address(url), *cache_facts(url, options)]
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


def find_source(
    connection: Connection,
    team_id: str,
    key: str,
    max_age_s: float | None,
    min_age_s: float | None,
) -> StoredSource | None:
    """Return the response stored for ``key`` if its age is within the bounds."""
    row = connection.execute(
        select(source.c.fetched_at, source.c.facts, source.c.body).where(
            source.c.team_id == team_id, source.c.key == key
        )
    ).one_or_none()
    if row is None:
        return None
    age_s = now_of(connection) - row.fetched_at
    if max_age_s is not None and age_s >= max_age_s:
        return None
    if min_age_s is not None and age_s < min_age_s:
        return None
    facts = json.loads(row.facts)
    body = decompress(row.body)
    return StoredSource(body=body, fetched_at=row.fetched_at, **facts)


@transaction(row="{key}")
def store_source(
    connection: Connection,
    key: str,
    team_id: str,
    found: StoredSource,
    retention_s: float,
) -> None:
    """Store a response instead of the last one for ``key``."""
    now = now_of(connection)
    facts = asdict(found, filter=lambda a, _: a.name not in {"body", "fetched_at"})
    row = {
        "team_id": team_id,
        "key": key,
        "fetched_at": now,
        "expires_at": now + retention_s,
        "facts": json.dumps(facts),
        "body": compress(found.body),
    }
    upsert(connection, source, [row])
