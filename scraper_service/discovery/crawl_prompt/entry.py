"""The one entry: a sentence in, options of a crawl out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence


@frozen
class Derived:
    """What a sentence asks for: ``values`` by the names of ``CrawlOptions``.

    ``is_refused`` tells that a language model made nothing of it.
    """

    values: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    is_refused: bool = False


def derived(prompt: str, url: str, known: Sequence[bytes] = ()) -> Derived:
    """Return the options that ``prompt`` asks for on the site of ``url``.

    ``known`` are JSON arrays of addresses of the site, without the brackets, as maps
    have them; without any, places are told by what they are usually called.
    """
    # Its patterns take 50 ms to compile, which no process is to wait for that starts.
    from scraper_service.discovery.crawl_prompt.making import made  # noqa: PLC0415

    values, warnings = made(prompt, url, known)
    return Derived(values, warnings)
