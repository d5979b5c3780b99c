"""Derives the options of a crawl from a prompt by rules, without a language model.

``phrases.py`` reads numbers and switches of English prompts, ``topics.py`` topics, paths
and years. ``site_paths.py`` finds the topics among the paths of the site. See
docs/how-to/crawling.md, Options from a prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_PAGES = 10_000_000  # the largest ``limit`` that a prompt can set


@frozen
class PromptOptions:
    """The options derived from a prompt."""

    #: The values by the attributes of ``CrawlOptions``.
    values: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    #: True if a language model derived nothing from the prompt.
    is_refused: bool = False


def options_from_prompt(
    prompt: str, url: str, known: Sequence[bytes] = ()
) -> PromptOptions:
    """Return the options that ``prompt`` requests for the site of ``url``.

    ``known`` are JSON arrays of the site's URLs without the brackets, as in maps.
    Without them, topics match the usual names of paths.
    """
    # Imported late: the patterns take time to compile at start-up.
    from scraper_service.discovery.crawl_prompt.site_paths import derive  # noqa: PLC0415

    values, warnings = derive(prompt, url, known)
    if not 1 <= values.get("limit", 1) <= MAX_PAGES:
        del values["limit"]
    return PromptOptions(values, warnings)
