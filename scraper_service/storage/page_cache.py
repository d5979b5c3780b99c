"""Raw sources of pages, per team: what a later scrape may use instead of a fetch.

They outlive the job that brought them. The key has everything that changes what a site
sends (interface document, 10.1); formats and tag filters are made anew.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from attrs import asdict, frozen
from sqlalchemy import select

from scraper_service.options.formats import Screenshot
from scraper_service.storage.frontier.transactions import dialect_insert, now_of
from scraper_service.storage.schema import source

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from scraper_service.options.scrape import ScrapeOptions

DEFAULT_PORTS = {"http": ":80", "https": ":443"}


@frozen(kw_only=True)
class StoredSource:
    """An answer of a site.

    ``url`` is the final address, ``fetched_at`` seconds; ``screenshot`` is the name of
    its file.
    """

    url: str
    status: int
    content_type: str
    content_encoding: str
    refresh: str
    body: bytes
    robots_tag: str = ""
    engine: str = "http"
    screenshot: str | None = None
    fetched_at: float = 0.0


def page_address(url: str) -> str:
    """Return ``url`` as far as it tells pages apart, for keys."""
    parts = urlsplit(url)
    host = parts.netloc.lower().removesuffix(DEFAULT_PORTS.get(parts.scheme, ":"))
    route = script_route(parts.fragment)
    return f"{parts.scheme}://{host}{parts.path or '/'}?{parts.query}{route}"


def script_route(fragment: str) -> str:
    """Return the fragment if it counts: with a slash it is a route in a script.

    That is a page of its own for crawls as well.
    """
    return f"#{fragment}" if "/" in fragment else ""


def source_key(url: str, options: ScrapeOptions) -> str:
    """Return the key of the page that ``options`` ask for at ``url``."""
    shot = options.format(Screenshot)
    place = options.location
    facts = [
        page_address(url),
        options.mobile,
        options.block_ads,
        # An answer that was not verified is none for a caller who wants it verified.
        options.skip_tls_verification and urlsplit(url).scheme == "https",
        [place.country, *place.languages] if place else None,
        asdict(shot) if shot else None,
    ]
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


def find_source(
    connection: Connection,
    team_id: str,
    key: str,
    max_age_s: float | None,
    min_age_s: float | None,
) -> StoredSource | None:
    """Return the answer stored for ``key`` if its age is inside the bounds."""
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
    body = zlib.decompress(row.body)
    return StoredSource(body=body, fetched_at=row.fetched_at, **facts)


def store_source(
    connection: Connection,
    key: str,
    team_id: str,
    found: StoredSource,
    retention_s: float,
) -> None:
    """Keep an answer in place of the one stored for ``key`` before."""
    now = now_of(connection)
    facts = asdict(found, filter=lambda a, _: a.name not in {"body", "fetched_at"})
    values = {
        "fetched_at": now,
        "expires_at": now + retention_s,
        "facts": json.dumps(facts),
        "body": zlib.compress(found.body, 1),
    }
    connection.execute(
        dialect_insert(connection, source)
        .values(team_id=team_id, key=key, **values)
        .on_conflict_do_update(index_elements=("team_id", "key"), set_=values)
    )
