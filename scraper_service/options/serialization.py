"""Options of every kind as JSON values, for the job database and scrapyd.

Only the service writes these values, so that errors name no path.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import attrs
import cattrs
from cattrs.strategies import configure_tagged_union

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options.actions import Action
from scraper_service.options.formats import Format
from scraper_service.options.jobs import (
    KINDS,
    BatchOptions,
    CrawlOptions,
    PageOptions,
)
from scraper_service.options.parsing import short
from scraper_service.options.scrape import Parser, ScrapeOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

OptionsT: TypeAlias = PageOptions | CrawlOptions | BatchOptions

_UNIONS: dict[str, Any] = {"formats": Format, "actions": Action, "parsers": Parser}


def unstructure(options: object) -> dict[str, Any]:
    """Return ``options`` of any kind as JSON values."""
    result: dict[str, Any] = _converter().unstructure(options)
    return result


def structure(value: Any, kind: type[T]) -> T:
    """Return the options of ``kind`` from JSON values.

    :raises InvalidOptions: for unknown keys, missing keys and wrong values.
    """
    try:
        return _converter().structure(value, kind)
    except (
        cattrs.ForbiddenExtraKeysError,
        ValueError,
        TypeError,
        LookupError,
    ) as error:
        raise InvalidOptions([Issue("custom", (), f"{error!r:.300}")]) from error


#: The options that change what a browser shows, without the URL.
REPLAYED = (
    *("headers", "location", "mobile", "wait_for_ms", "actions", "session", "profile"),
    *("block_ads", "skip_tls_verification", "site_rules"),
)


def replay_to_json(options: PageOptions, usual: ScrapeOptions) -> dict[str, Any]:
    """Return what opens a page again in a browser, as JSON values.

    ``scrape`` is left out if all that matters is as in ``usual``.
    """
    scrape = options.scrape
    if all(getattr(scrape, name) == getattr(usual, name) for name in REPLAYED):
        return {"url": options.url}
    formats: dict[str, Any] = {"formats": ()}
    return {
        "url": options.url,
        "scrape": unstructure(attrs.evolve(scrape, **formats)),
    }


def replay_from_json(value: Mapping[str, Any], usual: ScrapeOptions) -> PageOptions:
    """Return the page from the JSON values of :func:`replay_to_json`."""
    found = value.get("scrape")
    scrape = usual if found is None else structure(found, ScrapeOptions)
    return PageOptions(url=value["url"], scrape=scrape)


def options_from_json(kind: str, value: Mapping[str, Any]) -> Any:
    """Return options from the JSON values of :func:`unstructure`.

    ``kind`` is a key of :data:`KINDS`, or ``scrape`` for those of a page.

    :raises InvalidOptions: for unknown keys, missing keys and wrong values.
    """
    found: type[Any] = PageOptions if kind == "scrape" else KINDS[kind].options
    return structure(value, found)


@functools.cache
def _converter() -> cattrs.Converter:
    """Return a converter that converts no types and refuses unknown keys."""
    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=False)
    for kind in (bool, int, float, str):
        converter.register_structure_hook(kind, _exactly)
    for union in _UNIONS.values():
        configure_tagged_union(union, converter, tag_generator=_tag, tag_name="type")
    return converter


def _tag(kind: Any) -> str:
    return str(kind.type)


def _exactly(value: Any, kind: Any) -> Any:
    accepted = {int, float} if kind is float else {kind}
    if type(value) not in accepted:
        raise TypeError(f"must be of type {kind.__name__}, got {short(value)}")
    return value
